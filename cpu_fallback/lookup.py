"""Lookups of one value per prefix in one atom."""

from __future__ import annotations

import numpy as np

from cpu_fallback.progress import FRESH, PROPOSALS, RANKED, SUM_OF_MINIMA, SURVIVORS
from cpu_fallback.ranges import range_of
from cpu_fallback.ranked import position_of
from cpu_fallback.runtime import cached_njit
from cpu_fallback.slots import N_FIELDS, OUT_ROW, PARENT, ROW, SIZE, find, weight_at


@cached_njit
def look_up(
    table, n_slots, is_last, positions, end, values, excluded, weighted, prefix_weight, fill, resume, out, work
):  # fmt: skip
    """Extend each prefix by its value in `values` if the atom contains it.

    The parameters are those of `cpu_fallback.extend.extend`. There is one search per prefix and batch, by ranks if the
    range has them. The caller counts the searches; those that used ranks only are counted here.
    """
    matches = np.empty(n_slots, np.int64)
    node, low, high, start = np.full((4, n_slots), -1, np.int64)
    for k in range(n_slots):
        if table[k * N_FIELDS + PARENT] == 0:
            low[k], high[k] = 0, table[k * N_FIELDS + SIZE]
    fixed = 3 if weighted else 2
    capacity = out.shape[1]
    n = np.int64(0)
    n_lookups = ranked = np.int64(0)
    p = resume[0]
    while p < end:
        value = values[p]
        is_held = False
        reached, by_ranks = False, True
        weight = np.int64(0)
        for k in range(n_slots):
            matches[k] = -1
            if table[k * N_FIELDS + PARENT] != 0 and positions[table[k * N_FIELDS + ROW], p] != node[k]:
                node[k] = positions[table[k * N_FIELDS + ROW], p]
                low[k], high[k], start[k] = range_of(table, k, node[k])
            if low[k] >= high[k]:
                continue
            reached = True
            by_ranks = by_ranks and start[k] >= 0
            if start[k] >= 0:
                position = position_of(table, k, start[k], value)
            else:
                position = find(table, k, low[k], high[k], value)
            if position >= 0:
                matches[k] = position
                is_held = True
                weight += weight_at(table, k, position)
        n_lookups += reached
        ranked += reached and by_ranks
        if not is_last:
            weight = np.int64(is_held)
        for e in range(excluded.shape[0]):
            is_held = is_held and excluded[e, p] != value
        if is_held and weight != 0:
            if fill:
                out[0, n] = p
                out[1, n] = value
                if weighted:
                    out[2, n] = weight * prefix_weight[p]
                for k in range(n_slots):
                    if table[k * N_FIELDS + OUT_ROW] >= 0:
                        out[fixed + table[k * N_FIELDS + OUT_ROW], n] = matches[k]
            else:
                out[0, p] += weight
            n += 1
        p += 1
        if fill and n == capacity:
            break
    resume[0], resume[1], resume[2] = p, FRESH, 0
    work[SUM_OF_MINIMA] += n_lookups
    work[PROPOSALS] += n_lookups
    work[SURVIVORS] += n
    work[RANKED] += ranked
