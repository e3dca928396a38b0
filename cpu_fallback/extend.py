"""Fused count, propose and intersect: bind one more variable of many prefixes, in compiled loops.

Prefixes are walked in groups that agree on the ranges of the *shared* atoms (those that do not hold the variable
bound last). Where a group gives enough work, the values common to its shared atoms are found and marked once, and
each prefix tests the candidates of its own atoms against the marks; elsewhere each prefix takes its smallest range
and seeks every candidate in the others. Candidates of one slot ascend, so a seek gallops on from the last one.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from cpu_fallback.marks import HASH_MULTIPLIER, clear_marks, is_marked, marks_for, set_marks
from cpu_fallback.pointers import load, pointer64, prefetch
from cpu_fallback.slots import (
    BUCKETS,
    MAXIMUM,
    MINIMUM,
    N_FIELDS,
    OUT_ROW,
    PARENT,
    ROW,
    SIZE,
    VALUES,
    WEIGHTS,
    WIDTH,
    clip_ranges,
    find,
    gallop,
    load_ranges,
    weight_at,
)

SUM_OF_MINIMA, PROPOSALS, PROBES, MARKS, SURVIVORS, N_WORK = range(6)
"""What `work` counts: smallest counts summed over prefixes, candidates looked at, searches and mark tests, values
marked, and candidates that survived."""

FRESH, ALONE, SCAN, GROUP = 0, 1, 2, 4
"""How a prefix is extended: by seeking, by marking its own smallest range, or (GROUP + SCAN) by marking what a group
shares; stored in `resume` so that a piece that was cut goes on in the same order."""

MARK_FROM = 8
"""Shorter ranges of a single prefix are not marked but sought."""

CLIP_FROM = 512
"""Longer ranges are narrowed to the bounds by binary search before they are scanned; shorter ones are compared."""

HUB_BITS = 8
"""Long ranges that are sought in again and again are marked, 2^HUB_BITS of them at a time."""

HUB_SPAN = 1 << 20
"""Values that span more than this have no marks for hubs."""

HUBS_FROM = 4096
"""Fewer prefixes than this have no marks for hubs."""

AHEAD, LINES = 4, 4
"""How many prefixes ahead a range is asked for from memory, and how many cache lines of it."""

SAMPLE = 8
"""Prefixes of a group whose counts are looked at to decide whether to mark."""

SCAN_FACTOR = 16
"""A range up to this many times longer than the marked list is scanned: it costs one load a candidate, a seek about
two loads for every doubling of the distance, and those are out of order."""

BLOCK = 512
"""Candidates tested against the marks at a time before the survivors are looked at."""


@njit(nogil=True, cache=True)
def probe(table, begin, end, is_last, cursor, high, value, found, work):
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
                if (
                    position >= high[k]
                    or load(table[k * N_FIELDS + VALUES], table[k * N_FIELDS + WIDTH], position) != value
                ):
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
def propose(table, begin, k, end, is_last, position, cursor, high, value, found, work):
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
def width_of(begin, end, low, high):
    """Sum of the ranges' widths of one atom."""
    total = 0
    for k in range(begin, end):
        total += high[k] - low[k]
    return total


@njit(nogil=True, cache=True)
def smallest_count(table, n_atoms, first, member, positions, stride, q, shared_width, low, high):
    """Smallest count of prefix `q`, that of the `member` atoms being known."""
    smallest = shared_width
    for a in range(n_atoms):
        if not member[a]:
            load_ranges(table, positions, stride, q, first[a], first[a + 1], low, high)
            smallest = min(smallest, width_of(first[a], first[a + 1], low, high))
    return smallest


@njit(nogil=True, cache=True)
def is_excluded(excluded, n_excluded, stride, p, value):
    """Whether a ``!=`` forbids the value for prefix `p`."""
    for e in range(n_excluded):
        if excluded[e * stride + p] == value:
            return True
    return False


