"""Sources: what comes in from outside, or from a function of time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gpu_wcoj.errors import ArityError, SchemaError
from gpu_wcoj.incoming import are_numbered, column_order, held_to, named_after, wrong_number
from gpu_wcoj.streams.operator import Operator
from gpu_wcoj.streams.place import NOTHING
from gpu_wcoj.streams.time import Time
from gpu_wcoj.zset.zset import ZSet


class Source(Operator):
    """What is given for a name in a tick, as a Z-set; no rows where nothing is given."""

    state: tuple[ZSet, tuple[str, ...] | None] = NOTHING, None
    """The columns as far as they are known, no rows; and the names that tables have them by, None as long as none came.
    The columns keep the names that they had first, by which operators know them."""

    def __init__(self, name: str, schema: Mapping[str, str] | None) -> None:
        self.name, self.schema = name, schema
        self.given: Any = None

    def clock_start(self, scope: int) -> None:
        """Before the first tick, columns are those that were declared."""
        if scope == 0 and self.schema is not None:
            self.state = self.place.adopted(ZSet.empty(list(self.schema), list(self.schema.values()))), (*self.schema,)

    def evaluate(self) -> ZSet:
        """The rows of this tick."""
        empty, table_names = self.state
        if self.given is None:
            return empty
        rows = self.place.adopted(as_zset(self.given, self.name, empty, table_names, self.schema is not None))
        if not rows.columns and not len(rows):
            return empty
        names = named_after(rows.names, table_names)
        if empty.columns:
            rows = self._as_known(rows, empty, table_names)
        self.state = (self.place.taken(rows, slice(0)), names) if rows.columns else (NOTHING, None)
        return rows

    def _as_known(self, rows: ZSet, empty: ZSet, known: tuple[str, ...] | None) -> ZSet:
        """The rows in the known columns; those of a table are in their order."""
        if len(rows.columns) != len(empty.names):
            raise ArityError(wrong_number(self.name, len(empty.names), rows.names, known))
        if isinstance(self.given, ZSet):
            rows = self.place.selected(rows, column_order(self.name, rows.names, known, self.schema is not None))
        columns = rows.columns
        if self.schema is not None:
            columns = held_to(self.name, empty.names, columns, [column.type for column in empty.columns])
        return self.place.plus(empty, self.place.trusted(empty.names, columns, rows.stored_weights))

    @property
    def label(self) -> str:
        """What it does, in a few words."""
        return f"source '{self.name}'"


class Generate(Operator):
    """A function of the time."""

    def __init__(self, function: Callable[[Time], Any]) -> None:
        self.function = function

    def evaluate(self) -> Any:
        """The function's value now."""
        made = self.function(self.time)
        return self.place.adopted(as_zset(made, "the generator"))

    @property
    def settled(self) -> bool:
        """Never: what comes next is not known. The subcircuit says when it ends."""
        return False


def as_zset(
    data: Any, name: str, like: ZSet = NOTHING, known: tuple[str, ...] | None = None, is_declared: bool = False
) -> ZSet:
    """A Z-set of what a user gives: a Z-set, a table with its weights in a column ``weight``, or rows.

    Parameters
    ----------
    like
        The columns, as far as they are known.
    known, is_declared
        By what names tables have them; see `column_order`. A Z-set stays as it is.
    """
    if isinstance(data, ZSet):
        return data
    from gpu_wcoj.arrow import Numbered, as_table
    from gpu_wcoj.weights import as_weights, weight_among

    called: list[str] = []

    def arranged(names: tuple[str, ...]) -> list[int]:
        """Return the positions of the columns in the known order, then that of the weights."""
        weight = weight_among(names, None if known is None or are_numbered(known) else known)
        if weight is not None and names.count(weight) > 1:
            raise SchemaError(f"relation '{name}' has two columns '{weight}'.\n  Call one of them something else.")
        called.extend([weight] if weight is not None else [])
        columns = [column for column in range(len(names)) if names[column] != weight]
        if known is not None and len(columns) != len(known):
            raise ArityError(wrong_number(name, len(known), [names[column] for column in columns], known))
        if not isinstance(names, Numbered):
            column_names = tuple(names[column] for column in columns)
            columns = [columns[i] for i in column_order(name, column_names, known, is_declared)]
        return columns if weight is None else [*columns, names.index(weight)]

    kinds = [column.type for column in like.columns]
    names, columns = as_table(data, f"relation '{name}'", null_types=kinds, arrange=arranged)
    if not names:
        return NOTHING
    weights = as_weights(columns.pop(), f"relation '{name}': the weights") if called else None
    return ZSet.from_columns(names[: len(columns)], columns, weights)
