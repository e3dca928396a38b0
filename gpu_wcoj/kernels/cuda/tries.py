"""Tries on a device: built from sorted rows, expanded to rows, and descended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpu_wcoj.kernels.cuda.columns import BLOCK, column_arguments, looping_blocks, tiles
from gpu_wcoj.kernels.cuda.device import Device
from gpu_wcoj.kernels.cuda.rows import distinct_rows, scan_sums
from gpu_wcoj.kernels.protocol import CodeArray, Int64Array

_SOURCE = "tries"
_ALIGNMENT = 8
"""Words of 8 bytes to which each array of a trie is rounded up. Same in tries.cu."""

VALUES, BYTES, PARENTS, WEIGHTS, N_VALUES, N_PARENTS, RECORD_FIELDS = range(7)
"""Fields of a level's record, and their number.

The values' address and bytes each, the addresses of the parents' offsets and of the weights, 0 if there are none, the
number of values, and of their parents, 1 at the top."""

Record = tuple[int, int, int, int, int, int]


@dataclass(eq=False, slots=True)
class Support:
    """Data derived from a level with weights on first use; lives as long as its batch."""

    weights: Int64Array
    sums: Int64Array | None = None

    def weight_sums(self, device: Device) -> Int64Array:
        """Return the inclusive running sums of the weights modulo 2^64."""
        sums = self.sums
        if sums is None:
            sums = self.sums = device.xp.cumsum(self.weights)
        return sums


def describe(
    values: CodeArray, parent_offsets: Int64Array | None, weights: Int64Array | None
) -> tuple[Record, Support | None]:
    """See `gpu_wcoj.kernels.protocol.Kernels.describe`. Nothing is launched or read.

    The record holds addresses: its user has to keep the arrays alive.
    """
    parents, n_parents = (0, 1) if parent_offsets is None else (_address(parent_offsets), len(parent_offsets) - 1)
    sums = 0 if weights is None else _address(weights)
    record = _address(values), values.dtype.itemsize, parents, sums, len(values), n_parents
    return record, None if weights is None else Support(weights)


def bytes_beside(support: Support | None) -> int:
    """See `gpu_wcoj.kernels.protocol.Kernels.bytes_beside`."""
    return 0 if support is None or support.sums is None else int(support.sums.nbytes)


def build_levels(device: Device, columns: Sequence[Int64Array]) -> tuple[list[CodeArray], list[Int64Array]]:
    """See `gpu_wcoj.kernels.protocol.Kernels.build_levels`. 3 launches, 1 for one tile; 1 read.

    All arrays of a trie are parts of one allocation. A block handles a tile of rows, and each of its threads the nodes
    that start at its rows.
    """
    xp = device.xp
    n, depth = len(columns[0]), len(columns)
    if n == 0:
        return [xp.empty(0, np.int64) for _ in columns], [xp.zeros(1, np.int64) for _ in columns[1:]]
    arguments = [*column_arguments(device, columns), n]
    totals = xp.empty(2 * depth - 1, np.int64)
    sums = None
    if tiles(n) > 1:
        sums = xp.empty((2 * depth - 1, tiles(n)), np.int64)
        device.launch(_SOURCE, "count_nodes", tiles(n), BLOCK, [*arguments, sums])
        scan_sums(device, sums, tiles(n), totals)
        sizes = _read_sizes(device, totals, depth, n)
        memory = xp.empty(_count_words(sizes), np.int64)
    else:
        memory = xp.empty(_count_words([(n, 8)] * depth), np.int64)
        sizes = []
    device.launch(_SOURCE, "place_nodes", tiles(n), BLOCK, [*arguments, sums, totals, memory])
    return _slice_levels(memory, sizes or _read_sizes(device, totals, depth, n))


def index_rows(device: Device, columns: Sequence[Int64Array]) -> tuple[list[CodeArray], list[Int64Array]]:
    """See `gpu_wcoj.kernels.protocol.Kernels.index_rows`.

    The cost of `distinct_rows` and `build_levels`.
    """
    return build_levels(device, distinct_rows(device, columns))


def rearrange(
    device: Device, parts: Sequence[tuple[Sequence[CodeArray], Sequence[Int64Array]]], order: Sequence[int],
    tags: Sequence[int],
) -> tuple[list[CodeArray], list[Int64Array]]:  # fmt: skip
    """See `gpu_wcoj.kernels.protocol.Kernels.rearrange`.

    The cost of `index_rows`, and of `expand_columns` a trie.
    """
    rows = [expand_columns(device, *part) for part in parts]
    for columns, tag in zip(rows, tags, strict=False):
        columns.append(device.xp.full(len(columns[0]), tag, np.int64))
    joined = rows[0] if len(rows) == 1 else [device.xp.concatenate(columns) for columns in zip(*rows, strict=True)]
    values, offsets = index_rows(device, [joined[column] for column in (*order, *range(len(order), len(joined)))])
    return values, offsets[: len(order) - 1]


def expand_columns(device: Device, values: Sequence[CodeArray], offsets: Sequence[Int64Array]) -> list[Int64Array]:
    """See `gpu_wcoj.kernels.protocol.Kernels.expand_columns`. 1 upload, 1 launch, no read.

    A block handles a tile of rows; their nodes are found level by level upwards, each between those of its first and
    last row.
    """
    xp = device.xp
    n, depth = len(values[-1]), len(values)
    if n == 0 or depth == 1:
        return [level[:n].astype(np.int64) for level in values]
    table = [[_address(level), level.dtype.itemsize, 0, 0] for level in values]
    for fields, bounds in zip(table[1:], offsets, strict=True):
        fields[2:] = [_address(bounds), len(bounds) - 1]
    out = xp.empty((depth, n), np.int64)
    uploaded = device.asarray(np.array(table, np.int64))
    device.launch(_SOURCE, "expand_rows", tiles(n), BLOCK, [uploaded, depth, n, out])
    return list(out)


def locate(
    device: Device, records: Sequence[Sequence[Record]], column_of: Sequence[Sequence[int]], columns: Int64Array
) -> Int64Array:
    """See `gpu_wcoj.kernels.protocol.Kernels.locate`. 1 upload, 1 launch, no read.

    A thread handles a row and a trie. The search in a top level starts by interpolation: O(1) if codes are dense.
    """
    xp = device.xp
    n = columns.shape[1]
    positions: Int64Array = xp.empty((len(records), n), np.int64)
    if positions.size == 0:
        return positions
    table = device.asarray(np.array(descents(records, column_of), np.int64))
    arguments = [table, len(records), xp.ascontiguousarray(columns), n, positions]
    device.launch(_SOURCE, "locate_rows", looping_blocks(device, positions.size), BLOCK, arguments)
    return positions


def descents(records: Sequence[Sequence[Record]], column_of: Sequence[Sequence[int]]) -> list[int]:
    """Return the table that `descend` reads: the start of each trie's levels, then the levels."""
    starts, entries = [0], []
    for levels, trie_columns in zip(records, column_of, strict=True):
        starts.append(starts[-1] + len(levels))
        for record, column in zip(levels, trie_columns, strict=True):
            entries += [*record, column]
    return [*starts, *entries]


