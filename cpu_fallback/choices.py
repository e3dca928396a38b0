"""Range widths and weights per row (NumPy)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Int64Array = npt.NDArray[np.int64]
IndexArray = npt.NDArray[np.intp]
Locate = Callable[[Sequence[Sequence[Any]], Sequence[Sequence[int]], Int64Array], Int64Array]

_MAX_INT64 = np.iinfo(np.int64).max


def children_below(offsets: Int64Array, positions: Int64Array) -> Int64Array:
    """Return the number of children of each position of a level; 0 for position -1."""
    widths: Int64Array = np.maximum(offsets[positions + 1] - offsets[positions], 0)  # of -1: minus all children
    return widths


def count_children(
    locate: Locate, levels: Sequence[Sequence[Any]], column_of: Sequence[Sequence[int]], columns: Int64Array
) -> Int64Array:
    """Compute `gpu_wcoj.kernels.protocol.Kernels.count_children` with the kernels' `locate`."""
    records = [[level.record for level in batch_levels[:-1]] for batch_levels in levels]
    positions = locate(records, column_of, columns)
    sums = [
        children_below(batch_levels[-1].parent_offsets, row).sum()
        for batch_levels, row in zip(levels, positions, strict=True)
    ]
    return np.array(sums, np.int64)


def weights_of(
    locate: Locate, levels: Sequence[Sequence[Any]], column_of: Sequence[Sequence[int]], columns: Int64Array
) -> Int64Array:
    """Compute `gpu_wcoj.kernels.protocol.Kernels.weights_of` with the kernels' `locate`."""
    total = np.zeros(columns.shape[1], np.int64)
    positions = locate([[level.record for level in batch_levels] for batch_levels in levels], column_of, columns)
    for batch_levels, row in zip(levels, positions, strict=True):
        is_present = row >= 0
        if batch_levels[-1].weights is None:
            total += is_present
        else:
            total[is_present] += batch_levels[-1].weights[row[is_present]]
    return total


def narrowest(
    choices: Sequence[tuple[Int64Array, Sequence[Sequence[tuple[int, Int64Array]]]]],
) -> IndexArray:
    """See `gpu_wcoj.kernels.protocol.Kernels.narrowest`."""
    widths = []
    for positions, atoms in choices:
        narrowest_width: Int64Array | None = None
        for batches in atoms:
            total = np.zeros(positions.shape[1], np.int64)
            for row, offsets in batches:
                total += children_below(offsets, positions[row])
            narrowest_width = total if narrowest_width is None else np.minimum(narrowest_width, total)
        widths.append(np.full(positions.shape[1], _MAX_INT64) if narrowest_width is None else narrowest_width)
    return np.argmin(np.array(widths), axis=0)
