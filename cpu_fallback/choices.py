"""What stands below rows and at them, counted with NumPy alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Int64Array = npt.NDArray[np.int64]
IndexArray = npt.NDArray[np.intp]
Locate = Callable[[Sequence[Sequence[Any]], Sequence[Sequence[int]], Int64Array], Int64Array]

_MOST = np.iinfo(np.int64).max


def children_below(offsets: Int64Array, positions: Int64Array) -> Int64Array:
    """How many children stand below each position of a level; none below -1."""
    widths: Int64Array = np.maximum(offsets[positions + 1] - offsets[positions], 0)  # of -1: minus all children
    return widths


def count_children(
    locate: Locate, levels: Sequence[Sequence[Any]], column_of: Sequence[Sequence[int]], columns: Int64Array
) -> Int64Array:
    """See `gpu_wcoj.kernels.protocol.Kernels.count_children`; `locate` is the kernels' own."""
    records = [[level.record for level in own[:-1]] for own in levels]
    found = locate(records, column_of, columns)
    sums = [children_below(own[-1].parent_offsets, row).sum() for own, row in zip(levels, found, strict=True)]
    return np.array(sums, np.int64)


def weights_of(
    locate: Locate, levels: Sequence[Sequence[Any]], column_of: Sequence[Sequence[int]], columns: Int64Array
) -> Int64Array:
    """See `gpu_wcoj.kernels.protocol.Kernels.weights_of`; `locate` is the kernels' own."""
    total = np.zeros(columns.shape[1], np.int64)
    found = locate([[level.record for level in own] for own in levels], column_of, columns)
    for own, row in zip(levels, found, strict=True):
        held = row >= 0
        if own[-1].weights is None:
            total += held
        else:
            total[held] += own[-1].weights[row[held]]
    return total


def narrowest(
    choices: Sequence[tuple[Int64Array, Sequence[Sequence[tuple[int, Int64Array]]]]],
) -> IndexArray:
    """See `gpu_wcoj.kernels.protocol.Kernels.narrowest`."""
    widths = []
    for positions, atoms in choices:
        least: Int64Array | None = None
        for batches in atoms:
            total = np.zeros(positions.shape[1], np.int64)
            for row, offsets in batches:
                total += children_below(offsets, positions[row])
            least = total if least is None else np.minimum(least, total)
        widths.append(np.full(positions.shape[1], _MOST) if least is None else least)
    return np.argmin(np.array(widths), axis=0)
