"""Tries from rows packed into one key each, and the other way round, without columns in between.

A level has the bits of its values' range, the first level the highest ones, so keys order as rows do. What takes long
with many rows is memory that is written for the first time: of this there is one array of keys beside the trie.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cpu_fallback.cache import cached_njit
from cpu_fallback.keys import add_column, ascends, without_repeats
from cpu_fallback.memory import address_of
from cpu_fallback.merge import LEVEL_FIELDS
from cpu_fallback.pointers import load, pointer32, pointer64
from cpu_fallback.sort import PACKED_BITS, Int64Array
from cpu_fallback.tries import CodeArray

_LEAST32, _MOST32 = -(1 << 31), (1 << 31) - 1

Levels = tuple[list[CodeArray], list[Int64Array]]
Ranges = Sequence[tuple[int, int]]
"""The least and the greatest value of each level."""


@cached_njit
def extremes(values):
    """The least and the greatest of one or more values."""
    least = most = values[0]
    for i in range(len(values)):
        least = min(least, values[i])
        most = max(most, values[i])
    return least, most


@cached_njit
def pack_trie(table, lows, shifts, tag, keys):
    """Write the key of every row of a trie, given as a table with a row of `LEVEL_FIELDS` a level; all with the tag."""
    last = len(table) - 1
    node = np.zeros(last + 1, np.int64)
    above = np.full(last + 1, tag)
    values, width, low, shift = table[last, 0], table[last, 2], lows[last], shifts[last]
    begin = d = 0
    while begin < len(keys):
        for level in range(d, last):
            value = load(table[level, 0], table[level, 2], node[level])
            above[level + 1] = above[level] | ((value - lows[level]) << shifts[level])
        end = pointer64(table[last - 1, 1])[node[last - 1] + 1] if last > 0 else np.int64(len(keys))
        key = above[last]
        if width == 4:
            narrow = pointer32(values)
            for i in range(begin, end):
                keys[i] = key | ((np.int64(narrow[i]) - low) << shift)
        else:
            wide = pointer64(values)
            for i in range(begin, end):
                keys[i] = key | ((wide[i] - low) << shift)
        begin = end
        d = max(last - 1, 0)
        node[d] += 1
        while d > 0 and node[d] == pointer64(table[d - 1, 1])[node[d - 1] + 1]:
            d -= 1
            node[d] += 1


@cached_njit
def count_nodes(keys, shifts, counts):
    """Add to `counts` how many values each level but the last has; a level's bits begin above its `shifts`."""
    for i in range(len(keys)):
        differs = keys[i] ^ keys[i - 1] if i > 0 else np.int64(-1)
        for d in range(len(shifts) - 1):
            counts[d] += (differs >> shifts[d]) != 0


@cached_njit
def unpack_trie(keys, lows, shifts, masks, table, n_tags):
    """Write the levels of the trie of sorted distinct keys; the last `n_tags` ones, 0 or 1, have a value a row."""
    last = len(lows) - 1 - n_tags
    counts = np.zeros(last + 1, np.int64)
    values, width, low, shift, mask = table[last, 0], table[last, 2], lows[last], shifts[last], masks[last]
    for i in range(len(keys)):
        key = keys[i]
        differs = key ^ keys[i - 1] if i > 0 else np.int64(-1)
        if last > 0 and (differs >> shifts[last - 1]) != 0:
            counts[last] = i
            for d in range(last):
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
    counts[last] = len(keys)
    for d in range(last):
        pointer64(table[d, 1])[counts[d]] = counts[d + 1]
    if n_tags:
        tags, low, mask = table[last + 1, 0], lows[last + 1], masks[last + 1]
        for i in range(len(keys)):
            if table[last + 1, 2] == 4:
                pointer32(tags)[i] = np.int32((keys[i] & mask) + low)
            else:
                pointer64(tags)[i] = (keys[i] & mask) + low


def table_of(values: Sequence[CodeArray], offsets: Sequence[Int64Array]) -> Int64Array:
    """A trie as compiled code takes it; its arrays have to be kept alive."""
    table = np.zeros((len(values), LEVEL_FIELDS), np.int64)
    for at, level in enumerate(values):
        table[at] = address_of(level), address_of(offsets[at]) if at < len(offsets) else 0, level.itemsize
    return table


def layout(ranges: Ranges) -> tuple[list[int], list[int]] | None:
    """Per level the bits that its values take, and those below them; None if a key has too few for all."""
    bits = [(int(most) - int(least)).bit_length() for least, most in ranges]
    if sum(bits) > PACKED_BITS:
        return None
    return bits, [sum(bits[at + 1 :]) for at in range(len(bits))]


def levels_of(keys: Int64Array, ranges: Ranges, n_tags: int = 0) -> Levels:
    """The trie of one or more sorted distinct keys, whose last level is one of tags, or none is."""
    packed = layout(ranges)
    assert packed is not None
    bits, shifts = packed
    counts = np.full(len(ranges), len(keys), np.int64)
    counts[: len(ranges) - 1 - n_tags] = 0
    count_nodes(keys, np.array(shifts[: len(ranges) - n_tags], np.int64), counts)
    values: list[CodeArray] = []
    for (least, most), n in zip(ranges, counts.tolist(), strict=True):
        narrow = least >= _LEAST32 and most <= _MOST32
        values.append(np.empty(n, np.int32) if narrow else np.empty(n, np.int64))
    offsets = [np.empty(len(level) + 1, np.int64) for level in values[: -1 - n_tags]]
    lows, masks = [least for least, _ in ranges], [(1 << width) - 1 for width in bits]
    unpack_trie(keys, *(np.array(own, np.int64) for own in (lows, shifts, masks)), table_of(values, offsets), n_tags)
    return values, offsets


def index_rows(columns: Sequence[Int64Array]) -> Levels | None:
    """The trie of the distinct ones of one or more rows; None if 63 bits do not hold a row."""
    ranges = [extremes(column) for column in columns]
    packed = layout(ranges)
    if packed is None:
        return None
    keys = np.empty(len(columns[0]), np.int64)
    for at, (column, (least, _), bits) in enumerate(zip(columns, ranges, packed[0], strict=True)):
        add_column(keys, column, least, bits, at == 0)
    if not ascends(keys):
        keys.sort()
        keys = keys[: without_repeats(keys)]
    return levels_of(keys, ranges)


def rearranged(
    parts: Sequence[tuple[Sequence[CodeArray], Sequence[Int64Array]]], order: Sequence[int], tags: Sequence[int]
) -> Levels | None:
    """The trie of the rows of tries without common rows; None if 63 bits do not hold a row.

    Its columns are in another order; where there are tags, that of a row's trie is one more column.
    """
    found = [[extremes(level) for level in values] for values, _ in parts]
    ranges = [(min(own[at][0] for own in found), max(own[at][1] for own in found)) for at in range(len(order))]
    arranged = [ranges[column] for column in order]
    if tags:
        arranged.append((min(tags), max(tags)))
    packed = layout(arranged)
    if packed is None:
        return None
    shifts = np.empty(len(order), np.int64)
    shifts[list(order)] = packed[1][: len(order)]
    lows = np.array([least for least, _ in ranges], np.int64)
    keys = np.empty(sum(len(values[-1]) for values, _ in parts), np.int64)
    at = 0
    for number, (values, offsets) in enumerate(parts):
        end = at + len(values[-1])
        tag = tags[number] - min(tags) if tags else 0
        pack_trie(table_of(values, offsets), lows, shifts, np.int64(tag), keys[at:end])
        at = end
    if not ascends(keys):
        keys.sort()
    return levels_of(keys, arranged, 1 if tags else 0)
