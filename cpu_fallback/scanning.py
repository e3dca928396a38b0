"""Tests of a slot's range against marks: count, weigh or list the marked values."""

from __future__ import annotations

import numpy as np

from cpu_fallback.marks import is_marked
from cpu_fallback.pointers import load, pointer64
from cpu_fallback.runtime import cached_njit
from cpu_fallback.slots import N_FIELDS, VALUES, WEIGHTS, WIDTH

SCAN_FACTOR = 16
"""Ratio of a range to the marked list up to which it is scanned: a scan costs one load per candidate, a search about
two loads, out of order, for every doubling of the distance."""


@cached_njit
def count_marked(table, k, low, high, bits, base):
    """Return the number of values of [low, high) in slot k that are marked, with exact marks."""
    address, width = table[k * N_FIELDS + VALUES], table[k * N_FIELDS + WIDTH]
    total = 0
    for i in range(low, high):
        distance = load(address, width, i) - base
        total += np.int64((bits[distance >> 5] >> np.uint32(distance & 31)) & np.uint32(1))
    return total


@cached_njit
def count_marked_within(table, k, low, high, bits, base, minimum, maximum):
    """Count like `count_marked`, only values from `minimum` to `maximum`."""
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
    """Return the summed weights and number of the marked values of [low, high) in slot k.

    If `compares`, only values from `minimum` to `maximum` count.
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
    """Write the positions in [low, high) of slot k whose values are marked; return their number."""
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
