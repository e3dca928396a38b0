"""Values below rows, and weights of rows, on a device: inputs for choosing orders and paths."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpu_wcoj.kernels.cuda.columns import BLOCK, looping_blocks
from gpu_wcoj.kernels.cuda.device import Device
from gpu_wcoj.kernels.cuda.tries import descents
from gpu_wcoj.kernels.protocol import Choice, IndexArray, Int64Array, Level

_CHOOSING_SOURCE = "choosing"
_SUM_BLOCK = 1024
"""Threads of a block that adds up the values below a sample of rows in one trie."""


def weights_of(
    device: Device, levels: Sequence[Sequence[Level]], column_of: Sequence[Sequence[int]], columns: Int64Array
) -> Int64Array:
    """See `gpu_wcoj.kernels.protocol.Kernels.weights_of`. 1 upload, 1 launch, no read.

    A thread handles a row and a trie, or several tries if there are more than 32.
    """
    xp = device.xp
    n, k = columns.shape[1], len(levels)
    if k == 0:
        nothing: Int64Array = xp.zeros(n, np.int64)
        return nothing
    sums: Int64Array = xp.empty(n, np.int64)
    table = descents([[level.record for level in trie_levels] for trie_levels in levels], column_of)
    weights = [
        0 if trie_levels[-1].weights is None else _array_address(trie_levels[-1].weights) for trie_levels in levels
    ]
    uploaded = device.asarray(np.array([*table, *weights], np.int64))
    group = min(32, 1 << (k - 1).bit_length())
    arguments = [uploaded, k, uploaded[len(table) :], xp.ascontiguousarray(columns), n, group, sums]
    device.launch(_CHOOSING_SOURCE, "add_weights", looping_blocks(device, n * group), BLOCK, arguments)
    return sums


def count_children(
    device: Device, levels: Sequence[Sequence[Level]], column_of: Sequence[Sequence[int]], columns: Int64Array
) -> Int64Array:
    """See `gpu_wcoj.kernels.protocol.Kernels.count_children`. 1 upload, 1 launch, no read.

    A block handles a trie: meant for a sample of some thousand rows.
    """
    xp = device.xp
    totals: Int64Array = xp.empty(len(levels), np.int64)
    if not levels:
        return totals
    table = descents([[level.record for level in trie_levels[:-1]] for trie_levels in levels], column_of)
    offsets = [_array_address(trie_levels[-1].parent_offsets) for trie_levels in levels]
    uploaded = device.asarray(np.array([*table, *offsets], np.int64))
    arguments = [uploaded, len(levels), uploaded[len(table) :], xp.ascontiguousarray(columns), columns.shape[1], totals]
    device.launch(_CHOOSING_SOURCE, "sum_children", len(levels), _SUM_BLOCK, arguments)
    return totals


def widths(
    device: Device,
    levels: Sequence[Level],
    rows: Sequence[int],
    positions: Int64Array,
    lower: Int64Array,
    upper: Int64Array,
) -> Int64Array:
    """See `gpu_wcoj.kernels.protocol.Kernels.widths`. 1 upload, 1 launch, no read.

    A thread handles a prefix.
    """
    xp = device.xp
    n = positions.shape[1]
    totals: Int64Array = xp.empty(n, np.int64)
    records = [field for level in levels for field in level.record]
    table = device.asarray(np.array([*rows, *records], np.int64))
    bounds = [xp.ascontiguousarray(bound) for bound in (lower, upper)]
    arguments = [table, len(levels), xp.ascontiguousarray(positions), n, *bounds, int(len(lower) > 0), totals]
    device.launch(_CHOOSING_SOURCE, "widths", looping_blocks(device, n), BLOCK, arguments)
    return totals


def narrowest(device: Device, choices: Sequence[Choice]) -> IndexArray:
    """See `gpu_wcoj.kernels.protocol.Kernels.narrowest`. 1 upload, 1 launch, no read.

    A thread handles a prefix.
    """
    xp = device.xp
    places = [xp.ascontiguousarray(positions) for positions, _ in choices]
    n = places[0].shape[1]
    atoms, batches, ranges = [0], [0], []
    for _, choice_atoms in choices:
        atoms.append(atoms[-1] + len(choice_atoms))
        for atom in choice_atoms:
            batches.append(batches[-1] + len(atom))
            for row, offsets in atom:
                ranges += [row, _array_address(offsets)]
    addresses = [_array_address(positions) for positions in places]
    chosen: IndexArray = xp.empty(n, np.int64)
    table = device.asarray(np.array([*atoms, *batches, *addresses, *ranges], np.int64))
    arguments = [table, len(choices), len(batches) - 1, n, chosen]
    device.launch(_CHOOSING_SOURCE, "narrowest", looping_blocks(device, n), BLOCK, arguments)
    return chosen


def _array_address(array: Int64Array | None) -> int:
    assert array is not None
    return int(array.data.ptr) if array.size else 0  # type: ignore[attr-defined]
