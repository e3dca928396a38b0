"""One-pass merge of two tries: sorted runs below matching parents, other blocks copied."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cpu_fallback.lookup import (
    MAX_DIGIT_BITS,
    add_column,
    ascends,
    drop_repeats,
    sort_keys,
    sort_pairs,
    unpack_column,
)
from cpu_fallback.ranges import extremes
from cpu_fallback.runtime import address_of, cached_njit, load, pointer32, pointer64, store, trailing_zeros
from cpu_fallback.tries import PACKED_BITS, CodeArray, Int64Array, lexsort, run_starts

BLOCK_FACTOR = 32
"""Ratio of run lengths above which the longer run is copied in blocks around the other's values; otherwise values are
merged one by one, without a branch that depends on them."""

LEVEL_FIELDS = 3
"""Fields of a level in the table of a trie: the addresses of its values and of the offsets of their children, 0 at the
last level, and the width of a value in bytes."""

LEFT, LEFT_END, RIGHT, RIGHT_END, SIDES, N_CURSOR = range(6)
"""Columns of a cursor, which has a row per level: the positions in both tries and the ends of their siblings, and the
tries that have the present node: 1 for the left one, 2 for the right one, 3 for both."""

LEVEL, READ, NOT_ONE, NEGATIVE, SMALLEST_WEIGHT, LARGEST_WEIGHT, N_PROGRESS = range(7)
"""Progress of a merge: the present level, -1 at the end; rows read of both tries; and of the weights written, how many
are not 1, how many are negative, the smallest and the largest (or 1)."""

_MAX_INT64 = np.iinfo(np.int64).max


@cached_njit
def copy_block(source, source_width, begin, count, target, target_width, pos):
    """Copy `count` values to position `pos` of the target."""
    if source_width == 4 and target_width == 4:
        source32, target32 = pointer32(source), pointer32(target)
        for i in range(count):
            target32[pos + i] = source32[begin + i]
    elif source_width == 4:
        source32, target64 = pointer32(source), pointer64(target)
        for i in range(count):
            target64[pos + i] = source32[begin + i]
    elif target_width == 8:
        source64, target64 = pointer64(source), pointer64(target)
        for i in range(count):
            target64[pos + i] = source64[begin + i]
    else:
        for i in range(count):
            store(target, target_width, pos + i, load(source, source_width, begin + i))


@cached_njit
def first_not_below(address, width, low, high, value):
    """Return the first position in [low, high) whose value is not below `value`."""
    while low < high:
        middle = (low + high) >> 1
        if load(address, width, middle) < value:
            low = middle + 1
        else:
            high = middle
    return low


@cached_njit
def first_from(address, width, low, high, value):
    """Search like `first_not_below`, in time logarithmic in the distance from `low`."""
    step = 1
    while low + step < high and load(address, width, low + step) < value:
        low += step
        step <<= 1
    return first_not_below(address, width, low, min(high, low + step + 1), value)


@cached_njit
def copy_leaves(values, width, weights, begin, end, target, target_width, out_weight, pos):
    """Copy positions begin to end of a last level to position `pos`; return the new end."""
    copy_block(values, width, begin, end - begin, target, target_width, pos)
    if len(out_weight) > 0:
        if weights == 0:
            for i in range(end - begin):
                out_weight[pos + i] = 1
        else:
            source = pointer64(weights)
            for i in range(end - begin):
                out_weight[pos + i] = source[begin + i]
    return pos + end - begin


@cached_njit
def mix_unit(left, i, i_end, right, j, j_end, target, pos, after):
    """Merge two runs of distinct values until one ends; return the new end.

    The end is -1 if two values are equal. The positions reached in both runs are written to `after`.
    """
    while i < i_end and j < j_end:
        x, y = left[i], right[j]
        if x == y:
            return -1
        target[pos] = min(x, y)
        i += x < y
        j += y < x
        pos += 1
    after[0], after[1] = i, j
    return pos


@cached_njit
def mix_weighted(left, left_weights, i, i_end, right, right_weights, j, j_end, target, out_weight, pos, after):
    """Merge two runs until one ends; add the weights of equal values, drop weight 0."""
    x_weight, y_weight = pointer64(left_weights), pointer64(right_weights)
    while i < i_end and j < j_end:
        x, y = left[i], right[j]
        weight = 0
        if x <= y:
            weight += x_weight[i] if left_weights != 0 else 1
        if y <= x:
            weight += y_weight[j] if right_weights != 0 else 1
        target[pos] = min(x, y)
        out_weight[pos] = weight
        pos += weight != 0
        i += x <= y
        j += y <= x
    after[0], after[1] = i, j
    return pos


@cached_njit
def mix_any(
    left_values, left_width, left_weights, i, i_end, right_values, right_width, right_weights, j, j_end,
    target, target_width, out_weight, pos, after,
):  # fmt: skip
    """Merge like `mix_unit` and `mix_weighted`, for runs whose values differ in width."""
    while i < i_end and j < j_end:
        x = load(left_values, left_width, i)
        y = load(right_values, right_width, j)
        weight = 0
        if x <= y:
            weight += pointer64(left_weights)[i] if left_weights != 0 else 1
        if y <= x:
            weight += pointer64(right_weights)[j] if right_weights != 0 else 1
        if len(out_weight) > 0:
            out_weight[pos] = weight
        elif x == y:
            return -1
        store(target, target_width, pos, min(x, y))
        pos += weight != 0
        i += x <= y
        j += y <= x
    after[0], after[1] = i, j
    return pos


@cached_njit
def merge_leaves(
    left_values, left_width, left_weights, i, i_end, right_values, right_width, right_weights, j, j_end,
    target, target_width, out_weight, pos, after,
):  # fmt: skip
    """Merge positions i to i_end of one last level with j to j_end of another; return the end.

    Weights of equal values are added, modulo 2^64, and values of weight 0 are dropped. The end is -1 if two values are
    equal and `out_weight` is empty, as for tries of unit weights without common rows. `after` is room for two
    positions.
    """
    while i < i_end and j < j_end:
        if i_end - i > BLOCK_FACTOR * (j_end - j):
            stop = first_not_below(left_values, left_width, i, i_end, load(right_values, right_width, j))
            pos = copy_leaves(left_values, left_width, left_weights, i, stop, target, target_width, out_weight, pos)
            i, i_stop, j_stop = stop, min(stop + 1, i_end), j + 1
        elif j_end - j > BLOCK_FACTOR * (i_end - i):
            stop = first_not_below(right_values, right_width, j, j_end, load(left_values, left_width, i))
            pos = copy_leaves(right_values, right_width, right_weights, j, stop, target, target_width, out_weight, pos)
            j, i_stop, j_stop = stop, i + 1, min(stop + 1, j_end)
        else:
            i_stop, j_stop = i_end, j_end
        if left_width != target_width or right_width != target_width:
            pos = mix_any(
                left_values, left_width, left_weights, i, i_stop, right_values, right_width, right_weights, j, j_stop,
                target, target_width, out_weight, pos, after,
            )  # fmt: skip
        elif len(out_weight) > 0 and target_width == 4:
            pos = mix_weighted(
                pointer32(left_values), left_weights, i, i_stop, pointer32(right_values), right_weights, j, j_stop,
                pointer32(target), out_weight, pos, after,
            )  # fmt: skip
        elif len(out_weight) > 0:
            pos = mix_weighted(
                pointer64(left_values), left_weights, i, i_stop, pointer64(right_values), right_weights, j, j_stop,
                pointer64(target), out_weight, pos, after,
            )  # fmt: skip
        elif target_width == 4:
            pos = mix_unit(
                pointer32(left_values), i, i_stop, pointer32(right_values), j, j_stop, pointer32(target), pos, after
            )
        else:
            pos = mix_unit(
                pointer64(left_values), i, i_stop, pointer64(right_values), j, j_stop, pointer64(target), pos, after
            )
        if pos < 0:
            return -1
        i, j = after[0], after[1]
    if i < i_end:
        pos = copy_leaves(left_values, left_width, left_weights, i, i_end, target, target_width, out_weight, pos)
    if j < j_end:
        pos = copy_leaves(right_values, right_width, right_weights, j, j_end, target, target_width, out_weight, pos)
    return pos


@cached_njit
def merge_pairs(
    left_top, left_top_width, left_offsets, left_values, left_width, left_weights,
    right_top, right_top_width, right_offsets, right_values, right_width, right_weights,
    top, top_width, out_offsets, target, target_width, out_weight, sizes,
):  # fmt: skip
    """Merge two tries of two levels in one pass.

    Keys of only one side are copied with their rows as a block. Keys that lose all their rows are dropped. Writes the
    number of keys and of rows to `sizes`; both are -1 if two rows are equal and `out_weight` is empty.
    """
    after = np.empty(2, np.int64)
    i = j = n = pos = 0
    i_end, j_end = len(left_offsets) - 1, len(right_offsets) - 1
    while i < i_end or j < j_end:
        from_left = True
        if i < i_end and j < j_end:
            x = load(left_top, left_top_width, i)
            y = load(right_top, right_top_width, j)
            if x == y:
                start = pos
                pos = merge_leaves(
                    left_values, left_width, left_weights, left_offsets[i], left_offsets[i + 1],
                    right_values, right_width, right_weights, right_offsets[j], right_offsets[j + 1],
                    target, target_width, out_weight, pos, after,
                )  # fmt: skip
                if pos < 0:
                    sizes[0] = sizes[1] = -1
                    return
                if pos > start:
                    store(top, top_width, n, x)
                    out_offsets[n] = start
                    n += 1
                i += 1
                j += 1
                continue
            from_left = x < y
        else:
            from_left = i < i_end
        if from_left:
            stop = i_end
            if j < j_end:
                stop = first_from(left_top, left_top_width, i, i_end, load(right_top, right_top_width, j))
            shift = pos - left_offsets[i]
            for k in range(stop - i):
                out_offsets[n + k] = left_offsets[i + k] + shift
            copy_block(left_top, left_top_width, i, stop - i, top, top_width, n)
            pos = copy_leaves(
                left_values, left_width, left_weights, left_offsets[i], left_offsets[stop],
                target, target_width, out_weight, pos,
            )  # fmt: skip
            n += stop - i
            i = stop
        else:
            stop = j_end
            if i < i_end:
                stop = first_from(right_top, right_top_width, j, j_end, load(left_top, left_top_width, i))
            shift = pos - right_offsets[j]
            for k in range(stop - j):
                out_offsets[n + k] = right_offsets[j + k] + shift
            copy_block(right_top, right_top_width, j, stop - j, top, top_width, n)
            pos = copy_leaves(
                right_values, right_width, right_weights, right_offsets[j], right_offsets[stop],
                target, target_width, out_weight, pos,
            )  # fmt: skip
            n += stop - j
            j = stop
    out_offsets[n] = pos
    sizes[0] = n
    sizes[1] = pos


@cached_njit
def copy_nodes(trie, weights, out, out_weight, sizes, level, begin, end):
    """Copy positions begin to end of a level, with their subtrees, to the output's ends."""
    depth = len(sizes)
    for d in range(level, depth):
        values, children, width = trie[d, 0], pointer64(trie[d, 1]), trie[d, 2]
        if d == depth - 1:
            sizes[d] = copy_leaves(values, width, weights, begin, end, out[d, 0], out[d, 2], out_weight, sizes[d])
            return
        copy_block(values, width, begin, end - begin, out[d, 0], out[d, 2], sizes[d])
        out_children = pointer64(out[d, 1])
        shift = sizes[d + 1] - children[begin]
        for k in range(end - begin):
            out_children[sizes[d] + k] = children[begin + k] + shift
        sizes[d] += end - begin
        begin, end = children[begin], children[end]


