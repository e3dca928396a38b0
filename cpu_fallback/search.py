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


@cached_njit
def count_children(described, columns, children, sums):
    """Write to ``sums[t]`` how many values stand below all rows' nodes in trie t, which `described` tells as `locate`.

    `children` holds per trie the address of the slot fields of the level below the ones that are descended.
    """
    positions = np.empty((len(children), columns.shape[1]), np.int64)
    locate(described, columns, positions)
    for t in range(len(children)):
        offsets = pointer64(pointer64(children[t])[PARENT])
        total = np.int64(0)
        for i in range(columns.shape[1]):
            node = positions[t, i]
            if node >= 0:
                total += offsets[node + 1] - offsets[node]
        sums[t] = total


@cached_njit
def narrow(described, positions, choice, least, chosen):
    """Where a choice leaves prefix i fewer values than ``least[i]``, write how many to it and which choice it is.

    `described` holds the number of atoms, then per atom that of its batches, and per batch the row of `positions` and
    the address of the offsets of the children below those.
    """
    if described[0] == 0:
        return
    for i in range(positions.shape[1]):
        width = np.iinfo(np.int64).max
        at = 1
        for _ in range(described[0]):
            end = at + 1 + 2 * described[at]
            total = np.int64(0)
            for batch in range(at + 1, end, 2):
                node = positions[described[batch], i]
                if node >= 0:
                    offsets = pointer64(described[batch + 1])
                    total += offsets[node + 1] - offsets[node]
            width = min(width, total)
            at = end
        if width < least[i]:
            least[i] = width
            chosen[i] = choice
