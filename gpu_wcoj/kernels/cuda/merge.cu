// Merges two tries; tries.py says how. Left is the trie with more rows, right the other one.

#include "places.cuh"
#include "merge_path.cuh"

const int COUNT_BLOCK = 256;
const int COUNTED = 8;  // weights a thread counts at once; tries.py has the product

// The searches wait for memory: three blocks at a time, where a multiprocessor takes as many threads.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#define BLOCKS_AT_A_TIME 2
#else
#define BLOCKS_AT_A_TIME 3
#endif

// One inner level: the places of its nodes, PLACED a thread. Top-down, after the level above.
extern "C" __global__ void __launch_bounds__(PLACE_BLOCK, BLOCKS_AT_A_TIME)
place_nodes(const void* left, long long left_wide, long long n_left, const long long* left_offsets, const void* right,
            long long right_wide, long long n_right, const long long* right_offsets, long long n_parents,
            const long long* parent_places, long long* places) {
    __shared__ long long edges[4];
    __shared__ long long samples[CHUNK];
    const Wanted wanted{right, right_wide, n_right, right_offsets, n_parents, parent_places, left_offsets};
    place_chunk_of_width(left, left_wide, n_left, wanted, edges, samples,
                         [&](int, long long j, long long place) { places[j] = place; });
}

// The last level: the places of the rows, what becomes of them, and the sums of their changes, PLACED rows a thread.
// Counts: rows of the result that right brings or changes and whose weight is not 1; left's such rows that it meets.
extern "C" __global__ void __launch_bounds__(PLACE_BLOCK, BLOCKS_AT_A_TIME)
place_rows(const void* left, long long left_wide, long long n_left, const long long* left_offsets, const void* right,
           long long right_wide, long long n_right, const long long* right_offsets, long long n_parents,
           const long long* parent_places, long long* places, const long long* left_weights,
           const long long* right_weights, int* within, long long* chunk_before, long long* state, long long* counts) {
    __shared__ long long edges[4];
    __shared__ long long samples[CHUNK];
    __shared__ long long scratch[33];
    __shared__ int is_last;
    __shared__ int block_counts[2];
    if (threadIdx.x < 2) block_counts[threadIdx.x] = 0;
    __syncthreads();
    const Wanted wanted{right, right_wide, n_right, right_offsets, n_parents, parent_places, left_offsets};
    unsigned long long changes = NO_CHANGES;
    int brought = 0, met = 0;
    place_chunk_of_width(left, left_wide, n_left, wanted, edges, samples, [&](int k, long long j, long long place) {
        long long weight = weight_at(right_weights, j);
        if ((place & 3) == INSERTED) {
            changes += 1ull << 16 * k;
        } else {
            const long long other = weight_at(left_weights, place >> 2);
            met += other != 1;
            weight = sum_of(weight, other);
            if (weight == 0) {
                changes -= 1ull << 16 * k;
                place += REMOVED - KEPT;
            }
        }
        brought += weight != 0 && weight != 1;
        places[j] = place;
    });
    // Two counts of at most 32 * PLACED in one sum.
    const int counted = (int)warp_sum(brought << 16 | met);
    if ((threadIdx.x & 31) == 0) {
        if (counted >> 16) atomicAdd(&block_counts[0], counted >> 16);
        if (counted & 0xffff) atomicAdd(&block_counts[1], counted & 0xffff);
    }
    __syncthreads();
    if (threadIdx.x < 2 && block_counts[threadIdx.x])
        atomicAdd((unsigned long long*)counts + threadIdx.x, (unsigned long long)block_counts[threadIdx.x]);
    sum_changes(changes, n_right + 1, within, chunk_before, state, scratch, &is_last);
}

// An inner level, after the one below it: which nodes lose all children, and the sums of the changes, PLACED nodes a
// thread. `child_shift` gets the sum of the changes of all nodes of the level below before a node's first child.
extern "C" __global__ void change_nodes(long long n_right, long long* places, const long long* left_offsets,
                                        const long long* right_offsets, const int* child_within,
                                        const long long* child_chunk_before, long long* child_shift, int* within,
                                        long long* chunk_before, long long* state) {
    __shared__ long long scratch[33];
    __shared__ int is_last;
    unsigned long long changes = NO_CHANGES;
#pragma unroll
    for (int k = 0; k < PLACED; k++) {
        const long long j = (long long)blockIdx.x * CHUNK + k * PLACE_BLOCK + threadIdx.x;
        if (j > n_right) break;
        const long long shift = shift_before(child_within, child_chunk_before, right_offsets[j]);
        child_shift[j] = shift;
        if (j == n_right) break;
        const long long place = places[j], i = place >> 2;
        if ((place & 3) == INSERTED) {
            changes += 1ull << 16 * k;
        } else {
            const long long next_shift = shift_before(child_within, child_chunk_before, right_offsets[j + 1]);
            if (left_offsets[i + 1] - left_offsets[i] + next_shift - shift == 0) {
                changes -= 1ull << 16 * k;
                places[j] = i * 4 + REMOVED;
            }
        }
    }
    sum_changes(changes, n_right + 1, within, chunk_before, state, scratch, &is_last);
}

