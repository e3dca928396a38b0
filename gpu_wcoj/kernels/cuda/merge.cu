// Merges two tries; merge.py says how. Left is the trie with more rows, right the other one.
//
// A right node's place is 4 * p + fate: p is the left node of its level that it equals, or else the first one behind
// it. Right node j therefore stands at rank j + p of the merged order of a level's nodes, right before left on ties,
// and ranks ascend strictly. What a left node at rank d has before it is a number r of right nodes, and d - r left ones.

#include "scan.cuh"
#include "search.cuh"

const long long INSERTED = 0;  // what becomes of a right node: left does not have it,
const long long KEPT = 1;      // left has it and it stays,
const long long REMOVED = 2;   // left has it and it goes, since its weight or the number of its children becomes 0.

const long long LEAST = -9223372036854775807ll - 1;

const int CHUNK = 512;  // right nodes a block sums; merge.py has the same number
const int SUMMED = 4;   // chunks a thread of the last block sums
const int TILE = 4096;  // ranks a block copies; merge.py has the same number
const int COPY_BLOCK = 256;
const int WARP_RANKS = TILE / (COPY_BLOCK / 32);
const int COUNT_BLOCK = 256;
const int COUNTED = 8;  // weights a thread counts at once

// What stands at a rank of a tile, in bits: a right node; nothing of it is written; a left node that right has too.
const unsigned int IS_RIGHT = 1;
const unsigned int IS_SILENT = 2;
const unsigned int IS_MET = 4;

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

// The place of right node blockIdx.x * CHUNK + threadIdx.x; all threads of the block take part.
//
// One warp finds where the block's first node goes and another one where its last does, 32 probes at a time. All
// others go in between: each thread fetches one sample from there, and searches the samples, then the values between
// two of them. So a thread waits for memory a few times, not at every step of its search.
template <typename Code>
__device__ long long place_of(const Code* left, long long n_left, const Wanted& wanted, long long* edges,
                              long long* samples) {
    const long long chunk = (long long)blockIdx.x * CHUNK, j = chunk + threadIdx.x;
    const int warp = threadIdx.x >> 5;
    const long long code = j < wanted.n ? code_at(wanted.codes, wanted.is_wide, j) : 0;
    if (chunk >= wanted.n) return 0;
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
    const long long sample = first + ((long long)threadIdx.x << gap);
    if (sample < last) samples[threadIdx.x] = left[sample];
    __syncthreads();
    if (j >= wanted.n) return 0;
    long long parent = 0;
    if (wanted.offsets) parent = upper_bound(wanted.offsets, edges[0] + 1, edges[1] + 1, j) - 1;
    wanted.bounds(parent, n_left, &begin, &end);
    long long low = max(begin, first), high = min(end, last);
    if (low < high) {
        const long long round_up = ((long long)1 << gap) - 1;
        const long long least = (low - first + round_up) >> gap, most = (high - first + round_up) >> gap;
        const long long found = lower_bound(samples, least, most, code);
        if (found > least) low = first + ((found - 1) << gap) + 1;
        if (found < most) high = first + (found << gap);
        low = lower_bound(left, low, high, code);
    }
    return low * 4 + (low < end && left[low] == code ? KEPT : INSERTED);
}

__device__ inline long long place_of_width(const void* left, long long left_wide, long long n_left,
                                           const Wanted& wanted, long long* edges, long long* samples) {
    return left_wide ? place_of((const long long*)left, n_left, wanted, edges, samples)
                     : place_of((const int*)left, n_left, wanted, edges, samples);
}

// One inner level: the places of its nodes, one a thread. Top-down, after the level above.
extern "C" __global__ void
place_nodes(const void* left, long long left_wide, long long n_left, const long long* left_offsets, const void* right,
            long long right_wide, long long n_right, const long long* right_offsets, long long n_parents,
            const long long* parent_places, long long* places) {
    __shared__ long long edges[4];
    __shared__ long long samples[CHUNK];
    const Wanted wanted{right, right_wide, n_right, right_offsets, n_parents, parent_places, left_offsets};
    const long long place = place_of_width(left, left_wide, n_left, wanted, edges, samples);
    const long long j = (long long)blockIdx.x * CHUNK + threadIdx.x;
    if (j < n_right) places[j] = place;
}

