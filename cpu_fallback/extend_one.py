"""Extension of a prefix whose smallest range is in one batch and has no weights.

Most prefixes are like this, also in relations with several batches: only one batch holds children of the prefix. Then
no ranges have to be combined, and the fields of the batches stay in registers.
"""

from __future__ import annotations

import numpy as np

from cpu_fallback.filters import BLOCK, MIN_FILTERED, filter_candidates, set_filters
from cpu_fallback.pointers import load, pointer64
from cpu_fallback.probing import is_excluded, probe
from cpu_fallback.progress import ALONE, PROBES, PROPOSALS, RANKED, SURVIVORS
from cpu_fallback.ranked import position_of
from cpu_fallback.runtime import cached_njit
from cpu_fallback.slots import BUCKETS, MAXIMUM, MINIMUM, N_FIELDS, OUT_ROW, SHIFT, VALUES, WEIGHTS, WIDTH

MAX_ATOMS = 3
"""Atoms of a prefix above which `cpu_fallback.alone.extend_alone` extends it."""


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
