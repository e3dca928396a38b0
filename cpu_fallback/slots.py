"""The table of one level's extenders for compiled kernels, and searches in its rows.

A slot is one batch of one atom at the level that is being bound. Field f of slot k is ``table[k * N_FIELDS + f]``; the
fields are the constants below. Tables and scratch memory are passed as bare pointers: numba passes an array to a
function as seven or more arguments, which costs more than these functions themselves. Slots of one atom are adjacent:
atom a has rows ``first[a]`` to ``first[a + 1]``.
"""

from __future__ import annotations

import numpy as np

from cpu_fallback.pointers import load, pointer64
from cpu_fallback.runtime import cached_njit

VALUES, WIDTH, PARENT, SIZE, WEIGHTS, BUCKETS, MINIMUM, SHIFT, MAXIMUM, ROW, OUT_ROW, PLACES, WORDS, N_FIELDS = range(
    14
)
"""VALUES address and WIDTH in bytes of the sorted values; PARENT address of the offsets that delimit children, 0 at
the top level; SIZE number of values; WEIGHTS address at an atom's last level, 0 if all are 1; BUCKETS address, SHIFT
of the bucket index of a top level, 0 without; MINIMUM and MAXIMUM of the values; ROW of the positions matrix that
holds the parents' positions; OUT_ROW to which `fill_common` writes the positions of matches, or -1;
PLACES and WORDS addresses of the ranks of long ranges, see `cpu_fallback.ranked`, 0 without."""


@cached_njit
def lower_bound(table, k, low, high, value):
    """Return the first position in [low, high) of slot k with a value not below `value`.

    It is `high` if there is none.
    """
    address, width = table[k * N_FIELDS + VALUES], table[k * N_FIELDS + WIDTH]
    while low < high:
        middle = (low + high) >> 1
        if load(address, width, middle) < value:
            low = middle + 1
        else:
            high = middle
    return low


@cached_njit
def gallop(table, k, low, high, value):
    """Search like `lower_bound`, in time logarithmic in the distance from `low`."""
    address, width = table[k * N_FIELDS + VALUES], table[k * N_FIELDS + WIDTH]
    if low >= high or load(address, width, low) >= value:
        return low
    step = 1
    while low + step < high and load(address, width, low + step) < value:
        low += step
        step <<= 1
    high = min(high, low + step)
    low += 1
    while low < high:
        middle = (low + high) >> 1
        if load(address, width, middle) < value:
            low = middle + 1
        else:
            high = middle
    return low


@cached_njit
def find(table, k, low, high, value):
    """Return the position of `value` in [low, high) of slot k, or -1.

    A top level is searched within its bucket.
    """
    if low >= high or value < table[k * N_FIELDS + MINIMUM] or value > table[k * N_FIELDS + MAXIMUM]:
        return -1
    if table[k * N_FIELDS + BUCKETS] != 0:
        bucket = np.int64(
            (np.uint64(value) - np.uint64(table[k * N_FIELDS + MINIMUM])) >> np.uint64(table[k * N_FIELDS + SHIFT])
        )
        starts = pointer64(table[k * N_FIELDS + BUCKETS])
        low = max(low, starts[bucket])
        high = min(high, starts[bucket + 1])
    position = lower_bound(table, k, low, high, value)
    if position < high and load(table[k * N_FIELDS + VALUES], table[k * N_FIELDS + WIDTH], position) == value:
        return position
    return -1


@cached_njit
def weight_at(table, k, position):
    """Return the weight of the row at a last-level position of slot k."""
    if table[k * N_FIELDS + WEIGHTS] == 0:
        return 1
    return pointer64(table[k * N_FIELDS + WEIGHTS])[position]


@cached_njit
def describe_level(values, parents, weights, starts, shift, fields):
    """Fill the fields of a level's slots and return their address.

    Empty arrays stand for parts that the level does not have.
    """
    fields[VALUES] = values.ctypes.data
    fields[WIDTH] = values.itemsize
    fields[PARENT] = parents.ctypes.data if len(parents) > 0 else 0
    fields[SIZE] = len(values)
    fields[WEIGHTS] = weights.ctypes.data if len(weights) > 0 else 0
    fields[BUCKETS] = starts.ctypes.data if len(starts) > 0 else 0
    fields[SHIFT] = shift
    fields[MINIMUM] = 0
    fields[MAXIMUM] = 0
    if len(values) > 0:
        if len(parents) == 0:
            fields[MINIMUM] = values[0]
            fields[MAXIMUM] = values[-1]
        else:
            minimum = values[0]
            maximum = values[0]
            for i in range(len(values)):
                minimum = min(minimum, values[i])
                maximum = max(maximum, values[i])
            fields[MINIMUM] = minimum
            fields[MAXIMUM] = maximum
    fields[ROW] = -1
    fields[OUT_ROW] = -1
    fields[PLACES] = 0
    fields[WORDS] = 0
    return fields.ctypes.data
