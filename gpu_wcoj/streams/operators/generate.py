"""Sources: input from outside, or from a function of time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gpu_wcoj.engine.ingest import are_numbered, arity_message, column_order, named_after, narrow_columns
from gpu_wcoj.errors import ArityError, SchemaError
from gpu_wcoj.streams.device_context import NOTHING
from gpu_wcoj.streams.operator import Operator
from gpu_wcoj.streams.time import Time
from gpu_wcoj.zset.zset import ZSet


class Source(Operator):
    """The input for a name in a tick as a Z-set; empty if there is none."""

    state: tuple[ZSet, tuple[str, ...] | None] = NOTHING, None
    """An empty Z-set with the known columns, which keep their first names, and the names of the last table or None."""

    def __init__(self, name: str, schema: Mapping[str, str] | None) -> None:
        self.name, self.schema = name, schema
        self.data: Any = None

    def clock_start(self, scope: int) -> None:
        """Set the declared columns before the first tick."""
        if scope == 0 and self.schema is not None:
            self.state = self.place.adopted(ZSet.empty(list(self.schema), list(self.schema.values()))), (*self.schema,)

    def evaluate(self) -> ZSet:
        """Return the rows of this tick."""
        empty, table_names = self.state
        if self.data is None:
            return empty
        rows = self.place.adopted(as_zset(self.data, self.name, empty, table_names, self.schema is not None))
        if not rows.columns and not len(rows):
            return empty
        names = named_after(rows.names, table_names)
        if empty.columns:
            rows = self._in_known_columns(rows, empty, table_names)
        self.state = (self.place.taken(rows, slice(0)), names) if rows.columns else (NOTHING, None)
        return rows

    def _in_known_columns(self, rows: ZSet, empty: ZSet, table_names: tuple[str, ...] | None) -> ZSet:
        """Return the rows in the known columns; a table's columns are already in their order."""
        if len(rows.columns) != len(empty.names):
            raise ArityError(arity_message(self.name, len(empty.names), rows.names, table_names))
        if isinstance(self.data, ZSet):
            rows = self.place.selected(rows, column_order(self.name, rows.names, table_names, self.schema is not None))
        columns = rows.columns
        if self.schema is not None:
            columns = narrow_columns(self.name, empty.names, columns, [column.type for column in empty.columns])
        return self.place.plus(empty, self.place.trusted(empty.names, columns, rows.stored_weights))

    @property
    def label(self) -> str:
        """A short description of the operator."""
        return f"source '{self.name}'"


class Generate(Operator):
    """A function of the time."""

    def __init__(self, function: Callable[[Time], Any]) -> None:
        self.function = function

    def evaluate(self) -> Any:
        """Return the function's value at the present time."""
        made = self.function(self.time)
        return self.place.adopted(as_zset(made, "the generator"))

    @property
    def settled(self) -> bool:
        """False: the next value is unknown, so `until` of the subcircuit ends it."""
        return False


def as_zset(
    data: Any, name: str, like: ZSet = NOTHING, table_names: tuple[str, ...] | None = None, is_declared: bool = False
) -> ZSet:
    """Return user data (a Z-set, a table with a column ``weight``, or rows) as a Z-set.

    Parameters
    ----------
    like
        The columns, as far as they are known.
    table_names, is_declared
        By what names tables have them; see `column_order`. A Z-set stays as it is.
    """
    if isinstance(data, ZSet):
        return data
    from gpu_wcoj.arrow import Numbered, as_table
    from gpu_wcoj.weights import as_weights, weight_among

    called: list[str] = []

    def arranged(names: tuple[str, ...]) -> list[int]:
        """Return the positions of the columns in the known order, then that of the weights."""
        weight = weight_among(names, None if table_names is None or are_numbered(table_names) else table_names)
        if weight is not None and names.count(weight) > 1:
            raise SchemaError.duplicate("column", weight, f"in relation '{name}'", "Rename one of them.")
        called.extend([weight] if weight is not None else [])
        columns = [column for column in range(len(names)) if names[column] != weight]
        if table_names is not None and len(columns) != len(table_names):
            raise ArityError(arity_message(name, len(table_names), [names[column] for column in columns], table_names))
        if not isinstance(names, Numbered):
            column_names = tuple(names[column] for column in columns)
            columns = [columns[i] for i in column_order(name, column_names, table_names, is_declared)]
        return columns if weight is None else [*columns, names.index(weight)]

    kinds = [column.type for column in like.columns]
    names, columns = as_table(data, f"relation '{name}'", null_types=kinds, arrange=arranged)
    if not names:
        return NOTHING
    weights = as_weights(columns.pop(), f"relation '{name}': the weights") if called else None
    return ZSet.from_columns(names[: len(columns)], columns, weights)
