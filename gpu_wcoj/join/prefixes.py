"""A table of prefixes: partial bindings and their positions in each atom's batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpu_wcoj.kernels.protocol import IndexArray, Int64Array

Layout = tuple[tuple[int, int], ...]
"""The atoms that are bound in part, each with the number of bound levels."""


@dataclass(frozen=True, eq=False)
class Prefixes:
    """Rows of bound variables; rows that agree on the first variables of `order` are together.

    Attributes
    ----------
    order
        The variables bound so far; the last one varies fastest.
    values
        int64 (n,) per variable that is still needed.
    weights
        int64 (n,), products of the weights of completely bound atoms modulo 2^64; None if all are 1.
    layout
        The atoms of `positions`.
    positions
        int64 (rows, n): per atom of `layout` and batch of it, the position of its bound prefix; -1 for absent.
    """

    order: tuple[str, ...]
    values: dict[str, Int64Array]
    weights: Int64Array | None
    layout: Layout
    positions: Int64Array

    def __len__(self) -> int:
        return int(self.positions.shape[1])

    def gather(self, rows: IndexArray, xp: Any = np) -> Prefixes:
        """Return the prefixes at these positions; `xp` is the array module of all arrays."""
        return Prefixes(
            self.order,
            {name: column[rows] for name, column in self.values.items()},
            None if self.weights is None else self.weights[rows],
            self.layout,
            xp.ascontiguousarray(self.positions[:, rows]),
        )
