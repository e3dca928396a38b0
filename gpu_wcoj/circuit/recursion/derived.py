"""Derivations with their iterations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from gpu_wcoj.errors import WeightOverflowError
from gpu_wcoj.join.delta import IncrementalGenericJoin
from gpu_wcoj.kernels.protocol import Int64Array


def derive(
    join: IncrementalGenericJoin, width: int, step: int
) -> Iterator[tuple[Sequence[Int64Array], Int64Array, Int64Array]]:
    """Yield derivations of a join over ranked rows: `width` columns, iterations and weights.

    A derivation belongs to the iteration after the step and after the ranks of all its rows.
    """
    backend = join.execution.backend
    xp = backend.xp
    for piece in join.join(0):
        weights = piece.weights
        assert not isinstance(weights, int)
        columns, ranks = piece.columns[:width], piece.columns[width:]
        if weights.dtype == object:  # counted as Python integers, on the host
            for position, weight in enumerate(weights.tolist()):
                if not -(1 << 63) <= weight < 1 << 63:
                    row = tuple(int(column[position]) for column in columns)
                    raise WeightOverflowError(f"derivations by '{join.query.rule}'", row, weight)
            weights = backend.asarray(weights.astype(np.int64))
        latest: Int64Array = xp.full(len(piece), step, np.int64)
        for rank in ranks:
            latest = xp.maximum(latest, rank)
        yield columns, latest + 1, weights
