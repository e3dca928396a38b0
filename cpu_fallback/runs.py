"""Consolidate rows whose first column ascends: the rows of each run are added up in a table, and nothing is sorted.

A run is the rows that agree on the first column. The other columns of a row, packed into one number, are its place in
the table. The places in use are marked by bits, with a second level of one bit for each word of 64 bits, and read back
in order, so a run costs what its rows cost and a word for each 4096 places.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cpu_fallback.lookup import add_column, unpack_column
from cpu_fallback.runtime import cached_njit, trailing_zeros
from cpu_fallback.tries import Int64Array, packing

RUNS_FROM = 4096
"""Rows from which on runs are looked for."""

MAX_TABLE_BITS = 22
"""Bits of the places of a table at most: its 32 MB are read and written in no order."""

PLACES_PER_ROW = 8
"""Places per row that a table has at most, as all of them are zeroed once."""

WORDS_PER_ROW = 1
"""Words of the second level per row that all runs together may read."""

_NOTHING = np.empty(0, np.int64)


@cached_njit
def count_runs(first):
    """Return the number of runs of a column; 0 if it does not ascend."""
    runs = 1
    for i in range(1, len(first)):
        if first[i] < first[i - 1]:
            return 0
        runs += first[i] != first[i - 1]
    return runs


@cached_njit
def add_runs(first, places, weights, table, bits, above, out_first, out_place, out_weight):
    """Write the distinct rows and the sums of their weights, without those of sum 0; return their number.

    Parameters
    ----------
    weights
        Empty if all are 1.
    table, bits, above
        Zeros: a sum per place, a bit per place, and a bit per word of `bits`. They are zeros again afterwards.
    out_weight
        Empty if the sums are not needed.
    """
    n, unit = 0, np.uint64(1)
    has_weights, has_sums = len(weights) > 0, len(out_weight) > 0
    i = 0
    while i < len(first):
        run = first[i]
        while i < len(first) and first[i] == run:
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
    """Return the consolidated rows, or the distinct ones without weights; None if a table does not pay."""
    n = len(columns[0])
    if n < RUNS_FROM or len(columns) < 2 or (weights is not None and weights.dtype != np.int64):
        return None
    if columns[0][0] > columns[0][-1]:
        return None
    n_runs = count_runs(columns[0])
    packed = packing(columns[1:]) if n_runs else None
    if packed is None:
        return None
    lows, bits = packed
    n_bits = sum(bits)
    if n_bits > MAX_TABLE_BITS or 1 << n_bits > PLACES_PER_ROW * n or n_runs << n_bits > WORDS_PER_ROW * n << 12:
        return None
    places = np.empty(n, np.int64)
    for index, (column, low, width) in enumerate(zip(columns[1:], lows, bits, strict=True)):
        add_column(places, column, low, width, index == 0)
    n_words = (1 << n_bits >> 6) + 1
    scratch = np.zeros(n_words, np.uint64), np.zeros((n_words >> 6) + 1, np.uint64)
    out_first, out_place = np.empty(n, np.int64), np.empty(n, np.int64)
    sums = _NOTHING if weights is None else np.empty(n, np.int64)
    size = add_runs(
        columns[0], places, _NOTHING if weights is None else weights, np.zeros(1 << n_bits, np.int64), *scratch,
        out_first, out_place, sums,
    )  # fmt: skip
    out_place = out_place[:size]
    if len(columns) == 2:
        out_place += lows[0]
        return [out_first[:size], out_place], sums[:size]
    unpacked: list[Int64Array] = []
    shift = 0
    for low, width in zip(reversed(lows), reversed(bits), strict=True):
        column = np.empty(size, np.int64)
        unpack_column(out_place, low, shift, width, column)
        unpacked.append(column)
        shift += width
    return [out_first[:size], *unpacked[::-1]], sums[:size]
