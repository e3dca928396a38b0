"""Ranges of a prefix's candidates, one per slot: loaded, narrowed and measured."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cpu_fallback.runtime import address_of, bits_of, cached_njit, load, pointer32, pointer64, prefetch, unsigned64
from cpu_fallback.tries import PROBES, RANKED, SURVIVORS, Int64Array

# The table of one level's extenders for compiled kernels, and searches in its rows.
#
# A slot is one batch of one atom at the level that is being bound. Field f of slot k is ``table[k * N_FIELDS + f]``;
# the fields are the constants below. Tables and scratch memory are passed as bare pointers: numba passes an array to a
# function as seven or more arguments, which costs more than these functions themselves. Slots of one atom are adjacent:
# atom a has rows ``first[a]`` to ``first[a + 1]``.


VALUES, WIDTH, PARENT, SIZE, WEIGHTS, BUCKETS, MINIMUM, SHIFT, MAXIMUM, ROW, OUT_ROW, PLACES, WORDS, N_FIELDS = range(
    14
)
"""VALUES address and WIDTH in bytes of the sorted values; PARENT address of the offsets that delimit children, 0 at
the top level; SIZE number of values; WEIGHTS address at an atom's last level, 0 if all are 1; BUCKETS address, SHIFT
of the bucket index of a top level, 0 without; MINIMUM and MAXIMUM of the values; ROW of the positions matrix that
holds the parents' positions; OUT_ROW to which `fill_common` writes the positions of matches, or -1;
PLACES and WORDS addresses of the ranks of long ranges, 0 without."""


@cached_njit
def lower_bound(table, k, low, high, value):
    """Return the first position in [low, high) of slot k with a value not below `value`.

    It is `high` if there is none.
    """
    address, width = table[k * N_FIELDS + VALUES], table[k * N_FIELDS + WIDTH]
    while low < high:
        middle = (low + high) >> 1
        if load(address, width, middle) < value:
            low = middle + 1
        else:
            high = middle
    return low


@cached_njit
def gallop(table, k, low, high, value):
    """Search like `lower_bound`, in time logarithmic in the distance from `low`."""
    address, width = table[k * N_FIELDS + VALUES], table[k * N_FIELDS + WIDTH]
    if low >= high or load(address, width, low) >= value:
        return low
    step = 1
    while low + step < high and load(address, width, low + step) < value:
        low += step
        step <<= 1
    high = min(high, low + step)
    low += 1
    while low < high:
        middle = (low + high) >> 1
        if load(address, width, middle) < value:
            low = middle + 1
        else:
            high = middle
    return low


@cached_njit
def find(table, k, low, high, value):
    """Return the position of `value` in [low, high) of slot k, or -1.

    A top level is searched within its bucket.
    """
    if low >= high or value < table[k * N_FIELDS + MINIMUM] or value > table[k * N_FIELDS + MAXIMUM]:
        return -1
    if table[k * N_FIELDS + BUCKETS] != 0:
        bucket = np.int64(
            (np.uint64(value) - np.uint64(table[k * N_FIELDS + MINIMUM])) >> np.uint64(table[k * N_FIELDS + SHIFT])
        )
        starts = pointer64(table[k * N_FIELDS + BUCKETS])
        low = max(low, starts[bucket])
        high = min(high, starts[bucket + 1])
    position = lower_bound(table, k, low, high, value)
    if position < high and load(table[k * N_FIELDS + VALUES], table[k * N_FIELDS + WIDTH], position) == value:
        return position
    return -1


@cached_njit
def weight_at(table, k, position):
    """Return the weight of the row at a last-level position of slot k."""
    if table[k * N_FIELDS + WEIGHTS] == 0:
        return 1
    return pointer64(table[k * N_FIELDS + WEIGHTS])[position]


@cached_njit
def extremes(address, width, n):
    """Return the smallest and the largest of one or more values."""
    if width == 4:
        narrow = pointer32(address)
        low = high = narrow[0]
        for i in range(n):
            low = min(low, narrow[i])
            high = max(high, narrow[i])
        return np.int64(low), np.int64(high)
    wide = pointer64(address)
    minimum = maximum = wide[0]
    for i in range(n):
        minimum = min(minimum, wide[i])
        maximum = max(maximum, wide[i])
    return minimum, maximum


@cached_njit
def scan_values(address, width, begin, end, fields):
    """Widen MINIMUM and MAXIMUM in the fields of a level by the values from `begin` to `end`.

    The first call begins at 0.
    """
    if end > begin:
        minimum, maximum = extremes(address + begin * width, width, end - begin)
        fields[MINIMUM] = minimum if begin == 0 else min(fields[MINIMUM], minimum)
        fields[MAXIMUM] = maximum if begin == 0 else max(fields[MAXIMUM], maximum)


@cached_njit
def describe_level(address, width, n, parents, weights, starts, shift, n_scanned, fields):
    """Fill the fields of the slots of a level of n values and return the address of the fields.

    Empty arrays, and 0 for the address of weights, stand for parts that the level does not have. `n_scanned` values
    have been scanned before.
    """
    fields[VALUES] = address
    fields[WIDTH] = width
    fields[PARENT] = parents.ctypes.data if len(parents) > 0 else 0
    fields[SIZE] = n
    fields[WEIGHTS] = weights
    fields[BUCKETS] = starts.ctypes.data if len(starts) > 0 else 0
    fields[SHIFT] = shift
    if n == 0:
        fields[MINIMUM] = 0
        fields[MAXIMUM] = 0
    elif len(parents) == 0:
        fields[MINIMUM] = load(address, width, 0)
        fields[MAXIMUM] = load(address, width, n - 1)
    else:
        scan_values(address, width, n_scanned, n, fields)
    fields[ROW] = -1
    fields[OUT_ROW] = -1
    fields[PLACES] = 0
    fields[WORDS] = 0
    return fields.ctypes.data


# Long ranges as bitmaps with ranks: membership and position by a few loads.
#
# The values below one parent are bits in words of 64. Only words with a set bit are stored, each with the position of
# its first value. 64 words are a block; every block stores, at a place that needs no search, which of its words are
# present and the place of the first one. So a value's position is found by counting the bits before it (rank: Jacobson,
# "Space-efficient static trees and graphs", 1989, doi:10.1109/SFCS.1989.63533).
#
# A batch never changes, so this is built once per batch, in two passes over its values, when it is first joined with
# another atom, and is used until the batch is merged. A merge in instalments builds it for the merged batch, too.


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
def parent_of(offsets, position):
    """Return the parent of a position."""
    low, high = 0, len(offsets) - 1
    while high - low > 1:
        middle = (low + high) >> 1
        if offsets[middle] <= position:
            low = middle
        else:
            high = middle
    return low


ADDRESS, BYTES, BASE, N_BLOCKS, MIN_VALUES = range(5)
"""Elements of the description of a level to be ranked: address of its values and bytes of one, first value of the first
block, blocks of a range, and values of the shortest range with ranks."""

NEXT, N_WORDS, N_REACHED = range(3)
"""Elements of the progress of a pass over a level: the value to continue with, and the words written before it."""


@cached_njit
def room_by_width(described, offsets, reached, end, room):
    """Add to `room` the words of the values up to `end`, without blocks.

    `reached` says where to continue. `room` has a row per power of two: in row r, for ranges of 2^r to 2^(r + 1) - 1
    values, their number, words and values. A range is counted with its first value; those that are too short are not.
    """
    address, width, base = described[ADDRESS], described[BYTES], described[BASE]
    begin = reached[NEXT]
    parent = parent_of(offsets, begin)
    while begin < end:
        first, last = offsets[parent], offsets[parent + 1]
        stop = min(end, last)
        if last - first >= described[MIN_VALUES]:
            n = 0
            before = np.int64(-1) if begin == first else (load(address, width, begin - 1) - base) >> 6
            for i in range(begin, stop):
                word = (load(address, width, i) - base) >> 6
                n += word != before
                before = word
            row = 0
            while (last - first) >> (row + 1) > 0:
                row += 1
            room[row, 1] += 2 * n
            if begin == first:
                room[row, 0] += 1
                room[row, 2] += last - first
        begin = stop
        parent += 1
    reached[NEXT] = end


@cached_njit
def rank_ranges(described, offsets, reached, end, places, words):
    """Rank the values up to `end`; `reached` says where to continue.

    Writes `words`, and to `places` the starts of their blocks by parent; other places stay.
    """
    address, width, base = described[ADDRESS], described[BYTES], described[BASE]
    begin, n_words = reached[NEXT], reached[N_WORDS]
    parent = parent_of(offsets, begin)
    while begin < end:
        first, last = offsets[parent], offsets[parent + 1]
        stop = min(end, last)
        if last - first >= described[MIN_VALUES]:
            if begin == first:
                places[parent] = n_words
                words[n_words : n_words + 2 * described[N_BLOCKS]] = 0
                n_words += 2 * described[N_BLOCKS]
            start = np.int64(places[parent])
            before = np.int64(-1) if begin == first else (load(address, width, begin - 1) - base) >> 6
            for i in range(begin, stop):
                distance = load(address, width, i) - base
                word = distance >> 6
                if word != before:
                    block = start + 2 * (word >> 6)
                    if words[block] == 0:
                        words[block + 1] = n_words
                    words[block] |= np.uint64(1) << np.uint64(word & 63)
                    words[n_words] = 0
                    words[n_words + 1] = i
                    n_words += 2
                    before = word
                words[n_words - 2] |= np.uint64(1) << np.uint64(distance & 63)
        begin = stop
        parent += 1
    reached[NEXT], reached[N_WORDS] = end, n_words


class RankBuilder:
    """The ranks of a level with parents, built in as many parts as the caller likes.

    Compiled code updates the progress, so a part that is interrupted can be asked for again.

    Attributes
    ----------
    arrays
        The ranks so far.
    ranks
        The result once `is_done`: empty if the level has few or widely spread values.
    is_done
        Whether nothing is left to do.
    """

    def __init__(self, fields: Int64Array, offsets: Int64Array) -> None:
        self.ranks: Ranks = ()
        self.arrays: Ranks = ()
        self._n, self._offsets = int(fields[SIZE]), offsets
        base = int(fields[MINIMUM]) >> BLOCK_BITS << BLOCK_BITS
        n_blocks = ((int(fields[MAXIMUM]) - base) >> BLOCK_BITS) + 1
        min_values = max(SHORTEST, int(n_blocks / BLOCKS_A_VALUE))
        self.is_done = not max(RANKED_FROM, min_values) <= self._n < 1 << 31
        if self.is_done:
            return
        self._described = np.array((fields[VALUES], fields[WIDTH], base, n_blocks, min_values), np.int64)
        self._room = np.zeros((N_WIDTHS, 3), np.int64)
        self._counted, self._ranked = np.zeros((2, N_REACHED), np.int64)

    def advance(self, n_values: int) -> int:
        """Read up to `n_values` more values, each in two passes; return how many were read."""
        n_read = 0
        while n_read < n_values and not self.is_done:
            reached = self._ranked if self.arrays else self._counted
            begin = int(reached[NEXT])
            end = min(begin + n_values - n_read, self._n)
            if not self.arrays:
                room_by_width(self._described, self._offsets, reached, end, self._room)
                if end == self._n:
                    self._place()
            else:
                places, words = self.arrays
                rank_ranges(self._described, self._offsets, reached, end, places, words)
                if end == self._n:
                    words[reached[N_WORDS] :] = 0  # a value that is not there may be looked for behind the last word
                    self.ranks, self.is_done = self.arrays, True
            n_read += end - begin
        return n_read

    def _place(self) -> None:
        """Choose the ranges with ranks, and allocate these."""
        n_parents = len(self._offsets) - 1
        words = 2 * self._described[N_BLOCKS] * self._room[:, 0] + self._room[:, 1]
        total, below = np.cumsum([words[::-1], self._room[::-1, 2]], axis=1)[:, ::-1]  # of a row and of longer ranges
        fits = 4 * n_parents + 8 * total <= ROOM * self._described[BYTES] * self._n
        fitting = np.flatnonzero(fits & (total > 0) & (PARENTS_A_VALUE * below >= n_parents))
        if len(fitting) == 0:
            self.is_done = True
            return
        row = int(fitting[0])
        self._described[MIN_VALUES] = max(self._described[MIN_VALUES], 1 << row)
        self.arrays = np.full(n_parents, -1, np.int32), np.empty(int(total[row]) + 2, np.uint64)


def rank_level(fields: Int64Array, offsets: Int64Array) -> Ranks:
    """Return the ranks of a level with parents; empty if it has few or widely spread values.

    O(n) for the parents, and for the values of those that have enough of them.
    """
    builder = RankBuilder(fields, offsets)
    builder.advance(2 * int(fields[SIZE]))
    return builder.ranks


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


@cached_njit
def base_of(table, k):
    """Return the first value of the first block of slot k."""
    return table[k * N_FIELDS + MINIMUM] >> BLOCK_BITS << BLOCK_BITS


@cached_njit
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


AHEAD = 4
"""Prefixes by which ranges are prefetched ahead."""

LINES = 4
"""Cache lines of a range that are prefetched."""


@cached_njit
def load_ranges(table, positions, stride, p, begin, end, low, high):
    """Write the children's range of prefix `p` for slots begin to end into `low` and `high`."""
    for k in range(begin, end):
        if table[k * N_FIELDS + PARENT] == 0:
            low[k] = 0
            high[k] = table[k * N_FIELDS + SIZE]
        else:
            parent = positions[table[k * N_FIELDS + ROW] * stride + p]
            if parent < 0:
                low[k] = 0
                high[k] = 0
            else:
                offsets = pointer64(table[k * N_FIELDS + PARENT])
                low[k] = offsets[parent]
                high[k] = offsets[parent + 1]


