"""Sums of runs, running sums, and hashes of rows, on a device."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpu_wcoj.kernels.cuda.columns import BLOCK, column_arguments, looping_blocks, tiles
from gpu_wcoj.kernels.cuda.device import Device
from gpu_wcoj.kernels.cuda.rows import scan_sums
from gpu_wcoj.kernels.protocol import IndexArray, Int64Array, UInt64Array

_SUMS_SOURCE = "sums"


def segment_sums(device: Device, values: Int64Array, starts: IndexArray) -> Int64Array:
    """See `gpu_wcoj.kernels.protocol.Kernels.segment_sums`. 4 launches, 2 for one tile; 1 read.

    Exact for runs of fewer than 2^31 values: lower and upper halves are added separately.
    """
    xp = device.xp
    n, m = len(values), len(starts)
    out: Int64Array = xp.empty(m, np.int64)
    if m == 0:
        return out
    values, starts = xp.ascontiguousarray(values), xp.ascontiguousarray(starts)
    before, failed, sums = xp.empty((2, m + 1), np.int64), xp.empty(1, np.int64), None
    if tiles(n) > 1:
        sums = xp.empty((2, tiles(n)), np.int64)
        device.launch(_SUMS_SOURCE, "sum_tiles", tiles(n), BLOCK, [values, n, 1, sums])
        scan_sums(device, sums, tiles(n), xp.empty(2, np.int64))
    device.launch(_SUMS_SOURCE, "sums_before_runs", tiles(n), BLOCK, [values, n, starts, m, sums, before, failed])
    device.launch(_SUMS_SOURCE, "join_sums", looping_blocks(device, m), BLOCK, [before, m, out, failed])
    first = int(device.to_host(failed)[0])
    if first < m:
        raise OverflowError(f"the sum of run {first} of {m} is outside int64")
    return out


def exclusive_sum(device: Device, counts: Int64Array) -> Int64Array:
    """See `gpu_wcoj.kernels.protocol.Kernels.exclusive_sum`.

    3 launches, 1 for one tile; no read.
    """
    xp = device.xp
    n = len(counts)
    out: Int64Array = xp.empty(n + 1, np.int64) if n else xp.zeros(1, np.int64)
    if n == 0:
        return out
    counts, sums = xp.ascontiguousarray(counts), None
    if tiles(n) > 1:
        sums = xp.empty(tiles(n), np.int64)
        device.launch(_SUMS_SOURCE, "sum_tiles", tiles(n), BLOCK, [counts, n, 0, sums])
        scan_sums(device, sums, tiles(n), xp.empty(1, np.int64))
    device.launch(_SUMS_SOURCE, "place_sums", tiles(n), BLOCK, [counts, n, sums, out])
    return out


def hash_rows(device: Device, columns: Sequence[Int64Array]) -> UInt64Array:
    """See `gpu_wcoj.kernels.protocol.Kernels.hash_rows`. 1 launch, no read."""
    n = len(columns[0])
    out: UInt64Array = device.xp.empty(n, np.uint64)
    arguments = [*column_arguments(device, columns), n, out]
    device.launch(_SUMS_SOURCE, "hash_table", looping_blocks(device, n), BLOCK, arguments)
    return out
