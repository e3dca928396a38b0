"""Costs of ways to extend prefixes: marking values, counting pairs of ranges, searching."""

from __future__ import annotations

import numpy as np

from cpu_fallback.ranges import width_of
from cpu_fallback.ranked import is_ranked
from cpu_fallback.runtime import cached_njit
from cpu_fallback.scanning import SCAN_FACTOR
from cpu_fallback.slots import MAXIMUM, MINIMUM, N_FIELDS, PARENT, PLACES

MARK_FROM = 16
"""Values of a single prefix's range below which it is not marked but searched."""

GROUP_FROM = 8
"""Values of a range that a group shares below which it is not marked."""

SAMPLE = 8
"""Prefixes of a group whose counts are sampled to decide on marking."""

RANKED_PRICE = 5
"""Factor by which the gain has to be larger to mark a range that has ranks."""

PAIRED_FROM = 8
"""Values per excluded value from which on all values are counted and the excluded ones subtracted."""

MARK, TEST, COMPARE = 2, 1, 2
"""Nanoseconds, roughly, to mark a value, to test a value by marks, and to compare it with an excluded value."""

PAIR, SEEK, WORD = 20, 8, 4
"""Nanoseconds, roughly, to start a pair of ranges, to search an excluded value in one, and to count the common values
of two words of 64."""


@cached_njit
def marks_pay(table, n_atoms, first, low, high, starts, smallest, width):
    """Return whether marking the smallest range of a prefix pays.

    It pays if another range has no ranks and is not much longer.
    """
    if table[first[smallest] * N_FIELDS + PARENT] == 0:
        return False
    for a in range(n_atoms):
        if a != smallest and table[first[a] * N_FIELDS + PARENT] != 0:
            atom_width = width_of(first[a], first[a + 1], low, high)
            if atom_width <= SCAN_FACTOR * width and not is_ranked(first[a], first[a + 1], low, high, starts):
                return True
    return False


@cached_njit
def pairs_pay(table, n, begin, end, other_begin, other_end, low, high, starts, shared_width, expected, n_excluded):
    """Return whether n prefixes with shared ranges are counted by pairs of ranges, not by marks.

    Parameters
    ----------
    begin, end
        The slots of the atom whose ranges are shared, which are loaded.
    other_begin, other_end
        The slots of the other atom. Its ranges differ, so its levels with ranks are counted instead.
    expected
        The expected number of the prefixes' values, each of which marks would test.
    """
    n_shared = n_words = n_others = np.int64(0)
    for k in range(begin, end):
        n_shared += low[k] < high[k]
        if starts[k] >= 0:
            span = ((table[k * N_FIELDS + MAXIMUM] - table[k * N_FIELDS + MINIMUM]) >> 6) + 1
            n_words += min(high[k] - low[k], span)
    for k in range(other_begin, other_end):
        n_others += table[k * N_FIELDS + PLACES] != 0
    if n_words == 0 or n_others == 0:
        return False
    pair_cost = PAIR * n_shared * n_others + SEEK * n_excluded * (n_shared + n_others)
    paired = n * pair_cost + WORD * min(n * n_words * n_others, n_shared * expected)
    return paired < MARK * shared_width + (TEST + COMPARE * n_excluded) * expected
