"""Long ranges as bitmaps with ranks: membership and position by a few loads.

The values below one parent are bits in words of 64. Only words with a set bit are stored, each with the position of its
first value. 64 words are a block; every block stores, at a place that needs no search, which of its words are present
and the place of the first one. So a value's position is found by counting the bits before it (rank: Jacobson,
"Space-efficient static trees and graphs", 1989, doi:10.1109/SFCS.1989.63533).

A batch never changes, so this is built once per batch, in one pass over its values, when it is first joined with
another atom, and is used until the batch is merged.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from cpu_fallback.memory import address_of
from cpu_fallback.pointers import bits_of, load, pointer32, unsigned64
from cpu_fallback.runtime import cached_njit
from cpu_fallback.slots import MAXIMUM, MINIMUM, N_FIELDS, PLACES, ROW, SIZE, VALUES, WIDTH, WORDS
from cpu_fallback.sort import Int64Array

Ranks = tuple[()] | tuple[npt.NDArray[np.int32], npt.NDArray[np.uint64]]
"""Per parent, the start of its blocks in the words or -1, and the words; empty if no range has ranks."""

RANKED_FROM = 2048
"""Values of a level below which it has no ranks: batches of a few ticks, which are merged soon."""

SHORTEST = 16
"""Values of a range below which it has no ranks."""

BLOCKS_A_VALUE = 0.25
"""Blocks that a level's values span per value of a range, above which the range has no ranks."""

ROOM = 1
"""Ratio of the memory of ranks to that of the level's values, at most; the longest ranges get ranks first."""

PARENTS_A_VALUE = 16
"""Parents per value of the ranges with ranks, at most; every parent has a place."""

BLOCK_BITS = 12
"""Bits of a value within its block; the blocks of all levels begin at multiples of 2^12."""

N_WIDTHS = 64
"""Rows of the table of range widths: powers of two up to 2^63 values."""


@cached_njit
def room_by_width(address, width, offsets, base, min_values, room):
    """Add to `room` the words of ranges of at least `min_values` values, without blocks.

    `room` has a row per power of two: in row r, for ranges of 2^r to 2^(r + 1) - 1 values, their number, words and
    values.
    """
    for parent in range(len(offsets) - 1):
        begin, end = offsets[parent], offsets[parent + 1]
        if end - begin < min_values:
            continue
        n = 0
        before = np.int64(-1)
        for i in range(begin, end):
            word = (load(address, width, i) - base) >> 6
            n += word != before
            before = word
        row = 0
        while (end - begin) >> (row + 1) > 0:
            row += 1
        room[row, 0] += 1
        room[row, 1] += 2 * n
        room[row, 2] += end - begin


@cached_njit
def rank_ranges(address, width, offsets, base, n_blocks, min_values, places, words):
    """Fill `places`, the start of each parent's blocks in `words` or -1, and `words`.

    `words` are 0 before.
    """
    n_words = np.int64(0)
    for parent in range(len(offsets) - 1):
        begin, end = offsets[parent], offsets[parent + 1]
        places[parent] = -1
        if end - begin < min_values:
            continue
        places[parent] = n_words
        start = n_words
        n_words += 2 * n_blocks
        before = np.int64(-1)
        for i in range(begin, end):
            distance = load(address, width, i) - base
            word = distance >> 6
            if word != before:
                block = start + 2 * (word >> 6)
                if words[block] == 0:
                    words[block + 1] = n_words
                words[block] |= np.uint64(1) << np.uint64(word & 63)
                words[n_words + 1] = i
                n_words += 2
                before = word
            words[n_words - 2] |= np.uint64(1) << np.uint64(distance & 63)


def rank_level(fields: Int64Array, offsets: Int64Array) -> Ranks:
    """Return the ranks of a level with parents; empty if it has few or widely spread values.

    O(n) for the parents, and for the values of those that have enough of them.
    """
    base, n = int(fields[MINIMUM]) >> BLOCK_BITS << BLOCK_BITS, int(fields[SIZE])
    n_blocks = ((int(fields[MAXIMUM]) - base) >> BLOCK_BITS) + 1
    min_values = max(SHORTEST, int(n_blocks / BLOCKS_A_VALUE))
    if not max(RANKED_FROM, min_values) <= n < 1 << 31:
        return ()
    level = int(fields[VALUES]), int(fields[WIDTH]), offsets, base
    room = np.zeros((N_WIDTHS, 3), np.int64)
    room_by_width(*level, min_values, room)
    words = 2 * n_blocks * room[:, 0] + room[:, 1]
    total, below = np.cumsum([words[::-1], room[::-1, 2]], axis=1)[:, ::-1]  # of a row and of longer ranges
    n_parents = len(offsets) - 1
    fits = 4 * n_parents + 8 * total <= ROOM * int(fields[WIDTH]) * n
    fitting = np.flatnonzero(fits & (total > 0) & (PARENTS_A_VALUE * below >= n_parents))
    if len(fitting) == 0:
        return ()
    row = int(fitting[0])
    places = np.empty(len(offsets) - 1, np.int32)
    words_array = np.zeros(
        int(total[row]) + 2, np.uint64
    )  # a value that is not there may be looked for behind the last word
    rank_ranges(*level, n_blocks, max(min_values, 1 << row), places, words_array)
    return places, words_array


