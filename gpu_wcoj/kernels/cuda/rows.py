"""Rows on a device: sort them, find their runs, add their weights.

Rows are sorted as keys: each column's codes minus the least one take as many bits as its range needs, and the columns
of a row are concatenated to one integer that orders as rows do. A sort of integers is a stable radix sort, whose passes
depend on the width of the key: 32 bits if the columns fit, else 64. Rows that need more are sorted by their last
columns first, as many as fit a key, then, stably, by the ones before. Up to `FEW` rows are sorted by one block, since
below about ten thousand rows launches dominate the time.

Numbers of launches leave out those inside the array module's sort, and assume up to `N_DIRECT` columns: the addresses
of further ones are uploaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpu_wcoj.kernels.cuda.columns import BLOCK, MAX_BLOCK_ROWS, column_arguments, looping_blocks, tiles
from gpu_wcoj.kernels.cuda.device import Device
from gpu_wcoj.kernels.protocol import BoolArray, IndexArray, Int64Array

_ROWS_SOURCE = "rows"
_ASCENDING, _REPEATING, _UNSORTED = range(3)
_KEY_BITS = 64
"""Bits of a key."""
_SCAN_BLOCK = 1024
"""Threads of the block that scans sums."""


def lexsort(device: Device, columns: Sequence[Int64Array]) -> IndexArray:
    """See `gpu_wcoj.kernels.protocol.Kernels.lexsort`.

    Up to `FEW` rows: 1 launch, no read. Else 1 read and, if one key holds a row, 2 launches and a sort; 1 launch if
    the rows are sorted already.
    """
    n = len(columns[0])
    order: IndexArray
    if 2 <= n <= MAX_BLOCK_ROWS:
        order = device.xp.empty(n, np.int64)
        _sort_few(device, columns, None, order, None)
        return order
    table = _Table(device, columns) if n > 1 else None
    if table is not None and table.state == _UNSORTED:
        return _sort_order(table)
    order = device.xp.arange(n, dtype=np.int64)
    return order


def run_starts(device: Device, columns: Sequence[Int64Array]) -> IndexArray:
    """See `gpu_wcoj.kernels.protocol.Kernels.run_starts`. 3 launches, 1 for one tile; 1 read."""
    n = len(columns[0])
    starts: IndexArray = device.xp.empty(n if tiles(n) <= 1 else 0, np.int64)
    if n == 0:
        return starts
    arguments = column_arguments(device, columns)
    total = device.xp.empty(1, np.int64)
    sums = None
    if tiles(n) > 1:
        sums = device.xp.empty(tiles(n), np.int64)
        device.launch(_ROWS_SOURCE, "count_runs", tiles(n), BLOCK, [*arguments, None, n, sums])
        scan_sums(device, sums, tiles(n), total)
        starts = device.xp.empty(_read_number(device, total), np.int64)
    device.launch(_ROWS_SOURCE, "place_runs", tiles(n), BLOCK, [*arguments, None, n, sums, total, starts, None])
    return starts if sums is not None else starts[: _read_number(device, total)]


def held_rows(device: Device, masks: Sequence[BoolArray]) -> list[IndexArray]:
    """See `gpu_wcoj.kernels.protocol.Kernels.held_rows`.

    Per mask 3 launches, 1 for one tile; 1 read for all.
    """
    xp = device.xp
    masks = [xp.ascontiguousarray(mask) for mask in masks]
    totals = xp.empty(len(masks), np.int64)
    buffers: list[Any] = []
    for index, mask in enumerate(masks):
        n = len(mask)
        buffers.append(xp.empty(n if tiles(n) == 1 else tiles(n), np.int64))
        if tiles(n) == 1:
            device.launch(
                _ROWS_SOURCE, "place_held", 1, BLOCK, [mask, n, None, totals[index : index + 1], buffers[index]]
            )
        elif n:
            device.launch(_ROWS_SOURCE, "count_held", tiles(n), BLOCK, [mask, n, buffers[index]])
            scan_sums(device, buffers[index], tiles(n), totals[index : index + 1])
    rows: list[IndexArray] = []
    sizes = device.to_host(totals).tolist() if any(map(len, masks)) else []
    for mask, buffer, size in zip(masks, buffers, sizes or [0] * len(masks), strict=True):
        n = len(mask)
        if tiles(n) <= 1:
            rows.append(buffer[: size if n else 0])
            continue
        rows.append(xp.empty(size, np.int64))
        if size:
            device.launch(_ROWS_SOURCE, "place_held", tiles(n), BLOCK, [mask, n, buffer, None, rows[-1]])
    return rows


def distinct_rows(device: Device, columns: Sequence[Int64Array]) -> list[Int64Array]:
    """See `gpu_wcoj.kernels.protocol.Kernels.distinct_rows`.

    Up to `FEW` rows: 1 launch, 1 read. Else 1 read if the rows are sorted and distinct already, 2 otherwise.
    """
    n = len(columns[0])
    if n < 2:
        return list(columns)
    if n <= MAX_BLOCK_ROWS:
        return _consolidate_few(device, columns, None)[0]
    table = _Table(device, columns)
    if table.state == _ASCENDING:
        return list(columns)
    if table.state == _REPEATING:
        return table.rows(run_starts(device, columns))
    if len(table.groups) == 1:
        ((first, end, narrow),) = table.groups
        key = device.xp.sort(table.pack(first, end, narrow, None))
        key = key.astype(np.int64) if narrow else key.view(np.int64)
        return table.unpack(key, run_starts(device, [key]))
    order = _sort_order(table)
    rows = gather(device, columns, order)
    return gather(device, rows, run_starts(device, rows))


def consolidate(
    device: Device, columns: Sequence[Int64Array], weights: Int64Array
) -> tuple[list[Int64Array], Int64Array]:
    """See `gpu_wcoj.kernels.protocol.Kernels.consolidate`.

    Up to `FEW` rows: 1 launch, 1 read. Else 2 reads and, if one key holds a row, 10 launches and a sort; the host reads
    the numbers of runs and of remaining rows at the end only.
    """
    n = len(weights)
    if n == 0:
        return list(columns), weights
    if n <= MAX_BLOCK_ROWS:
        return _consolidate_few(device, columns, weights)
    xp = device.xp
    table = _Table(device, columns)
    rows, sums, key = columns, weights, None
    if table.state == _UNSORTED and len(table.groups) == 1:
        key, sums = _sort_keys(table, weights)
        rows = [key]
    elif table.state == _UNSORTED:
        *rows, sums = gather(device, [*columns, weights], _sort_order(table))
    starts, before, n_runs = _find_runs(device, rows, sums)
    n_kept = xp.empty(1, np.int64)
    tile_sums = xp.empty(tiles(n), np.int64)
    device.launch(_ROWS_SOURCE, "count_kept", tiles(n), BLOCK, [before, n_runs, tile_sums])
    scan_sums(device, tile_sums, tiles(n), n_kept)
    m = _read_number(device, n_kept)
    if m == n and table.state == _ASCENDING:
        return list(columns), weights
    picks, picked_weights = xp.empty(m, np.int64), xp.empty(m, np.int64)
    device.launch(
        _ROWS_SOURCE, "place_kept", tiles(n), BLOCK, [before, starts, n_runs, tile_sums, picks, picked_weights]
    )
    return table.unpack(key, picks) if key is not None else gather(device, rows, picks), picked_weights


def gather(device: Device, columns: Sequence[Int64Array], picks: IndexArray) -> list[Int64Array]:
    """Return the columns of the rows at `picks`. 1 launch, no read."""
    m = len(picks)
    out = device.xp.empty((len(columns), m), np.int64)
    arguments = [*column_arguments(device, columns), picks, m, out]
    device.launch(_ROWS_SOURCE, "gather", looping_blocks(device, m), BLOCK, arguments)
    return list(out)


def scan_sums(device: Device, sums: Any, length: int, totals: Any) -> None:
    """Turn each row of `length` sums into the sums before them, in place.

    `totals` receives the sum of each row. 1 launch, a block a row.
    """
    device.launch(_ROWS_SOURCE, "scan_sums", len(totals), _SCAN_BLOCK, [sums, length, totals])


class _Table:
    """Columns of two or more rows, with their ranges and order, from one pass and one read.

    Attributes
    ----------
    state
        The order of adjacent rows: `_ASCENDING`, `_REPEATING` or `_UNSORTED`.
    groups
        (first column, end, whether 32 bits suffice) of each key, from the first columns to the last.
    """

    def __init__(self, device: Device, columns: Sequence[Int64Array]) -> None:
        xp = device.xp
        n = len(columns[0])
        self.device, self.columns, self.n = device, columns, n
        self.arguments = column_arguments(device, columns)
        blocks = looping_blocks(device, n)
        self.ranges = xp.full(2 * len(columns) + 1, np.iinfo(np.int64).min, np.int64)
        device.launch(_ROWS_SOURCE, "find_ranges", blocks, BLOCK, [*self.arguments, n, self.ranges])
        *limits, self.state = device.to_host(self.ranges).tolist()
        bits = [(high - ~low).bit_length() for low, high in zip(limits[::2], limits[1::2], strict=True)]
        self.groups: list[tuple[int, int, bool]] = []
        end = len(columns)
        while end > 0:
            first, taken = end, 0
            while first > 0 and taken + bits[first - 1] <= _KEY_BITS:
                first -= 1
                taken += bits[first]
            self.groups.insert(0, (first, end, taken <= _KEY_BITS // 2))
            end = first

    def pack(self, first: int, end: int, narrow: bool, order: IndexArray | None) -> Any:
        """Return the keys of columns `first` to `end`, of the rows in `order` if it is given."""
        keys = self.device.xp.empty(self.n, np.uint32 if narrow else np.uint64)
        arguments = [*self.arguments, self.n, self.ranges, first, end, order, int(narrow), keys]
        self.device.launch(_ROWS_SOURCE, "pack", looping_blocks(self.device, self.n), BLOCK, arguments)
        return keys

    def unpack(self, keys: Int64Array, picks: IndexArray) -> list[Int64Array]:
        """Return the columns of the keys at `picks`, which hold all columns."""
        m, k = len(picks), len(self.columns)
        out = self.device.xp.empty((k, m), np.int64)
        arguments = [keys, picks, m, self.ranges, k, out]
        self.device.launch(_ROWS_SOURCE, "unpack", looping_blocks(self.device, m), BLOCK, arguments)
        return list(out)

    def rows(self, picks: IndexArray) -> list[Int64Array]:
        """Return the rows at `picks`."""
        return gather(self.device, self.columns, picks)


def _sort_order(table: _Table) -> IndexArray:
    """Return the stable order of the table's rows: a sort a group, from the last to the first."""
    xp = table.device.xp
    *upper, (first, end, narrow) = table.groups
    order: IndexArray = xp.argsort(table.pack(first, end, narrow, None))
    for first, end, narrow in reversed(upper):
        order = order[xp.argsort(table.pack(first, end, narrow, order))]
    return order


