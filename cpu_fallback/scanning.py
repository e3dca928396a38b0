"""Testing a range of one slot against marks: counting, weighing or listing the marked values, one load each."""

from __future__ import annotations

import numpy as np

from cpu_fallback.cache import cached_njit
from cpu_fallback.marks import is_marked
from cpu_fallback.pointers import load, pointer64
from cpu_fallback.slots import N_FIELDS, VALUES, WEIGHTS, WIDTH

SCAN_FACTOR = 16
"""A range up to this many times longer than the marked list is scanned: it costs one load a candidate, a seek about
two loads for every doubling of the distance, and those are out of order."""


@cached_njit
def count_marked(table, k, low, high, bits, base):
    """How many values of [low, high) in slot k are marked, with exact marks."""
    address, width = table[k * N_FIELDS + VALUES], table[k * N_FIELDS + WIDTH]
    total = 0
    for i in range(low, high):
        distance = load(address, width, i) - base
        total += np.int64((bits[distance >> 5] >> np.uint32(distance & 31)) & np.uint32(1))
    return total


@cached_njit
def count_marked_within(table, k, low, high, bits, base, minimum, maximum):
    """As `count_marked`, of the values from `least` to `most` only."""
    address, width = table[k * N_FIELDS + VALUES], table[k * N_FIELDS + WIDTH]
    total = 0
    for i in range(low, high):
        value = load(address, width, i)
        distance = value - base
        bit = np.int64((bits[distance >> 5] >> np.uint32(distance & 31)) & np.uint32(1))
        total += bit & np.int64(value >= minimum) & np.int64(value <= maximum)
    return total


@cached_njit
def weigh_marked(table, k, low, high, bits, base, minimum, maximum, compares):
    """The sum of the weights of the marked values of [low, high) in slot k, and how many they are.

    Only values from `least` to `most` count if `compares`.
    """
    address, width = table[k * N_FIELDS + VALUES], table[k * N_FIELDS + WIDTH]
    source = pointer64(table[k * N_FIELDS + WEIGHTS])
    total = 0
    hits = 0
    for i in range(low, high):
        value = load(address, width, i)
        distance = value - base
        bit = np.int64((bits[distance >> 5] >> np.uint32(distance & 31)) & np.uint32(1))
        if compares:
            bit &= np.int64(value >= minimum) & np.int64(value <= maximum)
        total += bit * source[i]
        hits += bit
    return total, hits


@cached_njit
def marked_positions(table, k, low, high, bits, base, hash_shift, out):
    """Write the positions in [low, high) of slot k whose values are marked; returns how many."""
    address, width = table[k * N_FIELDS + VALUES], table[k * N_FIELDS + WIDTH]
    n = 0
    if hash_shift == 0:
        for i in range(low, high):
            distance = load(address, width, i) - base
            out[n] = i
            n += np.int64((bits[distance >> 5] >> np.uint32(distance & 31)) & np.uint32(1))
    else:
        for i in range(low, high):
            out[n] = i
            n += np.int64(is_marked(bits, load(address, width, i), base, hash_shift))
    return n
