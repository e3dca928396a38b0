"""Fused count, propose and intersect: bind one more variable of many prefixes.

Prefixes are processed in groups that agree on the ranges of the *shared* atoms (those that do not contain the variable
bound last). If a group has enough work, the values common to its shared atoms are computed and marked once, and each
prefix tests the candidates of its other atoms against the marks. Otherwise each prefix takes its smallest range and
searches every candidate in the other ranges, by their ranks if they have them, or counts the common values of two
ranges; a single candidate is searched at once. Candidates of one slot ascend, so a search without ranks continues from
the previous position.
"""

from __future__ import annotations

import numpy as np

from cpu_fallback.extend_marked import SCAN_FACTOR, count_pairs, excluded_pairs, extend_marked, marks_for
from cpu_fallback.extend_one import (
    MAX_ATOMS,
    copy_ranges,
    count_ranges,
    extend_alone,
    extend_live,
    extend_singleton,
    find_live,
)
from cpu_fallback.lookup import locate, look_up
from cpu_fallback.ranges import (
    AHEAD,
    BLOCK,
    MAXIMUM,
    MINIMUM,
    N_FIELDS,
    OUT_ROW,
    PARENT,
    PLACES,
    ROW,
    SIZE,
    WEIGHTS,
    WORDS,
    clip_ranges,
    is_ranked,
    load_ranges,
    load_starts,
    prefetch_range,
    smallest_count,
    width_of,
)
from cpu_fallback.runtime import cached_njit, pointer64
from cpu_fallback.tries import ALONE, FRESH, GROUP, SCAN, SUM_OF_MINIMA, SURVIVORS

# Costs of ways to extend prefixes: marking values, counting pairs of ranges, searching.


MARK_FROM = 16
"""Values of a single prefix's range below which it is not marked but searched."""

GROUP_FROM = 8
"""Values of a range that a group shares below which it is not marked."""

SAMPLE = 8
"""Prefixes of a group whose counts are sampled to decide on marking."""

RANKED_PRICE = 5
"""Factor by which the gain has to be larger to mark a range that has ranks."""

PAIRED_FROM = 8
"""Values per excluded value from which on all values are counted and the excluded ones subtracted."""

MARK, TEST, COMPARE = 2, 1, 2
"""Nanoseconds, roughly, to mark a value, to test a value by marks, and to compare it with an excluded value."""

PAIR, SEEK, WORD = 20, 8, 4
"""Nanoseconds, roughly, to start a pair of ranges, to search an excluded value in one, and to count the common values
of two words of 64."""


@cached_njit
def marks_pay(table, n_atoms, first, low, high, starts, smallest, width):
    """Return whether marking the smallest range of a prefix pays.

    It pays if another range has no ranks and is not much longer.
    """
    if table[first[smallest] * N_FIELDS + PARENT] == 0:
        return False
    for a in range(n_atoms):
        if a != smallest and table[first[a] * N_FIELDS + PARENT] != 0:
            atom_width = width_of(first[a], first[a + 1], low, high)
            if atom_width <= SCAN_FACTOR * width and not is_ranked(first[a], first[a + 1], low, high, starts):
                return True
    return False


@cached_njit
def pairs_pay(table, n, begin, end, other_begin, other_end, low, high, starts, shared_width, expected, n_excluded):
    """Return whether n prefixes with shared ranges are counted by pairs of ranges, not by marks.

    Parameters
    ----------
    begin, end
        The slots of the atom whose ranges are shared, which are loaded.
    other_begin, other_end
        The slots of the other atom. Its ranges differ, so its levels with ranks are counted instead.
    expected
        The expected number of the prefixes' values, each of which marks would test.
    """
    n_shared = n_words = n_others = np.int64(0)
    for k in range(begin, end):
        n_shared += low[k] < high[k]
        if starts[k] >= 0:
            span = ((table[k * N_FIELDS + MAXIMUM] - table[k * N_FIELDS + MINIMUM]) >> 6) + 1
            n_words += min(high[k] - low[k], span)
    for k in range(other_begin, other_end):
        n_others += table[k * N_FIELDS + PLACES] != 0
    if n_words == 0 or n_others == 0:
        return False
    pair_cost = PAIR * n_shared * n_others + SEEK * n_excluded * (n_shared + n_others)
    paired = n * pair_cost + WORD * min(n * n_words * n_others, n_shared * expected)
    return paired < MARK * shared_width + (TEST + COMPARE * n_excluded) * expected


