"""Trie levels of sorted rows, and parents of children."""

from __future__ import annotations

import numpy as np

from cpu_fallback.pointers import pointer64
from cpu_fallback.runtime import cached_njit


@cached_njit
def trie_levels_two(first, second, values, offsets, children):
    """Split two sorted columns into a trie: distinct first values, offsets, second values."""
    n = 0
    for i in range(len(first)):
        if i == 0 or first[i] != first[i - 1]:
            values[n] = first[i]
            offsets[n] = i
            n += 1
        children[i] = second[i]
    offsets[n] = len(first)
    return n


@cached_njit
def trie_levels(columns, values, offsets, counts):
    """Split three or more sorted columns, given by address, into all trie levels but the last.

    Rows of `values` and `offsets` are the levels, with room for every row; `counts` receives the number of values of
    each.
    """
    n, last_level = counts[-1], len(counts) - 1
    counts[:] = 0
    for i in range(n):
        level = 0
        if i > 0:
            while level < last_level and pointer64(columns[level])[i] == pointer64(columns[level])[i - 1]:
                level += 1
        for upper in range(level, last_level):
            values[upper, counts[upper]] = pointer64(columns[upper])[i]
            offsets[upper, counts[upper]] = counts[upper + 1]
            counts[upper] += 1
        counts[last_level] += 1
    for upper in range(last_level):
        offsets[upper, counts[upper]] = counts[upper + 1]


@cached_njit
def expand_rows(offsets, parents):
    """Write the parent of every child: i in [offsets[p], offsets[p + 1]) has parent p."""
    for p in range(len(offsets) - 1):
        for i in range(offsets[p], offsets[p + 1]):
            parents[i] = np.int64(p)
