"""Marks for hubs: long ranges that prefix after prefix seeks a few values in."""

from __future__ import annotations

import numpy as np

from cpu_fallback.cache import cached_njit
from cpu_fallback.marks import HASH_MULTIPLIER
from cpu_fallback.pointers import load, pointer64
from cpu_fallback.progress import MARKS
from cpu_fallback.scanning import SCAN_FACTOR
from cpu_fallback.slots import N_FIELDS, PARENT, ROW, VALUES, WEIGHTS, WIDTH, gallop, weight_at

HUB_BITS = 10
"""Long ranges that are sought in again and again are marked, 2^HUB_BITS of them at a time."""

HUB_SPAN = 1 << 20
"""Values that span more than this have no marks for hubs."""

HUBS_FROM = 1024
"""Fewer prefixes than this have no marks for hubs."""


SHORTEST = 8
"""A range is marked only if this many times its values are as many as the words that its marks take."""


@cached_njit
def hub_marks(table, positions, stride, q, k, asked, base, hubs, hub_node, hub_debt, work):
    """Which row of `hubs` marks the range of prefix `q` in slot k; -1 if it is not marked.

    A range of unit weights is marked once the values sought in it (`asked` now) have paid for that.
    """
    if table[k * N_FIELDS + WEIGHTS] != 0 or table[k * N_FIELDS + PARENT] == 0:
        return -1
    # The whole range, since the bounds of this prefix are not those of the next one.
    parent = positions[table[k * N_FIELDS + ROW] * stride + q]
    offsets = pointer64(table[k * N_FIELDS + PARENT])
    begin, end = offsets[parent], offsets[parent + 1]
    if SHORTEST * (end - begin) < len(hubs[0]):
        return -1
    start = table[k * N_FIELDS + VALUES] + table[k * N_FIELDS + WIDTH] * begin
    hub = np.int64((np.uint64(start) * HASH_MULTIPLIER) >> np.uint64(64 - HUB_BITS))
    if hub_node[hub] == start and hub_debt[hub] < 0:
        return hub
    if hub_node[hub] != start:
        if hub_debt[hub] < 0:
            hub_debt[hub] = -hub_debt[hub]
        hub_debt[hub] -= asked
        if hub_debt[hub] > 0:
            return -1
        hub_node[hub] = start
        hub_debt[hub] = 0
    hub_debt[hub] += asked
    if SCAN_FACTOR * hub_debt[hub] < end - begin:
        return -1
    words = hubs[hub]
    words[:] = 0
    address, bytes_each = table[k * N_FIELDS + VALUES], table[k * N_FIELDS + WIDTH]
    for i in range(begin, end):
        distance = load(address, bytes_each, i) - base
        words[distance >> 5] |= np.uint32(1) << np.uint32(distance & 31)
    work[MARKS] += end - begin
    hub_debt[hub] = -max(1, asked)
    return hub


@cached_njit
def count_in_hub(words, values, begin, end, base):
    """How many of ``values[begin:end]`` are marked."""
    hits = 0
    for i in range(begin, end):
        distance = values[i] - base
        hits += np.int64((words[distance >> 5] >> np.uint32(distance & 31)) & np.uint32(1))
    return hits


@cached_njit
def seek_all(table, k, low, high, values, begin, end):
    """The sum of the weights of ``values[begin:end]`` in [low, high) of slot k, and how many are there."""
    address, bytes_each = table[k * N_FIELDS + VALUES], table[k * N_FIELDS + WIDTH]
    weight = 0
    hits = 0
    for i in range(begin, end):
        low = gallop(table, k, low, high, values[i])
        if low < high and load(address, bytes_each, low) == values[i]:
            weight += weight_at(table, k, low)
            hits += 1
    return weight, hits
