"""A mark set of the values of a list that many prefixes share: one load and shift per test.

If the level's values span little, bit ``value - base`` is exact. Otherwise a multiplicative hash selects the bit, and a
hit must be verified in the list.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from cpu_fallback.runtime import cached_njit

HASH_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
"""The multiplier of the hash: 2^64 divided by the golden ratio, odd."""


@njit(nogil=True, inline="always")
def bit_of(value, base, hash_shift):
    """Return the bit index of a value; `hash_shift` 0 means exact marks."""
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
    """Return whether the value's bit is set."""
    bit = bit_of(value, base, hash_shift)
    return (bits[bit >> 5] >> np.uint32(bit & 31)) & np.uint32(1) != 0


EXACT_SPAN = 1 << 26
"""Span of values above which marks are hashed."""


@cached_njit
def marks_for(bits, hash_shift, span, count, n_prefixes):
    """Return clear marks (bits, hash_shift) for `count` values that span `span`.

    They are exact unless the span is large, or much larger than the work, since the memory has to be cleared once.
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