@cached_njit
def first_above(address, width, low, high, value):
    """Return the first position in [low, high) whose value is above `value`."""
    while low < high:
        middle = (low + high) >> 1
        if load(address, width, middle) <= value:
            low = middle + 1
        else:
            high = middle
    return low


@cached_njit
def leaf_of(trie, level, node):
    """Return the first position of the last level at or after a position of a level."""
    for d in range(level, len(trie) - 1):
        node = pointer64(trie[d, 1])[node]
    return node


@cached_njit
def nodes_within(trie, level, begin, end, n_rows):
    """Return the end of the most nodes from `begin` with `n_rows` rows or fewer below them."""
    first = leaf_of(trie, level, begin)
    if leaf_of(trie, level, end) - first <= n_rows:
        return end
    low = begin
    while end - low > 1:
        middle = (low + end) >> 1
        if leaf_of(trie, level, middle) - first <= n_rows:
            low = middle
        else:
            end = middle
    return low


@cached_njit
def merge_part(left, left_weights, right, right_weights, out, out_weight, cursor, sizes, progress, stop):
    """Continue the merge of two tries of any depth until `stop` rows have been read.

    Rows of both count, and up to twice as many as asked for are read. Tries are tables with a row of `LEVEL_FIELDS` per
    level. Nodes that lose all their children are dropped. `sizes` are the numbers of values written to each level,
    `cursor` and `progress` say where to continue. Returns False before two rows that are equal if `out_weight` is
    empty: then continue with room for weights.
    """
    leaf = len(sizes) - 1
    d, start = progress[LEVEL], sizes[leaf]
    after = np.empty(2, np.int64)
    meets = False
    while d >= 0 and progress[READ] < stop:
        i, i_end, j, j_end = cursor[d, LEFT], cursor[d, LEFT_END], cursor[d, RIGHT], cursor[d, RIGHT_END]
        if i == i_end and j == j_end:
            d -= 1
            if d >= 0:
                sizes[d] += sizes[d + 1] > pointer64(out[d, 1])[sizes[d]]
                cursor[d, LEFT] += cursor[d, SIDES] & 1
                cursor[d, RIGHT] += cursor[d, SIDES] >> 1
            continue
        room = stop - progress[READ]
        if d == leaf:
            i_stop, j_stop = min(i_end, i + room), min(j_end, j + room)
            if i_stop < i_end or j_stop < j_end:
                last = load(left[d, 0], left[d, 2], i_stop - 1) if i_stop < i_end else np.int64(_MAX_INT64)
                if j_stop < j_end:
                    last = min(last, load(right[d, 0], right[d, 2], j_stop - 1))
                i_stop = first_above(left[d, 0], left[d, 2], i, i_stop, last)
                j_stop = first_above(right[d, 0], right[d, 2], j, j_stop, last)
            pos = merge_leaves(
                left[d, 0], left[d, 2], left_weights, i, i_stop, right[d, 0], right[d, 2], right_weights, j, j_stop,
                out[d, 0], out[d, 2], out_weight, sizes[d], after,
            )  # fmt: skip
            if pos < 0:
                meets = True
                break
            sizes[d] = pos
            progress[READ] += i_stop - i + j_stop - j
            cursor[d, LEFT], cursor[d, RIGHT] = i_stop, j_stop
            continue
        x = load(left[d, 0], left[d, 2], i) if i < i_end else np.int64(0)
        y = load(right[d, 0], right[d, 2], j) if j < j_end else np.int64(0)
        sides = np.int64(3)
        if j == j_end or (i < i_end and x < y):
            end = i_end if j == j_end else first_from(left[d, 0], left[d, 2], i, i_end, y)
            end = nodes_within(left, d, i, end, room)
            if end > i:
                progress[READ] += leaf_of(left, d, end) - leaf_of(left, d, i)
                copy_nodes(left, left_weights, out, out_weight, sizes, d, i, end)
                cursor[d, LEFT] = end
                continue
            sides = np.int64(1)
        elif i == i_end or y < x:
            end = j_end if i == i_end else first_from(right[d, 0], right[d, 2], j, j_end, x)
            end = nodes_within(right, d, j, end, room)
            if end > j:
                progress[READ] += leaf_of(right, d, end) - leaf_of(right, d, j)
                copy_nodes(right, right_weights, out, out_weight, sizes, d, j, end)
                cursor[d, RIGHT] = end
                continue
            sides = np.int64(2)
            x = y
        store(out[d, 0], out[d, 2], sizes[d], x)
        pointer64(out[d, 1])[sizes[d]] = sizes[d + 1]
        cursor[d, SIDES] = sides
        cursor[d + 1, :] = 0
        if sides & 1:
            children = pointer64(left[d, 1])
            cursor[d + 1, LEFT], cursor[d + 1, LEFT_END] = children[i], children[i + 1]
        if sides & 2:
            children = pointer64(right[d, 1])
            cursor[d + 1, RIGHT], cursor[d + 1, RIGHT_END] = children[j], children[j + 1]
        d += 1
    while d >= 0 and cursor[d, LEFT] == cursor[d, LEFT_END] and cursor[d, RIGHT] == cursor[d, RIGHT_END]:
        d -= 1
        if d >= 0:
            sizes[d] += sizes[d + 1] > pointer64(out[d, 1])[sizes[d]]
            cursor[d, LEFT] += cursor[d, SIDES] & 1
            cursor[d, RIGHT] += cursor[d, SIDES] >> 1
    progress[LEVEL] = d
    if d < 0:
        for level in range(leaf):
            pointer64(out[level, 1])[sizes[level]] = sizes[level + 1]
    if len(out_weight) > 0:
        for k in range(start, sizes[leaf]):
            weight = out_weight[k]
            progress[NOT_ONE] += weight != 1
            progress[NEGATIVE] += weight < 0
            progress[SMALLEST_WEIGHT] = min(progress[SMALLEST_WEIGHT], weight)
            progress[LARGEST_WEIGHT] = max(progress[LARGEST_WEIGHT], weight)
    return not meets


