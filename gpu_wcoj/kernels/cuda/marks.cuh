// Marks: the values of a long range, made once for a group of prefixes that share it, and tested in O(1) each.
//
// The table of one range of `length` values takes 2 (length + 1) words of the arena: two words of heading, then either
//   a bitmap  of the values' distances from the first, where only membership is asked and their span is below
//             128 * length, so that it fits the same 2 * length words; heading (first value, span), or
//   a hash    table of 2 * length places with linear probing; heading (any, begin of the range | HASHED). An entry is
//             a tag and 1 + the place in the range; 0 is an empty one. For int32 the tag is the value, so a value
//             sought that int32 does not hold is nowhere; for int64 it is half of the hash, and the value itself is
//             compared.
// Places are inserted, never removed, and the values of a range are distinct, so what a test finds does not depend on
// the order of insertions.


#include "hash.cuh"
#include "slots.cuh"

#define HASHED 0x8000000000000000ull

__device__ inline Bits tag_of(const Slot& slot, long long value, Bits hash) {
    return (slot.value_bytes == 4 ? (Bits)value & 0xffffffffull : hash & 0xffffffffull) << 32;
}

__device__ inline void insert_hashed(Bits* places, Bits n_places, const Slot& slot, long long value, Bits place) {
    Bits hash = mix((Bits)value);
    Bits entry = tag_of(slot, value, hash) | (place + 1);
    Bits at = __umul64hi(hash, n_places);
    while (atomicCAS(places + at, 0ull, entry) != 0) at = at + 1 == n_places ? 0 : at + 1;
}

// Where the value stands in the slot, -1 if nowhere; of a bitmap only whether that is negative is meant.
__device__ inline long long find_marked(const Bits* table, Bits n_places, const Slot& slot, long long value) {
    Bits heading = table[1];
    const Bits* places = table + 2;
    if ((heading & HASHED) == 0) {
        Bits distance = (Bits)value - table[0];
        if (distance > heading) return -1;
        return (places[distance >> 6] >> (distance & 63)) & 1 ? 0 : -1;
    }
    if (slot.value_bytes == 4 && value != (int)value) return -1;
    long long begin = (long long)(heading & ~HASHED);
    Bits hash = mix((Bits)value);
    Bits tag = tag_of(slot, value, hash);
    for (Bits at = __umul64hi(hash, n_places);; at = at + 1 == n_places ? 0 : at + 1) {
        Bits entry = places[at];
        if (entry == 0) return -1;
        if ((entry & ~0xffffffffull) != tag) continue;
        long long i = begin + (long long)(entry & 0xffffffffull) - 1;
        if (slot.value_bytes == 4 || value_at(slot, i) == value) return i;
    }
}