def _sort_keys(table: _Table, weights: Int64Array) -> Any:
    """Return sorted keys of rows that fit one key, and their weights: int64, shape (2, n)."""
    device, n = table.device, table.n
    ((first, end, narrow),) = table.groups
    keys = table.pack(first, end, narrow, None)
    order = device.xp.argsort(keys)
    arranged = device.xp.empty((2, n), np.int64)
    arguments = [keys, int(narrow), device.xp.ascontiguousarray(weights), order, n, arranged]
    device.launch(_ROWS_SOURCE, "gather_keys", looping_blocks(device, n), BLOCK, arguments)
    return arranged


def _find_runs(device: Device, rows: Sequence[Int64Array], weights: Int64Array) -> tuple[Any, Any, Any]:
    """Return the starts of runs of equal rows, running sums of weights, and the number of runs.

    The first two are as long as if no two rows were equal, so that nothing is read. 3 launches.
    """
    xp = device.xp
    n = len(weights)
    arguments = [*column_arguments(device, rows), xp.ascontiguousarray(weights), n]
    sums, totals = xp.empty((2, tiles(n)), np.int64), xp.empty(2, np.int64)
    device.launch(_ROWS_SOURCE, "count_runs", tiles(n), BLOCK, [*arguments, sums])
    scan_sums(device, sums, tiles(n), totals)
    starts, before = xp.empty(n, np.int64), xp.empty(n + 1, np.int64)
    device.launch(_ROWS_SOURCE, "place_runs", tiles(n), BLOCK, [*arguments, sums, totals, starts, before])
    return starts, before, totals


def _sort_few(device: Device, columns: Sequence[Int64Array], weights: Any, order: Any, out: Any) -> None:
    n = len(columns[0])
    threads = max(32, 1 << (n - 1).bit_length())
    arguments = [*column_arguments(device, columns), n, weights, order, out]
    device.launch(_ROWS_SOURCE, "sort_few", 1, threads, arguments)


def _consolidate_few(
    device: Device, columns: Sequence[Int64Array], weights: Int64Array | None
) -> tuple[list[Int64Array], Int64Array]:
    """Sort up to `FEW` rows and drop repeats; with weights, also rows of weight 0."""
    xp = device.xp
    n, k = len(columns[0]), len(columns)
    out = xp.empty(1 + (k + 1) * n, np.int64)
    _sort_few(device, columns, None if weights is None else xp.ascontiguousarray(weights), None, out)
    m = _read_number(device, out[:1])
    *columns_out, sums = (out[1 + i * n : 1 + i * n + m] for i in range(k + 1))
    return columns_out, sums


def _read_number(device: Device, array: Any) -> int:
    """Read the only element of a device array."""
    return int(device.to_host(array)[0])