// Sum the changes of a level's nodes, one a thread: `within` gets the sum before a node in its chunk, `chunk_before`
// the sum before a chunk. The last block to get here finds the latter and the total. State: total, blocks done.
__device__ void sum_changes(int change, long long n_items, int* within, long long* chunk_before, long long* state,
                            long long* scratch, int* is_last) {
    const long long j = (long long)blockIdx.x * CHUNK + threadIdx.x;
    long long sum;
    const long long before = block_exclusive_sum(change, scratch, &sum);
    if (j < n_items) within[j] = (int)before;
    if (threadIdx.x == 0) {
        chunk_before[blockIdx.x] = sum;
        __threadfence();
        *is_last = atomicAdd((unsigned long long*)state + 1, 1ull) == gridDim.x - 1;
    }
    __syncthreads();
    if (!*is_last) return;
    __threadfence();
    volatile long long* sums = chunk_before;
    const long long n_chunks = gridDim.x;
    long long carry = 0;
    for (long long begin = 0; begin < n_chunks; begin += CHUNK * SUMMED) {
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

// The last level: the places of the rows, what becomes of them, and the sums of their changes, one row a thread.
// Counts: rows of the result that right brings or changes and whose weight is not 1; left's such rows that it meets.
extern "C" __global__ void
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
    long long place = place_of_width(left, left_wide, n_left, wanted, edges, samples);
    const long long j = (long long)blockIdx.x * CHUNK + threadIdx.x;
    int change = 0;
    bool brought = false, met = false;
    if (j < n_right) {
        long long weight = weight_at(right_weights, j);
        if ((place & 3) == INSERTED) {
            change = 1;
        } else {
            const long long other = weight_at(left_weights, place >> 2);
            met = other != 1;
            weight = sum_of(weight, other);
            if (weight == 0) {
                change = -1;
                place += REMOVED - KEPT;
            }
        }
        brought = weight != 0 && weight != 1;
        places[j] = place;
    }
    const unsigned int brought_mask = __ballot_sync(FULL_WARP, brought), met_mask = __ballot_sync(FULL_WARP, met);
    if ((threadIdx.x & 31) == 0) {
        if (brought_mask) atomicAdd(&block_counts[0], __popc(brought_mask));
        if (met_mask) atomicAdd(&block_counts[1], __popc(met_mask));
    }
    __syncthreads();
    if (threadIdx.x < 2 && block_counts[threadIdx.x])
        atomicAdd((unsigned long long*)counts + threadIdx.x, (unsigned long long)block_counts[threadIdx.x]);
    sum_changes(change, n_right + 1, within, chunk_before, state, scratch, &is_last);
}

// An inner level, after the one below it: which nodes lose all children, and the sums of the changes, one node a
// thread. `child_shift` gets the sum of the changes of all nodes of the level below before a node's first child.
extern "C" __global__ void change_nodes(long long n_right, long long* places, const long long* left_offsets,
                                        const long long* right_offsets, const int* child_within,
                                        const long long* child_chunk_before, long long* child_shift, int* within,
                                        long long* chunk_before, long long* state) {
    __shared__ long long scratch[33];
    __shared__ int is_last;
    const long long j = (long long)blockIdx.x * CHUNK + threadIdx.x;
    int change = 0;
    if (j <= n_right) {
        const long long shift = shift_before(child_within, child_chunk_before, right_offsets[j]);
        child_shift[j] = shift;
        if (j < n_right) {
            const long long place = places[j], i = place >> 2;
            if ((place & 3) == INSERTED) {
                change = 1;
            } else {
                const long long next_shift = shift_before(child_within, child_chunk_before, right_offsets[j + 1]);
                if (left_offsets[i + 1] - left_offsets[i] + next_shift - shift == 0) {
                    change = -1;
                    places[j] = i * 4 + REMOVED;
                }
            }
        }
    }
    sum_changes(change, n_right + 1, within, chunk_before, state, scratch, &is_last);
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

// The first right node whose rank is not below `rank`; a warp looks at 32 ranks at once.
__device__ inline long long first_of_rank(const long long* places, long long n_left, long long n_right, long long rank) {
    const int lane = threadIdx.x & 31;
    long long low = max(0ll, rank - n_left), high = min(n_right, rank);
    while (low < high) {
        const long long step = (high - low + 31) >> 5, at = low + step * (lane + 1) - 1;
        const int n_below = __popc(__ballot_sync(FULL_WARP, at < high && at + (places[at] >> 2) < rank));
        high = min(high, low + step * (n_below + 1) - 1);
        low += step * n_below;
    }
    return low;
}

// What goes along with a value.
struct Nothing {
    __device__ long long of(long long, long long, unsigned int) const { return 0; }
    __device__ void put(long long, long long) const {}
    __device__ void end(long long, long long, long long) const {}
};

struct Weights {
    const long long* left;
    const long long* right;
    long long* out;
    __device__ long long of(long long i, long long r, unsigned int bits) const {
        if (bits & IS_RIGHT) return weight_at(right, r);
        const long long weight = weight_at(left, i);
        return bits & IS_MET ? sum_of(weight, weight_at(right, r - 1)) : weight;
    }
    __device__ void put(long long at, long long weight) const { out[at] = weight; }
    __device__ void end(long long, long long, long long) const {}
};

// Behind i left and r right nodes come the children of as many. A node that both have begins before right's share.
struct Offsets {
    const long long* left;
    const long long* child_shift;
    long long* out;
    __device__ long long of(long long i, long long r, unsigned int bits) const {
        return left[i] + child_shift[bits & IS_MET ? r - 1 : r];
    }
    __device__ void put(long long at, long long offset) const { out[at] = offset; }
    __device__ void end(long long at, long long n_left, long long n_right) const {
        out[at] = left[n_left] + child_shift[n_right];
    }
};

// A warp's ranks among which right has no node, nor a node that left has too: a copy.
template <int AT_ONCE, typename Code, typename Out, typename More>
__device__ void copy_left(const Code* left, Out* out, const More& more, long long i, long long r, long long at,
                          long long n) {
    const int lane = threadIdx.x & 31;
    for (int begin = 0; begin < WARP_RANKS; begin += 32 * AT_ONCE) {
        Out value[AT_ONCE];
        long long along[AT_ONCE];
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) {
            const int x = begin + 32 * k + lane;
            if (x < n) {
                value[k] = (Out)left[i + x];
                along[k] = more.of(i + x, r, 0);
            }
        }
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) {
            const int x = begin + 32 * k + lane;
            if (x < n) {
                out[at + x] = value[k];
                more.put(at + x, along[k]);
            }
        }
    }
}