def _address(array: Any) -> int:
    """Return an array's address on the device; 0 for an empty one."""
    return int(array.data.ptr) if len(array) else 0


def _read_sizes(device: Device, totals: Any, depth: int, n: int) -> list[tuple[int, int]]:
    """Read (number of values, bytes each) of every level."""
    counters = device.to_host(totals).tolist()
    counts, wide = [*counters[: depth - 1], n], counters[depth - 1 :]
    return [(count, 8 if flag else 4) for count, flag in zip(counts, wide, strict=True)]


def _round_words(n_bytes: int) -> int:
    """Return the words of 8 bytes that an array of `n_bytes` bytes takes."""
    return -(-n_bytes // (8 * _ALIGNMENT)) * _ALIGNMENT


def _count_words(sizes: Sequence[tuple[int, int]]) -> int:
    """Return the words of a trie's levels: values, and offsets except the last one's."""
    words = [_round_words(count * size) + _round_words(8 * (count + 1)) for count, size in sizes]
    return sum(words) - _round_words(8 * (sizes[-1][0] + 1))


def _slice_levels(memory: Any, sizes: Sequence[tuple[int, int]]) -> tuple[list[CodeArray], list[Int64Array]]:
    """Return the arrays of levels in `memory`, which `place_nodes` has filled."""
    values: list[CodeArray] = []
    offsets: list[Int64Array] = []
    offset = 0
    for count, size in sizes:
        end = offset + _round_words(count * size)
        values.append(memory[offset : offset + count] if size == 8 else memory[offset:end].view(np.int32)[:count])
        offsets.append(memory[end : end + count + 1])
        offset = end + _round_words(8 * (count + 1))
    return values, offsets[:-1]