@cached_njit
def range_of(table, k, parent):
    """Return a parent's range in slot k and the start of its ranks, or -1.

    Without a parent it is (0, 0, -1).
    """
    if parent < 0:
        return np.int64(0), np.int64(0), np.int64(-1)
    offsets = pointer64(table[k * N_FIELDS + PARENT])
    return offsets[parent], offsets[parent + 1], start_of(table, k, parent)


@cached_njit
def clip_range(table, k, low, high, minimum, maximum):
    """Return the part of [low, high) of slot k with values from `minimum` to `maximum`."""
    if low < high and table[k * N_FIELDS + MINIMUM] < minimum:
        low = lower_bound(table, k, low, high, minimum)
    if low < high and table[k * N_FIELDS + MAXIMUM] > maximum:
        start = low
        while start < high:
            middle = (start + high) >> 1
            if load(table[k * N_FIELDS + VALUES], table[k * N_FIELDS + WIDTH], middle) <= maximum:
                start = middle + 1
            else:
                high = middle
    return low, high


@cached_njit
def add_widths(records, rows, positions, lower, upper, widths):
    """Add to ``widths[p]`` the values below prefix p from ``lower[p]`` to ``upper[p]``.

    `records` are addresses of the levels' slot fields, `rows` the rows of `positions` with the parents.
    """
    for level in range(len(records)):
        table = pointer64(records[level])
        for p in range(len(widths)):
            low, high = np.int64(0), table[SIZE]
            if table[PARENT] != 0:
                parent = positions[rows[level], p]
                if parent < 0:
                    continue
                low, high = pointer64(table[PARENT])[parent], pointer64(table[PARENT])[parent + 1]
            if len(lower) > 0:
                low, high = clip_range(table, 0, low, high, lower[p], upper[p])
            widths[p] += max(high - low, 0)