@njit(nogil=True, cache=True)
def emit(table, n_slots, p, value, weight, found, prefix_weight, weighted, fill, out, capacity, work):
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
def gather(table, begin, end, is_last, low, high, values, weights):
    """The values of slots begin to end of one atom, ascending and each once, with their summed weights.

    Values whose weights cancel at the atom's last level are left out. Returns their number and whether all weights
    are 1. O(n) for n values and few slots.
    """
    count = 0
    runs = 0
    ones = True
    for k in range(begin, end):
        if low[k] >= high[k]:
            continue
        before = count
        address, bytes_each = table[k * N_FIELDS + VALUES], table[k * N_FIELDS + WIDTH]
        for i in range(low[k], high[k]):
            values[count] = load(address, bytes_each, i)
            count += 1
        if is_last and table[k * N_FIELDS + WEIGHTS] != 0:
            ones = False
            source = pointer64(table[k * N_FIELDS + WEIGHTS])
            for i in range(low[k], high[k]):
                weights[before + i - low[k]] = source[i]
        else:
            for i in range(before, count):
                weights[i] = 1
        runs += 1
        if runs > 1:
            merge_tail(values, weights, before, count)
    if runs > 1 or not ones:
        ones = True
        kept = 0
        i = 0
        while i < count:
            value, weight = values[i], weights[i]
            i += 1
            while i < count and values[i] == value:
                if is_last:
                    weight += weights[i]
                i += 1
            if weight != 0:
                values[kept] = value
                weights[kept] = weight
                ones = ones and weight == 1
                kept += 1
        count = kept
    return count, ones


@njit(nogil=True, cache=True)
def intersect_shared(table, n_slots, n_atoms, first, last, member, low, high, cursor, found, values, weights, work):
    """Values common to the atoms of `member`, ascending, with the product of the weights of those that end here.

    Returns their number and whether all weights are 1. `values` and `weights` are as long as the smallest range.
    """
    smallest = -1
    width = 0
    n_members = 0
    for a in range(n_atoms):
        if member[a]:
            n_members += 1
            own = width_of(first[a], first[a + 1], low, high)
            if smallest < 0 or own < width:
                smallest, width = a, own
    work[MARKS] += width
    count, ones = gather(table, first[smallest], first[smallest + 1], last[smallest] != 0, low, high, values, weights)
    if n_members == 1:
        return count, ones
    for j in range(n_slots):
        cursor[j] = low[j]
    kept = 0
    ones = True
    for i in range(count):
        value, weight = values[i], weights[i]
        good = True
        for a in range(n_atoms):
            if member[a] and a != smallest:
                good, factor = probe(table, first[a], first[a + 1], last[a] != 0, cursor, high, value, found, work)
                if not good:
                    break
                weight *= factor
        if good:
            values[kept] = value
            weights[kept] = weight
            ones = ones and weight == 1
            kept += 1
    return kept, ones


@njit(nogil=True, cache=True)
def merge_tail(values, weights, middle, end):
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
def bound(values, begin, end, value, inclusive):
    """First position in [begin, end) whose value is not below `value` (above it, if `inclusive`)."""
    while begin < end:
        middle = (begin + end) >> 1
        if values[middle] < value or (inclusive and values[middle] == value):
            begin = middle + 1
        else:
            end = middle
    return begin


@njit(nogil=True, cache=True)
def count_marked(table, k, low, high, bits, base):
    """How many values of [low, high) in slot k are marked, with exact marks."""
    address, width = table[k * N_FIELDS + VALUES], table[k * N_FIELDS + WIDTH]
    total = 0
    for i in range(low, high):
        distance = load(address, width, i) - base
        total += np.int64((bits[distance >> 5] >> np.uint32(distance & 31)) & np.uint32(1))
    return total


@njit(nogil=True, cache=True)
def marked_positions(table, k, low, high, bits, base, hash_shift, out):
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
def prefetch_range(table, positions, stride, q, k):
    """Ask for the first lines of prefix q's range in slot k, the largest batch of its atom."""
    if table[k * N_FIELDS + PARENT] == 0:
        return
    parent = positions[table[k * N_FIELDS + ROW] * stride + q]
    if parent >= 0:
        width = table[k * N_FIELDS + WIDTH]
        start = table[k * N_FIELDS + VALUES] + width * pointer64(table[k * N_FIELDS + PARENT])[parent]
        for line in range(LINES):
            prefetch(start + 64 * line)


