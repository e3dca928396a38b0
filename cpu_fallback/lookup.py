"""Lookups of one value per prefix in one atom."""

from __future__ import annotations

import numpy as np

from cpu_fallback import tries
from cpu_fallback.ranges import N_FIELDS, OUT_ROW, PARENT, ROW, SIZE, find, position_of, range_of, weight_at
from cpu_fallback.runtime import cached_njit, load, pointer64, store
from cpu_fallback.tries import FRESH, PROPOSALS, RANKED, SUM_OF_MINIMA, SURVIVORS, Int64Array


@cached_njit
def look_up(
    table, n_slots, is_last, positions, end, values, excluded, weighted, prefix_weight, fill, resume, out, work
):  # fmt: skip
    """Extend each prefix by its value in `values` if the atom contains it.

    The parameters are those of `cpu_fallback.extend.extend`. There is one search per prefix and batch, by ranks if the
    range has them. The caller counts the searches; those that used ranks only are counted here.
    """
    matches = np.empty(n_slots, np.int64)
    node, low = np.empty(n_slots, np.int64), np.empty(n_slots, np.int64)
    high, start = np.empty(n_slots, np.int64), np.empty(n_slots, np.int64)
    for k in range(n_slots):
        node[k] = low[k] = high[k] = start[k] = -1
        if table[k * N_FIELDS + PARENT] == 0:
            low[k], high[k] = 0, table[k * N_FIELDS + SIZE]
    fixed = 3 if weighted else 2
    capacity = out.shape[1]
    n = np.int64(0)
    n_lookups = ranked = np.int64(0)
    p = resume[0]
    while p < end:
        value = values[p]
        is_held = False
        reached, by_ranks = False, True
        weight = np.int64(0)
        for k in range(n_slots):
            matches[k] = -1
            if table[k * N_FIELDS + PARENT] != 0 and positions[table[k * N_FIELDS + ROW], p] != node[k]:
                node[k] = positions[table[k * N_FIELDS + ROW], p]
                low[k], high[k], start[k] = range_of(table, k, node[k])
            if low[k] >= high[k]:
                continue
            reached = True
            by_ranks = by_ranks and start[k] >= 0
            if start[k] >= 0:
                position = position_of(table, k, start[k], value)
            else:
                position = find(table, k, low[k], high[k], value)
            if position >= 0:
                matches[k] = position
                is_held = True
                weight += weight_at(table, k, position)
        n_lookups += reached
        ranked += reached and by_ranks
        if not is_last:
            weight = np.int64(is_held)
        for e in range(excluded.shape[0]):
            is_held = is_held and excluded[e, p] != value
        if is_held and weight != 0:
            if fill:
                out[0, n] = p
                out[1, n] = value
                if weighted:
                    out[2, n] = weight * prefix_weight[p]
                for k in range(n_slots):
                    if table[k * N_FIELDS + OUT_ROW] >= 0:
                        out[fixed + table[k * N_FIELDS + OUT_ROW], n] = matches[k]
            else:
                out[0, p] += weight
            n += 1
        p += 1
        if fill and n == capacity:
            break
    resume[0], resume[1], resume[2] = p, FRESH, 0
    work[SUM_OF_MINIMA] += n_lookups
    work[PROPOSALS] += n_lookups
    work[SURVIVORS] += n
    work[RANKED] += ranked


# Descending tries: the positions of rows' values, batch by batch, in one call.


@cached_njit
def bucket_index(address, width, n, shift, starts, reached, n_steps):
    """Fill ``starts[b]`` with the first position whose value is in bucket b or a later one.

    The bucket of a value is its distance from the first of the n values at the address, shifted right by `shift`.
    `reached` are the bucket and the position to continue at, 0 and 0 at first; a step passes a bucket or a value.
    """
    bucket, position = reached[0], reached[1]
    stop = bucket + position + n_steps
    minimum = np.uint64(load(address, width, 0))
    while bucket < len(starts) and bucket + position < stop:
        if (
            position < n
            and np.int64((np.uint64(load(address, width, position)) - minimum) >> np.uint64(shift)) < bucket
        ):
            position += 1
        else:
            starts[bucket] = position
            bucket += 1
    reached[0], reached[1] = bucket, position


