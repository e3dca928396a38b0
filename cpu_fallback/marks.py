"""A mark set: which values a list shared by many prefixes holds, one load and one shift a question.

Where the level's values span little, bit ``value - base`` is exact. Elsewhere the bit is taken by a multiplicative
hash, and a hit must be verified in the list.
"""

from __future__ import annotations

import numpy as np
from numba import njit

HASH_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


@njit(nogil=True, inline="always")
def bit_of(value, base, hash_shift):  # type: ignore[no-untyped-def]  # compiled
    """Bit number of a value; `hash_shift` 0 means exact."""
    distance = np.uint64(value) - np.uint64(base)
    if hash_shift == 0:
        return np.int64(distance)
    return np.int64((distance * HASH_MULTIPLIER) >> np.uint64(hash_shift))


@njit(nogil=True, cache=True)
def set_marks(bits, values, count, base, hash_shift):  # type: ignore[no-untyped-def]  # compiled
    """Set the bits of the first `count` values."""
    for i in range(count):
        bit = bit_of(values[i], base, hash_shift)
        bits[bit >> 5] |= np.uint32(1) << np.uint32(bit & 31)


@njit(nogil=True, cache=True)
def clear_marks(bits, values, count, base, hash_shift):  # type: ignore[no-untyped-def]  # compiled
    """Clear the words of the first `count` values."""
    for i in range(count):
        bits[bit_of(values[i], base, hash_shift) >> 5] = np.uint32(0)


@njit(nogil=True, cache=True)
def is_marked(bits, value, base, hash_shift):  # type: ignore[no-untyped-def]  # compiled
    """Whether the value's bit is set."""
    bit = bit_of(value, base, hash_shift)
    return (bits[bit >> 5] >> np.uint32(bit & 31)) & np.uint32(1) != 0