@njit(nogil=True, cache=True)
def count_marked_within(table, k, low, high, bits, base, least, most):
    """As `count_marked`, of the values from `least` to `most` only."""
    address, width = table[k * N_FIELDS + VALUES], table[k * N_FIELDS + WIDTH]
    total = 0
    for i in range(low, high):
        value = load(address, width, i)
        distance = value - base
        bit = np.int64((bits[distance >> 5] >> np.uint32(distance & 31)) & np.uint32(1))
        total += bit & np.int64(value >= least) & np.int64(value <= most)
    return total


@njit(nogil=True, cache=True)
def extend_alone(
    n_slots, n_atoms, table, first, last, positions, stride, q, bounded, lower, upper, n_excluded, excluded,
    weighted, prefix_weight, fill, resume, skip, out, capacity, low, high, cursor, found, work,
):  # fmt: skip
    """Extend one prefix, whose ranges are loaded and clipped: the smallest proposes, the others are sought.

    Returns whether the output is full.
    """
    proposer = 0
    width = width_of(first[0], first[1], low, high)
    for a in range(1, n_atoms):
        own = width_of(first[a], first[a + 1], low, high)
        if own < width:
            proposer, width = a, own
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
                table, first[proposer], k, first[proposer + 1], last[proposer] != 0, i, cursor, high, value, found, work
            )
            if not good:
                continue
            for a in range(n_atoms):
                if a != proposer:
                    good, factor = probe(table, first[a], first[a + 1], last[a] != 0, cursor, high, value, found, work)
                    if not good:
                        break
                    weight *= factor
            if not good:
                continue
            emit(table, n_slots, q, value, weight, found, prefix_weight, weighted, fill, out, capacity, work)
            if fill and work[SURVIVORS] == capacity:
                resume[0], resume[1], resume[2] = q, ALONE, done
                return True
    return False


@njit(nogil=True, cache=True)
def weigh_marked(table, k, low, high, bits, base, least, most, compares):
    """The sum of the weights of the marked values of [low, high) in slot k, and how many they are.

    Only values from `least` to `most` count if `compares`.
    """
    address, width = table[k * N_FIELDS + VALUES], table[k * N_FIELDS + WIDTH]
    source = pointer64(table[k * N_FIELDS + WEIGHTS])
    total = 0
    hits = 0
    for i in range(low, high):
        value = load(address, width, i)
        distance = value - base
        bit = np.int64((bits[distance >> 5] >> np.uint32(distance & 31)) & np.uint32(1))
        if compares:
            bit &= np.int64(value >= least) & np.int64(value <= most)
        total += bit * source[i]
        hits += bit
    return total, hits


@njit(nogil=True, cache=True)
def hub_marks(table, positions, stride, q, begin, end, low, high, width, asked, base, hubs, hub_node, hub_debt, work):
    """Which row of `hubs` marks the long range of prefix `q` in slots begin to end; -1 if it is not marked.

    A range that stands alone in one slot of unit weights, and is long enough that its marks take no more room than
    its values, is marked once the values sought in it (`asked` now) have paid for that.
    """
    if width < len(hubs[0]):
        return -1
    k = begin
    while k < end and high[k] - low[k] != width:
        k += 1
    if k == end or table[k * N_FIELDS + WEIGHTS] != 0 or table[k * N_FIELDS + PARENT] == 0:
        return -1
    # The whole range, since the bounds of this prefix are not those of the next one.
    parent = positions[table[k * N_FIELDS + ROW] * stride + q]
    offsets = pointer64(table[k * N_FIELDS + PARENT])
    whole_low, whole_high = offsets[parent], offsets[parent + 1]
    start = table[k * N_FIELDS + VALUES] + table[k * N_FIELDS + WIDTH] * whole_low
    hub = np.int64((np.uint64(start) * HASH_MULTIPLIER) >> np.uint64(64 - HUB_BITS))
    if hub_node[hub] == start and hub_debt[hub] < 0:
        return hub
    if hub_node[hub] != start:
        if hub_debt[hub] < 0:
            hub_debt[hub] = -hub_debt[hub]
        hub_debt[hub] -= asked
        if hub_debt[hub] > 0:
            return -1
        hub_node[hub] = start
        hub_debt[hub] = 0
    hub_debt[hub] += asked
    if SCAN_FACTOR * hub_debt[hub] < whole_high - whole_low:
        return -1
    words = hubs[hub]
    words[:] = 0
    address, bytes_each = table[k * N_FIELDS + VALUES], table[k * N_FIELDS + WIDTH]
    for i in range(whole_low, whole_high):
        distance = load(address, bytes_each, i) - base
        words[distance >> 5] |= np.uint32(1) << np.uint32(distance & 31)
    work[MARKS] += whole_high - whole_low
    hub_debt[hub] = -max(1, asked)
    return hub


