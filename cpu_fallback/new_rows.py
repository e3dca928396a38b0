"""New values: the union of the ranges below a group's prefixes without the known values.

Values of a group are marked, and read back in order from the marks: nothing is sorted, and a repeated value costs one
store. Values that lie close together are marked by bytes. Others are marked by bits, with a second level of one bit for
each word of 64 bits, so that few words are read. Values that lie too far apart for that go through a hash table and are
sorted, once each. A group with a single range copies it.
"""

from __future__ import annotations

import numpy as np

from cpu_fallback.merge import copy_block, first_from
from cpu_fallback.ranges import MAXIMUM, MINIMUM, PARENT, SIZE, VALUES, WIDTH
from cpu_fallback.runtime import cached_njit, load, pointer32, pointer64, prefetch, trailing_zeros, unsigned64
from cpu_fallback.tries import MARKS, PROBES, PROPOSALS, SUM_OF_MINIMA, SURVIVORS

MAX_BYTE_SPAN = 1 << 24
"""Span of values up to which they may be marked by bytes."""

MAX_BIT_SPAN = 1 << 28
"""Span of values up to which they may be marked by bits; beyond it they are hashed."""

SPREAD = 64
"""Ratio of a group's span to its proposed values up to which they are marked by bytes."""

WORDS_A_VALUE = 16
"""Words of the second level per proposed value up to which values are marked by bits."""

KNOWN_A_VALUE = 4
"""Known values per proposed value up to which their marks are cleared; beyond it the new values are searched among
them."""

AHEAD = 8
"""Prefixes by which values are prefetched ahead; offsets are prefetched twice as far."""

_FIRST_ROOM = 1 << 12
"""Values of the first output array."""


@cached_njit
def span_of(records):
    """Return the smallest and the largest value of all these levels; (0, -1) if they are empty."""
    minimum = np.int64(0)
    maximum = np.int64(-1)
    any_values = False
    for record in records:
        fields = pointer64(record)
        if fields[SIZE] > 0:
            minimum = min(minimum, fields[MINIMUM]) if any_values else fields[MINIMUM]
            maximum = max(maximum, fields[MAXIMUM]) if any_values else fields[MAXIMUM]
            any_values = True
    return minimum, maximum


@cached_njit
def range_below(fields, node):
    """Return the range of a level below a node of the level above; all of a top level."""
    if fields[PARENT] == 0:
        return np.int64(0), fields[SIZE]
    if node < 0:
        return np.int64(0), np.int64(0)
    offsets = pointer64(fields[PARENT])
    return offsets[node], offsets[node + 1]


@cached_njit
def mark(address, width, begin, end, base, seen, sign):
    """Set the marks of a range of values to `sign`."""
    if width == 4:
        narrow = pointer32(address)
        for i in range(begin, end):
            seen[np.int64(narrow[i]) - base] = sign
    else:
        wide = pointer64(address)
        for i in range(begin, end):
            seen[wide[i] - base] = sign


@cached_njit
def drain_marks(seen, base, low, high, out, n):
    """Append the marked values from `low` to `high` and clear their marks.

    `out` has room for one more value.
    """
    words = unsigned64(np.int64(seen.ctypes.data))
    for word in range((low - base) >> 3, ((high - base) >> 3) + 1):
        marks = words[word]
        if marks != 0:
            words[word] = 0
            first = base + (word << 3)
            for i in range(8):
                out[n] = first + i
                n += np.int64((marks >> np.uint64(8 * i)) & np.uint64(1))
    return n


@cached_njit
def mark_bits(address, width, begin, end, base, bits, above):
    """Set the bits of a range of values, and those of their words."""
    for i in range(begin, end):
        distance = load(address, width, i) - base
        word = distance >> 6
        bits[word] |= np.uint64(1) << np.uint64(distance & 63)
        above[word >> 6] |= np.uint64(1) << np.uint64(word & 63)


@cached_njit
def clear_bits(address, width, begin, end, base, bits):
    """Clear the bits of a range of values; those of their words remain."""
    for i in range(begin, end):
        distance = load(address, width, i) - base
        bits[distance >> 6] &= ~(np.uint64(1) << np.uint64(distance & 63))


@cached_njit
def drain_bits(bits, above, base, low, high, out, n):
    """Append the values from `low` to `high` whose bits are set, and clear these."""
    unit = np.uint64(1)
    for word_block in range((low - base) >> 12, ((high - base) >> 12) + 1):
        words = above[word_block]
        above[word_block] = 0
        while words != 0:
            word = (word_block << 6) + trailing_zeros(words)
            words &= words - unit
            marks = bits[word]
            bits[word] = 0
            first = base + (word << 6)
            while marks != 0:
                out[n] = first + trailing_zeros(marks)
                n += 1
                marks &= marks - unit
    return n


