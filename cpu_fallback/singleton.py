"""Extension of a prefix whose smallest range is a single value, as along a foreign key."""

from __future__ import annotations

import numpy as np

from cpu_fallback.pointers import load
from cpu_fallback.probing import emit, is_excluded
from cpu_fallback.progress import PROBES, PROPOSALS, RANKED
from cpu_fallback.ranked import position_of
from cpu_fallback.runtime import cached_njit
from cpu_fallback.slots import N_FIELDS, VALUES, WIDTH, find


@cached_njit
def extend_singleton(
    n_slots, n_atoms, table, first, live, proposer, stride, q, n_excluded, excluded, weighted, prefix_weight, fill,
    out, capacity, low, high, starts, matches, work,
):  # fmt: skip
    """Extend prefix `q` as `extend_live` does if the proposer's range is a single value.

    At most one row is written; there must be room for it.
    """
    proposer_slot = live[proposer]
    value = load(table[proposer_slot * N_FIELDS + VALUES], table[proposer_slot * N_FIELDS + WIDTH], low[proposer_slot])
    work[PROPOSALS] += 1
    if n_excluded > 0 and is_excluded(excluded, n_excluded, stride, q, value):
        return
    for a in range(n_atoms):
        if a == proposer:
            continue
        hit = False
        for k in range(first[a], first[a + 1]):
            matches[k] = -1
            if low[k] >= high[k]:
                continue
            work[PROBES] += 1
            if starts[k] >= 0:
                work[RANKED] += 1
                position = position_of(table, k, starts[k], value)
            else:
                position = find(table, k, low[k], high[k], value)
            if position >= 0:
                matches[k] = position
                hit = True
        if not hit:
            return
    for k in range(first[proposer], first[proposer + 1]):
        matches[k] = low[k] if k == proposer_slot else np.int64(-1)
    emit(table, n_slots, q, value, 1, matches, prefix_weight, weighted, fill, out, capacity, work)