# Tries from rows packed into keys, and back, without columns in between.
#
# A level has the bits of its values' range, the first level the highest ones, so keys are ordered like rows. With many
# rows most of the time is spent on memory that is written for the first time; here this is only one array of keys
# beside the trie.


_MIN32, _MAX32 = -(1 << 31), (1 << 31) - 1

Levels = tuple[list[CodeArray], list[Int64Array]]
Ranges = Sequence[tuple[int, int]]
"""The smallest and the largest value of each level."""


@cached_njit
def pack_trie(table, lows, shifts, tag, keys):
    """Write the key of every row of a trie, with the tag.

    The trie is a table with a row of `LEVEL_FIELDS` per level.
    """
    leaf = len(table) - 1
    node = np.zeros(leaf + 1, np.int64)
    above = np.full(leaf + 1, tag)
    values, width, low, shift = table[leaf, 0], table[leaf, 2], lows[leaf], shifts[leaf]
    begin = d = 0
    while begin < len(keys):
        for level in range(d, leaf):
            value = load(table[level, 0], table[level, 2], node[level])
            above[level + 1] = above[level] | ((value - lows[level]) << shifts[level])
        end = pointer64(table[leaf - 1, 1])[node[leaf - 1] + 1] if leaf > 0 else np.int64(len(keys))
        key = above[leaf]
        if width == 4:
            narrow = pointer32(values)
            for i in range(begin, end):
                keys[i] = key | ((np.int64(narrow[i]) - low) << shift)
        else:
            wide = pointer64(values)
            for i in range(begin, end):
                keys[i] = key | ((wide[i] - low) << shift)
        begin = end
        d = max(leaf - 1, 0)
        node[d] += 1
        while d > 0 and node[d] == pointer64(table[d - 1, 1])[node[d - 1] + 1]:
            d -= 1
            node[d] += 1