@cached_njit
def locate(described, columns, positions):
    """Write the position of row i in trie t to ``positions[t, i]``, -1 if absent.

    `described` holds per trie its number of levels, then per level the address of its slot fields and the row of
    `columns` whose values are searched there.
    """
    offset = 0
    for t in range(positions.shape[0]):
        depth = described[offset]
        offset += 1
        top = pointer64(described[offset])
        first = described[offset + 1]
        previous = np.int64(-2)
        previous_value = np.int64(0)
        for i in range(columns.shape[1]):
            value = columns[first, i]
            if previous == -2 or value != previous_value:
                previous = find(top, 0, 0, top[SIZE], value)
                previous_value = value
            node = previous
            for level in range(1, depth):
                if node < 0:
                    break
                slot = pointer64(described[offset + 2 * level])
                offsets = pointer64(slot[PARENT])
                value_below = columns[described[offset + 2 * level + 1], i]
                node = find(slot, 0, offsets[node], offsets[node + 1], value_below)
            positions[t, i] = node
        offset += 2 * depth


@cached_njit
def count_children(described, columns, children, sums):
    """Write to ``sums[t]`` the number of values below all rows' nodes in trie t.

    `described` is that of `locate`; `children` holds per trie the address of the slot fields of the level below the
    descended ones.
    """
    positions = np.empty((len(children), columns.shape[1]), np.int64)
    locate(described, columns, positions)
    for t in range(len(children)):
        offsets = pointer64(pointer64(children[t])[PARENT])
        total = np.int64(0)
        for i in range(columns.shape[1]):
            node = positions[t, i]
            if node >= 0:
                total += offsets[node + 1] - offsets[node]
        sums[t] = total


MAX_WIDTH = (1 << 63) - 1
"""The width of a choice without atoms."""


@cached_njit
def narrow(described, positions, choice, min_widths, chosen):
    """Write width and choice where a choice leaves prefix i fewer values than ``min_widths[i]``.

    `described` holds the number of atoms, then per atom the number of its batches, and per batch the row of `positions`
    and the address of the children's offsets.
    """
    if described[0] == 0:
        return
    for i in range(positions.shape[1]):
        width = MAX_WIDTH
        offset = 1
        for _ in range(described[0]):
            end = offset + 1 + 2 * described[offset]
            total = np.int64(0)
            for batch in range(offset + 1, end, 2):
                node = positions[described[batch], i]
                if node >= 0:
                    offsets = pointer64(described[batch + 1])
                    total += offsets[node + 1] - offsets[node]
            width = min(width, total)
            offset = end
        if width < min_widths[i]:
            min_widths[i] = width
            chosen[i] = choice


# Rows packed into one int64 key each, one pass per column.


@cached_njit
def add_column(key, address, stride, low, bits, is_first):
    """Append a column to the keys: the int64 every `stride` bytes from an address on."""
    column, step = pointer64(address), stride >> 3
    if is_first:
        for i in range(len(key)):
            key[i] = column[i * step] - low
    elif step == 1:
        for i in range(len(key)):
            key[i] = (key[i] << bits) | (column[i] - low)
    else:
        for i in range(len(key)):
            key[i] = (key[i] << bits) | (column[i * step] - low)


@cached_njit
def unpack_column(key, low, shift, bits, column):
    """Extract a column from the keys, stored above `shift` bits."""
    mask = (np.int64(1) << bits) - 1
    for i in range(len(column)):
        column[i] = ((key[i] >> shift) & mask) + low


@cached_njit
def ascends(key):
    """Return whether every key is larger than its predecessor."""
    for i in range(1, len(key)):
        if key[i] <= key[i - 1]:
            return False
    return True


MAX_DIGIT_BITS = 9
"""Bits of a digit at most. On an EPYC with AVX-512, NumPy takes 15 ns a key for 2,000 keys of 51 bits, and 60 ns for 5
million. The sort by digits of 9 bits takes 11 and 20 ns, that by digits of 8 or 11 bits up to 27 ns."""


@cached_njit
def find_places(places, n):
    """Turn counts of values into first places; return whether one value has all `n` keys."""
    before, has_one_value = 0, False
    for value in range(len(places)):
        has_one_value = has_one_value or places[value] == n
        places[value], before = before, before + places[value]
    return has_one_value


@cached_njit
def sort_by_digits(keys, spare, low_bit, digit_bits, counts):
    """Sort keys of at least 0 stably by their bits from `low_bit` on.

    Radix sort, the lowest digit first (D. E. Knuth, The Art of Computer Programming, 3, section 5.2.5).

    Parameters
    ----------
    spare
        As long as the keys; both are overwritten.
    digit_bits
        Bits of a digit.
    counts
        Zeros: a row for each digit, an element for each of its values.

    Returns
    -------
    Whether the result is in `spare`.
    """
    n_digits, n, mask = len(counts), len(keys), (1 << digit_bits) - 1
    for i in range(n):
        rest = keys[i] >> low_bit
        for digit in range(n_digits):
            counts[digit, rest & mask] += 1
            rest >>= digit_bits
    is_moved = False
    for digit in range(n_digits):
        places = counts[digit]
        if find_places(places, n):
            continue
        shift = low_bit + digit * digit_bits
        source, target = (spare, keys) if is_moved else (keys, spare)
        for i in range(n):
            value = (source[i] >> shift) & mask
            target[places[value]] = source[i]
            places[value] += 1
        is_moved = not is_moved
    return is_moved


