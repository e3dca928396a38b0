"""Descend tries: the position of each row's values, batch by batch, in one call."""

from __future__ import annotations

import numpy as np

from cpu_fallback.cache import cached_njit
from cpu_fallback.pointers import pointer64
from cpu_fallback.slots import PARENT, SIZE, find


@cached_njit
def bucket_index(values, shift, starts):
    """Fill ``starts[b]`` with the first position whose value is in bucket b or a later one.

    Bucket of a value: its distance from ``values[0]``, shifted right by `shift`.
    """
    at = 0
    least = np.uint64(values[0])
    for b in range(len(starts)):
        while at < len(values) and np.int64((np.uint64(values[at]) - least) >> np.uint64(shift)) < b:
            at += 1
        starts[b] = at


@cached_njit
def locate(described, columns, positions):
    """Write where row i stands in trie t to ``positions[t, i]``, -1 for nowhere.

    `described` holds per trie its number of levels, then per level the address of its slot fields and the row of
    `columns` whose values are sought there.
    """
    at = 0
    for t in range(positions.shape[0]):
        depth = described[at]
        at += 1
        top = pointer64(described[at])
        first = described[at + 1]
        previous = np.int64(-2)
        previous_value = np.int64(0)
        for i in range(columns.shape[1]):
            value = columns[first, i]
            if previous == -2 or value != previous_value:
                previous = find(top, 0, 0, top[SIZE], value)
                previous_value = value
            node = previous
            for level in range(1, depth):
                if node < 0:
                    break
                slot = pointer64(described[at + 2 * level])
                offsets = pointer64(slot[PARENT])
                wanted = columns[described[at + 2 * level + 1], i]
                node = find(slot, 0, offsets[node], offsets[node + 1], wanted)
            positions[t, i] = node
        at += 2 * depth
