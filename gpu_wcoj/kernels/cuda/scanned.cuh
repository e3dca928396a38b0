// Short ranges, scanned by a warp: loaded once, coalesced, and searched in registers.

#include "scan.cuh"
#include "slots.cuh"

// Values at most: two a lane.
#define SCANNED 64

// Where `wanted` stands in the n values from `values` on, 1 <= n <= SCANNED; -1 if nowhere. All lanes of a warp take
// part, with one range; each seeks a value of its own, in 5 shuffles, or 10 for more than 32 values.
template <typename Value>
__device__ inline int find_by_warp(const Value* values, int n, long long wanted) {
    int lane = threadIdx.x & 31;
    Value near = lane < n ? values[lane] : Value(0);
    Value far = lane + 32 < n ? values[lane + 32] : Value(0);
    // The last value that is not above the one wanted: in the first or in the second half, then by halving.
    bool second = n > 32 && (long long)__shfl_sync(FULL_WARP, far, 0) <= wanted;
    int at = 0;
    Value found = __shfl_sync(FULL_WARP, near, 0);
    if (n > 32) {
        Value other = __shfl_sync(FULL_WARP, far, 0);
        if (second) found = other;
    }
    int own = second ? n - 32 : (n < 32 ? n : 32);
    for (int step = 16; step > 0; step >>= 1) {
        int next = at + step;
        Value value = __shfl_sync(FULL_WARP, near, next & 31);
        if (n > 32) {
            Value other = __shfl_sync(FULL_WARP, far, next & 31);
            if (second) value = other;
        }
        if (next < own && (long long)value <= wanted) {
            at = next;
            found = value;
        }
    }
    return (long long)found == wanted ? at + (second ? 32 : 0) : -1;
}

// Where `wanted` stands in the n values of a slot from `begin` on; -1 if nowhere. All lanes take part, for one range.
__device__ inline long long find_scanned(const Slot& slot, long long begin, int n, long long wanted) {
    int at = slot.value_bytes == 4 ? find_by_warp((const int*)slot.values + begin, n, wanted)
                                   : find_by_warp((const long long*)slot.values + begin, n, wanted);
    return at < 0 ? -1 : begin + at;
}