@cached_njit
def clip_ranges(table, begin, end, low, high, minimum, maximum):
    """Narrow the ranges of slots begin to end to values from `least` to `most`, both inclusive."""
    for k in range(begin, end):
        low[k], high[k] = clip_range(table, k, low[k], high[k], minimum, maximum)


@cached_njit
def width_of(begin, end, low, high):
    """Return the sum of the ranges' widths of one atom."""
    total = 0
    for k in range(begin, end):
        total += high[k] - low[k]
    return total


@cached_njit
def smallest_count(table, n_atoms, first, member, positions, stride, q, shared_width, low, high):
    """Return the smallest count of prefix `q`, given that of the `member` atoms."""
    smallest = shared_width
    for a in range(n_atoms):
        if not member[a]:
            load_ranges(table, positions, stride, q, first[a], first[a + 1], low, high)
            smallest = min(smallest, width_of(first[a], first[a + 1], low, high))
    return smallest


@cached_njit
def prefetch_range(table, positions, stride, q, k):
    """Prefetch the first lines of prefix q's range in slot k, the largest batch of its atom."""
    if table[k * N_FIELDS + PARENT] == 0:
        return
    parent = positions[table[k * N_FIELDS + ROW] * stride + q]
    if parent >= 0:
        width = table[k * N_FIELDS + WIDTH]
        start = table[k * N_FIELDS + VALUES] + width * pointer64(table[k * N_FIELDS + PARENT])[parent]
        for line in range(LINES):
            prefetch(start + 64 * line)


