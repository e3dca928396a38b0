"""Extension of a group of prefixes through the common values of their shared atoms.

The common values are computed and marked once. Each prefix tests the candidates of its other atoms against the marks if
their range is short, and searches the marked values in it if it is long.
"""

from __future__ import annotations

import numpy as np

from cpu_fallback.ranges import (
    AHEAD,
    BLOCK,
    BLOCK_BITS,
    MAXIMUM,
    MINIMUM,
    N_FIELDS,
    PARENT,
    VALUES,
    WEIGHTS,
    WIDTH,
    WORDS,
    clip_ranges,
    count_ranked,
    emit,
    find,
    gallop,
    is_excluded,
    load_ranges,
    load_starts,
    position_of,
    prefetch_range,
    probe,
    propose,
    weight_at,
    width_of,
)
from cpu_fallback.runtime import bits_of, cached_njit, load, pointer64, trailing_zeros, unsigned64
from cpu_fallback.tries import GROUP, MARKS, PROBES, PROPOSALS, RANKED, SCAN, SUM_OF_MINIMA, SURVIVORS

# A mark set of the values of a list that many prefixes share: one load and shift per test.
#
# If the level's values span little, bit ``value - base`` is exact. Otherwise a multiplicative hash selects the bit, and
# a hit must be verified in the list.


HASH_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
"""The multiplier of the hash: 2^64 divided by the golden ratio, odd."""


@cached_njit
def bit_of(value, base, hash_shift):
    """Return the bit index of a value; `hash_shift` 0 means exact marks."""
    distance = np.uint64(value) - np.uint64(base)
    if hash_shift == 0:
        return np.int64(distance)
    return np.int64((distance * HASH_MULTIPLIER) >> np.uint64(hash_shift))


@cached_njit
def set_marks(bits, values, count, base, hash_shift):
    """Set the bits of the first `count` values."""
    for i in range(count):
        bit = bit_of(values[i], base, hash_shift)
        bits[bit >> 5] |= np.uint32(1) << np.uint32(bit & 31)


@cached_njit
def clear_marks(bits, values, count, base, hash_shift):
    """Clear the words of the first `count` values."""
    for i in range(count):
        bits[bit_of(values[i], base, hash_shift) >> 5] = np.uint32(0)


@cached_njit
def is_marked(bits, value, base, hash_shift):
    """Return whether the value's bit is set."""
    bit = bit_of(value, base, hash_shift)
    return (bits[bit >> 5] >> np.uint32(bit & 31)) & np.uint32(1) != 0


EXACT_SPAN = 1 << 26
"""Span of values above which marks are hashed."""


@cached_njit
def marks_for(bits, hash_shift, span, count, n_prefixes):
    """Return clear marks (bits, hash_shift) for `count` values that span `span`.

    They are exact unless the span is large, or much larger than the work, since the memory has to be cleared once.
    """
    words = np.int64(min(span, np.uint64(EXACT_SPAN)) >> np.uint64(5)) + 1
    if len(bits) == 0 and span < np.uint64(EXACT_SPAN) and words <= 16 * (count + n_prefixes) + 8192:
        return np.zeros(words, np.uint32), 0
    if len(bits) > 0 and (len(bits) << 5) >= 8 * count:
        return bits, hash_shift
    shift = 64 - 16
    while (np.int64(1) << (64 - shift)) < 8 * count:
        shift -= 1
    return np.zeros(1 << (64 - shift - 5), np.uint32), shift


# Tests of a slot's range against marks: count, weigh or list the marked values.


SCAN_FACTOR = 16
"""Ratio of a range to the marked list up to which it is scanned: a scan costs one load per candidate, a search about
two loads, out of order, for every doubling of the distance."""


@cached_njit
def count_marked(table, k, low, high, bits, base):
    """Return the number of values of [low, high) in slot k that are marked, with exact marks."""
    address, width = table[k * N_FIELDS + VALUES], table[k * N_FIELDS + WIDTH]
    total = 0
    for i in range(low, high):
        distance = load(address, width, i) - base
        total += np.int64((bits[distance >> 5] >> np.uint32(distance & 31)) & np.uint32(1))
    return total


