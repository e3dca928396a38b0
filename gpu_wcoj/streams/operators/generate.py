"""Sources: what comes in from outside, or from a function of time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gpu_wcoj.errors import ArityError, SchemaError
from gpu_wcoj.incoming import by_declaration, held_to, wrong_number
from gpu_wcoj.streams.operator import Operator
from gpu_wcoj.streams.place import NOTHING
from gpu_wcoj.streams.time import Time
from gpu_wcoj.zset.zset import ZSet


class Source(Operator):
    """What is given for a name in a tick, as a Z-set; no rows where nothing is given."""

    state: ZSet = NOTHING
    """The columns, as far as they are known; no rows."""

    def __init__(self, name: str, schema: Mapping[str, str] | None) -> None:
        self.name, self.schema = name, schema
        self.given: Any = None

    def clock_start(self, scope: int) -> None:
        """Before the first tick, columns are those that were declared."""
        if scope == 0 and self.schema is not None:
            self.state = self.place.adopted(ZSet.empty(list(self.schema), list(self.schema.values())))

    def evaluate(self) -> ZSet:
        """The rows of this tick."""
        if self.given is None:
            return self.state
        rows = self.place.adopted(as_zset(self.given, self.name, self.state))
        if not rows.columns and not len(rows):
            return self.state
        if self.state.columns:
            rows = self._as_known(rows)
        self.state = self.place.taken(rows, slice(0)) if rows.columns else NOTHING
        return rows

    def _as_known(self, rows: ZSet) -> ZSet:
        """The rows in the known columns: by name where these are declared, or are the same in another order."""
        names = self.state.names
        if len(rows.columns) != len(names):
            raise ArityError(wrong_number(self.name, len(names), rows.names))
        by_name = self.schema is not None or sorted(rows.names) == sorted(names)
        order = by_declaration(self.name, rows.names, names if by_name else None)
        columns = tuple(rows.columns[i] for i in order)
        if self.schema is not None:
            columns = held_to(self.name, names, columns, [column.type for column in self.state.columns])
        rows = self.place.trusted(names, columns, rows.stored_weights)
        return self.place.plus(self.state, rows)

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
        return self.place.adopted(as_zset(made, "the generator", NOTHING))

    @property
    def settled(self) -> bool:
        """Never: what comes next is not known. The subcircuit says when it ends."""
        return False


def as_zset(data: Any, name: str, like: ZSet) -> ZSet:
    """A Z-set of what a user gives: a Z-set, a table with its weights in a column ``weight``, or rows."""
    if isinstance(data, ZSet):
        return data
    from gpu_wcoj.arrow import as_table
    from gpu_wcoj.weights import as_weights

    kinds = [column.type for column in like.columns]
    names, columns = as_table(data, f"relation '{name}'", null_types=kinds)
    if not names:
        return NOTHING
    if names.count("weight") > 1:
        raise SchemaError(f"relation '{name}' has two columns 'weight'.\n  Call one of them something else.")
    weights = None
    if "weight" in names and "weight" not in like.names:
        at = names.index("weight")
        weights = as_weights(columns[at], f"relation '{name}': the weights")
        names, columns = names[:at] + names[at + 1 :], columns[:at] + columns[at + 1 :]
    return ZSet.from_columns(names, columns, weights).owned()
