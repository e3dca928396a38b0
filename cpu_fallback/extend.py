"""Fused count, propose and intersect: bind one more variable of many prefixes, in compiled loops.

Prefixes are walked in groups that agree on the ranges of the *shared* atoms (those that do not hold the variable
bound last). Where a group gives enough work, the values common to its shared atoms are found and marked once, and
each prefix tests the candidates of its own atoms against the marks; elsewhere each prefix takes its smallest range
and seeks every candidate in the others. Candidates of one slot ascend, so a seek gallops on from the last one.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from cpu_fallback.marks import clear_marks, is_marked, set_marks
from cpu_fallback.pointers import load, pointer64
from cpu_fallback.slots import (
    BUCKETS,
    MAXIMUM,
    MINIMUM,
    OUT_ROW,
    PARENT,
    ROW,
    VALUES,
    WEIGHTS,
    WIDTH,
    N_FIELDS,
    clip_ranges,
    find,
    gallop,
    load_ranges,
    weight_at,
)

SUM_OF_MINIMA, PROPOSALS, PROBES, MARKS, SURVIVORS, N_WORK = range(6)
"""What `work` counts: smallest counts summed over prefixes, candidates looked at, searches and mark tests, values
marked, and candidates that survived."""

FRESH, ALONE, SCAN, LIST = range(4)
"""How a prefix is extended; stored in `resume` so that a piece that was cut goes on in the same order."""

SCAN_FACTOR = 16
"""A range up to this many times longer than the marked list is scanned: it costs one load a candidate, a seek about
two loads for every doubling of the distance, and those are out of order."""

BLOCK = 512
"""Candidates tested against the marks at a time before the survivors are looked at."""

HASHED_SPAN = 1 << 26
"""Values that span more than this are marked by hash."""


@njit(nogil=True, cache=True)
def probe(table, begin, end, is_last, cursor, high, value, found, work):  # type: ignore[no-untyped-def]  # compiled
    """Seek `value` in slots begin to end of one atom: (whether it holds it, its weight if this is its last level)."""
    hit = False
    weight = 0
    for k in range(begin, end):
        found[k] = -1
        if cursor[k] < high[k]:
            work[PROBES] += 1
            if table[k * N_FIELDS + BUCKETS] != 0:
                position = find(table, k, cursor[k], high[k], value)
            else:
                position = gallop(table, k, cursor[k], high[k], value)
                cursor[k] = position
                if position >= high[k] or load(table[k * N_FIELDS + VALUES], table[k * N_FIELDS + WIDTH], position) != value:
                    position = -1
            if position >= 0:
                found[k] = position
                hit = True
                if is_last:
                    weight += weight_at(table, k, position)
    if is_last:
        return hit and weight != 0, weight
    return hit, 1


@njit(nogil=True, cache=True)
def propose(table, begin, k, end, is_last, position, cursor, high, value, found, work):  # type: ignore[no-untyped-def]  # compiled
    """Whether slot k of an atom (begin to end) is the first to hold its value, and the atom's weight there."""
    for j in range(begin, k):
        found[j] = -1
    if k > begin:
        earlier, _ = probe(table, begin, k, False, cursor, high, value, found, work)
        if earlier:
            return False, 0
    found[k] = position
    if not is_last:
        if k + 1 < end:
            probe(table, k + 1, end, False, cursor, high, value, found, work)
        return True, 1
    weight = weight_at(table, k, position)
    if k + 1 < end:
        _, later = probe(table, k + 1, end, True, cursor, high, value, found, work)
        weight += later
    return weight != 0, weight


@njit(nogil=True, cache=True)
def width_of(begin, end, low, high):  # type: ignore[no-untyped-def]  # compiled
    """Sum of the ranges' widths of one atom."""
    total = 0
    for k in range(begin, end):
        total += high[k] - low[k]
    return total


@njit(nogil=True, cache=True)
def is_excluded(excluded, n_excluded, stride, p, value):  # type: ignore[no-untyped-def]  # compiled
    """Whether a ``!=`` forbids the value for prefix `p`."""
    for e in range(n_excluded):
        if excluded[e * stride + p] == value:
            return True
    return False


@njit(nogil=True, cache=True)
def emit(table, n_slots, p, value, weight, found, prefix_weight, weighted, fill, out, capacity, work):  # type: ignore[no-untyped-def]  # compiled
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
                out[base + target * capacity] = found[k]
    else:
        out[p] += weight
    work[SURVIVORS] += 1


