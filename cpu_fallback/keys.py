"""Rows packed into one int64 key each, a pass a column."""

from __future__ import annotations

import numpy as np

from cpu_fallback.cache import cached_njit


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
    """Read a column of the keys, which stands above `shift` bits."""
    mask = (np.int64(1) << bits) - 1
    for i in range(len(column)):
        column[i] = ((key[i] >> shift) & mask) + low


@cached_njit
def ascends(key):
    """Whether every key is larger than the one before it."""
    for i in range(1, len(key)):
        if key[i] <= key[i - 1]:
            return False
    return True


@cached_njit
def drop_repeats(key):
    """Move the distinct ones of sorted keys to the front; how many there are."""
    n = 0
    for i in range(len(key)):
        if i == 0 or key[i] != key[n - 1]:
            key[n] = key[i]
            n += 1
    return n
