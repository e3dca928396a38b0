"""Weights of rows that are spread over several batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpu_wcoj.backend import Backend
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.zset.index import IndexedZSet


def sum_of_weights(batches: tuple[IndexedZSet, ...], positions: Int64Array, backend: Backend) -> Int64Array:
    """Return the weight of each row, by its positions in the batches (-1: absent), modulo 2^64."""
    if backend.device is not None:
        return _sum_on_device(batches, positions, backend.xp)
    if positions.shape[1] == 1:
        exact = sum(
            [
                1 if batch.weights is None else int(batch.weights[position])
                for batch, position in zip(batches, positions[:, 0].tolist(), strict=True)
                if position >= 0
            ]
        )
        return np.array([(exact + (1 << 63)) % (1 << 64) - (1 << 63)], np.int64)
    total = np.zeros(positions.shape[1], np.int64)
    for batch, position in zip(batches, positions, strict=True):
        is_present = position >= 0
        if batch.weights is None:
            total += is_present
        else:
            total[is_present] += batch.weights[position[is_present]]
    return total


def _sum_on_device(batches: tuple[IndexedZSet, ...], positions: Int64Array, xp: Any) -> Int64Array:
    """Return `sum_of_weights` without reading sizes of batches, which waits for a device."""
    total: Int64Array = xp.zeros(positions.shape[1], np.int64)
    for row, batch in enumerate(batches):
        position = positions[row]
        if batch.weights is None:
            total += position >= 0
        elif batch.n_rows:
            total += xp.where(position >= 0, batch.weights[xp.maximum(position, 0)], 0)
    return total


def weights_of_rows(
    batches: Sequence[IndexedZSet], column_of: Sequence[int], matrix: Int64Array, backend: Backend
) -> Int64Array:
    """Return the weight of each column of `matrix` in all batches, modulo 2^64.

    There is at least one batch.

    Parameters
    ----------
    column_of
        The row of `matrix` that holds the values of each level.
    """
    columns_of = [column_of] * len(batches)
    if backend.device is not None:
        return backend.kernels.weights_of([batch.levels for batch in batches], columns_of, matrix)
    located = backend.kernels.locate([batch.records for batch in batches], columns_of, matrix)
    return sum_of_weights(tuple(batches), located, backend)
