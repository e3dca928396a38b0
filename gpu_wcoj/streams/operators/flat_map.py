"""flat_map: every row to any number of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpu_wcoj.column import Column
from gpu_wcoj.errors import UsageError
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.streams.callables import Names, columns_from, input_arrays, rows_from
from gpu_wcoj.streams.operator import Operator
from gpu_wcoj.streams.place import NOTHING
from gpu_wcoj.zset.zset import ZSet

_Made = tuple[Int64Array, tuple[str, ...], list[Column]]
"""From which row each new row comes; the new columns' names, and they themselves."""


class FlatMap(Operator):
    """``out(r) = sum of in(s) · (how often r is in f(s))``. Linear.

    The function of columns returns ``(owner, columns)``: from which row each of its rows comes, and its columns.
    """

    def __init__(self, function: Callable[..., Any], names: Names | None, of: Sequence[str | int] | None) -> None:
        self.function, self.names, self.of = function, names, of

    def evaluate(self, rows: ZSet) -> ZSet:
        """The rows made of all rows."""
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
        returned = self.function(*input_arrays(rows, self.of))
        if not isinstance(returned, tuple) or len(returned) != 2:
            raise UsageError(
                f"a function of flat_map returns (owner, columns), and this one returned {returned!r:.80}.\n"
                "  The owner says from which row each new row comes; functions of single rows go to flat_map_rows."
            )
        owner = np.asarray(returned[0])
        if owner.ndim != 1 or (len(owner) and owner.dtype.kind not in "iu"):
            raise UsageError(f"the owners are one array of integers, and these are {returned[0]!r:.80}.")
        if len(owner) and (int(owner.min()) < 0 or int(owner.max()) >= len(rows)):
            bounds = f"{int(owner.min())} to {int(owner.max())}"
            raise UsageError(f"an owner is a row from 0 to {len(rows) - 1}, and these go from {bounds}.")
        return owner.astype(np.int64), returned[1]


class FlatMapRows(FlatMap):
    """The same by a function of one row, which returns the rows made of it. Linear."""

    def _columns(self, rows: ZSet) -> _Made:
        lists = [list(self.function(row)) for row, _ in rows.rows()]
        owner = np.repeat(np.arange(len(lists)), [len(made) for made in lists])
        made = [row for new_rows in lists for row in new_rows]
        if not made:
            return owner, (), []
        names, columns = rows_from(self.place, made, self.names, self.function)
        return owner, names, columns
