"""Searching the values of an ascending list in one slot's range, with their weights."""

from __future__ import annotations

from cpu_fallback.pointers import load
from cpu_fallback.ranked import count_ranked, position_of
from cpu_fallback.runtime import cached_njit
from cpu_fallback.slots import N_FIELDS, VALUES, WEIGHTS, WIDTH, gallop, weight_at


@cached_njit
def seek_all(table, k, low, high, values, begin, end):
    """Search ``values[begin:end]`` in [low, high) of slot k; return their weights and number.

    The weights are summed.
    """
    address, bytes_each = table[k * N_FIELDS + VALUES], table[k * N_FIELDS + WIDTH]
    weight = 0
    hits = 0
    for i in range(begin, end):
        low = gallop(table, k, low, high, values[i])
        if low < high and load(address, bytes_each, low) == values[i]:
            weight += weight_at(table, k, low)
            hits += 1
    return weight, hits


@cached_njit
def seek_ranked(table, k, start, values, begin, end):
    """Search like `seek_all`, by the ranks of the range, which begin at `start`."""
    if table[k * N_FIELDS + WEIGHTS] == 0:
        hits = count_ranked(table, k, start, values.ctypes.data, 8, begin, end)
        return hits, hits
    weight = 0
    hits = 0
    for i in range(begin, end):
        position = position_of(table, k, start, values[i])
        if position >= 0:
            weight += weight_at(table, k, position)
            hits += 1
    return weight, hits
