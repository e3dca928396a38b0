"""Sorting rows of int64 codes: packed into one key if the ranges allow, else by column."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Int64Array = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
IndexArray = npt.NDArray[np.intp]

PACKED_BITS = 63
"""Bits of all columns' ranges together up to which rows are sorted as one int64 key."""


def packing(columns: Sequence[Int64Array]) -> tuple[list[int], list[int]] | None:
    """Return the smallest value and the bits of each column if they fit one key, else None."""
    lows: list[int] = []
    bits: list[int] = []
    for column in columns:
        low = int(column.min())
        lows.append(low)
        bits.append((int(column.max()) - low).bit_length())
    return (lows, bits) if sum(bits) <= PACKED_BITS else None


def pack(columns: Sequence[Int64Array], lows: Sequence[int], bits: Sequence[int]) -> Int64Array:
    """Return one key per row; keys are ordered like rows."""
    key = columns[0] - np.int64(lows[0])
    for column, low, width in zip(columns[1:], lows[1:], bits[1:], strict=True):
        key <<= np.int64(width)
        key |= column - np.int64(low)
    return key


def unpack(key: Int64Array, lows: Sequence[int], bits: Sequence[int]) -> list[Int64Array]:
    """Return the columns of packed keys."""
    columns = []
    for low, width in zip(reversed(lows), reversed(bits), strict=True):
        columns.append((key & np.int64((1 << width) - 1)) + np.int64(low))
        key = key >> np.int64(width)
    return columns[::-1]


def lexsort(columns: Sequence[Int64Array]) -> npt.NDArray[np.intp]:
    """See `gpu_wcoj.kernels.protocol.Kernels.lexsort`."""
    if len(columns[0]) < 2:
        return np.arange(len(columns[0]))
    if len(columns) == 1:
        return np.argsort(columns[0], kind="stable")
    packed = packing(columns)
    if packed is None:
        return np.lexsort(tuple(columns[::-1]))
    return np.argsort(pack(columns, *packed), kind="stable")


def run_starts(columns: Sequence[Int64Array]) -> npt.NDArray[np.intp]:
    """See `gpu_wcoj.kernels.protocol.Kernels.run_starts`."""
    n = len(columns[0])
    if n == 0:
        return np.empty(0, np.intp)
    differs = columns[0][1:] != columns[0][:-1]
    for column in columns[1:]:
        differs |= column[1:] != column[:-1]
    return np.concatenate([np.zeros(1, np.intp), np.flatnonzero(differs) + 1])


def held_rows(masks: Sequence[BoolArray]) -> list[IndexArray]:
    """See `gpu_wcoj.kernels.protocol.Kernels.held_rows`."""
    return [np.flatnonzero(mask) for mask in masks]


def distinct_rows(columns: Sequence[Int64Array]) -> list[Int64Array]:
    """See `gpu_wcoj.kernels.protocol.Kernels.distinct_rows`."""
    if len(columns[0]) < 2:
        return list(columns)
    packed = packing(columns)
    if packed is None:
        order = np.lexsort(tuple(columns[::-1]))
        columns = [column[order] for column in columns]
        starts = run_starts(columns)
        return list(columns) if len(starts) == len(order) else [column[starts] for column in columns]
    key = pack(columns, *packed)
    if not (key[1:] > key[:-1]).all():
        key.sort()
        fresh = key[1:] != key[:-1]
        if not fresh.all():
            key = key[np.concatenate([np.ones(1, np.bool_), fresh])]
    else:
        return list(columns)
    return unpack(key, *packed)


def consolidate(columns: Sequence[Int64Array], weights: Int64Array) -> tuple[list[Int64Array], Int64Array]:
    """See `gpu_wcoj.kernels.protocol.Kernels.consolidate`."""
    if len(weights) == 0:
        return list(columns), weights
    if len(weights) > 1:
        packed = packing(columns)
        order = np.argsort(pack(columns, *packed)) if packed else np.lexsort(tuple(columns[::-1]))
        columns = [column[order] for column in columns]
        starts = run_starts(columns)
        weights = weights[order]
        if len(starts) < len(order):
            weights = np.add.reduceat(weights, starts)
            columns = [column[starts] for column in columns]
    if weights.all():
        return list(columns), weights
    nonzero = np.flatnonzero(weights)
    return [column[nonzero] for column in columns], weights[nonzero]
