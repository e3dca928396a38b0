"""Counting the common values of two atoms, batch by batch.

The weight of a value in an atom is the sum of its weights in the atom's batches. So the sum of the products of both
atoms' weights is the sum over all pairs of batches, one of each atom. In each pair the shorter range is searched in the
longer one, or words of both are intersected if both have ranks.
"""

from __future__ import annotations

from cpu_fallback.pointers import load
from cpu_fallback.probing import is_excluded
from cpu_fallback.progress import PROBES, PROPOSALS, RANKED, SURVIVORS
from cpu_fallback.ranges import width_of
from cpu_fallback.ranked import count_ranked, position_of
from cpu_fallback.runtime import cached_njit
from cpu_fallback.slots import N_FIELDS, VALUES, WEIGHTS, WIDTH, find, gallop, weight_at
from cpu_fallback.words import count_words


@cached_njit
def count_pairs(table, first, low, high, starts, work):
    """Return the sum of two atoms' weight products over the common values of their ranges.

    Both atoms must be at their last level. `starts` are the starts of the ranges' ranks. Survivors are counted per pair
    of batches.
    """
    total = 0
    work[PROPOSALS] += min(width_of(first[0], first[1], low, high), width_of(first[1], first[2], low, high))
    for i in range(first[0], first[1]):
        if low[i] >= high[i]:
            continue
        for j in range(first[1], first[2]):
            if low[j] >= high[j]:
                continue
            short, long = (i, j) if high[i] - low[i] <= high[j] - low[j] else (j, i)
            weight, hits, n_searches = count_in_common(
                table, short, low[short], high[short], starts[short], long, low[long], high[long], starts[long]
            )
            total += weight
            work[PROBES] += n_searches
            work[RANKED] += n_searches if starts[long] >= 0 else 0
            work[SURVIVORS] += hits
    return total


@cached_njit
def excluded_pairs(table, first, low, high, starts, n_excluded, excluded, stride, q, work):
    """Return the share of `count_pairs` that excluded values of prefix `q` have, each once."""
    total = 0
    for e in range(n_excluded):
        value = excluded[e * stride + q]
        if is_excluded(excluded, e, stride, q, value):
            continue
        weight, hits = weight_in_atom(table, first[0], first[1], low, high, starts, value, work)
        if hits > 0:
            other_weight, other_hits = weight_in_atom(table, first[1], first[2], low, high, starts, value, work)
            total += weight * other_weight
            work[SURVIVORS] -= hits * other_hits
    return total


@cached_njit
def weight_in_atom(table, begin, end, low, high, starts, value, work):
    """Return the weight of a value in one atom's ranges, and how many of them contain it."""
    weight = 0
    hits = 0
    for k in range(begin, end):
        if low[k] >= high[k]:
            continue
        work[PROBES] += 1
        if starts[k] >= 0:
            work[RANKED] += 1
            position = position_of(table, k, starts[k], value)
        else:
            position = find(table, k, low[k], high[k], value)
        if low[k] <= position < high[k]:
            weight += weight_at(table, k, position)
            hits += 1
    return weight, hits


@cached_njit
def count_in_common(table, k, begin, end, own_start, j, low, high, start):
    """Return the weights and number of common values of two ranges, and the searches.

    The ranges are [begin, end) of slot k and [low, high) of slot j; `own_start` and `start` are the starts of their
    ranks, -1 without. See `count_by_seeking`.
    """
    if own_start >= 0 and start >= 0 and table[k * N_FIELDS + WEIGHTS] == 0 and table[j * N_FIELDS + WEIGHTS] == 0:
        address, width = table[k * N_FIELDS + VALUES], table[k * N_FIELDS + WIDTH]
        first, greatest = load(address, width, begin), load(address, width, end - 1)
        hits, n_words = count_words(table, k, j, own_start, start, first, greatest, end - begin)
        if hits >= 0:
            return hits, hits, n_words
    weight, hits = count_by_seeking(table, k, begin, end, j, low, high, start)
    return weight, hits, end - begin


@cached_njit
def count_by_seeking(table, k, begin, end, j, low, high, start):
    """Search the values [begin, end) of slot k in slot j; return weight products and hits.

    The products of both weights are summed. The range in slot j is [low, high); `start` is the start of its ranks, -1
    without.
    """
    address, width = table[k * N_FIELDS + VALUES], table[k * N_FIELDS + WIDTH]
    total = 0
    hits = 0
    if start >= 0:
        if table[k * N_FIELDS + WEIGHTS] == 0 and table[j * N_FIELDS + WEIGHTS] == 0:
            hits = count_ranked(table, j, start, address, width, begin, end)
            return hits, hits
        for i in range(begin, end):
            position = position_of(table, j, start, load(address, width, i))
            if position >= 0:
                total += weight_at(table, k, i) * weight_at(table, j, position)
                hits += 1
        return total, hits
    other_values, other_width = table[j * N_FIELDS + VALUES], table[j * N_FIELDS + WIDTH]
    for i in range(begin, end):
        value = load(address, width, i)
        low = gallop(table, j, low, high, value)
        if low >= high:
            break
        if load(other_values, other_width, low) == value:
            total += weight_at(table, k, i) * weight_at(table, j, low)
            hits += 1
    return total, hits
