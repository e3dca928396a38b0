"""Extension of a group of prefixes through the common values of their shared atoms.

The common values are computed and marked once. Each prefix tests the candidates of its other atoms against the marks if
their range is short, and searches the marked values in it if it is long.
"""

from __future__ import annotations

from cpu_fallback.filters import BLOCK
from cpu_fallback.lists import seek_all, seek_ranked
from cpu_fallback.marks import clear_marks, set_marks
from cpu_fallback.pointers import load
from cpu_fallback.probing import emit, is_excluded, probe, propose
from cpu_fallback.progress import GROUP, PROBES, PROPOSALS, RANKED, SCAN, SUM_OF_MINIMA, SURVIVORS
from cpu_fallback.ranges import AHEAD, clip_ranges, load_ranges, prefetch_range, width_of
from cpu_fallback.ranked import load_starts
from cpu_fallback.runtime import cached_njit
from cpu_fallback.scanning import SCAN_FACTOR, count_marked, count_marked_within, marked_positions, weigh_marked
from cpu_fallback.shared import bound, intersect_shared
from cpu_fallback.slots import N_FIELDS, PARENT, VALUES, WEIGHTS, WIDTH

CLIP_FROM = 512
"""Values of a range above which it is narrowed to the bounds by binary search before the scan; in shorter ranges each
value is compared."""

RANK_GAIN = 2
"""Ratio of a range with ranks to the list above which the list is searched in it, and the range is not scanned."""


