"""Rows packed into one int64 key each, one pass per column."""

from __future__ import annotations

import numpy as np

from cpu_fallback.runtime import cached_njit


@cached_njit
def add_column(key, column, low, bits, is_first):
    """Append a column to the keys."""
    if is_first:
        for i in range(len(key)):
            key[i] = column[i] - low
    else:
        for i in range(len(key)):
            key[i] = (key[i] << bits) | (column[i] - low)


@cached_njit
def unpack_column(key, low, shift, bits, column):
    """Extract a column from the keys, stored above `shift` bits."""
    mask = (np.int64(1) << bits) - 1
    for i in range(len(column)):
        column[i] = ((key[i] >> shift) & mask) + low


@cached_njit
def ascends(key):
    """Return whether every key is larger than its predecessor."""
    for i in range(1, len(key)):
        if key[i] <= key[i - 1]:
            return False
    return True


@cached_njit
def drop_repeats(key):
    """Move the distinct values of sorted keys to the front; return their number."""
    n = 0
    for i in range(len(key)):
        if i == 0 or key[i] != key[n - 1]:
            key[n] = key[i]
            n += 1
    return n
