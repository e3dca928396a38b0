"""Sums and run starts over sorted rows."""

from __future__ import annotations

import numpy as np

from cpu_fallback.cache import cached_njit


@cached_njit
def trie_levels_two(first, second, values, offsets, children):
    """Split two sorted columns into the distinct values of the first, their children's offsets, and the second."""
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
def expand_rows(offsets, parents):
    """Write the parent of every child: i in [offsets[p], offsets[p + 1]) has parent p."""
    for p in range(len(offsets) - 1):
        for i in range(offsets[p], offsets[p + 1]):
            parents[i] = np.int64(p)
