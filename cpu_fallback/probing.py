"""Work on one candidate: propose it from one atom, search it in another, emit it."""

from __future__ import annotations

from cpu_fallback.pointers import load
from cpu_fallback.progress import PROBES, RANKED, SURVIVORS
from cpu_fallback.ranked import position_of
from cpu_fallback.runtime import cached_njit
from cpu_fallback.slots import BUCKETS, N_FIELDS, OUT_ROW, VALUES, WIDTH, find, gallop, weight_at


@cached_njit
def probe(table, begin, end, is_last, cursor, high, starts, value, matches, work):
    """Search `value` in slots begin to end of one atom; return if it is there, and its weight.

    The weight is that of the last level, else 1. Another slot contains the value within the bounds of `cursor` and
    `high`.
    """
    hit = False
    weight = 0
    for k in range(begin, end):
        matches[k] = -1
        if cursor[k] < high[k]:
            work[PROBES] += 1
            if starts[k] >= 0:
                work[RANKED] += 1
                position = position_of(table, k, starts[k], value)
            elif table[k * N_FIELDS + BUCKETS] != 0:
                position = find(table, k, cursor[k], high[k], value)
            else:
                position = gallop(table, k, cursor[k], high[k], value)
                cursor[k] = position
                if (
                    position >= high[k]
                    or load(table[k * N_FIELDS + VALUES], table[k * N_FIELDS + WIDTH], position) != value
                ):
                    position = -1
            if position >= 0:
                matches[k] = position
                hit = True
                if is_last:
                    weight += weight_at(table, k, position)
    if is_last:
        return hit and weight != 0, weight
    return hit, 1


@cached_njit
def propose(table, begin, k, end, is_last, position, cursor, high, starts, value, matches, work):
    """Return whether slot k is the first of its atom's slots with its value, and the weight.

    The atom has the slots begin to end.
    """
    for j in range(begin, k):
        matches[j] = -1
    if k > begin:
        earlier, _ = probe(table, begin, k, False, cursor, high, starts, value, matches, work)
        if earlier:
            return False, 0
    matches[k] = position
    if not is_last:
        if k + 1 < end:
            probe(table, k + 1, end, False, cursor, high, starts, value, matches, work)
        return True, 1
    weight = weight_at(table, k, position)
    if k + 1 < end:
        _, later = probe(table, k + 1, end, True, cursor, high, starts, value, matches, work)
        weight += later
    return weight != 0, weight


@cached_njit
def is_excluded(excluded, n_excluded, stride, p, value):
    """Return whether a ``!=`` excludes the value for prefix `p`."""
    for e in range(n_excluded):
        if excluded[e * stride + p] == value:
            return True
    return False


@cached_njit
def emit(table, n_slots, p, value, weight, matches, prefix_weight, weighted, fill, out, capacity, work):
    """Write one survivor to `out`, or add it to the count ``out[p]``.

    Rows of `out` are parent, value, weight if weighted, and positions.
    """
    if fill:
        row = work[SURVIVORS]
        out[row] = p
        out[capacity + row] = value
        base = 2 * capacity + row
        if weighted:
            out[base] = weight * prefix_weight[p]
            base += capacity
        for k in range(n_slots):
            target = table[k * N_FIELDS + OUT_ROW]
            if target >= 0:
                out[base + target * capacity] = matches[k]
    else:
        out[p] += weight
    work[SURVIVORS] += 1
