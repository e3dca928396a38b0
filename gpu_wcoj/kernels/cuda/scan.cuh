// Sums over a warp and over a block of up to 1024 threads, modulo 2^64. Every thread of the block has to take part.

#define FULL_WARP 0xffffffffu

// The sum of the values of this lane and the lanes before it.
__device__ inline long long warp_inclusive_sum(long long value) {
    int lane = threadIdx.x & 31;
    unsigned long long sum = (unsigned long long)value;
    for (int step = 1; step < 32; step <<= 1) {
        unsigned long long before = __shfl_up_sync(FULL_WARP, sum, step);
        if (lane >= step) sum += before;
    }
    return (long long)sum;
}

// The sum of the values of all lanes, in every lane.
__device__ inline long long warp_sum(long long value) {
    unsigned long long sum = (unsigned long long)value;
    for (int step = 16; step > 0; step >>= 1) sum += __shfl_xor_sync(FULL_WARP, sum, step);
    return (long long)sum;
}

__device__ inline long long warp_max(long long value) {
    for (int step = 16; step > 0; step >>= 1) {
        long long other = __shfl_xor_sync(FULL_WARP, value, step);
        if (other > value) value = other;
    }
    return value;
}

// The sum of the values of the threads before this one; `total` gets the sum of all. `scratch` is shared, 33 long.
// It may be used again at once.
__device__ inline long long block_exclusive_sum(long long value, long long *scratch, long long *total) {
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, n_warps = blockDim.x >> 5;
    long long inclusive = warp_inclusive_sum(value);
    if (lane == 31) scratch[warp] = inclusive;
    __syncthreads();
    if (warp == 0) {
        long long mine = lane < n_warps ? scratch[lane] : 0;
        long long upto = warp_inclusive_sum(mine);
        scratch[lane] = (long long)((unsigned long long)upto - (unsigned long long)mine);
        if (lane == 31) scratch[32] = upto;
    }
    __syncthreads();
    unsigned long long before = (unsigned long long)scratch[warp] + (unsigned long long)inclusive;
    *total = scratch[32];
    __syncthreads();
    return (long long)(before - (unsigned long long)value);
}

// As `block_exclusive_sum` for conditions: how many threads before this one hold theirs.
__device__ inline int block_count_before(bool holds, int *scratch, int *total) {
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, n_warps = blockDim.x >> 5;
    unsigned ballot = __ballot_sync(FULL_WARP, holds);
    if (lane == 0) scratch[warp] = __popc(ballot);
    __syncthreads();
    if (warp == 0) {
        int mine = lane < n_warps ? scratch[lane] : 0;
        int upto = mine;
        for (int step = 1; step < 32; step <<= 1) {
            int before = __shfl_up_sync(FULL_WARP, upto, step);
            if (lane >= step) upto += before;
        }
        scratch[lane] = upto - mine;
        if (lane == 31) scratch[32] = upto;
    }
    __syncthreads();
    int before = scratch[warp] + __popc(ballot & ((1u << lane) - 1u));
    *total = scratch[32];
    __syncthreads();
    return before;
}