// Whether weights other than 1 are left: counts[2] gets their number in `weights`, at least as long as it does not
// pass counts[1] and counts[0] is 0; what it gets to be beyond that says nothing more.
extern "C" __global__ void count_weights(const long long* weights, long long n, long long* counts) {
    __shared__ int is_settled;
    __shared__ int block_count;
    volatile long long* seen = counts;
    const long long n_round = COUNT_BLOCK * COUNTED;
    for (long long begin = blockIdx.x * n_round; begin < n; begin += gridDim.x * n_round) {
        if (threadIdx.x == 0) {
            is_settled = seen[0] > 0 || seen[2] > seen[1];
            block_count = 0;
        }
        __syncthreads();
        if (is_settled) return;
        int own = 0;
#pragma unroll
        for (int k = 0; k < COUNTED; k++) {
            const long long i = begin + k * COUNT_BLOCK + threadIdx.x;
            if (i < n && weights[i] != 1) own++;
        }
        for (int distance = 16; distance > 0; distance /= 2) own += __shfl_xor_sync(FULL_WARP, own, distance);
        if ((threadIdx.x & 31) == 0 && own) atomicAdd(&block_count, own);
        __syncthreads();
        if (threadIdx.x == 0 && block_count) atomicAdd((unsigned long long*)counts + 2, (unsigned long long)block_count);
        // The next round's first thread is this one, so its writes to the shared numbers come after its read of them.
    }
}

// The rows, without weights: all of the result's are 1. Codes of 4 bytes on both sides.
extern "C" __global__ void copy_narrow_rows(const int* left, long long n_left, const int* right, long long n_right,
                                            const long long* places, const int* within,
                                            const long long* chunk_before, int* out) {
    __shared__ unsigned int rank_words[TILE / 4];
    __shared__ long long edges[4];
    __shared__ unsigned int warp_counts[COPY_BLOCK / 32];
    copy_tile<8>(left, n_left, right, 0, n_right, places, within, chunk_before, out, Nothing{}, rank_words, edges,
                 warp_counts);
}

extern "C" __global__ void copy_narrow_weighted(const int* left, long long n_left, const int* right, long long n_right,
                                                const long long* places, const int* within,
                                                const long long* chunk_before, int* out,
                                                const long long* left_weights, const long long* right_weights,
                                                long long* out_weights) {
    __shared__ unsigned int rank_words[TILE / 4];
    __shared__ long long edges[4];
    __shared__ unsigned int warp_counts[COPY_BLOCK / 32];
    copy_tile<8>(left, n_left, right, 0, n_right, places, within, chunk_before, out,
                 Weights{left_weights, right_weights, out_weights}, rank_words, edges, warp_counts);
}

// An inner level and where the children of its nodes begin.
extern "C" __global__ void copy_narrow_nodes(const int* left, long long n_left, const int* right, long long n_right,
                                             const long long* places, const int* within,
                                             const long long* chunk_before, int* out, const long long* left_offsets,
                                             const long long* child_shift, long long* out_offsets) {
    __shared__ unsigned int rank_words[TILE / 4];
    __shared__ long long edges[4];
    __shared__ unsigned int warp_counts[COPY_BLOCK / 32];
    copy_tile<8>(left, n_left, right, 0, n_right, places, within, chunk_before, out,
                 Offsets{left_offsets, child_shift, out_offsets}, rank_words, edges, warp_counts);
}

// The same three where a side has codes of 8 bytes.
extern "C" __global__ void copy_wide_rows(const void* left, long long left_wide, long long n_left, const void* right,
                                          long long right_wide, long long n_right, const long long* places,
                                          const int* within, const long long* chunk_before, long long* out) {
    __shared__ unsigned int rank_words[TILE / 4];
    __shared__ long long edges[4];
    __shared__ unsigned int warp_counts[COPY_BLOCK / 32];
    copy_wide_tile(left, left_wide, n_left, right, right_wide, n_right, places, within, chunk_before, out, Nothing{},
                   rank_words, edges, warp_counts);
}

extern "C" __global__ void copy_wide_weighted(const void* left, long long left_wide, long long n_left,
                                              const void* right, long long right_wide, long long n_right,
                                              const long long* places, const int* within,
                                              const long long* chunk_before, long long* out,
                                              const long long* left_weights, const long long* right_weights,
                                              long long* out_weights) {
    __shared__ unsigned int rank_words[TILE / 4];
    __shared__ long long edges[4];
    __shared__ unsigned int warp_counts[COPY_BLOCK / 32];
    copy_wide_tile(left, left_wide, n_left, right, right_wide, n_right, places, within, chunk_before, out,
                   Weights{left_weights, right_weights, out_weights}, rank_words, edges, warp_counts);
}

extern "C" __global__ void copy_wide_nodes(const void* left, long long left_wide, long long n_left, const void* right,
                                           long long right_wide, long long n_right, const long long* places,
                                           const int* within, const long long* chunk_before, long long* out,
                                           const long long* left_offsets, const long long* child_shift,
                                           long long* out_offsets) {
    __shared__ unsigned int rank_words[TILE / 4];
    __shared__ long long edges[4];
    __shared__ unsigned int warp_counts[COPY_BLOCK / 32];
    copy_wide_tile(left, left_wide, n_left, right, right_wide, n_right, places, within, chunk_before, out,
                   Offsets{left_offsets, child_shift, out_offsets}, rank_words, edges, warp_counts);
}