@cached_njit
def count_nodes(keys, shifts, counts):
    """Add to `counts` the number of values of each level but the last.

    A level's bits begin above its `shifts`.
    """
    for i in range(len(keys)):
        differs = keys[i] ^ keys[i - 1] if i > 0 else np.int64(-1)
        for d in range(len(shifts) - 1):
            counts[d] += (differs >> shifts[d]) != 0


@cached_njit
def unpack_trie(keys, lows, shifts, masks, table, n_tags):
    """Write the levels of the trie of sorted distinct keys.

    The last `n_tags` levels, 0 or 1, have a value per row.
    """
    leaf = len(lows) - 1 - n_tags
    counts = np.zeros(leaf + 1, np.int64)
    values, width, low, shift, mask = table[leaf, 0], table[leaf, 2], lows[leaf], shifts[leaf], masks[leaf]
    for i in range(len(keys)):
        key = keys[i]
        differs = key ^ keys[i - 1] if i > 0 else np.int64(-1)
        if leaf > 0 and (differs >> shifts[leaf - 1]) != 0:
            counts[leaf] = i
            for d in range(leaf):
                if (differs >> shifts[d]) != 0:
                    value = ((key >> shifts[d]) & masks[d]) + lows[d]
                    if table[d, 2] == 4:
                        pointer32(table[d, 0])[counts[d]] = np.int32(value)
                    else:
                        pointer64(table[d, 0])[counts[d]] = value
                    pointer64(table[d, 1])[counts[d]] = counts[d + 1]
                    counts[d] += 1
        value = ((key >> shift) & mask) + low
        if width == 4:
            pointer32(values)[i] = np.int32(value)
        else:
            pointer64(values)[i] = value
    counts[leaf] = len(keys)
    for d in range(leaf):
        pointer64(table[d, 1])[counts[d]] = counts[d + 1]
    if n_tags:
        tags, low, mask = table[leaf + 1, 0], lows[leaf + 1], masks[leaf + 1]
        for i in range(len(keys)):
            if table[leaf + 1, 2] == 4:
                pointer32(tags)[i] = np.int32((keys[i] & mask) + low)
            else:
                pointer64(tags)[i] = (keys[i] & mask) + low