@njit(nogil=True, cache=True)
def intersect_shared(
    table, n_slots, n_atoms, first, last, member, low, high, cursor, found, values, weights, work
):  # type: ignore[no-untyped-def]  # compiled
    """Values common to the atoms of `member`, ascending, with the product of the weights of those that end here.

    Returns their number and whether all weights are 1. `values` and `weights` are as long as the smallest range.
    """
    smallest = -1
    width = 0
    for a in range(n_atoms):
        if member[a]:
            own = width_of(first[a], first[a + 1], low, high)
            if smallest < 0 or own < width:
                smallest, width = a, own
    count = 0
    runs = 0
    ones = True
    for k in range(first[smallest], first[smallest + 1]):
        if low[k] >= high[k]:
            continue
        for j in range(n_slots):
            cursor[j] = low[j]
        before = count
        for i in range(low[k], high[k]):
            value = load(table[k * N_FIELDS + VALUES], table[k * N_FIELDS + WIDTH], i)
            work[MARKS] += 1
            good, weight = propose(
                table, first[smallest], k, first[smallest + 1], last[smallest] != 0, i, cursor, high, value, found, work
            )
            if not good:
                continue
            for a in range(n_atoms):
                if member[a] and a != smallest:
                    good, factor = probe(table, first[a], first[a + 1], last[a] != 0, cursor, high, value, found, work)
                    if not good:
                        break
                    weight *= factor
            if good:
                values[count] = value
                weights[count] = weight
                ones = ones and weight == 1
                count += 1
        if count > before:
            runs += 1
            if runs > 1:
                merge_tail(values, weights, before, count)
    return count, ones


@njit(nogil=True, cache=True)
def merge_tail(values, weights, middle, end):  # type: ignore[no-untyped-def]  # compiled
    """Merge the ascending runs [0, middle) and [middle, end) in place, with their weights."""
    tail_values = values[middle:end].copy()
    tail_weights = weights[middle:end].copy()
    left = middle - 1
    right = end - middle - 1
    at = end - 1
    while right >= 0:
        if left >= 0 and values[left] > tail_values[right]:
            values[at] = values[left]
            weights[at] = weights[left]
            left -= 1
        else:
            values[at] = tail_values[right]
            weights[at] = tail_weights[right]
            right -= 1
        at -= 1


@njit(nogil=True, cache=True)
def bound(values, begin, end, value, inclusive):  # type: ignore[no-untyped-def]  # compiled
    """First position in [begin, end) whose value is not below `value` (above it, if `inclusive`)."""
    while begin < end:
        middle = (begin + end) >> 1
        if values[middle] < value or (inclusive and values[middle] == value):
            begin = middle + 1
        else:
            end = middle
    return begin


@njit(nogil=True, cache=True)
def count_marked(table, k, low, high, bits, base, hash_shift):  # type: ignore[no-untyped-def]  # compiled
    """How many values of [low, high) in slot k are marked, with exact marks."""
    address, width = table[k * N_FIELDS + VALUES], table[k * N_FIELDS + WIDTH]
    total = 0
    for i in range(low, high):
        distance = load(address, width, i) - base
        total += np.int64((bits[distance >> 5] >> np.uint32(distance & 31)) & np.uint32(1))
    return total


@njit(nogil=True, cache=True)
def marked_positions(table, k, low, high, bits, base, hash_shift, out):  # type: ignore[no-untyped-def]  # compiled
    """Write the positions in [low, high) of slot k whose values are marked; returns how many."""
    address, width = table[k * N_FIELDS + VALUES], table[k * N_FIELDS + WIDTH]
    n = 0
    if hash_shift == 0:
        for i in range(low, high):
            distance = load(address, width, i) - base
            out[n] = i
            n += np.int64((bits[distance >> 5] >> np.uint32(distance & 31)) & np.uint32(1))
    else:
        for i in range(low, high):
            out[n] = i
            n += np.int64(is_marked(bits, load(address, width, i), base, hash_shift))
    return n


