"""Tries from rows packed into keys, and back, without columns in between.

A level has the bits of its values' range, the first level the highest ones, so keys are ordered like rows. With many
rows most of the time is spent on memory that is written for the first time; here this is only one array of keys beside
the trie.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cpu_fallback.keys import add_column, ascends, drop_repeats
from cpu_fallback.memory import address_of
from cpu_fallback.merge import LEVEL_FIELDS
from cpu_fallback.pointers import load, pointer32, pointer64
from cpu_fallback.runtime import cached_njit
from cpu_fallback.sort import PACKED_BITS, Int64Array
from cpu_fallback.tries import CodeArray

_MIN32, _MAX32 = -(1 << 31), (1 << 31) - 1

Levels = tuple[list[CodeArray], list[Int64Array]]
Ranges = Sequence[tuple[int, int]]
"""The smallest and the largest value of each level."""


@cached_njit
def extremes(values):
    """Return the smallest and the largest of one or more values."""
    minimum = maximum = values[0]
    for i in range(len(values)):
        minimum = min(minimum, values[i])
        maximum = max(maximum, values[i])
    return minimum, maximum


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
    ranges = [extremes(column) for column in columns]
    packed = layout(ranges)
    if packed is None:
        return None
    keys = np.empty(len(columns[0]), np.int64)
    for index, (column, (minimum, _), bits) in enumerate(zip(columns, ranges, packed[0], strict=True)):
        add_column(keys, column, minimum, bits, index == 0)
    if not ascends(keys):
        keys.sort()
        keys = keys[: drop_repeats(keys)]
    return levels_of(keys, ranges)


def rearrange_packed(
    parts: Sequence[tuple[Sequence[CodeArray], Sequence[Int64Array]]], order: Sequence[int], tags: Sequence[int]
) -> Levels | None:
    """Return the trie of the rows of disjoint tries; None if 63 bits cannot hold a row.

    Its columns have another order; with tags, the tag of a row's trie is an additional column.
    """
    extremes_of = [[extremes(level) for level in values] for values, _ in parts]
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
        keys.sort()
    return levels_of(keys, arranged, 1 if tags else 0)
