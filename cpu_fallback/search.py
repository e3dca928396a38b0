"""Descend tries: the position of each row's values, batch by batch, in one call."""

from __future__ import annotations

import numpy as np
from numba import njit

from cpu_fallback.pointers import pointer64
from cpu_fallback.slots import N_FIELDS, PARENT, SIZE, find


@njit(nogil=True, cache=True)
def bucket_index(values, shift, starts):  # type: ignore[no-untyped-def]  # compiled
    """Fill ``starts[b]`` with the first position whose value is in bucket b or a later one.

    Bucket of a value: its distance from ``values[0]``, shifted right by `shift`.
    """
    at = 0
    least = np.uint64(values[0])
    for b in range(len(starts)):
        while at < len(values) and np.int64((np.uint64(values[at]) - least) >> np.uint64(shift)) < b:
            at += 1
        starts[b] = at


@njit(nogil=True, cache=True)
def locate(table_address, depth, column_of, columns, positions):  # type: ignore[no-untyped-def]  # compiled
    """Write where row i stands in trie t to ``positions[t, i]``, -1 for nowhere.

    The levels of trie t are rows t * d to t * d + depth[t] - 1 of `table`, d the largest depth; ``column_of[t, l]``
    is the row of `columns` whose values are sought at level l.
    """
    table = pointer64(table_address)
    largest = column_of.shape[1]
    for t in range(len(depth)):
        previous_first = np.int64(0)
        previous = np.int64(-2)
        for i in range(columns.shape[1]):
            value = columns[column_of[t, 0], i]
            if previous != -2 and value == previous_first:
                node = previous
            else:
                k = t * largest
                node = find(table, k, 0, table[k * N_FIELDS + SIZE], value)
                previous_first = value
                previous = node
            for level in range(1, depth[t]):
                if node < 0:
                    break
                k = t * largest + level
                offsets = pointer64(table[k * N_FIELDS + PARENT])
                node = find(table, k, offsets[node], offsets[node + 1], columns[column_of[t, level], i])
            positions[t, i] = node