def table_of(values: Sequence[CodeArray], offsets: Sequence[Int64Array]) -> Int64Array:
    """Return the table of a trie for compiled code; its arrays must stay alive."""
    table = np.zeros((len(values), LEVEL_FIELDS), np.int64)
    for depth, level in enumerate(values):
        table[depth] = address_of(level), address_of(offsets[depth]) if depth < len(offsets) else 0, level.itemsize
    return table


def layout(ranges: Ranges) -> tuple[list[int], list[int]] | None:
    """Return, per level, the bits of its values and those below it; None if a key is too small."""
    bits = [(int(maximum) - int(minimum)).bit_length() for minimum, maximum in ranges]
    if sum(bits) > PACKED_BITS:
        return None
    return bits, [sum(bits[level + 1 :]) for level in range(len(bits))]


def levels_of(keys: Int64Array, ranges: Ranges, n_tags: int = 0) -> Levels:
    """Return the trie of one or more sorted distinct keys, with a last level of tags or without."""
    packed = layout(ranges)
    assert packed is not None
    bits, shifts = packed
    counts = np.full(len(ranges), len(keys), np.int64)
    counts[: len(ranges) - 1 - n_tags] = 0
    count_nodes(keys, np.array(shifts[: len(ranges) - n_tags], np.int64), counts)
    values: list[CodeArray] = []
    for (minimum, maximum), n in zip(ranges, counts.tolist(), strict=True):
        narrow = minimum >= _MIN32 and maximum <= _MAX32
        values.append(np.empty(n, np.int32) if narrow else np.empty(n, np.int64))
    offsets = [np.empty(len(level) + 1, np.int64) for level in values[: -1 - n_tags]]
    lows, masks = [minimum for minimum, _ in ranges], [(1 << width) - 1 for width in bits]
    unpack_trie(
        keys, *(np.array(per_level, np.int64) for per_level in (lows, shifts, masks)), table_of(values, offsets), n_tags
    )
    return values, offsets