// A warp's ranks, n of them, behind i left and r right nodes, to position `at`.
template <int AT_ONCE, typename Code, typename Out, typename More>
__device__ void copy_merged(const Code* left, const void* right, long long right_wide, Out* out, const More& more,
                            const unsigned char* ranks, long long i, long long r, long long at, long long n) {
    const int lane = threadIdx.x & 31;
    const unsigned int lower = (1u << lane) - 1;
    for (int begin = 0; begin < WARP_RANKS; begin += 32 * AT_ONCE) {
        Out value[AT_ONCE];
        long long along[AT_ONCE];
        int target[AT_ONCE];
        int written = 0;
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) {
            const int x = begin + 32 * k + lane;
            const unsigned int bits = x < n ? ranks[x] : IS_SILENT;
            const unsigned int is_right = __ballot_sync(FULL_WARP, bits & IS_RIGHT);
            const unsigned int is_written = __ballot_sync(FULL_WARP, !(bits & IS_SILENT));
            target[k] = -1;
            if (!(bits & IS_SILENT)) {
                const int n_right = __popc(is_right & lower);
                const long long own_i = i + lane - n_right, own_r = r + n_right;
                target[k] = written + __popc(is_written & lower);
                value[k] = bits & IS_RIGHT ? (Out)code_at(right, right_wide, own_r) : (Out)left[own_i];
                along[k] = more.of(own_i, own_r, bits);
            }
            i += 32 - __popc(is_right);
            r += __popc(is_right);
            written += __popc(is_written);
        }
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) {
            if (target[k] >= 0) {
                out[at + target[k]] = value[k];
                more.put(at + target[k], along[k]);
            }
        }
        at += written;
    }
}

