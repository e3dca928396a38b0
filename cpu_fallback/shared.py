"""The common values of several atoms, gathered from their slots into one ascending list."""

from __future__ import annotations

from cpu_fallback.pointers import load, pointer64
from cpu_fallback.probing import probe
from cpu_fallback.progress import MARKS
from cpu_fallback.ranges import width_of
from cpu_fallback.runtime import cached_njit
from cpu_fallback.slots import N_FIELDS, VALUES, WEIGHTS, WIDTH


@cached_njit
def gather(table, begin, end, is_last, low, high, values, weights):
    """Write the values of slots begin to end of one atom, ascending, with summed weights.

    Each value is written once. Values whose weights cancel at the atom's last level are left out. Returns their number
    and whether all weights are 1. O(n) for n values and few slots.
    """
    count = 0
    runs = 0
    ones = True
    for k in range(begin, end):
        if low[k] >= high[k]:
            continue
        before = count
        address, bytes_each = table[k * N_FIELDS + VALUES], table[k * N_FIELDS + WIDTH]
        for i in range(low[k], high[k]):
            values[count] = load(address, bytes_each, i)
            count += 1
        if is_last and table[k * N_FIELDS + WEIGHTS] != 0:
            ones = False
            source = pointer64(table[k * N_FIELDS + WEIGHTS])
            for i in range(low[k], high[k]):
                weights[before + i - low[k]] = source[i]
        else:
            for i in range(before, count):
                weights[i] = 1
        runs += 1
        if runs > 1:
            merge_tail(values, weights, before, count)
    if runs > 1 or not ones:
        ones = True
        n_distinct = 0
        i = 0
        while i < count:
            value, weight = values[i], weights[i]
            i += 1
            while i < count and values[i] == value:
                if is_last:
                    weight += weights[i]
                i += 1
            if weight != 0:
                values[n_distinct] = value
                weights[n_distinct] = weight
                ones = ones and weight == 1
                n_distinct += 1
        count = n_distinct
    return count, ones


@cached_njit
def intersect_shared(
    table, n_slots, n_atoms, first, is_last, member, low, high, starts, cursor, matches, values, weights, work
):  # fmt: skip
    """Write the common values of the `member` atoms, ascending, with products of weights.

    Weights count for atoms at their last level. Returns the number of values and whether all weights are 1. `values`
    and `weights` are as long as the smallest range.
    """
    smallest = -1
    width = 0
    n_members = 0
    for a in range(n_atoms):
        if member[a]:
            n_members += 1
            atom_width = width_of(first[a], first[a + 1], low, high)
            if smallest < 0 or atom_width < width:
                smallest, width = a, atom_width
    work[MARKS] += width
    count, ones = gather(
        table, first[smallest], first[smallest + 1], is_last[smallest] != 0, low, high, values, weights
    )
    if n_members == 1:
        return count, ones
    for j in range(n_slots):
        cursor[j] = low[j]
    n_common = 0
    ones = True
    for i in range(count):
        value, weight = values[i], weights[i]
        good = True
        for a in range(n_atoms):
            if member[a] and a != smallest:
                good, factor = probe(
                    table, first[a], first[a + 1], is_last[a] != 0, cursor, high, starts, value, matches, work
                )
                if not good:
                    break
                weight *= factor
        if good:
            values[n_common] = value
            weights[n_common] = weight
            ones = ones and weight == 1
            n_common += 1
    return n_common, ones


@cached_njit
def merge_tail(values, weights, middle, end):
    """Merge the ascending runs [0, middle) and [middle, end) in place, with their weights."""
    tail_values = values[middle:end].copy()
    tail_weights = weights[middle:end].copy()
    left = middle - 1
    right = end - middle - 1
    target = end - 1
    while right >= 0:
        if left >= 0 and values[left] > tail_values[right]:
            values[target] = values[left]
            weights[target] = weights[left]
            left -= 1
        else:
            values[target] = tail_values[right]
            weights[target] = tail_weights[right]
            right -= 1
        target -= 1


@cached_njit
def bound(values, begin, end, value, inclusive):
    """Return the first position in [begin, end) with a value not below `value`.

    If `inclusive`, the value must be above it.
    """
    while begin < end:
        middle = (begin + end) >> 1
        if values[middle] < value or (inclusive and values[middle] == value):
            begin = middle + 1
        else:
            end = middle
    return begin