@cached_njit
def count_marked_within(table, k, low, high, bits, base, minimum, maximum):
    """Count like `count_marked`, only values from `minimum` to `maximum`."""
    address, width = table[k * N_FIELDS + VALUES], table[k * N_FIELDS + WIDTH]
    total = 0
    for i in range(low, high):
        value = load(address, width, i)
        distance = value - base
        bit = np.int64((bits[distance >> 5] >> np.uint32(distance & 31)) & np.uint32(1))
        total += bit & np.int64(value >= minimum) & np.int64(value <= maximum)
    return total


@cached_njit
def weigh_marked(table, k, low, high, bits, base, minimum, maximum, compares):
    """Return the summed weights and number of the marked values of [low, high) in slot k.

    If `compares`, only values from `minimum` to `maximum` count.
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
            bit &= np.int64(value >= minimum) & np.int64(value <= maximum)
        total += bit * source[i]
        hits += bit
    return total, hits


@cached_njit
def marked_positions(table, k, low, high, bits, base, hash_shift, out):
    """Write the positions in [low, high) of slot k whose values are marked; return their number."""
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


# The common values of several atoms, gathered from their slots into one ascending list.


@cached_njit
def gather(table, begin, end, is_last, low, high, values, weights):
    """Write the values of slots begin to end of one atom, ascending, with summed weights.

    Each value is written once. Values whose weights cancel at the atom's last level are left out. Returns their number
    and whether all weights are 1. O(n) for n values and few slots.
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
        n_distinct = 0
        i = 0
        while i < count:
            value, weight = values[i], weights[i]
            i += 1
            while i < count and values[i] == value:
                if is_last:
                    weight += weights[i]
                i += 1
            if weight != 0:
                values[n_distinct] = value
                weights[n_distinct] = weight
                ones = ones and weight == 1
                n_distinct += 1
        count = n_distinct
    return count, ones


@cached_njit
def intersect_shared(
    table, n_slots, n_atoms, first, is_last, member, low, high, starts, cursor, matches, values, weights, work
):  # fmt: skip
    """Write the common values of the `member` atoms, ascending, with products of weights.

    Weights count for atoms at their last level. Returns the number of values and whether all weights are 1. `values`
    and `weights` are as long as the smallest range.
    """
    smallest = -1
    width = 0
    n_members = 0
    for a in range(n_atoms):
        if member[a]:
            n_members += 1
            atom_width = width_of(first[a], first[a + 1], low, high)
            if smallest < 0 or atom_width < width:
                smallest, width = a, atom_width
    work[MARKS] += width
    count, ones = gather(
        table, first[smallest], first[smallest + 1], is_last[smallest] != 0, low, high, values, weights
    )
    if n_members == 1:
        return count, ones
    for j in range(n_slots):
        cursor[j] = low[j]
    n_common = 0
    ones = True
    for i in range(count):
        value, weight = values[i], weights[i]
        good = True
        for a in range(n_atoms):
            if member[a] and a != smallest:
                good, factor = probe(
                    table, first[a], first[a + 1], is_last[a] != 0, cursor, high, starts, value, matches, work
                )
                if not good:
                    break
                weight *= factor
        if good:
            values[n_common] = value
            weights[n_common] = weight
            ones = ones and weight == 1
            n_common += 1
    return n_common, ones


@cached_njit
def merge_tail(values, weights, middle, end):
    """Merge the ascending runs [0, middle) and [middle, end) in place, with their weights."""
    tail_values = values[middle:end].copy()
    tail_weights = weights[middle:end].copy()
    left = middle - 1
    right = end - middle - 1
    target = end - 1
    while right >= 0:
        if left >= 0 and values[left] > tail_values[right]:
            values[target] = values[left]
            weights[target] = weights[left]
            left -= 1
        else:
            values[target] = tail_values[right]
            weights[target] = tail_weights[right]
            right -= 1
        target -= 1


@cached_njit
def bound(values, begin, end, value, inclusive):
    """Return the first position in [begin, end) with a value not below `value`.

    If `inclusive`, the value must be above it.
    """
    while begin < end:
        middle = (begin + end) >> 1
        if values[middle] < value or (inclusive and values[middle] == value):
            begin = middle + 1
        else:
            end = middle
    return begin


# Searching the values of an ascending list in one slot's range, with their weights.