SCRATCH = 6
"""Integers of scratch memory per slot that `extend` needs."""


@cached_njit
def extend(
    n_slots, n_atoms, table_address, first_address, last_address, shared_address, positions_address, stride, end,
    bounded, lower_address, upper_address, n_excluded, excluded_address, weighted, weight_address,
    fill, resume_address, out_address, capacity, scratch_address, work_address,
):  # fmt: skip
    """Extend prefixes up to `end`: fill up to `capacity` rows, or count.

    `resume` is (prefix, mode, candidates done in it), with prefix == end once all is done. Row r, column p of a matrix
    is element ``r * stride + p``. `scratch` has room for `SCRATCH` integers per slot. See
    `gpu_wcoj.kernels.protocol.Kernels.fill_common`.
    """
    table = pointer64(table_address)
    first = pointer64(first_address)
    is_last = pointer64(last_address)
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
    matches = pointer64(scratch_address + 24 * n_slots)
    starts = pointer64(scratch_address + 32 * n_slots)
    masks = pointer64(scratch_address + 40 * n_slots)
    live = np.empty(n_atoms, np.int64)
    filters = np.empty(n_atoms, np.int64)
    for k in range(n_slots):
        matches[k] = starts[k] = -1
    pairs = not fill and n_atoms == 2 and is_last[0] != 0 and is_last[1] != 0
    member = np.zeros(n_atoms, np.bool_)
    is_proposer = np.zeros(n_atoms, np.bool_)
    all_top = True
    for a in range(n_atoms):
        if first[a] == first[a + 1]:  # an atom without batches has no values
            resume[0], resume[1], resume[2] = end, FRESH, 0
            return
        all_top = all_top and table[first[a] * N_FIELDS + PARENT] == 0
    base = np.int64(0)
    maximum = np.int64(0)
    any_values = False
    for k in range(n_slots):
        if (table[k * N_FIELDS + PARENT] != 0 or all_top) and table[k * N_FIELDS + SIZE] > 0:
            base = min(base, table[k * N_FIELDS + MINIMUM]) if any_values else table[k * N_FIELDS + MINIMUM]
            maximum = max(maximum, table[k * N_FIELDS + MAXIMUM]) if any_values else table[k * N_FIELDS + MAXIMUM]
            any_values = True
    span = np.uint64(maximum) - np.uint64(base)
    n_shared = 0
    n_deep = 0
    for a in range(n_atoms):
        top = table[first[a] * N_FIELDS + PARENT] == 0
        member[a] = (shared[a] != 0 and not top) or all_top
        n_shared += member[a]
        n_deep += not top
    pairs = pairs and n_deep == n_atoms
    if n_shared > 0:
        for a in range(n_atoms):
            member[a] = member[a] or table[first[a] * N_FIELDS + PARENT] == 0
    member_row = np.empty(n_slots, np.int64)
    for k in range(n_slots):
        member_row[k] = -1
    for a in range(n_atoms):
        if member[a]:
            for k in range(first[a], first[a + 1]):
                member_row[k] = table[k * N_FIELDS + ROW]
    bits = np.empty(0, np.uint32)
    hash_shift = 0
    hits_at = np.empty(2 * BLOCK, np.int64)
    common = np.empty(0, np.int64)
    common_weight = np.empty(0, np.int64)

    p = resume[0]
    forced = resume[1]
    skip = resume[2]
    while p < end:
        # Find the group of prefixes with the same ranges of the shared atoms, and decide whether marking pays.
        group_end = p + 1
        grouped = False
        minima = 0
        shared_width = -1
        if n_shared > 0 and (forced == FRESH or forced == GROUP + SCAN):
            equal = True
            while equal and group_end < end:
                for k in range(n_slots):
                    row = member_row[k]
                    if row >= 0 and positions[row * stride + group_end] != positions[row * stride + p]:
                        equal = False
                        break
                if equal:
                    group_end += 1
            load_ranges(table, positions, stride, p, 0, n_slots, low, high)
            load_starts(table, positions, stride, p, 0, n_slots, starts)
            price = 1
            for a in range(n_atoms):
                if member[a]:
                    atom_width = width_of(first[a], first[a + 1], low, high)
                    if shared_width < 0 or atom_width < shared_width:
                        shared_width = atom_width
                    if n_shared == 1 and n_atoms == 2 and is_ranked(first[a], first[a + 1], low, high, starts):
                        price = RANKED_PRICE
            if shared_width == 0:
                p = group_end
                continue
            grouped = forced == GROUP + SCAN
            expected = 0
            if not grouped and group_end - p > 1 and shared_width >= GROUP_FROM:
                # Estimate the sum of smallest counts from a sample of the group; if it favours marks, count further
                # prefixes until the decision is certain.
                step = max(1, (group_end - p) // SAMPLE)
                for q in range(p, group_end, step):
                    minima += step * smallest_count(
                        table, n_atoms, first, member, positions, stride, q, shared_width, low, high
                    )
                expected = minima
                if step > 1 and price * shared_width <= 2 * minima:
                    minima = 0
                    q = p
                    while q < group_end and price * shared_width > 2 * minima:
                        minima += smallest_count(
                            table, n_atoms, first, member, positions, stride, q, shared_width, low, high
                        )
                        q += 1
                grouped = price * shared_width <= 2 * minima
                if grouped and pairs and n_shared == 1:
                    a = 0 if member[0] else 1
                    grouped = not pairs_pay(
                        table, group_end - p, first[a], first[a + 1], first[1 - a], first[2 - a], low, high, starts,
                        shared_width, expected, n_excluded,
                    )  # fmt: skip
        if grouped:
            if len(common) < shared_width:
                common = np.empty(2 * shared_width, np.int64)
                common_weight = np.empty(2 * shared_width, np.int64)
            if len(bits) == 0 or hash_shift != 0:
                bits, hash_shift = marks_for(bits, hash_shift, span, shared_width, end - resume[0])
            full = extend_marked(
                n_slots, n_atoms, table, first, is_last, member, positions, stride, p, group_end, bounded, lower, upper,
                n_excluded, excluded, weighted, prefix_weight, fill, resume, skip, GROUP, shared_width, minima, out,
                capacity, low, high, starts, cursor, matches, common, common_weight, bits, base, hash_shift, hits_at,
                work,
            )  # fmt: skip
            if full:
                return
            p = group_end
        else:
            stop = group_end if forced == FRESH else p + 1
            for q in range(p, stop):
                load_ranges(table, positions, stride, q, 0, n_slots, low, high)
                if n_atoms > 1:
                    load_starts(table, positions, stride, q, 0, n_slots, starts)
                    if q + AHEAD < end:
                        for a in range(n_atoms):
                            prefetch_range(table, positions, stride, q + AHEAD, first[a])
                smallest = 0
                width = width_of(first[0], first[1], low, high)
                for a in range(1, n_atoms):
                    atom_width = width_of(first[a], first[a + 1], low, high)
                    if atom_width < width:
                        smallest, width = a, atom_width
                if width == 0:
                    continue
                if skip == 0 and forced == FRESH:
                    work[SUM_OF_MINIMA] += width
                marks = forced == SCAN
                if forced == FRESH and n_deep > 1 and width >= MARK_FROM:
                    marks = marks_pay(table, n_atoms, first, low, high, starts, smallest, width)
                if marks:
                    for a in range(n_atoms):
                        is_proposer[a] = a == smallest
                    if len(common) < width:
                        common = np.empty(2 * width, np.int64)
                        common_weight = np.empty(2 * width, np.int64)
                    if len(bits) == 0 or hash_shift != 0:
                        bits, hash_shift = marks_for(bits, hash_shift, span, width, end - resume[0])
                    full = extend_marked(
                        n_slots, n_atoms, table, first, is_last, is_proposer, positions, stride, q, q + 1, bounded,
                        lower, upper, n_excluded, excluded, weighted, prefix_weight, fill, resume, skip, 0, width, 0,
                        out, capacity, low, high, starts, cursor, matches, common, common_weight, bits, base,
                        hash_shift, hits_at, work,
                    )  # fmt: skip
                else:
                    if bounded:
                        clip_ranges(table, 0, n_slots, low, high, lower[q], upper[q])
                    is_single = width == 1 and skip == 0 and forced == FRESH
                    if pairs and not is_single and width >= PAIRED_FROM * n_excluded:
                        out[q] += count_pairs(table, first, low, high, starts, work)
                        if n_excluded > 0:
                            out[q] -= excluded_pairs(
                                table, first, low, high, starts, n_excluded, excluded, stride, q, work
                            )
                        continue
                    proposer = np.int64(-1)
                    if n_atoms <= MAX_ATOMS or is_single:
                        proposer = find_live(n_atoms, table, first, is_last, low, high, live)
                    if proposer >= 0 and is_single:
                        extend_singleton(
                            n_slots, n_atoms, table, first, live, proposer, stride, q, n_excluded, excluded, weighted,
                            prefix_weight, fill, out, capacity, low, high, starts, matches, work,
                        )  # fmt: skip
                        full = fill and work[SURVIVORS] == capacity
                        if full:
                            resume[0], resume[1], resume[2] = q, ALONE, 1
                    elif proposer >= 0:
                        full = extend_live(
                            n_slots, n_atoms, table, first, live, proposer, stride, q, n_excluded, excluded, weighted,
                            prefix_weight, fill, resume, skip, out, capacity, low, high, starts, cursor, matches,
                            masks, filters, hits_at.ctypes.data, work,
                        )  # fmt: skip
                    else:
                        full = extend_alone(
                            n_slots, n_atoms, table, first, is_last, stride, q, n_excluded, excluded, weighted,
                            prefix_weight, fill, resume, skip, out, capacity, low, high, starts, cursor, matches,
                            masks, filters, hits_at.ctypes.data, work,
                        )  # fmt: skip
                if full:
                    return
                skip = 0
            p = stop
        forced = FRESH
        skip = 0
    resume[0], resume[1], resume[2] = end, FRESH, 0


@cached_njit
def extend_arrays(
    extension, descents, columns, positions, end, lower, upper, excluded, weighted, weight_address, fill, resume, out,
    work,
):  # fmt: skip
    """Call `extend` for arrays and an extension of `CompiledKernels.prepare`.

    If `descents` is not empty, it is the table of `locate` for the levels above, and `positions` is filled first, from
    `columns`.
    """
    n_slots, n_atoms = extension[0], extension[1]
    is_located = len(descents) > 0
    if is_located:
        locate(descents, columns, positions)
    first = 2
    last_offset = first + n_atoms + 1
    shared = last_offset + n_atoms
    records = shared + n_atoms
    table = np.empty(n_slots * N_FIELDS, np.int64)
    for k in range(n_slots):
        fields = pointer64(extension[records + k])
        for f in range(N_FIELDS):
            table[k * N_FIELDS + f] = fields[f]
        if table[k * N_FIELDS + WORDS] == 0:  # another thread is publishing them
            table[k * N_FIELDS + PLACES] = 0
        table[k * N_FIELDS + ROW] = extension[records + n_slots + k]
        table[k * N_FIELDS + OUT_ROW] = extension[records + 2 * n_slots + k]
    if n_atoms == 1 and not is_located and (resume[1] == FRESH or resume[1] == ALONE):
        if len(lower) > 0 and lower.ctypes.data == upper.ctypes.data:
            look_up(
                table, n_slots, extension[last_offset] != 0, positions, end, lower, excluded, weighted,
                pointer64(weight_address), fill, resume, out, work,
            )  # fmt: skip
            return np.int64(0)
        if not fill and extension[last_offset] != 0:
            count_ranges(table, n_slots, positions, end, lower, upper, excluded, resume, out, work)
            return np.int64(0)
        plain = fill and not weighted and excluded.shape[0] == 0 and len(lower) == 0
        for k in range(n_slots):
            plain = plain and (extension[last_offset] == 0 or table[k * N_FIELDS + WEIGHTS] == 0)
        if plain:
            copy_ranges(table, n_slots, positions, end, resume, out, work)
            return np.int64(0)
    scratch = np.empty(SCRATCH * n_slots, np.int64)
    base = extension.ctypes.data
    extend(
        n_slots, n_atoms, table.ctypes.data, base + 8 * first, base + 8 * last_offset, base + 8 * shared,
        positions.ctypes.data, positions.shape[1], end, len(lower) > 0, lower.ctypes.data, upper.ctypes.data,
        excluded.shape[0], excluded.ctypes.data, weighted, weight_address,
        fill, resume.ctypes.data, out.ctypes.data, out.shape[1], scratch.ctypes.data, work.ctypes.data,
    )  # fmt: skip
    # The arrays made here must outlive the call, which sees only their addresses.
    return table[0] + scratch[0]