# Work on one candidate: propose it from one atom, search it in another, emit it.


@cached_njit
def probe(table, begin, end, is_last, cursor, high, starts, value, matches, work):
    """Search `value` in slots begin to end of one atom; return if it is there, and its weight.

    The weight is that of the last level, else 1. Another slot contains the value within the bounds of `cursor` and
    `high`.
    """
    hit = False
    weight = 0
    for k in range(begin, end):
        matches[k] = -1
        if cursor[k] < high[k]:
            work[PROBES] += 1
            if starts[k] >= 0:
                work[RANKED] += 1
                position = position_of(table, k, starts[k], value)
            elif table[k * N_FIELDS + BUCKETS] != 0:
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
                matches[k] = position
                hit = True
                if is_last:
                    weight += weight_at(table, k, position)
    if is_last:
        return hit and weight != 0, weight
    return hit, 1


@cached_njit
def propose(table, begin, k, end, is_last, position, cursor, high, starts, value, matches, work):
    """Return whether slot k is the first of its atom's slots with its value, and the weight.

    The atom has the slots begin to end.
    """
    for j in range(begin, k):
        matches[j] = -1
    if k > begin:
        earlier, _ = probe(table, begin, k, False, cursor, high, starts, value, matches, work)
        if earlier:
            return False, 0
    matches[k] = position
    if not is_last:
        if k + 1 < end:
            probe(table, k + 1, end, False, cursor, high, starts, value, matches, work)
        return True, 1
    weight = weight_at(table, k, position)
    if k + 1 < end:
        _, later = probe(table, k + 1, end, True, cursor, high, starts, value, matches, work)
        weight += later
    return weight != 0, weight


