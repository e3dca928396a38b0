"""Descending tries: the positions of rows' values, batch by batch, in one call."""

from __future__ import annotations

import numpy as np

from cpu_fallback.pointers import pointer64
from cpu_fallback.runtime import cached_njit
from cpu_fallback.slots import PARENT, SIZE, find


@cached_njit
def bucket_index(values, shift, starts):
    """Fill ``starts[b]`` with the first position whose value is in bucket b or a later one.

    The bucket of a value is its distance from ``values[0]``, shifted right by `shift`.
    """
    position = 0
    minimum = np.uint64(values[0])
    for b in range(len(starts)):
        while position < len(values) and np.int64((np.uint64(values[position]) - minimum) >> np.uint64(shift)) < b:
            position += 1
        starts[b] = position


@cached_njit
def locate(described, columns, positions):
    """Write the position of row i in trie t to ``positions[t, i]``, -1 if absent.

    `described` holds per trie its number of levels, then per level the address of its slot fields and the row of
    `columns` whose values are searched there.
    """
    offset = 0
    for t in range(positions.shape[0]):
        depth = described[offset]
        offset += 1
        top = pointer64(described[offset])
        first = described[offset + 1]
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
                slot = pointer64(described[offset + 2 * level])
                offsets = pointer64(slot[PARENT])
                value_below = columns[described[offset + 2 * level + 1], i]
                node = find(slot, 0, offsets[node], offsets[node + 1], value_below)
            positions[t, i] = node
        offset += 2 * depth


@cached_njit
def count_children(described, columns, children, sums):
    """Write to ``sums[t]`` the number of values below all rows' nodes in trie t.

    `described` is that of `locate`; `children` holds per trie the address of the slot fields of the level below the
    descended ones.
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
def narrow(described, positions, choice, min_widths, chosen):
    """Write width and choice where a choice leaves prefix i fewer values than ``min_widths[i]``.

    `described` holds the number of atoms, then per atom the number of its batches, and per batch the row of `positions`
    and the address of the children's offsets.
    """
    if described[0] == 0:
        return
    for i in range(positions.shape[1]):
        width = np.iinfo(np.int64).max
        offset = 1
        for _ in range(described[0]):
            end = offset + 1 + 2 * described[offset]
            total = np.int64(0)
            for batch in range(offset + 1, end, 2):
                node = positions[described[batch], i]
                if node >= 0:
                    offsets = pointer64(described[batch + 1])
                    total += offsets[node + 1] - offsets[node]
            width = min(width, total)
            offset = end
        if width < min_widths[i]:
            min_widths[i] = width
            chosen[i] = choice