def index_rows(columns: Sequence[Int64Array]) -> Levels | None:
    """Return the trie of the distinct rows of columns; None if 63 bits cannot hold a row."""
    columns = [np.ascontiguousarray(column) for column in columns]
    ranges = [extremes(column_address(column), 8, len(column)) for column in columns]
    packed = layout(ranges)
    if packed is None:
        return None
    keys = _packed_keys(columns, [minimum for minimum, _ in ranges], packed[0])
    if not ascends(keys):
        keys = sort_keys(keys, 0, sum(packed[0]))
        keys = keys[: drop_repeats(keys)]
    return levels_of(keys, ranges)


def rearrange_packed(
    parts: Sequence[tuple[Sequence[CodeArray], Sequence[Int64Array]]], order: Sequence[int], tags: Sequence[int]
) -> Levels | None:
    """Return the trie of the rows of disjoint tries; None if 63 bits cannot hold a row.

    Its columns have another order; with tags, the tag of a row's trie is an additional column.
    """
    extremes_of = [[extremes(address_of(level), level.itemsize, len(level)) for level in values] for values, _ in parts]
    ranges = [
        (
            min(part_extremes[column][0] for part_extremes in extremes_of),
            max(part_extremes[column][1] for part_extremes in extremes_of),
        )
        for column in range(len(order))
    ]
    arranged = [ranges[column] for column in order]
    if tags:
        arranged.append((min(tags), max(tags)))
    packed = layout(arranged)
    if packed is None:
        return None
    shifts = np.empty(len(order), np.int64)
    shifts[list(order)] = packed[1][: len(order)]
    lows = np.array([minimum for minimum, _ in ranges], np.int64)
    keys = np.empty(sum(len(values[-1]) for values, _ in parts), np.int64)
    begin = 0
    for part, (values, offsets) in enumerate(parts):
        end = begin + len(values[-1])
        tag = tags[part] - min(tags) if tags else 0
        pack_trie(table_of(values, offsets), lows, shifts, np.int64(tag), keys[begin:end])
        begin = end
    if not ascends(keys):
        keys = sort_keys(keys, 0, sum(packed[0]))
    return levels_of(keys, arranged, 1 if tags else 0)


# Rows packed into one key each, and back, one pass per column without temporary arrays.


PACKED_FROM = 1024
"""Rows from which on tries are built from packed keys; smaller tries are built from sorted columns."""


def ranges_of(columns: Sequence[Int64Array]) -> tuple[list[int], list[int]]:
    """Return the smallest value of each column, and the bits of its values above that."""
    lows, bits = [], []
    for column in map(np.ascontiguousarray, columns):
        minimum, maximum = extremes(column_address(column), 8, len(column))
        lows.append(minimum)
        bits.append((maximum - minimum).bit_length())
    return lows, bits


def column_address(column: Int64Array) -> int:
    """Return the address of a column's first value, for compiled code that reads int64.

    Raises
    ------
    TypeError
        If the column has another type.
    """
    if column.dtype != np.int64:
        raise TypeError(f"expected a column of int64, got {column.dtype}")
    return int(address_of(column))


def _packed_keys(columns: Sequence[Int64Array], lows: Sequence[int], bits: Sequence[int]) -> Int64Array:
    """Return one key per row; keys are ordered like rows."""
    keys = np.empty(len(columns[0]), np.int64)
    for index, (column, low, width) in enumerate(zip(columns, lows, bits, strict=True)):
        add_column(keys, column_address(column), column.strides[0], low, width, index == 0)
    return keys


def _unpacked(keys: Int64Array, lows: Sequence[int], bits: Sequence[int]) -> list[Int64Array]:
    """Return the columns of packed keys."""
    columns: list[Int64Array] = []
    shift = 0
    for low, width in zip(reversed(lows), reversed(bits), strict=True):
        column = np.empty(len(keys), np.int64)
        unpack_column(keys, low, shift, width, column)
        columns.append(column)
        shift += width
    return columns[::-1]


def distinct_packed(columns: Sequence[Int64Array]) -> list[Int64Array]:
    """See `gpu_wcoj.kernels.protocol.Kernels.distinct_rows`."""
    if len(columns[0]) < 2:
        return list(columns)
    lows, bits = ranges_of(columns)
    if sum(bits) > PACKED_BITS:
        return _distinct_wide(columns, lows, bits)
    keys = _packed_keys(columns, lows, bits)
    if ascends(keys):
        return list(columns)
    keys = sort_keys(keys, 0, sum(bits))
    return _unpacked(keys[: drop_repeats(keys)], lows, bits)