DIGITS_FROM = 1024
"""Keys from which on they are sorted by digits; NumPy sorts fewer in less time."""


def sort_keys(keys: Int64Array, low_bit: int, n_bits: int) -> Int64Array:
    """See `cpu_fallback.tries.sort_keys`."""
    if len(keys) < DIGITS_FROM:
        return tries.sort_keys(keys, low_bit, n_bits)
    n_digits = max(-(-n_bits // MAX_DIGIT_BITS), 1)
    digit_bits = -(-n_bits // n_digits)
    spare = np.empty_like(keys)
    is_moved = sort_by_digits(keys, spare, low_bit, digit_bits, np.zeros((n_digits, 1 << digit_bits), np.int64))
    return spare if is_moved else keys


@cached_njit
def sort_pairs(pairs, spare, low_bit, n_low_digits, counts):
    """Sort pairs of words by the first word and then the second, as `sort_by_digits` sorts keys.

    A digit has `MAX_DIGIT_BITS`. The lowest `n_low_digits` are the bits of the second word from `low_bit` on; the
    others are the bits of the first word.
    """
    n, mask = len(pairs), (1 << MAX_DIGIT_BITS) - 1
    for i in range(n):
        rest = pairs[i, 1] >> low_bit
        for digit in range(n_low_digits):
            counts[digit, rest & mask] += 1
            rest >>= MAX_DIGIT_BITS
        rest = pairs[i, 0]
        for digit in range(n_low_digits, len(counts)):
            counts[digit, rest & mask] += 1
            rest >>= MAX_DIGIT_BITS
    is_moved = False
    for digit in range(len(counts)):
        places = counts[digit]
        if find_places(places, n):
            continue
        word, shift = 0, (digit - n_low_digits) * MAX_DIGIT_BITS
        if digit < n_low_digits:
            word, shift = 1, low_bit + digit * MAX_DIGIT_BITS
        source, target = (spare, pairs) if is_moved else (pairs, spare)
        for i in range(n):
            value = (source[i, word] >> shift) & mask
            place = places[value]
            target[place, 0], target[place, 1] = source[i, 0], source[i, 1]
            places[value] = place + 1
        is_moved = not is_moved
    return is_moved


@cached_njit
def drop_repeats(key):
    """Move the distinct values of sorted keys to the front; return their number."""
    n = 0
    for i in range(len(key)):
        if i == 0 or key[i] != key[n - 1]:
            key[n] = key[i]
            n += 1
    return n


# Trie levels of sorted rows, and parents of children.


@cached_njit
def trie_levels_two(
    first_address, first_stride, second_address, second_stride, n_rows, values, offsets, children, width
):
    """Split two sorted columns into a trie: distinct first values, offsets, second values.

    The columns are int64, as in `add_column`; the second values are written to the address `children`.
    """
    first, first_step = pointer64(first_address), first_stride >> 3
    second, second_step = pointer64(second_address), second_stride >> 3
    n = 0
    previous = np.int64(0)
    for i in range(n_rows):
        value = first[i * first_step]
        if i == 0 or value != previous:
            values[n] = value
            offsets[n] = i
            n += 1
            previous = value
        store(children, width, i, second[i * second_step])
    offsets[n] = n_rows
    return n


@cached_njit
def trie_levels(columns, values, offsets, counts):
    """Split three or more sorted columns, given by address, into all trie levels but the last.

    Rows of `values` and `offsets` are the levels, with room for every row; `counts` receives the number of values of
    each.
    """
    n, last_level = counts[-1], len(counts) - 1
    counts[:] = 0
    for i in range(n):
        level = 0
        if i > 0:
            while level < last_level and pointer64(columns[level])[i] == pointer64(columns[level])[i - 1]:
                level += 1
        for upper in range(level, last_level):
            values[upper, counts[upper]] = pointer64(columns[upper])[i]
            offsets[upper, counts[upper]] = counts[upper + 1]
            counts[upper] += 1
        counts[last_level] += 1
    for upper in range(last_level):
        offsets[upper, counts[upper]] = counts[upper + 1]


@cached_njit
def expand_rows(offsets, parents):
    """Write the parent of every child: i in [offsets[p], offsets[p + 1]) has parent p."""
    for p in range(len(offsets) - 1):
        for i in range(offsets[p], offsets[p + 1]):
            parents[i] = np.int64(p)