@cached_njit
def prefetch_ahead(records, first, n_levels, positions, p):
    """Prefetch the memory of the ranges below a later prefix, in n levels from the first on."""
    for k in range(n_levels):
        fields = pointer64(records[first + k])
        if fields[PARENT] == 0:
            continue
        if p + 2 * AHEAD < positions.shape[1]:
            node = positions[k, p + 2 * AHEAD]
            if node >= 0:
                prefetch(fields[PARENT] + 8 * node)
        if p + AHEAD < positions.shape[1]:
            node = positions[k, p + AHEAD]
            if node >= 0:
                prefetch(fields[VALUES] + fields[WIDTH] * pointer64(fields[PARENT])[node])


@cached_njit
def clip_to_values(fields, begin, end, low, high):
    """Return the part of a range whose values are from `low` to `high`."""
    if begin < end:
        begin = first_from(fields[VALUES], fields[WIDTH], begin, end, low)
    if begin < end and load(fields[VALUES], fields[WIDTH], end - 1) > high:
        end = first_from(fields[VALUES], fields[WIDTH], begin, end, high + 1)
    return begin, end


@cached_njit
def hash_slot(value, shift):
    """Return the slot of a value in a table of 2^(64 - shift) slots."""
    return np.int64((np.uint64(value) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(shift))


@cached_njit
def grow(table, stamp, out, start, n):
    """Return a table of twice the size with the values from `start` to `n` of `out`."""
    larger = np.zeros(2 * len(table), np.int64)
    shift = 64
    size = len(larger)
    while size > 1:
        size >>= 1
        shift -= 1
    for i in range(start, n):
        slot = hash_slot(out[i], shift)
        while larger[slot] != 0:
            slot = (slot + 1) & (len(larger) - 1)
        larger[slot] = (stamp << 32) | (i - start)
    return larger, shift


@cached_njit
def reserve(out, n, needed):
    """Return the values in an array with room for `needed` values."""
    if needed <= len(out):
        return out
    larger = np.empty(max(needed, 2 * len(out)), np.int64)
    for i in range(n):
        larger[i] = out[i]
    return larger


_SHORT = 16
"""Values up to which they are sorted by insertion."""


@cached_njit
def sort_values(values, begin, end):
    """Sort the distinct values from `begin` to `end`.

    Quicksort by the median of three; short parts by insertion.
    """
    stack = np.empty(128, np.int64)  # the longer part waits, so its length halves at least from one to the next
    n_waiting = 0
    while True:
        while end - begin > _SHORT:
            low, middle, high = values[begin], values[(begin + end) >> 1], values[end - 1]
            pivot = max(min(low, middle), min(max(low, middle), high))
            i, j = begin, end - 1
            while i <= j:
                while values[i] < pivot:
                    i += 1
                while values[j] > pivot:
                    j -= 1
                if i <= j:
                    values[i], values[j] = values[j], values[i]
                    i += 1
                    j -= 1
            if j + 1 - begin > end - i:
                stack[n_waiting], stack[n_waiting + 1] = begin, j + 1
                begin = i
            else:
                stack[n_waiting], stack[n_waiting + 1] = i, end
                end = j + 1
            n_waiting += 2
        for i in range(begin + 1, end):
            value = values[i]
            j = i
            while j > begin and values[j - 1] > value:
                values[j] = values[j - 1]
                j -= 1
            values[j] = value
        if n_waiting == 0:
            return
        n_waiting -= 2
        begin, end = stack[n_waiting], stack[n_waiting + 1]


@cached_njit
def subtract_range(out, start, n, address, width, begin, end):
    """Remove the values of a range from ``out[start:n]``, which ascends; return its new end."""
    n_left = start
    for i in range(start, n):
        value = out[i]
        if begin < end:
            begin = first_from(address, width, begin, end, value)
        if begin >= end or load(address, width, begin) != value:
            out[n_left] = value
            n_left += 1
    return n_left


@cached_njit
def fresh_values(records, n_levels, positions, starts, known_positions, base, seen, bits, above, offsets, work):
    """Fill `offsets`; return the values, with spare room, and their number.

    See the protocol. `records` holds the addresses of the levels' fields, then of the known ones'. `seen` has a byte
    for every value from `base` on, `bits` and `above` have marks as for `mark_bits`; all are 0, or empty.
    """
    n_known = len(records) - n_levels
    out = np.empty(_FIRST_ROOM, np.int64)
    table = np.zeros(64, np.int64)
    shift = 58
    n = 0
    for group in range(len(starts) - 1):
        offsets[group] = n
        proposed = 0
        n_ranges = 0
        low = np.int64(0)
        high = np.int64(0)
        only_level, only_begin = 0, np.int64(0)
        for p in range(starts[group], starts[group + 1]):
            prefetch_ahead(records, 0, n_levels, positions, p)
            for k in range(n_levels):
                fields = pointer64(records[k])
                begin, end = range_below(fields, positions[k, p])
                if begin < end:
                    first = load(fields[VALUES], fields[WIDTH], begin)
                    greatest = load(fields[VALUES], fields[WIDTH], end - 1)
                    low = first if n_ranges == 0 else min(low, first)
                    high = greatest if n_ranges == 0 else max(high, greatest)
                    proposed += end - begin
                    n_ranges += 1
                    only_level, only_begin = k, begin
        if n_ranges == 0:
            continue
        work[SUM_OF_MINIMA] += proposed
        work[PROPOSALS] += proposed
        span = np.uint64(high) - np.uint64(low)
        start = n
        n_known_values = 0
        prefetch_ahead(records, n_levels, n_known, known_positions, group)
        for k in range(n_known):
            begin, end = range_below(pointer64(records[n_levels + k]), known_positions[k, group])
            n_known_values += end - begin
        if n_ranges == 1:
            fields = pointer64(records[only_level])
            out = reserve(out, n, n + proposed)
            copy_block(fields[VALUES], fields[WIDTH], only_begin, proposed, out.ctypes.data, 8, n)
            n += proposed
        elif len(seen) > 0 and span <= np.uint64(SPREAD * proposed):
            for p in range(starts[group], starts[group + 1]):
                for k in range(n_levels):
                    fields = pointer64(records[k])
                    begin, end = range_below(fields, positions[k, p])
                    mark(fields[VALUES], fields[WIDTH], begin, end, base, seen, np.uint8(1))
            work[MARKS] += proposed
            if n_known_values <= KNOWN_A_VALUE * proposed:
                for k in range(n_known):
                    fields = pointer64(records[n_levels + k])
                    begin, end = range_below(fields, known_positions[k, group])
                    begin, end = clip_to_values(fields, begin, end, low, high)
                    mark(fields[VALUES], fields[WIDTH], begin, end, base, seen, np.uint8(0))
                    work[MARKS] += end - begin
                n_known_values = 0
            out = reserve(out, n, n + min(proposed, high - low + 1) + 1)
            n = drain_marks(seen, base, low, high, out, n)
        elif len(bits) > 0 and span >> np.uint64(12) <= np.uint64(WORDS_A_VALUE * proposed):
            for p in range(starts[group], starts[group + 1]):
                for k in range(n_levels):
                    fields = pointer64(records[k])
                    begin, end = range_below(fields, positions[k, p])
                    mark_bits(fields[VALUES], fields[WIDTH], begin, end, base, bits, above)
            work[MARKS] += proposed
            if n_known_values <= KNOWN_A_VALUE * proposed:
                for k in range(n_known):
                    fields = pointer64(records[n_levels + k])
                    begin, end = range_below(fields, known_positions[k, group])
                    begin, end = clip_to_values(fields, begin, end, low, high)
                    clear_bits(fields[VALUES], fields[WIDTH], begin, end, base, bits)
                    work[MARKS] += end - begin
                n_known_values = 0
            out = reserve(out, n, n + min(proposed, high - low + 1))
            n = drain_bits(bits, above, base, low, high, out, n)
        else:
            stamp = np.int64(group + 1)
            for p in range(starts[group], starts[group + 1]):
                for k in range(n_levels):
                    fields = pointer64(records[k])
                    begin, end = range_below(fields, positions[k, p])
                    for i in range(begin, end):
                        value = load(fields[VALUES], fields[WIDTH], i)
                        slot = hash_slot(value, shift)
                        while table[slot] >> 32 == stamp and out[start + (table[slot] & 0xFFFFFFFF)] != value:
                            slot = (slot + 1) & (len(table) - 1)
                        if table[slot] >> 32 != stamp:
                            out = reserve(out, n, n + 1)
                            table[slot] = (stamp << 32) | (n - start)
                            out[n] = value
                            n += 1
                            if 2 * (n - start) > len(table):
                                table, shift = grow(table, stamp, out, start, n)
            sort_values(out, start, n)
        if n_known_values > 0:
            for k in range(n_known):
                fields = pointer64(records[n_levels + k])
                begin, end = range_below(fields, known_positions[k, group])
                if begin < end:
                    work[PROBES] += n - start
                    n = subtract_range(out, start, n, fields[VALUES], fields[WIDTH], begin, end)
    offsets[len(starts) - 1] = n
    work[SURVIVORS] += n
    return out, n
