"""Pieces of an answer's change, the results of joins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpu_wcoj.kernels.protocol import Int64Array


@dataclass(frozen=True, eq=False)
class Piece:
    """Some rows of an answer's change: head columns, and weights or one sign for all rows.

    Arrays are on the backend; weights that are Python integers are on the host.
    """

    columns: Sequence[Int64Array]
    weights: Int64Array | int
    bound: int | None = None
    """Upper bound of the weights' magnitudes, if there is one."""

    def __len__(self) -> int:
        return len(self.columns[0])
