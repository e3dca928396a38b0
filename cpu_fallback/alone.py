"""Extension of a single prefix: its smallest range proposes, the other ranges are searched."""

from __future__ import annotations

from cpu_fallback.filters import BLOCK, MIN_FILTERED, filter_candidates, set_filters
from cpu_fallback.pointers import load, pointer64
from cpu_fallback.probing import emit, is_excluded, probe, propose
from cpu_fallback.progress import ALONE, PROBES, PROPOSALS, RANKED, SURVIVORS
from cpu_fallback.ranges import width_of
from cpu_fallback.runtime import cached_njit
from cpu_fallback.slots import N_FIELDS, VALUES, WIDTH


@cached_njit
def extend_alone(
    n_slots, n_atoms, table, first, is_last, stride, q, n_excluded, excluded,
    weighted, prefix_weight, fill, resume, skip, out, capacity, low, high, starts, cursor, matches, masks, filters,
    room, work,
):  # fmt: skip
    """Extend one prefix from its smallest range, by searching the other ranges.

    The ranges are loaded and clipped.

    Returns whether the output is full.
    """
    proposer = 0
    width = width_of(first[0], first[1], low, high)
    for a in range(1, n_atoms):
        atom_width = width_of(first[a], first[a + 1], low, high)
        if atom_width < width:
            proposer, width = a, atom_width
    is_filtered = False
    if width >= MIN_FILTERED:
        is_filtered = set_filters(table, n_atoms, first, proposer, low, high, starts, masks, filters)
    places = pointer64(room)
    done = 0
    for k in range(first[proposer], first[proposer + 1]):
        block = low[k] + min(max(skip - done, 0), high[k] - low[k])
        for j in range(n_slots):
            cursor[j] = low[j]
        address, bytes_each = table[k * N_FIELDS + VALUES], table[k * N_FIELDS + WIDTH]
        while block < high[k]:
            block_end = min(block + BLOCK, high[k])
            n = block_end - block
            if is_filtered:
                work[PROBES] += n
                work[RANKED] += n
                n = filter_candidates(
                    table, n_atoms, first, low, high, starts, masks, filters, address, bytes_each, block, block_end,
                    room,
                )  # fmt: skip
            work[PROPOSALS] += block_end - block
            for h in range(n):
                i = places[h] if is_filtered else block + h
                value = load(address, bytes_each, i)
                if is_excluded(excluded, n_excluded, stride, q, value):
                    continue
                good, weight = propose(
                    table, first[proposer], k, first[proposer + 1], is_last[proposer] != 0, i, cursor, high, starts,
                    value, matches, work,
                )  # fmt: skip
                if not good:
                    continue
                for a in range(n_atoms):
                    if a != proposer:
                        good, factor = probe(
                            table, first[a], first[a + 1], is_last[a] != 0, cursor, high, starts, value, matches, work
                        )
                        if not good:
                            break
                        weight *= factor
                if not good:
                    continue
                emit(table, n_slots, q, value, weight, matches, prefix_weight, weighted, fill, out, capacity, work)
                if fill and work[SURVIVORS] == capacity:
                    work[PROPOSALS] -= block_end - i - 1
                    resume[0], resume[1], resume[2] = q, ALONE, done + i + 1 - low[k]
                    return True
            block = block_end
        done += high[k] - low[k]
    return False