@njit(nogil=True, cache=True)
def extend_marked(
    n_slots, n_atoms, table, first, last, member, positions, stride, p, group_end, bounded, lower, upper,
    n_excluded, excluded, weighted, prefix_weight, fill, resume, skip, mode, marked_width, minima, out, capacity,
    low, high, cursor, found, common, common_weight, bits, base, hash_shift, hits_at, hubs, hub_node, hub_debt, work,
):  # fmt: skip
    """Extend prefixes that agree on the ranges of the `member` atoms: what these have in common is found and marked.

    Marks span the values below bound variables; top levels are only sought in, never scanned.

    `skip` candidates of the first prefix are done. `mode` is added to what `resume` gets. `marked_width` is the
    smallest count of the member atoms, `minima` what is known of the sum of smallest counts. Returns whether the output
    is full; marks are cleared either way.
    """
    n_own = 0
    probed = False
    for a in range(n_atoms):
        if not member[a]:
            n_own += 1
        probed = probed or (fill and member[a] and last[a] == 0)
    probed = probed or n_own > 1
    load_ranges(table, positions, stride, p, 0, n_slots, low, high)
    n_common, ones = intersect_shared(
        table, n_slots, n_atoms, first, last, member, low, high, cursor, found, common, common_weight, work
    )
    if n_common == 0:
        work[SUM_OF_MINIMA] += minima
        return False
    if n_own > 0:
        set_marks(bits, common, n_common, base, hash_shift)
    full = False
    for q in range(p, group_end):
        least = 0
        most = n_common
        if bounded:
            least = bound(common, 0, n_common, lower[q], False)
            most = bound(common, least, n_common, upper[q], True)
            work[PROBES] += 2
        if least >= most:
            skip = 0
            continue
        if n_own == 0 and mode == GROUP and skip == 0:
            work[SUM_OF_MINIMA] += marked_width
        if n_own == 0 and not fill and n_excluded == 0:
            if ones:
                out[q] += most - least
            else:
                for i in range(least, most):
                    out[q] += common_weight[i]
                work[PROPOSALS] += most - least
            work[SURVIVORS] += most - least
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
                own = width_of(first[a], first[a + 1], low, high)
                if table[first[a] * N_FIELDS + PARENT] != 0 and (proposer < 0 or own < width):
                    proposer, width = a, own
        if proposer >= 0 and width == 0:
            skip = 0
            continue
        if proposer >= 0 and mode == GROUP and skip == 0:
            work[SUM_OF_MINIMA] += min(width, marked_width)
        if (
            not fill and n_own == 1 and proposer >= 0 and last[proposer] != 0 and ones and hash_shift == 0
            and n_excluded == 0 and width <= SCAN_FACTOR * (most - least)
        ):  # fmt: skip
            # An atom's weight is a sum over its batches, so they can be counted one by one.
            for k in range(first[proposer], first[proposer + 1]):
                if low[k] < high[k]:
                    compares = bounded
                    if bounded and high[k] - low[k] > CLIP_FROM:
                        clip_ranges(table, k, k + 1, low, high, lower[q], upper[q])
                        compares = False
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
                    work[PROPOSALS] += high[k] - low[k]
                    work[PROBES] += high[k] - low[k]
            continue
        if bounded:
            width = -1
            for a in range(n_atoms):
                if not member[a]:
                    clip_ranges(table, first[a], first[a + 1], low, high, lower[q], upper[q])
                    own = width_of(first[a], first[a + 1], low, high)
                    if table[first[a] * N_FIELDS + PARENT] != 0 and (width < 0 or own < width):
                        proposer, width = a, own
        done = 0
        if proposer >= 0 and width <= SCAN_FACTOR * (most - least):
            for k in range(first[proposer], first[proposer + 1]):
                if low[k] >= high[k]:
                    continue
                start = low[k] + min(max(skip - done, 0), high[k] - low[k])
                done += start - low[k]
                for j in range(n_slots):
                    cursor[j] = low[j]
                at = least
                unit = width == high[k] - low[k] and (last[proposer] == 0 or table[k * N_FIELDS + WEIGHTS] == 0)
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
                            for j in range(first[proposer], first[proposer + 1]):
                                found[j] = -1
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
            hub = -1
            if proposer >= 0 and hash_shift == 0 and len(hub_node) > 0:
                hub = hub_marks(
                    table, positions, stride, q, first[proposer], first[proposer + 1], low, high, width, most - least,
                    base, hubs, hub_node, hub_debt, work,
                )  # fmt: skip
            if hub >= 0 and not fill and n_own == 1 and ones and n_excluded == 0 and last[proposer] != 0:
                words = hubs[hub]
                hits = 0
                for i in range(least, most):
                    distance = common[i] - base
                    hits += np.int64((words[distance >> 5] >> np.uint32(distance & 31)) & np.uint32(1))
                out[q] += hits
                work[SURVIVORS] += hits
                work[PROPOSALS] += most - least
                work[PROBES] += most - least
                continue
            for i in range(least + skip, most):
                done = i + 1 - least
                value = common[i]
                weight = common_weight[i]
                work[PROPOSALS] += 1
                if hub >= 0:
                    work[PROBES] += 1
                    if not is_marked(hubs[hub], value, base, 0):
                        continue
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
                emit(table, n_slots, q, value, weight, found, prefix_weight, weighted, fill, out, capacity, work)
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


