"""Rows packed into one key each, and back, one pass per column without temporary arrays.

In large sorts most of the time is spent on memory that is written for the first time.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cpu_fallback.keys import add_column, ascends, drop_repeats, unpack_column
from cpu_fallback.sort import Int64Array, packing, run_starts

PACKED_FROM = 1024
"""Rows from which on tries are built from packed keys; smaller tries are built from sorted columns."""


def distinct_packed(columns: Sequence[Int64Array]) -> list[Int64Array]:
    """See `gpu_wcoj.kernels.protocol.Kernels.distinct_rows`."""
    n = len(columns[0])
    if n < 2:
        return list(columns)
    packed = packing(columns)
    if packed is None:
        return _distinct_wide(columns)
    lows, bits = packed
    key = np.empty(n, np.int64)
    for index, (column, low, width) in enumerate(zip(columns, lows, bits, strict=True)):
        add_column(key, column, low, width, index == 0)
    if ascends(key):
        return list(columns)
    key.sort()
    key = key[: drop_repeats(key)]
    unpacked: list[Int64Array] = []
    shift = 0
    for low, width in zip(reversed(lows), reversed(bits), strict=True):
        column = np.empty(len(key), np.int64)
        unpack_column(key, low, shift, width, column)
        unpacked.append(column)
        shift += width
    return unpacked[::-1]


def _distinct_wide(columns: Sequence[Int64Array]) -> list[Int64Array]:
    order = np.lexsort(tuple(columns[::-1]))
    columns = [column[order] for column in columns]
    starts = run_starts(columns)
    return list(columns) if len(starts) == len(order) else [column[starts] for column in columns]
