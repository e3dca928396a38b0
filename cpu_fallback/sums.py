"""Sums of runs and hashes of rows, with NumPy alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Int64Array = npt.NDArray[np.int64]
IndexArray = npt.NDArray[np.intp]
UInt64Array = npt.NDArray[np.uint64]

_STEP = np.uint64(0x9E3779B97F4A7C15)
_MIX = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))


def segment_sums(values: Int64Array, starts: IndexArray) -> Int64Array:
    """See `gpu_wcoj.kernels.protocol.Kernels.segment_sums`."""
    if len(starts) == 0:
        return np.empty(0, np.int64)
    if max(int(values.max()), -int(values.min())) * len(values) < 2**63:
        sums: Int64Array = np.add.reduceat(values, starts)
        return sums
    lows = np.add.reduceat(values & 0xFFFFFFFF, starts)
    highs = np.add.reduceat(values >> 32, starts) + (lows >> 32)
    outside = np.flatnonzero((highs < -(2**31)) | (highs >= 2**31))
    if len(outside):
        raise OverflowError(f"the sum of run {outside[0]} of {len(starts)} is outside int64")
    exact: Int64Array = (highs << 32) | (lows & 0xFFFFFFFF)
    return exact


def exclusive_sum(counts: Int64Array) -> Int64Array:
    """See `gpu_wcoj.kernels.protocol.Kernels.exclusive_sum`."""
    sums = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=sums[1:])
    return sums


def hash_rows(columns: Sequence[Int64Array]) -> UInt64Array:
    """See `gpu_wcoj.kernels.protocol.Kernels.hash_rows`."""
    hashes = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        hashes ^= column.view(np.uint64)
        hashes += _STEP
        for shift, factor in _MIX:
            hashes ^= hashes >> np.uint64(shift)
            hashes *= np.uint64(factor)
        hashes ^= hashes >> np.uint64(31)
    return hashes
