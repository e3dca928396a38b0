"""Counting the common values of two ranges with ranks, 64 values at a time.

Blocks and words of all ranges begin at the same values, so one instruction intersects two words of the same values, and
another one counts the remaining bits. See `cpu_fallback.ranked` for the layout.
"""

from __future__ import annotations

import numpy as np

from cpu_fallback.pointers import bits_of, trailing_zeros, unsigned64
from cpu_fallback.ranked import BLOCK_BITS
from cpu_fallback.runtime import cached_njit
from cpu_fallback.slots import MAXIMUM, MINIMUM, N_FIELDS, WORDS

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