@njit(nogil=True, cache=True)
def extend(
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
    member = np.zeros(n_atoms, np.bool_)
    one = np.zeros(n_atoms, np.bool_)
    all_top = True
    for a in range(n_atoms):
        if first[a] == first[a + 1]:  # an atom without batches holds nothing
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
    if n_shared > 0:
        for a in range(n_atoms):
            member[a] = member[a] or table[first[a] * N_FIELDS + PARENT] == 0
    member_row = np.full(n_slots, -1, np.int64)
    for a in range(n_atoms):
        if member[a]:
            for k in range(first[a], first[a + 1]):
                member_row[k] = table[k * N_FIELDS + ROW]
    bits = np.empty(0, np.uint32)
    hash_shift = 0
    hits_at = np.empty(BLOCK, np.int64)
    hubs = np.empty((1, 1), np.uint32)
    hub_node = np.empty(0, np.int64)
    hub_debt = np.empty(0, np.int64)
    if end - resume[0] >= HUBS_FROM and span < np.uint64(HUB_SPAN):
        hubs = np.empty((1 << HUB_BITS, np.int64(span >> np.uint64(5)) + 1), np.uint32)
        hub_node = np.zeros(1 << HUB_BITS, np.int64)
        hub_debt = np.zeros(1 << HUB_BITS, np.int64)
    common = np.empty(0, np.int64)
    common_weight = np.empty(0, np.int64)

    p = resume[0]
    forced = resume[1]
    skip = resume[2]
    while p < end:
        # A group of prefixes with the same ranges of the shared atoms, and whether marking them pays.
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
            for a in range(n_atoms):
                if member[a]:
                    own = width_of(first[a], first[a + 1], low, high)
                    if shared_width < 0 or own < shared_width:
                        shared_width = own
            if shared_width == 0:
                p = group_end
                continue
            grouped = forced == GROUP + SCAN
            if not grouped and group_end - p > 1:
                # The sum of smallest counts, from a sample of the group; where that asks for marks, from as many
                # prefixes as it takes to be sure.
                step = max(1, (group_end - p) // SAMPLE)
                for q in range(p, group_end, step):
                    minima += step * smallest_count(
                        table, n_atoms, first, member, positions, stride, q, shared_width, low, high
                    )
                if step > 1 and shared_width <= 2 * minima:
                    minima = 0
                    q = p
                    while q < group_end and shared_width > 2 * minima:
                        minima += smallest_count(
                            table, n_atoms, first, member, positions, stride, q, shared_width, low, high
                        )
                        q += 1
                grouped = shared_width <= 2 * minima
        if grouped:
            if len(common) < shared_width:
                common = np.empty(2 * shared_width, np.int64)
                common_weight = np.empty(2 * shared_width, np.int64)
            if len(bits) == 0 or hash_shift != 0:
                bits, hash_shift = marks_for(bits, hash_shift, span, shared_width, end - resume[0])
            full = extend_marked(
                n_slots, n_atoms, table, first, last, member, positions, stride, p, group_end, bounded, lower, upper,
                n_excluded, excluded, weighted, prefix_weight, fill, resume, skip, GROUP, shared_width, minima, out,
                capacity, low, high, cursor, found, common, common_weight, bits, base, hash_shift, hits_at, hubs,
                hub_node, hub_debt, work,
            )  # fmt: skip
            if full:
                return
            p = group_end
        else:
            stop = group_end if forced == FRESH else p + 1
            for q in range(p, stop):
                load_ranges(table, positions, stride, q, 0, n_slots, low, high)
                smallest = -1
                width = 0
                second = np.int64(0x7FFFFFFFFFFFFFFF)
                for a in range(n_atoms):
                    own = width_of(first[a], first[a + 1], low, high)
                    deep = table[first[a] * N_FIELDS + PARENT] != 0
                    if smallest < 0 or own < width:
                        if smallest >= 0 and table[first[smallest] * N_FIELDS + PARENT] != 0:
                            second = width
                        smallest, width = a, own
                    elif deep and own < second:
                        second = own
                if width == 0:
                    continue
                if skip == 0 and forced == FRESH:
                    work[SUM_OF_MINIMA] += width
                marks = forced == SCAN
                if forced == FRESH:
                    marks = (
                        n_deep > 1 and width >= MARK_FROM and second <= SCAN_FACTOR * width
                        and table[first[smallest] * N_FIELDS + PARENT] != 0
                    )  # fmt: skip
                if marks:
                    for a in range(n_atoms):
                        one[a] = a == smallest
                    if len(common) < width:
                        common = np.empty(2 * width, np.int64)
                        common_weight = np.empty(2 * width, np.int64)
                    if len(bits) == 0 or hash_shift != 0:
                        bits, hash_shift = marks_for(bits, hash_shift, span, width, end - resume[0])
                    full = extend_marked(
                        n_slots, n_atoms, table, first, last, one, positions, stride, q, q + 1, bounded, lower, upper,
                        n_excluded, excluded, weighted, prefix_weight, fill, resume, skip, 0, width, 0, out, capacity,
                        low, high, cursor, found, common, common_weight, bits, base, hash_shift, hits_at, hubs,
                        hub_node, hub_debt, work,
                    )  # fmt: skip
                else:
                    if bounded:
                        clip_ranges(table, 0, n_slots, low, high, lower[q], upper[q])
                    full = extend_alone(
                        n_slots, n_atoms, table, first, last, positions, stride, q, bounded, lower, upper, n_excluded,
                        excluded, weighted, prefix_weight, fill, resume, skip, out, capacity, low, high, cursor, found,
                        work,
                    )  # fmt: skip
                if full:
                    return
                skip = 0
            p = stop
        forced = FRESH
        skip = 0
    resume[0], resume[1], resume[2] = end, FRESH, 0


@njit(nogil=True, cache=True)
def extend_arrays(extension, positions, end, lower, upper, excluded, weighted, prefix_weight, fill, resume, out, work):
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
