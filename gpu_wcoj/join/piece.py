"""Pieces of an answer's change, as joins give them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpu_wcoj.kernels.protocol import Int64Array


@dataclass(frozen=True, eq=False)
class Piece:
    """Some rows of an answer's change: a column per column of the head, and weights or one sign for all rows.

    All where the backend computes; weights that are Python integers are on the host.
    """

    columns: Sequence[Int64Array]
    weights: Int64Array | int
    bound: int | None = None
    """No weight's magnitude is larger, if that is known."""

    def __len__(self) -> int:
        return len(self.columns[0])
