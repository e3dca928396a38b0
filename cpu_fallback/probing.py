"""One candidate: propose it from the slots of one atom, seek it in those of another, write it down if it survives."""

from __future__ import annotations

from cpu_fallback.cache import cached_njit
from cpu_fallback.pointers import load
from cpu_fallback.progress import PROBES, RANKED, SURVIVORS
from cpu_fallback.ranked import position_of
from cpu_fallback.slots import BUCKETS, N_FIELDS, OUT_ROW, VALUES, WIDTH, find, gallop, weight_at


@cached_njit
def probe(table, begin, end, is_last, cursor, high, starts, value, matches, work):
    """Seek `value` in slots begin to end of one atom: (whether it holds it, its weight if this is its last level).

    The value is one that the range of another slot holds within the bounds that `cursor` and `high` keep to.
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
    """Whether slot k of an atom (begin to end) is the first to hold its value, and the atom's weight there."""
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
    """Whether a ``!=`` forbids the value for prefix `p`."""
    for e in range(n_excluded):
        if excluded[e * stride + p] == value:
            return True
    return False


@cached_njit
def emit(table, n_slots, p, value, weight, matches, prefix_weight, weighted, fill, out, capacity, work):
    """Write one survivor (rows of `out`: parent, value, weight if weighted, positions), or count it in ``out[p]``."""
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