@njit(nogil=True, cache=True)
def extend(  # type: ignore[no-untyped-def]  # compiled
    n_slots, n_atoms, table_address, first_address, last_address, shared_address, positions_address, stride, end,
    bounded, lower_address, upper_address, n_excluded, excluded_address, weighted, weight_address,
    fill, resume_address, out_address, capacity, scratch_address, work_address,
):  # fmt: skip
    """Extend prefixes up to `end`; fill until `capacity` rows are written (`resume` says where to go on) or count.

    `resume` is (prefix, mode, candidates done in it); on return, prefix == end if all is done. Row r, column p of a
    matrix is element ``r * stride + p``. `scratch` has room for four numbers a slot. See
    `gpu_wcoj.kernels.protocol.Kernels.fill_common`.
    """
    table = pointer64(table_address)
    first = pointer64(first_address)
    last = pointer64(last_address)
    shared = pointer64(shared_address)
    positions = pointer64(positions_address)
    lower = pointer64(lower_address)
    upper = pointer64(upper_address)
    excluded = pointer64(excluded_address)
    prefix_weight = pointer64(weight_address)
    resume = pointer64(resume_address)
    out = pointer64(out_address)
    work = pointer64(work_address)
    low = pointer64(scratch_address)
    high = pointer64(scratch_address + 8 * n_slots)
    cursor = pointer64(scratch_address + 16 * n_slots)
    found = pointer64(scratch_address + 24 * n_slots)
    for k in range(n_slots):
        found[k] = -1
    top = np.empty(n_atoms, np.bool_)
    all_top = True
    base = np.int64(0)
    maximum = np.int64(0)
    any_values = False
    for a in range(n_atoms):
        top[a] = table[first[a] * N_FIELDS + PARENT] == 0
        all_top = all_top and top[a]
    for k in range(n_slots):
        if table[k * N_FIELDS + PARENT] == 0 and not all_top:
            continue
        base = min(base, table[k * N_FIELDS + MINIMUM]) if any_values else table[k * N_FIELDS + MINIMUM]
        maximum = max(maximum, table[k * N_FIELDS + MAXIMUM]) if any_values else table[k * N_FIELDS + MAXIMUM]
        any_values = True
    span = np.uint64(maximum) - np.uint64(base)
    member = np.zeros(n_atoms, np.bool_)
    n_shared = 0
    n_own = 0
    for a in range(n_atoms):
        member[a] = (shared[a] != 0 and not top[a]) or all_top
        if member[a]:
            n_shared += 1
    if n_shared > 0:
        for a in range(n_atoms):
            member[a] = member[a] or top[a]
    member_row = np.full(n_slots, -1, np.int64)
    for a in range(n_atoms):
        if member[a]:
            for k in range(first[a], first[a + 1]):
                member_row[k] = table[k * N_FIELDS + ROW]
        else:
            n_own += 1
    bits = np.empty(0, np.uint32)
    hash_shift = 0
    hits_at = np.empty(BLOCK, np.int64)
    common = np.empty(0, np.int64)
    common_weight = np.empty(0, np.int64)
    probed = n_own > 1
    for a in range(n_atoms):
        probed = probed or (fill and member[a] and last[a] == 0)

    p = resume[0]
    forced = resume[1]
    skip = resume[2]
    while p < end:
        # A group of prefixes with the same ranges of the shared atoms, and whether marking them pays.
        group_end = p + 1
        grouped = forced >= SCAN
        if n_shared > 0 and forced != ALONE:
            equal = True
            while equal and group_end < end:
                for k in range(n_slots):
                    row = member_row[k]
                    if row >= 0 and positions[row * stride + group_end] != positions[row * stride + p]:
                        equal = False
                        break
                if equal:
                    group_end += 1
            shared_width = -1
            load_ranges(table, positions, stride, p, 0, n_slots, low, high)
            for a in range(n_atoms):
                if member[a]:
                    own = width_of(first[a], first[a + 1], low, high)
                    if shared_width < 0 or own < shared_width:
                        shared_width = own
            minima = 0
            if n_own == 0:
                minima = (group_end - p) * shared_width
            elif shared_width > 0:
                for q in range(p, group_end):
                    smallest = shared_width
                    for a in range(n_atoms):
                        if not member[a]:
                            load_ranges(table, positions, stride, q, first[a], first[a + 1], low, high)
                            smallest = min(smallest, width_of(first[a], first[a + 1], low, high))
                    minima += smallest
            if shared_width == 0:
                work[SUM_OF_MINIMA] += 0
                p = group_end
                forced = FRESH
                skip = 0
                continue
            grouped = grouped or (group_end - p > 1 and shared_width <= 2 * minima)
            if grouped:
                if forced < SCAN:
                    work[SUM_OF_MINIMA] += minima
                if len(common) < shared_width:
                    common = np.empty(2 * shared_width, np.int64)
                    common_weight = np.empty(2 * shared_width, np.int64)

        if not grouped:
            stop = p + 1 if forced == ALONE else group_end
            for q in range(p, stop):
                load_ranges(table, positions, stride, q, 0, n_slots, low, high)
                if bounded:
                    clip_ranges(table, 0, n_slots, low, high, lower[q], upper[q])
                proposer = 0
                width = width_of(first[0], first[1], low, high)
                for a in range(1, n_atoms):
                    own = width_of(first[a], first[a + 1], low, high)
                    if own < width:
                        proposer, width = a, own
                if width == 0:
                    continue
                if skip == 0:
                    work[SUM_OF_MINIMA] += width
                done = 0
                for k in range(first[proposer], first[proposer + 1]):
                    start = low[k] + min(max(skip - done, 0), high[k] - low[k])
                    done += start - low[k]
                    if start >= high[k]:
                        continue
                    for j in range(n_slots):
                        cursor[j] = low[j]
                    for i in range(start, high[k]):
                        done += 1
                        value = load(table[k * N_FIELDS + VALUES], table[k * N_FIELDS + WIDTH], i)
                        work[PROPOSALS] += 1
                        if is_excluded(excluded, n_excluded, stride, q, value):
                            continue
                        good, weight = propose(
                            table, first[proposer], k, first[proposer + 1], last[proposer] != 0, i,
                            cursor, high, value, found, work,
                        )  # fmt: skip
                        if not good:
                            continue
                        for a in range(n_atoms):
                            if a != proposer:
                                good, factor = probe(
                                    table, first[a], first[a + 1], last[a] != 0, cursor, high, value, found, work
                                )
                                if not good:
                                    break
                                weight *= factor
                        if not good:
                            continue
                        emit(
                            table, n_slots, q, value, weight, found, prefix_weight, weighted, fill, out, capacity, work
                        )
                        if fill and work[SURVIVORS] == capacity:
                            resume[0], resume[1], resume[2] = q, ALONE, done
                            return
                skip = 0
            p = stop
            forced = FRESH
            skip = 0
            continue

        load_ranges(table, positions, stride, p, 0, n_slots, low, high)
        n_common, ones = intersect_shared(
            table, n_slots, n_atoms, first, last, member, low, high, cursor, found, common, common_weight, work
        )
        marked = n_common > 0 and n_own > 0
        if marked:
            if len(bits) == 0:
                if span < np.uint64(HASHED_SPAN) and np.int64(span >> np.uint64(5)) <= 16 * minima + 65536:
                    bits = np.zeros(np.int64(span >> np.uint64(5)) + 1, np.uint32)
                else:
                    hash_shift = 64 - 16
                    bits = np.zeros(1 << 11, np.uint32)
            if hash_shift != 0 and (len(bits) << 5) < 8 * n_common:
                while (np.int64(1) << (64 - hash_shift)) < 8 * n_common:
                    hash_shift -= 1
                bits = np.zeros(1 << (64 - hash_shift - 5), np.uint32)
            set_marks(bits, common, n_common, base, hash_shift)
        for q in range(p, group_end):
            if n_common == 0:
                break
            load_ranges(table, positions, stride, q, 0, n_slots, low, high)
            least = 0
            most = n_common
            if bounded:
                for a in range(n_atoms):
                    if not member[a]:
                        clip_ranges(table, first[a], first[a + 1], low, high, lower[q], upper[q])
                least = bound(common, 0, n_common, lower[q], False)
                most = bound(common, 0, n_common, upper[q], True)
                work[PROBES] += 2
            if least >= most:
                skip = 0
                forced = FRESH
                continue
            proposer = -1
            width = 0
            for a in range(n_atoms):
                if not member[a]:
                    own = width_of(first[a], first[a + 1], low, high)
                    if proposer < 0 or own < width:
                        proposer, width = a, own
            if n_own == 0 and not fill and n_excluded == 0:
                if ones:
                    out[q] += most - least
                else:
                    for i in range(least, most):
                        out[q] += common_weight[i]
                    work[PROPOSALS] += most - least
                work[SURVIVORS] += most - least
                continue
            done = 0
            if proposer >= 0 and width <= SCAN_FACTOR * (most - least):
                for k in range(first[proposer], first[proposer + 1]):
                    if low[k] >= high[k]:
                        continue
                    alone = width == high[k] - low[k]
                    if (
                        not fill and alone and n_own == 1 and ones and hash_shift == 0
                        and n_excluded == 0 and table[k * N_FIELDS + WEIGHTS] == 0
                    ):  # fmt: skip
                        hits = count_marked(table, k, low[k], high[k], bits, base, hash_shift)
                        out[q] += hits
                        work[SURVIVORS] += hits
                        work[PROPOSALS] += width
                        work[PROBES] += width
                        continue
                    start = low[k] + min(max(skip - done, 0), high[k] - low[k])
                    done += start - low[k]
                    for j in range(n_slots):
                        cursor[j] = low[j]
                    at = least
                    unit = alone and (last[proposer] == 0 or table[k * N_FIELDS + WEIGHTS] == 0)
                    block = start
                    while block < high[k]:
                        block_end = min(block + len(hits_at), high[k])
                        n_hits = marked_positions(table, k, block, block_end, bits, base, hash_shift, hits_at)
                        work[PROPOSALS] += block_end - block
                        work[PROBES] += block_end - block
                        for h in range(n_hits):
                            i = hits_at[h]
                            value = load(table[k * N_FIELDS + VALUES], table[k * N_FIELDS + WIDTH], i)
                            if is_excluded(excluded, n_excluded, stride, q, value):
                                continue
                            weight = 1
                            if hash_shift != 0 or not ones:
                                at = bound(common, at, most, value, False)
                                if at >= most or common[at] != value:
                                    continue
                                weight = common_weight[at]
                            if unit:
                                found[k] = i
                            else:
                                good, factor = propose(
                                    table, first[proposer], k, first[proposer + 1], last[proposer] != 0, i,
                                    cursor, high, value, found, work,
                                )  # fmt: skip
                                if not good:
                                    continue
                                weight *= factor
                            if probed:
                                good = True
                                for a in range(n_atoms):
                                    if a != proposer and (not member[a] or (fill and last[a] == 0)):
                                        good, factor = probe(
                                            table, first[a], first[a + 1], last[a] != 0, cursor, high, value, found, work
                                        )
                                        if not good:
                                            break
                                        weight *= factor
                                if not good:
                                    continue
                            emit(
                            table, n_slots, q, value, weight, found, prefix_weight, weighted, fill, out, capacity, work
                        )
                            if fill and work[SURVIVORS] == capacity:
                                work[PROPOSALS] -= block_end - i - 1
                                work[PROBES] -= block_end - i - 1
                                resume[0], resume[1], resume[2] = q, SCAN, done + i + 1 - start
                                return
                        block = block_end
                    done += high[k] - start
            else:
                for j in range(n_slots):
                    cursor[j] = low[j]
                for i in range(least + skip, most):
                    done = i + 1 - least
                    value = common[i]
                    weight = common_weight[i]
                    work[PROPOSALS] += 1
                    if is_excluded(excluded, n_excluded, stride, q, value):
                        continue
                    good = True
                    for a in range(n_atoms):
                        if member[a] and (last[a] != 0 or not fill):
                            continue
                        good, factor = probe(table, first[a], first[a + 1], last[a] != 0, cursor, high, value, found, work)
                        if not good:
                            break
                        weight *= factor
                    if not good:
                        continue
                    emit(
                            table, n_slots, q, value, weight, found, prefix_weight, weighted, fill, out, capacity, work
                        )
                    if fill and work[SURVIVORS] == capacity:
                        resume[0], resume[1], resume[2] = q, LIST, done
                        return
            skip = 0
            forced = FRESH
        if marked:
            clear_marks(bits, common, n_common, base, hash_shift)
        p = group_end
        forced = FRESH
        skip = 0
    resume[0], resume[1], resume[2] = end, FRESH, 0


