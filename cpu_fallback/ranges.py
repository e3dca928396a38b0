"""Ranges of a prefix's candidates, one per slot: loaded, narrowed and measured."""

from __future__ import annotations

import numpy as np

from cpu_fallback.pointers import load, pointer64, prefetch
from cpu_fallback.ranked import start_of
from cpu_fallback.runtime import cached_njit
from cpu_fallback.slots import MAXIMUM, MINIMUM, N_FIELDS, PARENT, ROW, SIZE, VALUES, WIDTH, lower_bound

AHEAD = 4
"""Prefixes by which ranges are prefetched ahead."""

LINES = 4
"""Cache lines of a range that are prefetched."""


@cached_njit
def load_ranges(table, positions, stride, p, begin, end, low, high):
    """Write the children's range of prefix `p` for slots begin to end into `low` and `high`."""
    for k in range(begin, end):
        if table[k * N_FIELDS + PARENT] == 0:
            low[k] = 0
            high[k] = table[k * N_FIELDS + SIZE]
        else:
            parent = positions[table[k * N_FIELDS + ROW] * stride + p]
            if parent < 0:
                low[k] = 0
                high[k] = 0
            else:
                offsets = pointer64(table[k * N_FIELDS + PARENT])
                low[k] = offsets[parent]
                high[k] = offsets[parent + 1]


@cached_njit
def range_of(table, k, parent):
    """Return a parent's range in slot k and the start of its ranks, or -1.

    Without a parent it is (0, 0, -1).
    """
    if parent < 0:
        return np.int64(0), np.int64(0), np.int64(-1)
    offsets = pointer64(table[k * N_FIELDS + PARENT])
    return offsets[parent], offsets[parent + 1], start_of(table, k, parent)


@cached_njit
def clip_range(table, k, low, high, minimum, maximum):
    """Return the part of [low, high) of slot k with values from `minimum` to `maximum`."""
    if low < high and table[k * N_FIELDS + MINIMUM] < minimum:
        low = lower_bound(table, k, low, high, minimum)
    if low < high and table[k * N_FIELDS + MAXIMUM] > maximum:
        start = low
        while start < high:
            middle = (start + high) >> 1
            if load(table[k * N_FIELDS + VALUES], table[k * N_FIELDS + WIDTH], middle) <= maximum:
                start = middle + 1
            else:
                high = middle
    return low, high


@cached_njit
def add_widths(records, rows, positions, lower, upper, widths):
    """Add to ``widths[p]`` the values below prefix p from ``lower[p]`` to ``upper[p]``.

    `records` are addresses of the levels' slot fields, `rows` the rows of `positions` with the parents.
    """
    for level in range(len(records)):
        table = pointer64(records[level])
        for p in range(len(widths)):
            low, high = np.int64(0), table[SIZE]
            if table[PARENT] != 0:
                parent = positions[rows[level], p]
                if parent < 0:
                    continue
                low, high = pointer64(table[PARENT])[parent], pointer64(table[PARENT])[parent + 1]
            if len(lower) > 0:
                low, high = clip_range(table, 0, low, high, lower[p], upper[p])
            widths[p] += max(high - low, 0)


@cached_njit
def clip_ranges(table, begin, end, low, high, minimum, maximum):
    """Narrow the ranges of slots begin to end to values from `least` to `most`, both inclusive."""
    for k in range(begin, end):
        low[k], high[k] = clip_range(table, k, low[k], high[k], minimum, maximum)


@cached_njit
def width_of(begin, end, low, high):
    """Return the sum of the ranges' widths of one atom."""
    total = 0
    for k in range(begin, end):
        total += high[k] - low[k]
    return total


@cached_njit
def smallest_count(table, n_atoms, first, member, positions, stride, q, shared_width, low, high):
    """Return the smallest count of prefix `q`, given that of the `member` atoms."""
    smallest = shared_width
    for a in range(n_atoms):
        if not member[a]:
            load_ranges(table, positions, stride, q, first[a], first[a + 1], low, high)
            smallest = min(smallest, width_of(first[a], first[a + 1], low, high))
    return smallest


@cached_njit
def prefetch_range(table, positions, stride, q, k):
    """Prefetch the first lines of prefix q's range in slot k, the largest batch of its atom."""
    if table[k * N_FIELDS + PARENT] == 0:
        return
    parent = positions[table[k * N_FIELDS + ROW] * stride + q]
    if parent >= 0:
        width = table[k * N_FIELDS + WIDTH]
        start = table[k * N_FIELDS + VALUES] + width * pointer64(table[k * N_FIELDS + PARENT])[parent]
        for line in range(LINES):
            prefetch(start + 64 * line)