@cached_njit
def seek_all(table, k, low, high, values, begin, end):
    """Search ``values[begin:end]`` in [low, high) of slot k; return their weights and number.

    The weights are summed.
    """
    address, bytes_each = table[k * N_FIELDS + VALUES], table[k * N_FIELDS + WIDTH]
    weight = 0
    hits = 0
    for i in range(begin, end):
        low = gallop(table, k, low, high, values[i])
        if low < high and load(address, bytes_each, low) == values[i]:
            weight += weight_at(table, k, low)
            hits += 1
    return weight, hits


@cached_njit
def seek_ranked(table, k, start, values, begin, end):
    """Search like `seek_all`, by the ranks of the range, which begin at `start`."""
    if table[k * N_FIELDS + WEIGHTS] == 0:
        hits = count_ranked(table, k, start, values.ctypes.data, 8, begin, end)
        return hits, hits
    weight = 0
    hits = 0
    for i in range(begin, end):
        position = position_of(table, k, start, values[i])
        if position >= 0:
            weight += weight_at(table, k, position)
            hits += 1
    return weight, hits


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


# Counting the common values of two ranges with ranks, 64 values at a time.
#
# Blocks and words of all ranges begin at the same values, so one instruction intersects two words of the same values,
# and another one counts the remaining bits. See `cpu_fallback.ranges` for the layout.


VALUES_A_BLOCK = 8
"""Values of a range per block of its span below which its blocks are not examined."""

VALUES_A_WORD = 2
"""Values searched by ranks that cost as much as one word of 64 values."""

ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


@cached_njit
def count_words(table, i, j, start, other_start, first, last_value, width):
    """Return the number of common values from `first` to `last_value`, and the words examined.

    The ranges are in slots i and j, with ranks at the starts. If searching the `width` values of one range in the other
    is cheaper, the number is -1.
    """
    minimum, maximum = table[i * N_FIELDS + MINIMUM], table[i * N_FIELDS + MAXIMUM]
    other_minimum, other_maximum = table[j * N_FIELDS + MINIMUM], table[j * N_FIELDS + MAXIMUM]
    first, last_value = max(first, minimum, other_minimum), min(last_value, maximum, other_maximum)
    if first > last_value:
        return np.int64(0), np.int64(0)
    begin, end = first >> BLOCK_BITS, (last_value >> BLOCK_BITS) + 1
    if VALUES_A_BLOCK * (end - begin) > width:
        return np.int64(-1), np.int64(0)
    words, other_words = unsigned64(table[i * N_FIELDS + WORDS]), unsigned64(table[j * N_FIELDS + WORDS])
    word = start + 2 * (begin - (minimum >> BLOCK_BITS))
    other_at = other_start + 2 * (begin - (other_minimum >> BLOCK_BITS))
    n = np.int64(0)
    for block in range(end - begin):
        n += bits_of(words[word + 2 * block] & other_words[other_at + 2 * block])
    if VALUES_A_WORD * n > width:
        return np.int64(-1), np.int64(0)
    hits = np.int64(0)
    for block in range(begin, end):
        stored, other_stored = words[word], other_words[other_at]
        place, other_place = np.int64(words[word + 1]), np.int64(other_words[other_at + 1])
        both = stored & other_stored
        while both != 0:
            word_index = trailing_zeros(both)
            below = (np.uint64(1) << np.uint64(word_index)) - np.uint64(1)
            bits = (
                words[place + 2 * bits_of(stored & below)]
                & other_words[other_place + 2 * bits_of(other_stored & below)]
            )
            value = (block << BLOCK_BITS) + (word_index << 6)  # the smallest value of the word
            if value < first:
                bits &= ALL << np.uint64(first - value) if first - value < 64 else np.uint64(0)
            if value + 63 > last_value:
                bits &= ALL >> np.uint64(value + 63 - last_value) if value <= last_value else np.uint64(0)
            hits += bits_of(bits)
            both &= both - np.uint64(1)
        word += 2
        other_at += 2
    return hits, n


# Counting the common values of two atoms, batch by batch.
#
# The weight of a value in an atom is the sum of its weights in the atom's batches. So the sum of the products of both
# atoms' weights is the sum over all pairs of batches, one of each atom. In each pair the shorter range is searched in
# the longer one, or words of both are intersected if both have ranks.


