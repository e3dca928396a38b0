"""Extension of a prefix whose smallest range is in one batch and has no weights.

Most prefixes are like this, also in relations with several batches: only one batch holds children of the prefix. Then
no ranges have to be combined, and the fields of the batches stay in registers. Without this way, ticks of five-edge
paths take 1.15 times as long (workload ``path5`` of ``make bench-suite``).
"""

from __future__ import annotations

import numpy as np

from cpu_fallback.ranges import (
    BLOCK,
    BUCKETS,
    MAXIMUM,
    MIN_FILTERED,
    MINIMUM,
    N_FIELDS,
    OUT_ROW,
    PARENT,
    ROW,
    SHIFT,
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

MAX_ATOMS = 3
"""Atoms of a prefix above which `extend_alone` extends it."""


@cached_njit
def find_live(n_atoms, table, first, is_last, low, high, live):
    """Return the atom with the smallest range if `extend_live` can extend the prefix, else -1.

    It is also -1 if a range is empty. Writes to `live`, per atom, the only slot with a non-empty range, or -1 if there
    are several.
    """
    proposer = np.int64(-1)
    min_width = np.int64(0)
    for a in range(n_atoms):
        width = np.int64(0)
        n_live = 0
        for k in range(first[a], first[a + 1]):
            if low[k] < high[k]:
                width += high[k] - low[k]
                n_live += 1
                live[a] = k
                if is_last[a] != 0 and (n_live > 1 or table[k * N_FIELDS + WEIGHTS] != 0):
                    return np.int64(-1)
        if n_live != 1:
            live[a] = -1
        if proposer < 0 or width < min_width:
            proposer, min_width = np.int64(a), width
    return proposer if live[proposer] >= 0 else np.int64(-1)


@cached_njit
def seek(address, width, bucketed, minimum, maximum, shift, begin, end, value):
    """Return the first position in [begin, end) whose value is not below `value`.

    The range is not empty. A top level is searched within its bucket.
    """
    if bucketed != 0:
        if value < minimum:
            return begin
        if value > maximum:
            return end
        bucket = np.int64((np.uint64(value) - np.uint64(minimum)) >> np.uint64(shift))
        starts = pointer64(bucketed)
        low, high = max(begin, starts[bucket]), min(end, starts[bucket + 1])
    else:
        if load(address, width, begin) >= value:
            return begin
        low, step = begin, np.int64(1)
        while low + step < end and load(address, width, low + step) < value:
            low += step
            step <<= np.int64(1)
        high = min(end, low + step)
        low += 1
    while low < high:
        middle = (low + high) >> 1
        if load(address, width, middle) < value:
            low = middle + 1
        else:
            high = middle
    return low


@cached_njit
def extend_live(
    n_slots, n_atoms, table, first, live, proposer, stride, q, n_excluded, excluded, weighted, prefix_weight, fill,
    resume, skip, out, capacity, low, high, starts, cursor, matches, masks, filters, room, work,
):  # fmt: skip
    """Extend prefix `q`, whose ranges are not empty, as `extend_alone` does.

    Returns whether the output is full.
    """
    k = live[proposer]
    second, third = 0 if proposer != 0 else 1, 2 if proposer != 2 else 1
    slot1 = live[second] if n_atoms > 1 else k
    slot2 = live[third] if n_atoms > 2 else k
    for j in range(n_slots):
        matches[j] = -1
        cursor[j] = low[j]
    address, width, stop = table[k * N_FIELDS + VALUES], table[k * N_FIELDS + WIDTH], high[k]
    at1 = end1 = at2 = end2 = np.int64(0)
    start1 = start2 = np.int64(-1)
    fields = N_FIELDS * max(slot1, 0)
    address1, width1, buckets1 = table[fields + VALUES], table[fields + WIDTH], table[fields + BUCKETS]
    minimum1, maximum1, shift1 = table[fields + MINIMUM], table[fields + MAXIMUM], table[fields + SHIFT]
    if slot1 >= 0:
        at1, end1, start1 = low[slot1], high[slot1], starts[slot1]
    fields = N_FIELDS * max(slot2, 0)
    address2, width2, buckets2 = table[fields + VALUES], table[fields + WIDTH], table[fields + BUCKETS]
    minimum2, maximum2, shift2 = table[fields + MINIMUM], table[fields + MAXIMUM], table[fields + SHIFT]
    if slot2 >= 0:
        at2, end2, start2 = low[slot2], high[slot2], starts[slot2]
    base = 2 * capacity + (capacity if weighted else 0)
    row = row1 = row2 = np.int64(-1)
    n_rows = 0
    if fill:
        for j in range(n_slots):
            target = table[j * N_FIELDS + OUT_ROW]
            if target >= 0:
                n_rows += 1
                if j == k:
                    row = base + target * capacity
                elif j == slot1:
                    row1 = base + target * capacity
                elif j == slot2:
                    row2 = base + target * capacity
        n_rows -= (row >= 0) + (row1 >= 0) + (row2 >= 0)
    n = work[SURVIVORS]
    begin = min(low[k] + skip, stop)
    probes = ranked = 0
    is_filtered = False
    if stop - begin >= MIN_FILTERED and n_atoms > 1:
        is_filtered = set_filters(table, n_atoms, first, proposer, low, high, starts, masks, filters)
    places = pointer64(room)
    position = block_end = begin
    n_places = taken = 0
    while True:
        if not is_filtered:
            if position == stop:
                break
            position += 1
        elif taken < n_places:
            position = places[taken] + 1
            taken += 1
        elif block_end < stop:
            block = block_end
            block_end = min(block + BLOCK, stop)
            n_places = filter_candidates(
                table, n_atoms, first, low, high, starts, masks, filters, address, width, block, block_end, room
            )
            taken = 0
            ranked += block_end - block
            continue
        else:
            position = stop
            break
        value = load(address, width, position - 1)
        if n_excluded > 0 and is_excluded(excluded, n_excluded, stride, q, value):
            continue
        if n_atoms > 1:
            if slot1 < 0:
                from1, to1 = first[second], first[second + 1]
                if not probe(table, from1, to1, False, cursor, high, starts, value, matches, work)[0]:
                    continue
            elif start1 >= 0:
                ranked += 1
                at1 = position_of(table, slot1, start1, value)
                if at1 < 0:
                    continue
            else:
                if at1 == end1:
                    continue
                probes += 1
                at1 = seek(address1, width1, buckets1, minimum1, maximum1, shift1, at1, end1, value)
                if at1 == end1 or load(address1, width1, at1) != value:
                    continue
        if n_atoms > 2:
            if slot2 < 0:
                if not probe(table, first[third], first[third + 1], False, cursor, high, starts, value, matches, work)[
                    0
                ]:
                    continue
            elif start2 >= 0:
                ranked += 1
                at2 = position_of(table, slot2, start2, value)
                if at2 < 0:
                    continue
            else:
                if at2 == end2:
                    continue
                probes += 1
                at2 = seek(address2, width2, buckets2, minimum2, maximum2, shift2, at2, end2, value)
                if at2 == end2 or load(address2, width2, at2) != value:
                    continue
        if not fill:
            n += 1
            continue
        out[n] = q
        out[capacity + n] = value
        if weighted:
            out[2 * capacity + n] = prefix_weight[q]
        if row >= 0:
            out[row + n] = position - 1
        if row1 >= 0:
            out[row1 + n] = at1
        if row2 >= 0:
            out[row2 + n] = at2
        if n_rows > 0:
            for j in range(n_slots):
                target = table[j * N_FIELDS + OUT_ROW]
                if target >= 0 and j != k and j != slot1 and j != slot2:
                    out[base + target * capacity + n] = matches[j]
        n += 1
        if n == capacity:
            break
    work[PROPOSALS] += position - begin
    work[PROBES] += probes + ranked
    work[RANKED] += ranked
    if not fill:
        out[q] += n - work[SURVIVORS]
    work[SURVIVORS] = n
    if fill and n == capacity:
        resume[0], resume[1], resume[2] = q, ALONE, position - low[k]
        return True
    return False


# Extension through a single atom: ranges are copied, if there are no weights, or measured.


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


# Extension of a prefix whose smallest range is a single value, as along a foreign key.


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
