"""Flat map: every row to any number of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpu_wcoj.data.column import Column
from gpu_wcoj.errors import UsageError
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.streams.device_context import NOTHING
from gpu_wcoj.streams.operator import Operator
from gpu_wcoj.streams.operators.linear import Names, columns_from, input_arrays, rows_from
from gpu_wcoj.zset.zset import ZSet

_Made = tuple[Int64Array, tuple[str, ...], list[Column]]
"""Index of the source row of each new row, names of the new columns, and the new columns."""


class FlatMap(Operator):
    """``out(r) = sum of in(s) · (multiplicity of r in f(s))``. Linear.

    The function of columns returns ``(owner, columns)``: the index of the source row of each new row, and the columns.
    """

    def __init__(self, function: Callable[..., Any], names: Names | None, columns: Sequence[str | int] | None) -> None:
        self.function, self.names, self.columns = function, names, columns

    def evaluate(self, rows: ZSet) -> ZSet:
        """Return the rows made of all rows."""
        if not len(rows):
            return NOTHING
        owner, names, columns = self._columns(rows)
        if not len(owner):
            return NOTHING
        weights = rows.weights[owner]
        return self.place.made(names, columns, self.place.backend.asarray(weights) if columns else weights)

    def _columns(self, rows: ZSet) -> _Made:
        owner, made = self._called(rows)
        if not len(owner):
            return owner, (), []
        names, columns = columns_from(self.place, made, self.names, len(owner), self.function)
        return owner, names, columns

    def _called(self, rows: ZSet) -> tuple[Any, Any]:
        returned = self.function(*input_arrays(rows, self.columns))
        if not isinstance(returned, tuple) or len(returned) != 2:
            raise UsageError.wrong_type(
                "the result of the function of flat_map",
                returned,
                "(owner, columns)",
                "Return the index of the source row of each new row as owner, or use flat_map_rows for single rows.",
            )
        owner = np.asarray(returned[0])
        if owner.ndim != 1 or (len(owner) and owner.dtype.kind not in "iu"):
            raise UsageError.wrong_type("the owner of flat_map", returned[0], "a one-dimensional array of integers")
        if len(owner) and (int(owner.min()) < 0 or int(owner.max()) >= len(rows)):
            bounds = f"{int(owner.min())} to {int(owner.max())}"
            raise UsageError.mismatch(
                "the owner of flat_map", "is out of range", bounds, f"row indices from 0 to {len(rows) - 1}"
            )
        return owner.astype(np.int64), returned[1]


class FlatMapRows(FlatMap):
    """The same with a function of one row, which returns the rows made of it. Linear."""

    def _columns(self, rows: ZSet) -> _Made:
        lists = [list(self.function(row)) for row, _ in rows.rows()]
        owner = np.repeat(np.arange(len(lists)), [len(made) for made in lists])
        made = [row for new_rows in lists for row in new_rows]
        if not made:
            return owner, (), []
        names, columns = rows_from(self.place, made, self.names, self.function)
        return owner, names, columns