@cached_njit
def extend_marked(
    n_slots, n_atoms, table, first, is_last, member, positions, stride, p, group_end, bounded, lower, upper,
    n_excluded, excluded, weighted, prefix_weight, fill, resume, skip, mode, marked_width, minima, out, capacity,
    low, high, starts, cursor, matches, common, common_weight, bits, base, hash_shift, hits_at, work,
):  # fmt: skip
    """Extend prefixes that share the ranges of the `member` atoms, by marking common values.

    Marks span the values below bound variables; top levels are only searched, never scanned.

    `skip` candidates of the first prefix are done. `mode` is added to the mode in `resume`. `marked_width` is the
    smallest count of the member atoms, `minima` the known part of the sum of smallest counts. Returns whether the
    output is full; marks are cleared either way.
    """
    n_own = 0
    probed = False
    for a in range(n_atoms):
        if not member[a]:
            n_own += 1
        probed = probed or (fill and member[a] and is_last[a] == 0)
    probed = probed or n_own > 1
    load_ranges(table, positions, stride, p, 0, n_slots, low, high)
    load_starts(table, positions, stride, p, 0, n_slots, starts)
    n_common, ones = intersect_shared(
        table, n_slots, n_atoms, first, is_last, member, low, high, starts, cursor, matches, common, common_weight, work
    )
    if n_common == 0:
        work[SUM_OF_MINIMA] += minima
        return False
    if n_own > 0:
        set_marks(bits, common, n_common, base, hash_shift)
    full = False
    for q in range(p, group_end):
        low_common = 0
        high_common = n_common
        if bounded:
            low_common = bound(common, 0, n_common, lower[q], False)
            high_common = bound(common, low_common, n_common, upper[q], True)
            work[PROBES] += 2
        if low_common >= high_common:
            skip = 0
            continue
        if n_own == 0 and mode == GROUP and skip == 0:
            work[SUM_OF_MINIMA] += marked_width
        if n_own == 0 and not fill and n_excluded == 0:
            if ones:
                out[q] += high_common - low_common
            else:
                for i in range(low_common, high_common):
                    out[q] += common_weight[i]
                work[PROPOSALS] += high_common - low_common
            work[SURVIVORS] += high_common - low_common
            continue
        proposer = -1
        width = 0
        if q + AHEAD < group_end:
            for a in range(n_atoms):
                if not member[a]:
                    prefetch_range(table, positions, stride, q + AHEAD, first[a])
        for a in range(n_atoms):
            if not member[a]:
                load_ranges(table, positions, stride, q, first[a], first[a + 1], low, high)
                load_starts(table, positions, stride, q, first[a], first[a + 1], starts)
                atom_width = width_of(first[a], first[a + 1], low, high)
                if table[first[a] * N_FIELDS + PARENT] != 0 and (proposer < 0 or atom_width < width):
                    proposer, width = a, atom_width
        if proposer >= 0 and width == 0:
            skip = 0
            continue
        if proposer >= 0 and mode == GROUP and skip == 0:
            work[SUM_OF_MINIMA] += min(width, marked_width)
        if (
            not fill and n_own == 1 and proposer >= 0 and is_last[proposer] != 0 and ones and hash_shift == 0
            and n_excluded == 0
        ):  # fmt: skip
            # An atom's weight is a sum over its batches, so each batch can be counted separately, in the cheapest way.
            n_values = high_common - low_common
            budget = SCAN_FACTOR * n_values
            for k in range(first[proposer], first[proposer + 1]):
                if low[k] >= high[k]:
                    continue
                width = high[k] - low[k]
                if starts[k] >= 0 and RANK_GAIN * n_values < width:
                    weight, hits = seek_ranked(table, k, starts[k], common, low_common, high_common)
                    width = n_values
                    work[RANKED] += n_values
                elif width > budget:
                    weight, hits = seek_all(table, k, low[k], high[k], common, low_common, high_common)
                    width = n_values
                else:
                    compares = bounded
                    if bounded and width > CLIP_FROM:
                        clip_ranges(table, k, k + 1, low, high, lower[q], upper[q])
                        width = high[k] - low[k]
                        compares = False
                    budget -= width
                    if table[k * N_FIELDS + WEIGHTS] != 0:
                        weight, hits = weigh_marked(
                            table, k, low[k], high[k], bits, base, lower[q] if compares else 0,
                            upper[q] if compares else 0, compares,
                        )  # fmt: skip
                    elif compares:
                        hits = count_marked_within(table, k, low[k], high[k], bits, base, lower[q], upper[q])
                        weight = hits
                    else:
                        hits = count_marked(table, k, low[k], high[k], bits, base)
                        weight = hits
                out[q] += weight
                work[SURVIVORS] += hits
                work[PROPOSALS] += width
                work[PROBES] += width
            continue
        if bounded:
            width = -1
            for a in range(n_atoms):
                if not member[a]:
                    clip_ranges(table, first[a], first[a + 1], low, high, lower[q], upper[q])
                    atom_width = width_of(first[a], first[a + 1], low, high)
                    if table[first[a] * N_FIELDS + PARENT] != 0 and (width < 0 or atom_width < width):
                        proposer, width = a, atom_width
        done = 0
        if proposer >= 0 and width <= SCAN_FACTOR * (high_common - low_common):
            for k in range(first[proposer], first[proposer + 1]):
                if low[k] >= high[k]:
                    continue
                start = low[k] + min(max(skip - done, 0), high[k] - low[k])
                done += start - low[k]
                for j in range(n_slots):
                    cursor[j] = low[j]
                in_list = low_common
                unit = width == high[k] - low[k] and (is_last[proposer] == 0 or table[k * N_FIELDS + WEIGHTS] == 0)
                block = start
                while block < high[k]:
                    block_end = min(block + BLOCK, high[k])
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
                            in_list = bound(common, in_list, high_common, value, False)
                            if in_list >= high_common or common[in_list] != value:
                                continue
                            weight = common_weight[in_list]
                        if unit:
                            for j in range(first[proposer], first[proposer + 1]):
                                matches[j] = -1
                            matches[k] = i
                        else:
                            good, factor = propose(
                                table, first[proposer], k, first[proposer + 1], is_last[proposer] != 0, i,
                                cursor, high, starts, value, matches, work,
                            )  # fmt: skip
                            if not good:
                                continue
                            weight *= factor
                        if probed:
                            good = True
                            for a in range(n_atoms):
                                if a != proposer and (not member[a] or (fill and is_last[a] == 0)):
                                    good, factor = probe(
                                        table,
                                        first[a],
                                        first[a + 1],
                                        is_last[a] != 0,
                                        cursor,
                                        high,
                                        starts,
                                        value,
                                        matches,
                                        work,
                                    )
                                    if not good:
                                        break
                                    weight *= factor
                            if not good:
                                continue
                        emit(
                            table,
                            n_slots,
                            q,
                            value,
                            weight,
                            matches,
                            prefix_weight,
                            weighted,
                            fill,
                            out,
                            capacity,
                            work,
                        )
                        if fill and work[SURVIVORS] == capacity:
                            work[PROPOSALS] -= block_end - i - 1
                            work[PROBES] -= block_end - i - 1
                            resume[0], resume[1], resume[2] = q, mode + SCAN, done + i + 1 - start
                            full = True
                            break
                    if full:
                        break
                    block = block_end
                if full:
                    break
                done += high[k] - start
        else:
            for j in range(n_slots):
                cursor[j] = low[j]
            for i in range(low_common + skip, high_common):
                done = i + 1 - low_common
                value = common[i]
                weight = common_weight[i]
                work[PROPOSALS] += 1
                if is_excluded(excluded, n_excluded, stride, q, value):
                    continue
                good = True
                for a in range(n_atoms):
                    if member[a] and (is_last[a] != 0 or not fill):
                        continue
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
                    resume[0], resume[1], resume[2] = q, mode + SCAN, done
                    full = True
                    break
        if full:
            break
        skip = 0
    if n_own > 0:
        clear_marks(bits, common, n_common, base, hash_shift)
    return full
