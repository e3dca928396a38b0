"""Map: every row to another row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gpu_wcoj.data.column import Column
from gpu_wcoj.streams.device_context import NOTHING, is_nothing, places_of
from gpu_wcoj.streams.operator import Operator
from gpu_wcoj.streams.operators.linear import Names, columns_from, input_arrays, rows_from
from gpu_wcoj.zset.zset import ZSet


class Select(Operator):
    """``out(r) = sum of in(s) over all s with r = columns of s``. Linear."""

    def __init__(self, columns: Sequence[str | int], names: Sequence[str] | None = None) -> None:
        self.columns, self.names = tuple(columns), None if names is None else tuple(names)

    def evaluate(self, rows: ZSet) -> ZSet:
        """Return the rows with these columns only."""
        if is_nothing(rows):
            return rows
        return self.place.selected(rows, places_of(rows.names, self.columns), self.names)

    @property
    def label(self) -> str:
        """A short description of the operator."""
        return f"map to {', '.join(map(str, self.columns)) or 'no columns'}"


class Map(Operator):
    """``out(r) = sum of in(s) over all s with r = f(s)``: weights of equal rows add. Linear."""

    def __init__(self, function: Callable[..., Any], names: Names | None, columns: Sequence[str | int] | None) -> None:
        self.function, self.names, self.columns = function, names, columns

    def evaluate(self, rows: ZSet) -> ZSet:
        """Return the mapped rows."""
        if not len(rows):
            return NOTHING
        names, columns = self._columns(rows)
        return self.place.made(names, columns, rows.stored_weights if columns else rows.weights)

    def _columns(self, rows: ZSet) -> tuple[tuple[str, ...], list[Column]]:
        returned = self.function(*input_arrays(rows, self.columns))
        return columns_from(self.place, returned, self.names, len(rows), self.function)


class MapRows(Map):
    """The same with a function of one row, called for each row. Linear."""

    def _columns(self, rows: ZSet) -> tuple[tuple[str, ...], list[Column]]:
        made = [self.function(row) for row, _ in rows.rows()]
        return rows_from(self.place, made, self.names, self.function)
