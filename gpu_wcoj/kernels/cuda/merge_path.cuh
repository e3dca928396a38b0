// Copies a level of two tries in merged order, a tile of it a block.
//
// Right node j with place p stands at rank j + p of that order, before left node p; ranks ascend strictly. What stands
// at rank d has a number r of right nodes before it, and d - r left ones.

#include "places.cuh"

const int TILE = 4096;  // ranks a block copies; tries.py has the same number
const int COPY_BLOCK = 256;
const int WARP_RANKS = TILE / (COPY_BLOCK / 32);

// What stands at a rank of a tile, in bits: a right node; nothing of it is written; a left node that right has too.
const unsigned int IS_RIGHT = 1;
const unsigned int IS_SILENT = 2;
const unsigned int IS_MET = 4;

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

// The same where a side has codes of 8 bytes.
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