@cached_njit
def is_excluded(excluded, n_excluded, stride, p, value):
    """Return whether a ``!=`` excludes the value for prefix `p`."""
    for e in range(n_excluded):
        if excluded[e * stride + p] == value:
            return True
    return False


@cached_njit
def emit(table, n_slots, p, value, weight, matches, prefix_weight, weighted, fill, out, capacity, work):
    """Write one survivor to `out`, or add it to the count ``out[p]``.

    Rows of `out` are parent, value, weight if weighted, and positions.
    """
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
                out[base + target * capacity] = matches[k]
    else:
        out[p] += weight
    work[SURVIVORS] += 1


# Filtering candidates by other atoms, many at a time and without branches.
#
# Ranks tell exactly whether a range contains a value. A short range has a mask of 64 bits, in which an unset bit
# excludes a value. A candidate passes an atom if one of the atom's ranges may contain it; candidates that pass all
# atoms are then searched as usual.


BLOCK = 512
"""Candidates that are tested together, here or by marks, before the survivors are processed."""

MAX_MASKED = 16
"""Values of a range up to which it has a mask."""

MIN_FILTERED = 8
"""Candidates below which filtering is skipped."""


@cached_njit
def set_filters(table, n_atoms, first, proposer, low, high, starts, masks, filters):
    """Set in `filters`, per atom, whether it filters candidates; return whether some atom does.

    An atom does if one of its ranges has ranks, and the others have ranks or are short. Masks are written to `masks`.
    """
    is_any = False
    for a in range(n_atoms):
        filters[a] = 0
        if a == proposer or table[first[a] * N_FIELDS + PARENT] == 0:
            continue
        serves = False
        for k in range(first[a], first[a + 1]):
            if starts[k] >= 0:
                serves = True
            elif high[k] - low[k] > MAX_MASKED:
                serves = False
                break
        if not serves:
            continue
        filters[a] = 1
        is_any = True
        for k in range(first[a], first[a + 1]):
            mask = np.int64(0)
            if starts[k] < 0:
                address, width = table[k * N_FIELDS + VALUES], table[k * N_FIELDS + WIDTH]
                for i in range(low[k], high[k]):
                    mask |= np.int64(1) << (load(address, width, i) & 63)
            masks[k] = mask
    return is_any


@cached_njit
def filter_candidates(table, n_atoms, first, low, high, starts, masks, filters, address, width, begin, end, room):
    """Write the positions of passing candidates from `begin` to `end`; return their number.

    They are written to the address `room`, with space for twice `BLOCK` positions.
    """
    places, is_held = pointer64(room), pointer64(room + 8 * BLOCK)
    n = end - begin
    for i in range(n):
        places[i] = begin + i
    for a in range(n_atoms):
        if filters[a] == 0:
            continue
        for i in range(n):
            is_held[i] = 0
        for k in range(first[a], first[a + 1]):
            if low[k] >= high[k]:
                continue
            if starts[k] < 0:
                mask = masks[k]
                for i in range(n):
                    is_held[i] |= mask >> (load(address, width, places[i]) & 63)
                continue
            words, start = unsigned64(table[k * N_FIELDS + WORDS]), starts[k]
            minimum, maximum, base = table[k * N_FIELDS + MINIMUM], table[k * N_FIELDS + MAXIMUM], base_of(table, k)
            for i in range(n):
                value = load(address, width, places[i])
                spanned = np.int64(value >= minimum) & np.int64(value <= maximum)
                is_held[i] |= is_set(words, start, (value - base) * spanned) & spanned
        left = 0
        for i in range(n):
            places[left] = places[i]
            left += is_held[i] & 1
        n = left
    return n