def publish(fields: Int64Array, ranks: Ranks) -> None:
    """Make the ranks of a level visible to kernels; they are kept alive by the level's fields."""
    if ranks and fields[PLACES] == 0:  # otherwise another thread has just built the same
        places, words = ranks
        fields[WORDS] = address_of(words)
        fields[PLACES] = address_of(places)  # written last: a thread that sees it also finds the words


@cached_njit
def start_of(table, k, parent):
    """Return the start of the ranks of the range below a parent in slot k; -1 without ranks."""
    if table[k * N_FIELDS + PLACES] == 0 or parent < 0:
        return np.int64(-1)
    return np.int64(pointer32(table[k * N_FIELDS + PLACES])[parent])


@cached_njit
def rank_start(table, positions, stride, q, k):
    """Return `start_of` for the range of prefix `q`."""
    if table[k * N_FIELDS + PLACES] == 0:
        return np.int64(-1)
    return start_of(table, k, positions[table[k * N_FIELDS + ROW] * stride + q])


@cached_njit
def position_of(table, k, start, value):
    """Return the position of `value` in the range of slot k with ranks at `start`; -1 if absent."""
    if value < table[k * N_FIELDS + MINIMUM] or value > table[k * N_FIELDS + MAXIMUM]:
        return np.int64(-1)
    words = unsigned64(table[k * N_FIELDS + WORDS])
    block = start + 2 * ((value >> BLOCK_BITS) - (table[k * N_FIELDS + MINIMUM] >> BLOCK_BITS))
    stored, bit = words[block], np.uint64(1) << np.uint64((value >> 6) & 63)
    if stored & bit == 0:
        return np.int64(-1)
    word_at = np.int64(words[block + 1]) + 2 * bits_of(stored & (bit - np.uint64(1)))
    bits, bit = words[word_at], np.uint64(1) << np.uint64(value & 63)
    if bits & bit == 0:
        return np.int64(-1)
    return np.int64(words[word_at + 1]) + bits_of(bits & (bit - np.uint64(1)))


@njit(nogil=True, inline="always")
def base_of(table, k):
    """Return the first value of the first block of slot k."""
    return table[k * N_FIELDS + MINIMUM] >> BLOCK_BITS << BLOCK_BITS


@njit(nogil=True, inline="always")
def is_set(words, start, distance):
    """Return 1 if the value at `distance` from `base_of` is in the range at `start`, else 0.

    It does not branch: for a word that is not stored, the bits of another word are read and masked out.
    """
    word = distance >> 6
    block = start + 2 * (word >> 6)
    stored, place = words[block], np.uint64(word & 63)
    word_at = np.int64(words[block + 1]) + 2 * bits_of(stored & ((np.uint64(1) << place) - np.uint64(1)))
    return np.int64((stored >> place) & (words[word_at] >> np.uint64(distance & 63)) & np.uint64(1))


@cached_njit
def within_level(table, k, address, width, begin, end):
    """Return the part of ascending values, begin to end, within the values of slot k.

    The values are read at an address.
    """
    base, maximum = table[k * N_FIELDS + MINIMUM], table[k * N_FIELDS + MAXIMUM]
    while begin < end and load(address, width, begin) < base:
        begin += 1
    while begin < end and load(address, width, end - 1) > maximum:
        end -= 1
    return begin, end


@cached_njit
def count_ranked(table, k, start, address, width, begin, end):
    """Return how many values from `begin` to `end` are in the range of slot k ranked at `start`.

    The values are read at an address.
    """
    words, base = unsigned64(table[k * N_FIELDS + WORDS]), base_of(table, k)
    begin, end = within_level(table, k, address, width, begin, end)
    hits = 0
    for i in range(begin, end):
        hits += is_set(words, start, load(address, width, i) - base)
    return hits


@cached_njit
def load_starts(table, positions, stride, q, begin, end, starts):
    """Write `rank_start` of prefix `q` for slots begin to end into `starts`."""
    for k in range(begin, end):
        starts[k] = rank_start(table, positions, stride, q, k)


@cached_njit
def is_ranked(begin, end, low, high, starts):
    """Return whether the widest range of slots begin to end of one atom has ranks."""
    widest = begin
    for k in range(begin + 1, end):
        if high[k] - low[k] > high[widest] - low[widest]:
            widest = k
    return starts[widest] >= 0
