"""Marks for hubs: long ranges that prefix after prefix seeks a few values in."""

from __future__ import annotations

import numpy as np

from cpu_fallback.cache import cached_njit
from cpu_fallback.marks import HASH_MULTIPLIER
from cpu_fallback.pointers import load, pointer64
from cpu_fallback.progress import MARKS
from cpu_fallback.scanning import SCAN_FACTOR
from cpu_fallback.slots import N_FIELDS, PARENT, ROW, VALUES, WEIGHTS, WIDTH

HUB_BITS = 8
"""Long ranges that are sought in again and again are marked, 2^HUB_BITS of them at a time."""

HUB_SPAN = 1 << 20
"""Values that span more than this have no marks for hubs."""

HUBS_FROM = 4096
"""Fewer prefixes than this have no marks for hubs."""


@cached_njit
def hub_marks(table, positions, stride, q, begin, end, low, high, width, asked, base, hubs, hub_node, hub_debt, work):
    """Which row of `hubs` marks the long range of prefix `q` in slots begin to end; -1 if it is not marked.

    A range that stands alone in one slot of unit weights, and is long enough that its marks take no more room than
    its values, is marked once the values sought in it (`asked` now) have paid for that.
    """
    if width < len(hubs[0]):
        return -1
    k = begin
    while k < end and high[k] - low[k] != width:
        k += 1
    if k == end or table[k * N_FIELDS + WEIGHTS] != 0 or table[k * N_FIELDS + PARENT] == 0:
        return -1
    # The whole range, since the bounds of this prefix are not those of the next one.
    parent = positions[table[k * N_FIELDS + ROW] * stride + q]
    offsets = pointer64(table[k * N_FIELDS + PARENT])
    whole_low, whole_high = offsets[parent], offsets[parent + 1]
    start = table[k * N_FIELDS + VALUES] + table[k * N_FIELDS + WIDTH] * whole_low
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
    if SCAN_FACTOR * hub_debt[hub] < whole_high - whole_low:
        return -1
    words = hubs[hub]
    words[:] = 0
    address, bytes_each = table[k * N_FIELDS + VALUES], table[k * N_FIELDS + WIDTH]
    for i in range(whole_low, whole_high):
        distance = load(address, bytes_each, i) - base
        words[distance >> 5] |= np.uint32(1) << np.uint32(distance & 31)
    work[MARKS] += whole_high - whole_low
    hub_debt[hub] = -max(1, asked)
    return hub
