"""Which way of extending prefixes costs least: marking what a group shares, counting pairs of ranges, or seeking."""

from __future__ import annotations

import numpy as np

from cpu_fallback.cache import cached_njit
from cpu_fallback.ranges import width_of
from cpu_fallback.ranked import is_ranked
from cpu_fallback.scanning import SCAN_FACTOR
from cpu_fallback.slots import MAXIMUM, MINIMUM, N_FIELDS, PARENT, PLACES

MARK_FROM = 16
"""Shorter ranges of a single prefix are not marked but sought."""

GROUP_FROM = 8
"""Nor are shorter ones that a group shares."""

SAMPLE = 8
"""Prefixes of a group whose counts are looked at to decide whether to mark."""

RANKED_PRICE = 5
"""How many times as long prefixes have to gain from marking a range that has ranks."""

PAIRED_FROM = 8
"""Values for each excluded one, from which on all are counted, and the excluded ones taken away."""

MARK, TEST, COMPARE = 2, 1, 2
"""What it costs, in about a nanosecond, to mark a value, to test one by marks, and to compare it with an excluded
one."""

PAIR, SEEK, WORD = 20, 8, 4
"""What it costs to begin with a pair of ranges, to seek an excluded value in one, and to count what two have in common
of 64 values."""


@cached_njit
def marks_pay(table, n_atoms, first, low, high, starts, smallest, width):
    """Whether a prefix marks its smallest range, for another one that has no ranks and is not much longer."""
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
    """Whether n prefixes that share ranges are counted in pairs of ranges, rather than by marks of what they share.

    Parameters
    ----------
    begin, end
        The slots of the atom whose ranges are shared, which are loaded.
    other, other_end
        Those of the other atom. Its ranges differ, so that its levels speak for them: those that have ranks.
    expected
        The values that the prefixes have, of which marks look at each.
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
