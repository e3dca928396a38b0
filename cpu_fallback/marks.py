"""A mark set: which values a list shared by many prefixes holds, one load and one shift a question.

Where the level's values span little, bit ``value - base`` is exact. Elsewhere the bit is taken by a multiplicative
hash, and a hit must be verified in the list.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from cpu_fallback.cache import cached_njit

HASH_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


@njit(nogil=True, inline="always")
def bit_of(value, base, hash_shift):
    """Bit number of a value; `hash_shift` 0 means exact."""
    distance = np.uint64(value) - np.uint64(base)
    if hash_shift == 0:
        return np.int64(distance)
    return np.int64((distance * HASH_MULTIPLIER) >> np.uint64(hash_shift))


@cached_njit
def set_marks(bits, values, count, base, hash_shift):
    """Set the bits of the first `count` values."""
    for i in range(count):
        bit = bit_of(values[i], base, hash_shift)
        bits[bit >> 5] |= np.uint32(1) << np.uint32(bit & 31)


@cached_njit
def clear_marks(bits, values, count, base, hash_shift):
    """Clear the words of the first `count` values."""
    for i in range(count):
        bits[bit_of(values[i], base, hash_shift) >> 5] = np.uint32(0)


@cached_njit
def is_marked(bits, value, base, hash_shift):
    """Whether the value's bit is set."""
    bit = bit_of(value, base, hash_shift)
    return (bits[bit >> 5] >> np.uint32(bit & 31)) & np.uint32(1) != 0


EXACT_SPAN = 1 << 26
"""Values that span more than this are marked by hash."""


@cached_njit
def marks_for(bits, hash_shift, span, count, n_prefixes):
    """Room for marking `count` values that span `span`: (bits, hash_shift), all clear.

    Exact unless the span is large, or much larger than the work at hand, since the room has to be cleared once.
    """
    words = np.int64(min(span, np.uint64(EXACT_SPAN)) >> np.uint64(5)) + 1
    if len(bits) == 0 and span < np.uint64(EXACT_SPAN) and words <= 16 * (count + n_prefixes) + 8192:
        return np.zeros(words, np.uint32), 0
    if len(bits) > 0 and (len(bits) << 5) >= 8 * count:
        return bits, hash_shift
    shift = 64 - 16
    while (np.int64(1) << (64 - shift)) < 8 * count:
        shift -= 1
    return np.zeros(1 << (64 - shift - 5), np.uint32), shift