// Copy the ranks of one tile, a block a tile: equal work wherever right's nodes lie.
template <int AT_ONCE, typename Code, typename Out, typename More>
__device__ void copy_tile(const Code* left, long long n_left, const void* right, long long right_wide,
                          long long n_right, const long long* places, const int* within,
                          const long long* chunk_before, Out* out, const More& more, unsigned int* rank_words,
                          long long* edges, unsigned int* warp_counts) {
    unsigned char* ranks = (unsigned char*)rank_words;
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const long long begin = (long long)blockIdx.x * TILE, n = min((long long)TILE, n_left + n_right - begin);
    for (int k = threadIdx.x; k < TILE / 4; k += COPY_BLOCK) rank_words[k] = 0;
    if (warp == 0) {
        // From the rank before, whose node may be one that left has at this tile's first rank.
        const long long first = first_of_rank(places, n_left, n_right, max(0ll, begin - 1));
        if (lane == 0) {
            const long long place = first < n_right ? places[first] : 0;
            const bool is_before = first < n_right && first + (place >> 2) < begin;
            const long long r = first + is_before, i = begin - r;
            edges[0] = first;
            edges[1] = r;
            edges[2] = i + shift_before(within, chunk_before, r) + (is_before && (place & 3) == REMOVED);
        }
    } else if (warp == 1) {
        const long long last = first_of_rank(places, n_left, n_right, begin + n);
        if (lane == 0) edges[3] = last;
    }
    __syncthreads();
#pragma unroll 4
    for (long long j = edges[0] + threadIdx.x; j < edges[3]; j += COPY_BLOCK) {
        const long long place = places[j], rank = j + (place >> 2) - begin, fate = place & 3;
        if (rank >= 0) ranks[rank] = fate == INSERTED ? IS_RIGHT : IS_RIGHT | IS_SILENT;
        if (fate != INSERTED && rank + 1 < TILE) ranks[rank + 1] = fate == KEPT ? IS_MET : IS_SILENT;
    }
    __syncthreads();
    unsigned int count = 0, any = 0;
    for (int k = 0; k < WARP_RANKS / 128; k++) {
        const unsigned int word = rank_words[(warp * WARP_RANKS) / 4 + 32 * k + lane];
        any |= word;
        count += __popc(word & 0x01010101u * IS_RIGHT) + (__popc(word & 0x01010101u * IS_SILENT) << 16);
    }
    for (int distance = 16; distance > 0; distance /= 2) count += __shfl_xor_sync(FULL_WARP, count, distance);
    const bool is_plain = !__any_sync(FULL_WARP, any != 0);
    if (lane == 0) warp_counts[warp] = count;
    __syncthreads();
    unsigned int before = 0;
    for (int w = 0; w < warp; w++) before += warp_counts[w];
    const long long skipped = warp * WARP_RANKS, n_own = n - skipped;
    const long long r = edges[1] + (before & 0xffff), at = edges[2] + skipped - (before >> 16);
    const long long i = begin + skipped - r;
    if (n_own > 0) {
        if (is_plain) copy_left<AT_ONCE>(left, out, more, i, r, at, n_own);
        else copy_merged<AT_ONCE / 2>(left, right, right_wide, out, more, ranks + skipped, i, r, at, n_own);
    }
    if (blockIdx.x == gridDim.x - 1 && threadIdx.x == 0)
        more.end(n_left + shift_before(within, chunk_before, n_right), n_left, n_right);
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
template <typename More>
__device__ void copy_wide_tile(const void* left, long long left_wide, long long n_left, const void* right,
                               long long right_wide, long long n_right, const long long* places, const int* within,
                               const long long* chunk_before, long long* out, const More& more,
                               unsigned int* rank_words, long long* edges, unsigned int* warp_counts) {
    if (left_wide) copy_tile<8>((const long long*)left, n_left, right, right_wide, n_right, places, within,
                                chunk_before, out, more, rank_words, edges, warp_counts);
    else copy_tile<8>((const int*)left, n_left, right, right_wide, n_right, places, within, chunk_before, out, more,
                      rank_words, edges, warp_counts);
}

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
