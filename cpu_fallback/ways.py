"""Which way of extending prefixes costs least: marking what a group shares, counting pairs of ranges, or seeking."""

from __future__ import annotations

from cpu_fallback.cache import cached_njit
from cpu_fallback.ranges import width_of
from cpu_fallback.ranked import is_ranked
from cpu_fallback.scanning import SCAN_FACTOR
from cpu_fallback.slots import N_FIELDS, PARENT

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

PAIR, SEEK, WORD = 20, 15, 4
"""What it costs to begin with a pair of ranges, to seek an excluded value in them, and to count what they have in
common of 64 values."""


@cached_njit
def marks_pay(table, n_atoms, first, low, high, starts, smallest, width):
    """Whether a prefix marks its smallest range, for another one that has no ranks and is not much longer."""
    if table[first[smallest] * N_FIELDS + PARENT] == 0:
        return False
    for a in range(n_atoms):
        if a != smallest and table[first[a] * N_FIELDS + PARENT] != 0:
            own = width_of(first[a], first[a + 1], low, high)
            if own <= SCAN_FACTOR * width and not is_ranked(first[a], first[a + 1], low, high, starts):
                return True
    return False


@cached_njit
def pairs_pay(n, shared_width, n_words, expected, n_excluded):
    """Whether n prefixes that share a range are counted in pairs of ranges, rather than by marks of what they share.

    `expected` are the values that the prefixes have, of which marks look at each; where the shared range has
    `n_words` words, a pair looks at no more of these.
    """
    marked = MARK * shared_width + (TEST + COMPARE * n_excluded) * expected
    return n * (PAIR + SEEK * n_excluded) + WORD * min(n * n_words, expected) < marked


@cached_njit
def are_ranked(first, low, high, starts):
    """Whether the widest ranges of both of two atoms have ranks."""
    return is_ranked(first[0], first[1], low, high, starts) and is_ranked(first[1], first[2], low, high, starts)