@njit(nogil=True, cache=True)
def extend_arrays(  # type: ignore[no-untyped-def]  # compiled
    extension, positions, end, lower, upper, excluded, weighted, prefix_weight, fill, resume, out, work
):
    """Call `extend` for arrays and what `cpu_fallback.compiled.CompiledKernels.prepare` made."""
    n_slots, n_atoms = extension[0], extension[1]
    first = 2
    last = first + n_atoms + 1
    shared = last + n_atoms
    records = shared + n_atoms
    table = np.empty(n_slots * N_FIELDS, np.int64)
    for k in range(n_slots):
        fields = pointer64(extension[records + k])
        for f in range(N_FIELDS):
            table[k * N_FIELDS + f] = fields[f]
        table[k * N_FIELDS + ROW] = extension[records + n_slots + k]
        table[k * N_FIELDS + OUT_ROW] = extension[records + 2 * n_slots + k]
    scratch = np.empty(4 * n_slots, np.int64)
    base = extension.ctypes.data
    extend(
        n_slots, n_atoms, table.ctypes.data, base + 8 * first, base + 8 * last, base + 8 * shared,
        positions.ctypes.data, positions.shape[1], end, len(lower) > 0, lower.ctypes.data, upper.ctypes.data,
        excluded.shape[0], excluded.ctypes.data, weighted, prefix_weight.ctypes.data,
        fill, resume.ctypes.data, out.ctypes.data, out.shape[1], scratch.ctypes.data, work.ctypes.data,
    )  # fmt: skip
    # The arrays made here must outlive the call, which sees only their addresses.
    return table[0] + scratch[0]