@cached_njit
def count_pairs(table, first, low, high, starts, work):
    """Return the sum of two atoms' weight products over the common values of their ranges.

    Both atoms must be at their last level. `starts` are the starts of the ranges' ranks. Survivors are counted per pair
    of batches.
    """
    total = 0
    work[PROPOSALS] += min(width_of(first[0], first[1], low, high), width_of(first[1], first[2], low, high))
    for i in range(first[0], first[1]):
        if low[i] >= high[i]:
            continue
        for j in range(first[1], first[2]):
            if low[j] >= high[j]:
                continue
            short, long = (i, j) if high[i] - low[i] <= high[j] - low[j] else (j, i)
            weight, hits, n_searches = count_in_common(
                table, short, low[short], high[short], starts[short], long, low[long], high[long], starts[long]
            )
            total += weight
            work[PROBES] += n_searches
            work[RANKED] += n_searches if starts[long] >= 0 else 0
            work[SURVIVORS] += hits
    return total


@cached_njit
def excluded_pairs(table, first, low, high, starts, n_excluded, excluded, stride, q, work):
    """Return the share of `count_pairs` that excluded values of prefix `q` have, each once."""
    total = 0
    for e in range(n_excluded):
        value = excluded[e * stride + q]
        if is_excluded(excluded, e, stride, q, value):
            continue
        weight, hits = weight_in_atom(table, first[0], first[1], low, high, starts, value, work)
        if hits > 0:
            other_weight, other_hits = weight_in_atom(table, first[1], first[2], low, high, starts, value, work)
            total += weight * other_weight
            work[SURVIVORS] -= hits * other_hits
    return total


@cached_njit
def weight_in_atom(table, begin, end, low, high, starts, value, work):
    """Return the weight of a value in one atom's ranges, and how many of them contain it."""
    weight = 0
    hits = 0
    for k in range(begin, end):
        if low[k] >= high[k]:
            continue
        work[PROBES] += 1
        if starts[k] >= 0:
            work[RANKED] += 1
            position = position_of(table, k, starts[k], value)
        else:
            position = find(table, k, low[k], high[k], value)
        if low[k] <= position < high[k]:
            weight += weight_at(table, k, position)
            hits += 1
    return weight, hits


@cached_njit
def count_in_common(table, k, begin, end, own_start, j, low, high, start):
    """Return the weights and number of common values of two ranges, and the searches.

    The ranges are [begin, end) of slot k and [low, high) of slot j; `own_start` and `start` are the starts of their
    ranks, -1 without. See `count_by_seeking`.
    """
    if own_start >= 0 and start >= 0 and table[k * N_FIELDS + WEIGHTS] == 0 and table[j * N_FIELDS + WEIGHTS] == 0:
        address, width = table[k * N_FIELDS + VALUES], table[k * N_FIELDS + WIDTH]
        first, greatest = load(address, width, begin), load(address, width, end - 1)
        hits, n_words = count_words(table, k, j, own_start, start, first, greatest, end - begin)
        if hits >= 0:
            return hits, hits, n_words
    weight, hits = count_by_seeking(table, k, begin, end, j, low, high, start)
    return weight, hits, end - begin


@cached_njit
def count_by_seeking(table, k, begin, end, j, low, high, start):
    """Search the values [begin, end) of slot k in slot j; return weight products and hits.

    The products of both weights are summed. The range in slot j is [low, high); `start` is the start of its ranks, -1
    without.
    """
    address, width = table[k * N_FIELDS + VALUES], table[k * N_FIELDS + WIDTH]
    total = 0
    hits = 0
    if start >= 0:
        if table[k * N_FIELDS + WEIGHTS] == 0 and table[j * N_FIELDS + WEIGHTS] == 0:
            hits = count_ranked(table, j, start, address, width, begin, end)
            return hits, hits
        for i in range(begin, end):
            position = position_of(table, j, start, load(address, width, i))
            if position >= 0:
                total += weight_at(table, k, i) * weight_at(table, j, position)
                hits += 1
        return total, hits
    other_values, other_width = table[j * N_FIELDS + VALUES], table[j * N_FIELDS + WIDTH]
    for i in range(begin, end):
        value = load(address, width, i)
        low = gallop(table, j, low, high, value)
        if low >= high:
            break
        if load(other_values, other_width, low) == value:
            total += weight_at(table, k, i) * weight_at(table, j, low)
            hits += 1
    return total, hits
