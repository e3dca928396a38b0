"""Extension of prefixes one by one.

The ranges of a single atom are copied or measured. Of several atoms the smallest range proposes, and the others are
searched.
"""

from __future__ import annotations

import numpy as np

from cpu_fallback.ranges import (
    BLOCK,
    MIN_FILTERED,
    N_FIELDS,
    OUT_ROW,
    PARENT,
    ROW,
    SIZE,
    VALUES,
    WEIGHTS,
    WIDTH,
    clip_range,
    emit,
    filter_candidates,
    find,
    gallop,
    is_excluded,
    position_of,
    probe,
    propose,
    range_of,
    set_filters,
    weight_at,
    width_of,
)
from cpu_fallback.runtime import cached_njit, load, pointer64, prefetch
from cpu_fallback.tries import ALONE, FRESH, PROBES, PROPOSALS, RANKED, SUM_OF_MINIMA, SURVIVORS

AHEAD = 8
"""Prefixes by which values are prefetched ahead; offsets are prefetched twice as far."""


@cached_njit
def prefetch_ahead(table, n_slots, positions, p):
    """Prefetch the memory of the ranges below a later prefix."""
    for k in range(n_slots):
        row, parents = table[k * N_FIELDS + ROW], table[k * N_FIELDS + PARENT]
        if parents == 0:
            continue
        if p + 2 * AHEAD < positions.shape[1] and positions[row, p + 2 * AHEAD] >= 0:
            prefetch(parents + 8 * positions[row, p + 2 * AHEAD])
        if p + AHEAD < positions.shape[1] and positions[row, p + AHEAD] >= 0:
            begin = pointer64(parents)[positions[row, p + AHEAD]]
            prefetch(table[k * N_FIELDS + VALUES] + table[k * N_FIELDS + WIDTH] * begin)


@cached_njit
def copy_ranges(table, n_slots, positions, end, resume, out, work):
    """Fill `out` as `extend` does, for one atom in sets without bounds or excluded values."""
    low, high, cursor = np.empty(n_slots, np.int64), np.empty(n_slots, np.int64), np.empty(n_slots, np.int64)
    capacity = out.shape[1]
    p, skip = resume[0], resume[2]
    n = work[SURVIVORS]
    while p < end:
        prefetch_ahead(table, n_slots, positions, p)
        width = 0
        n_ranges = 0
        only = 0
        for k in range(n_slots):
            if table[k * N_FIELDS + PARENT] == 0:
                low[k], high[k] = 0, table[k * N_FIELDS + SIZE]
            else:
                node = positions[table[k * N_FIELDS + ROW], p]
                low[k] = high[k] = 0
                if node >= 0:
                    offsets = pointer64(table[k * N_FIELDS + PARENT])
                    low[k], high[k] = offsets[node], offsets[node + 1]
            if low[k] < high[k]:
                width += high[k] - low[k]
                n_ranges += 1
                only = k
        if width > 0 and n == capacity:
            break
        if skip == 0:
            work[SUM_OF_MINIMA] += width
        if n_ranges == 1:
            begin = low[only] + skip
            taken = min(high[only] - begin, capacity - n)
            address, size = table[only * N_FIELDS + VALUES], table[only * N_FIELDS + WIDTH]
            for i in range(taken):
                out[0, n + i] = p
                out[1, n + i] = load(address, size, begin + i)
            for k in range(n_slots):
                row = table[k * N_FIELDS + OUT_ROW]
                if row >= 0:
                    for i in range(taken):
                        out[2 + row, n + i] = begin + i if k == only else -1
            work[PROPOSALS] += taken
            n += taken
            skip += taken
        else:
            before = 0
            for k in range(n_slots):
                for j in range(n_slots):
                    cursor[j] = low[j]
                begin = low[k] + min(max(skip - before, 0), high[k] - low[k])
                before += high[k] - low[k]
                for i in range(begin, high[k]):
                    if n == capacity:
                        break
                    value = load(table[k * N_FIELDS + VALUES], table[k * N_FIELDS + WIDTH], i)
                    skip += 1
                    work[PROPOSALS] += 1
                    is_first = True
                    for j in range(n_slots):
                        position = i if j == k else np.int64(-1)
                        if j != k and low[j] < high[j]:
                            work[PROBES] += 1
                            position = cursor[j] = gallop(table, j, cursor[j], high[j], value)
                            if (
                                position == high[j]
                                or load(table[j * N_FIELDS + VALUES], table[j * N_FIELDS + WIDTH], position) != value
                            ):
                                position = np.int64(-1)
                            if position >= 0 and j < k:
                                is_first = False
                                break
                        if table[j * N_FIELDS + OUT_ROW] >= 0:
                            out[2 + table[j * N_FIELDS + OUT_ROW], n] = position
                    if is_first:
                        out[0, n] = p
                        out[1, n] = value
                        n += 1
        if skip < width:
            break
        skip = 0
        p += 1
    resume[0], resume[1], resume[2] = p, ALONE if skip > 0 else FRESH, skip
    work[SURVIVORS] = n


@cached_njit
def count_ranges(table, n_slots, positions, end, lower, upper, excluded, resume, out, work):
    """Count as `extend` does, for the last level of one atom.

    A range counts by its width, without reading its values, or by its weights; excluded values that it contains are
    subtracted, each once.
    """
    hits = 0
    for p in range(resume[0], end):
        prefetch_ahead(table, n_slots, positions, p)
        n = 0
        for k in range(n_slots):
            if table[k * N_FIELDS + PARENT] == 0:
                low, high, start = np.int64(0), table[k * N_FIELDS + SIZE], np.int64(-1)
            else:
                low, high, start = range_of(table, k, positions[table[k * N_FIELDS + ROW], p])
            if len(lower) > 0:
                low, high = clip_range(table, k, low, high, lower[p], upper[p])
            if low >= high:
                continue
            weights = pointer64(table[k * N_FIELDS + WEIGHTS])
            if table[k * N_FIELDS + WEIGHTS] == 0:
                n += high - low
            else:
                for i in range(low, high):
                    n += weights[i]
                work[PROPOSALS] += high - low
            hits += high - low
            for e in range(excluded.shape[0]):
                value = excluded[e, p]
                is_new = True
                for before in range(e):
                    is_new = is_new and excluded[before, p] != value
                if is_new:
                    work[PROBES] += 1
                    if start >= 0:
                        work[RANKED] += 1
                        position = position_of(table, k, start, value)
                        position = position if low <= position < high else np.int64(-1)
                    else:
                        position = find(table, k, low, high, value)
                    if position >= 0:
                        n -= weight_at(table, k, position)
                        hits -= 1
        out[0, p] += n
    work[SURVIVORS] += hits
    resume[0], resume[1], resume[2] = end, FRESH, 0


# Extension of a single prefix: its smallest range proposes, the other ranges are searched.


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