def consolidate_packed(
    columns: Sequence[Int64Array], weights: Int64Array
) -> tuple[list[Int64Array], Int64Array] | None:
    """Return the consolidated rows; None if two keys cannot hold a row and its weight."""
    if len(weights) < PACKED_FROM or weights.dtype != np.int64:
        return None
    lows, bits = ranges_of(columns)
    [lowest], [weight_bits] = ranges_of([weights])
    if sum(bits) + weight_bits > PACKED_BITS:
        return _consolidate_pairs(columns, weights, lows, bits)
    keys = _packed_keys([*columns, weights], [*lows, lowest], [*bits, weight_bits])
    keys = sort_keys(keys, weight_bits, sum(bits))
    sums = np.empty(len(keys), np.int64)
    size = add_up(keys, weight_bits, lowest, sums)
    return _unpacked(keys[:size], lows, bits), sums[:size]


@cached_njit
def add_up(keys, weight_bits, lowest, sums):
    """Move the distinct keys to the front, with the sums of their weights; return their number.

    Each key has its weight, less the lowest one, in its lowest bits, which are dropped. Keys whose sum is 0 are left
    out.
    """
    mask = (1 << weight_bits) - 1
    n = i = 0
    while i < len(keys):
        key, total = keys[i] >> weight_bits, 0
        while i < len(keys) and keys[i] >> weight_bits == key:
            total += (keys[i] & mask) + lowest
            i += 1
        if total != 0:
            keys[n], sums[n] = key, total
            n += 1
    return n


