// Sums of runs, sums before each value, and hashes of rows; sums.py says how they go together.
#include "columns.cuh"
#include "hash.cuh"
#include "passes.cuh"
#include "search.cuh"

// Per tile, the sums of the lower halves of the values and of the upper ones: two sums that no run of fewer than 2^31
// values takes beyond 64 bits. Without `split` the plain sums modulo 2^64.
extern "C" __global__ void sum_tiles(const long long *values, long long n, long long split, long long *sums) {
    __shared__ long long scratch[33];
    unsigned long long low = 0, high = 0;
    for (int item = 0; item < ITEMS; item++) {
        long long i = tile_row(item);
        long long value = i < n ? values[i] : 0;
        low += split ? (unsigned long long)value & 0xffffffffull : (unsigned long long)value;
        high += (unsigned long long)(value >> 32);
    }
    long long total;
    block_exclusive_sum((long long)low, scratch, &total);
    if (threadIdx.x == 0) sums[blockIdx.x] = total;
    if (split) {
        block_exclusive_sum((long long)high, scratch, &total);
        if (threadIdx.x == 0) sums[gridDim.x + blockIdx.x] = total;
    }
}

// The plain sums before each value and, last, of all.
extern "C" __global__ void place_sums(const long long *values, long long n, const long long *sums, long long *out) {
    __shared__ long long scratch[33];
    unsigned long long sum = (unsigned long long)tile_base(sums, 0);
    for (int item = 0; item < ITEMS; item++) {
        long long i = tile_row(item), total;
        long long value = i < n ? values[i] : 0;
        long long here = (long long)(sum + (unsigned long long)block_exclusive_sum(value, scratch, &total));
        if (i < n) out[i] = here;
        sum += (unsigned long long)total;
    }
    if (blockIdx.x == gridDim.x - 1 && threadIdx.x == 0) out[n] = (long long)sum;
}

// The two sums before each of the m runs and, last, of all: before[s] and before[m + 1 + s]. Sets `failed` to m.
extern "C" __global__ void sums_before_runs(const long long *values, long long n, const long long *starts, long long m,
                                            const long long *sums, long long *before, long long *failed) {
    __shared__ long long scratch[33], lows[TILE], highs[TILE];
    unsigned long long low = (unsigned long long)tile_base(sums, 0), high = (unsigned long long)tile_base(sums, 1);
    for (int item = 0; item < ITEMS; item++) {
        long long i = tile_row(item), total;
        long long value = i < n ? values[i] : 0;
        int at = item * TILE_BLOCK + threadIdx.x;
        lows[at] = (long long)(low + (unsigned long long)block_exclusive_sum(value & 0xffffffffll, scratch, &total));
        low += (unsigned long long)total;
        highs[at] = (long long)(high + (unsigned long long)block_exclusive_sum(value >> 32, scratch, &total));
        high += (unsigned long long)total;
    }
    __syncthreads();
    long long begin = (long long)blockIdx.x * TILE, end = begin + TILE < n ? begin + TILE : n;
    for (long long s = lower_bound(starts, 0, m, begin) + threadIdx.x; s < m && starts[s] < end; s += TILE_BLOCK) {
        before[s] = lows[starts[s] - begin];
        before[m + 1 + s] = highs[starts[s] - begin];
    }
    if (threadIdx.x == 0) {
        if (blockIdx.x == 0) *failed = m;
        if (blockIdx.x == gridDim.x - 1) {
            before[m] = (long long)low;
            before[2 * m + 1] = (long long)high;
        }
    }
}

__device__ inline long long sum_of_run(const long long *before, long long run) {
    return (long long)((unsigned long long)before[run + 1] - (unsigned long long)before[run]);
}

// The sum of each run, from its two parts, and the first run whose sum is outside int64.
extern "C" __global__ void join_sums(const long long *before, long long m, long long *out, long long *failed) {
    for (long long s = (long long)blockIdx.x * blockDim.x + threadIdx.x; s < m; s += (long long)gridDim.x * blockDim.x) {
        unsigned long long low = (unsigned long long)sum_of_run(before, s);
        long long high = sum_of_run(before + m + 1, s) + (long long)(low >> 32);
        if (high < -2147483648ll || high > 2147483647ll) atomicMin(failed, s);
        out[s] = (long long)(((unsigned long long)high << 32) | (low & 0xffffffffull));
    }
}

extern "C" __global__ void hash_table(const long long *c0, const long long *c1, const long long *c2,
                                      const long long *c3, const long long *c4, const long long *c5,
                                      const long long *c6, const long long *c7, const long long *more,
                                      long long n_columns, long long n, unsigned long long *out) {
    const Columns columns = {{c0, c1, c2, c3, c4, c5, c6, c7}, more, n_columns};
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (long long)gridDim.x * blockDim.x) {
        unsigned long long hash = 0;
        for_each_column(columns, [&](long long, const long long *column) { hash = hash_on(hash, column[i]); });
        out[i] = hash;
    }
}
