// Where the nodes of the trie with fewer rows, right, go among those of the other one, left; tries.py says what for.
//
// A right node's place is 4 * p + fate: p is the left node of its level that it equals, or else the first one behind
// it. Places ascend along a level.

#include "scan.cuh"
#include "search.cuh"

const long long INSERTED = 0;  // what becomes of a right node: left does not have it,
const long long KEPT = 1;      // left has it and it stays,
const long long REMOVED = 2;   // left has it and it goes, since its weight or the number of its children becomes 0.

const int PLACE_BLOCK = 512;  // threads that place and sum right nodes; tries.py has the same number
const int PLACED = 4;         // right nodes a thread places, PLACE_BLOCK apart: at most 4, for sum_changes
const int CHUNK = PLACE_BLOCK * PLACED;
const int SUMMED = 2;  // chunks a thread of the last block sums
const unsigned long long NO_CHANGES = 0x0001000100010001ull;  // what sum_changes takes where no node changes
const long long LEAST = -9223372036854775807ll - 1;

__device__ inline long long code_at(const void* values, long long wide, long long i) {
    return wide ? ((const long long*)values)[i] : ((const int*)values)[i];
}

__device__ inline long long weight_at(const long long* weights, long long i) { return weights ? weights[i] : 1; }

__device__ inline long long sum_of(long long x, long long y) {
    return (long long)((unsigned long long)x + (unsigned long long)y);
}

// The sum of the changes of all right nodes before node j.
__device__ inline long long shift_before(const int* within, const long long* chunk_before, long long j) {
    return chunk_before[j / CHUNK] + within[j];
}

// Right's level to be placed, and what is known of its parents; null pointers at the top.
struct Wanted {
    const void* codes;
    long long is_wide, n;
    const long long* offsets;
    long long n_parents;
    const long long* parent_places;
    const long long* left_offsets;

    // The left nodes among which the children of right's node `parent` have their places; none if left has no such one.
    __device__ void bounds(long long parent, long long n_left, long long* begin, long long* end) const {
        *begin = 0, *end = n_left;
        if (!offsets) return;
        const long long place = parent_places[parent], i = place >> 2;
        *begin = left_offsets[i];
        *end = (place & 3) == INSERTED ? *begin : left_offsets[i + 1];
    }
};

// Hand the place of each of a block's right nodes to `each(k, j, place)`: node j is the k-th of its thread.
//
// One warp finds where the block's first node goes and another one where its last does, 32 probes at a time. All
// others go in between: the threads fetch samples from there, and search the samples, then the values between two of
// them. So a thread waits for memory a few times, not at every step of its searches.
template <typename Code, typename Each>
__device__ void place_chunk(const Code* left, long long n_left, const Wanted& wanted, long long* edges,
                            long long* samples, const Each& each) {
    const long long chunk = (long long)blockIdx.x * CHUNK;
    const int warp = threadIdx.x >> 5;
    if (chunk >= wanted.n) return;
    long long begin, end;
    if (warp < 2) {
        const long long edge = warp == 0 ? chunk : min(chunk + CHUNK, wanted.n) - 1;
        const long long edge_code = code_at(wanted.codes, wanted.is_wide, edge);
        const long long parent = wanted.offsets ? warp_upper_bound(wanted.offsets, 1, wanted.n_parents, edge) - 1 : 0;
        wanted.bounds(parent, n_left, &begin, &end);
        if (edge_code > LEAST) begin = warp_upper_bound(left, begin, end, edge_code - 1);
        if ((threadIdx.x & 31) == 0) {
            edges[warp] = parent;
            edges[2 + warp] = begin;
        }
    }
    __syncthreads();
    const long long first = edges[2], last = edges[3], n = last - first;
    const int gap = n > CHUNK ? 64 - __clzll((n - 1) / CHUNK) : 0;  // samples are 2^gap apart
    const long long round_up = ((long long)1 << gap) - 1;
#pragma unroll
    for (int k = 0; k < PLACED; k++) {
        const long long sample = first + ((long long)(k * PLACE_BLOCK + threadIdx.x) << gap);
        if (sample < last) samples[k * PLACE_BLOCK + threadIdx.x] = left[sample];
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < PLACED; k++) {
        const long long j = chunk + k * PLACE_BLOCK + threadIdx.x;
        if (j >= wanted.n) break;
        const long long code = code_at(wanted.codes, wanted.is_wide, j);
        long long parent = 0;
        if (wanted.offsets) parent = upper_bound(wanted.offsets, edges[0] + 1, edges[1] + 1, j) - 1;
        wanted.bounds(parent, n_left, &begin, &end);
        long long low = max(begin, first), high = min(end, last);
        if (low < high) {
            const long long least = (low - first + round_up) >> gap, most = (high - first + round_up) >> gap;
            const long long found = lower_bound(samples, least, most, code);
            if (found > least) low = first + ((found - 1) << gap) + 1;
            if (found < most) high = first + (found << gap);
            low = lower_bound(left, low, high, code);
        }
        each(k, j, low * 4 + (low < end && left[low] == code ? KEPT : INSERTED));
    }
}

template <typename Each>
__device__ void place_chunk_of_width(const void* left, long long left_wide, long long n_left, const Wanted& wanted,
                                     long long* edges, long long* samples, const Each& each) {
    if (left_wide) place_chunk((const long long*)left, n_left, wanted, edges, samples, each);
    else place_chunk((const int*)left, n_left, wanted, edges, samples, each);
}

// Sum the changes of a level's nodes, PLACED a thread, each of -1, 0 or 1: `changes` holds them plus 1, 16 bits each.
// `within` gets the sum before a node in its chunk, `chunk_before` the sum before a chunk. The last block to get here
// finds the latter and the total. State: total, blocks done.
__device__ void sum_changes(unsigned long long changes, long long n_items, int* within, long long* chunk_before,
                            long long* state, long long* scratch, int* is_last) {
    long long sum;
    const unsigned long long before = block_exclusive_sum((long long)changes, scratch, &sum);
    int shift = 0;
#pragma unroll
    for (int k = 0; k < PLACED; k++) {
        const long long j = (long long)blockIdx.x * CHUNK + k * PLACE_BLOCK + threadIdx.x;
        if (j < n_items) within[j] = shift + (int)(before >> 16 * k & 0xffff) - (int)threadIdx.x;
        shift += (int)((unsigned long long)sum >> 16 * k & 0xffff) - PLACE_BLOCK;
    }
    if (threadIdx.x == 0) {
        chunk_before[blockIdx.x] = shift;
        __threadfence();
        *is_last = atomicAdd((unsigned long long*)state + 1, 1ull) == gridDim.x - 1;
    }
    __syncthreads();
    if (!*is_last) return;
    __threadfence();
    volatile long long* sums = chunk_before;
    const long long n_chunks = gridDim.x;
    long long carry = 0;
    for (long long begin = 0; begin < n_chunks; begin += PLACE_BLOCK * SUMMED) {
        const long long first = begin + SUMMED * threadIdx.x;
        long long own[SUMMED], mine = 0;
        for (int k = 0; k < SUMMED; k++) {
            own[k] = first + k < n_chunks ? sums[first + k] : 0;
            mine += own[k];
        }
        long long at = carry + block_exclusive_sum(mine, scratch, &sum);
        for (int k = 0; k < SUMMED; k++) {
            if (first + k < n_chunks) sums[first + k] = at;
            at += own[k];
        }
        carry += sum;
    }
    if (threadIdx.x == 0) state[0] = carry;
}