def _consolidate_pairs(
    columns: Sequence[Int64Array], weights: Int64Array | None, lows: list[int], bits: list[int]
) -> tuple[list[Int64Array], Int64Array] | None:
    """Return the consolidated rows, or the distinct ones without weights.

    The leading columns are packed into one word, and the others with the weight into a second one. None if two words
    cannot hold them.
    """
    n = len(columns[0])
    if n < PACKED_FROM:
        return None
    n_leading = 0
    while n_leading < len(columns) - 1 and sum(bits[: n_leading + 1]) <= PACKED_BITS:
        n_leading += 1
    [lowest], [weight_bits] = ([1], [0]) if weights is None else ranges_of([weights])
    n_high, n_low = sum(bits[:n_leading]), sum(bits[n_leading:])
    if n_leading == 0 or n_low + weight_bits > PACKED_BITS:
        return None
    low_columns, low_lows, low_bits = list(columns[n_leading:]), lows[n_leading:], bits[n_leading:]
    if weights is not None:
        low_columns, low_lows, low_bits = [*low_columns, weights], [*low_lows, lowest], [*low_bits, weight_bits]
    pairs, spare = np.empty((n, 2), np.int64), np.empty((n, 2), np.int64)
    pairs[:, 0] = _packed_keys(columns[:n_leading], lows[:n_leading], bits[:n_leading])
    pairs[:, 1] = _packed_keys(low_columns, low_lows, low_bits)
    n_high_digits, n_low_digits = (-(-n_bits // MAX_DIGIT_BITS) for n_bits in (n_high, n_low))
    counts = np.zeros((n_low_digits + n_high_digits, 1 << MAX_DIGIT_BITS), np.int64)
    if sort_pairs(pairs, spare, weight_bits, n_low_digits, counts):
        pairs = spare
    high, low, sums = (np.empty(n, np.int64) for _ in range(3))
    size = add_up_pairs(pairs, weight_bits, lowest, high, low, sums)
    leading = _unpacked(high[:size], lows[:n_leading], bits[:n_leading])
    return [*leading, *_unpacked(low[:size], lows[n_leading:], bits[n_leading:])], sums[:size]


@cached_njit
def add_up_pairs(pairs, weight_bits, lowest, high, low, sums):
    """Write the distinct sorted pairs of words and the sums of their weights; see `add_up`.

    The second word of a pair has the weight.
    """
    mask = (np.int64(1) << weight_bits) - 1
    n = i = 0
    while i < len(pairs):
        first, second, total = pairs[i, 0], pairs[i, 1] >> weight_bits, np.int64(0)
        while i < len(pairs) and pairs[i, 0] == first and pairs[i, 1] >> weight_bits == second:
            total += (pairs[i, 1] & mask) + lowest
            i += 1
        if total != 0:
            high[n], low[n], sums[n] = first, second, total
            n += 1
    return n


def _distinct_wide(columns: Sequence[Int64Array], lows: list[int], bits: list[int]) -> list[Int64Array]:
    distinct = _consolidate_pairs(columns, None, lows, bits)
    if distinct is not None:
        return distinct[0]
    order = lexsort(columns, sort_keys)
    columns = [column[order] for column in columns]
    starts = run_starts(columns)
    return list(columns) if len(starts) == len(order) else [column[starts] for column in columns]


# Consolidate rows whose first column ascends: the rows of each run are added up in a table, and nothing is sorted.
#
# A run is the rows that agree on the first column. The other columns of a row, packed into one number, are its place in
# the table. The places in use are marked by bits, with a second level of one bit for each word of 64 bits, and read
# back in order, so a run costs what its rows cost and a word for each 4096 places.


RUNS_FROM = 4096
"""Rows from which on runs are looked for."""

MAX_TABLE_BITS = 22
"""Bits of the places of a table at most: its 32 MB are read and written in no order."""

PLACES_PER_ROW = 8
"""Places per row that a table has at most, as all of them are zeroed once."""

WORDS_PER_ROW = 1
"""Words of the second level per row that all runs together may read."""


@cached_njit
def count_runs(address, size):
    """Return the number of runs of a column, read by its address; 0 if it does not ascend."""
    first, runs = pointer64(address), 1
    for i in range(1, size):
        if first[i] < first[i - 1]:
            return 0
        runs += first[i] != first[i - 1]
    return runs


@cached_njit
def add_runs(first_address, places, weights_address, table, bits, above, out_first, out_place, out_weight):
    """Write the distinct rows and the sums of their weights; return the number of rows.

    Rows whose sum is 0 are left out.

    Parameters
    ----------
    weights_address
        0 if all weights are 1.
    table, bits, above
        Zeros: a sum per place, a bit per place, and a bit per word of `bits`. They are zeros again afterwards.
    out_weight
        Empty if the sums are not needed.
    """
    n, unit = 0, np.uint64(1)
    has_weights, has_sums = weights_address != 0, len(out_weight) > 0
    first, weights = pointer64(first_address), pointer64(weights_address)
    i = 0
    while i < len(places):
        run = first[i]
        while i < len(places) and first[i] == run:
            place = places[i]
            table[place] += weights[i] if has_weights else 1
            word = place >> 6
            bits[word] |= unit << np.uint64(place & 63)
            above[word >> 6] |= unit << np.uint64(word & 63)
            i += 1
        for block in range(len(above)):
            words = above[block]
            above[block] = 0
            while words != 0:
                word = (block << 6) + trailing_zeros(words)
                words &= words - unit
                marks = bits[word]
                bits[word] = 0
                while marks != 0:
                    place = (word << 6) + trailing_zeros(marks)
                    marks &= marks - unit
                    total = table[place]
                    table[place] = 0
                    if total != 0:
                        out_first[n] = run
                        out_place[n] = place
                        if has_sums:
                            out_weight[n] = total
                        n += 1
    return n


def consolidate_runs(
    columns: Sequence[Int64Array], weights: Int64Array | None
) -> tuple[list[Int64Array], Int64Array] | None:
    """Return the consolidated rows, or the distinct ones without weights.

    None if the first column does not ascend, or a table does not pay.
    """
    n = len(columns[0])
    if n < RUNS_FROM or len(columns) < 2 or (weights is not None and weights.dtype != np.int64):
        return None
    if columns[0][0] > columns[0][-1]:
        return None
    first = np.ascontiguousarray(columns[0])
    n_runs = count_runs(column_address(first), n)
    if n_runs == 0:
        return None
    lows, bits = ranges_of(columns[1:])
    n_bits = sum(bits)
    if n_bits > MAX_TABLE_BITS or 1 << n_bits > PLACES_PER_ROW * n or n_runs << n_bits > WORDS_PER_ROW * n << 12:
        return None
    places = _packed_keys(columns[1:], lows, bits)
    n_words = (1 << n_bits >> 6) + 1
    scratch = np.zeros(n_words, np.uint64), np.zeros((n_words >> 6) + 1, np.uint64)
    out_first, out_place = np.empty(n, np.int64), np.empty(n, np.int64)
    weights = None if weights is None else np.ascontiguousarray(weights)
    sums = np.empty(0 if weights is None else n, np.int64)
    size = add_runs(
        address_of(first), places, 0 if weights is None else address_of(weights), np.zeros(1 << n_bits, np.int64),
        *scratch, out_first, out_place, sums,
    )  # fmt: skip
    out_place = out_place[:size]
    if len(columns) == 2:
        out_place += lows[0]
        return [out_first[:size], out_place], sums[:size]
    return [out_first[:size], *_unpacked(out_place, lows, bits)], sums[:size]
