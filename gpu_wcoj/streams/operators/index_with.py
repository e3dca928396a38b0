"""Index: every row under a key."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gpu_wcoj.streams.device_context import NOTHING, is_nothing, places_of
from gpu_wcoj.streams.operator import Operator
from gpu_wcoj.streams.operators.linear import Names, columns_from, input_arrays
from gpu_wcoj.zset.zset import ZSet


class IndexWith(Operator):
    """``out(key(r), r) = in(r)``: the key columns come first. Linear.

    A key of columns moves these to the front; a key that a function makes of the columns is put before all of them.
    """

    def __init__(self, key: Sequence[str | int] | Callable[..., Any], names: Names | None) -> None:
        self.key, self.names = key, names

    def evaluate(self, rows: ZSet) -> ZSet:
        """Return the rows, sorted by their keys."""
        if is_nothing(rows):
            return rows
        if not callable(self.key):
            keys = places_of(rows.names, self.key)
            remaining = [position for position in range(len(rows.names)) if position not in keys]
            return self.place.selected(rows, [*keys, *remaining])
        if not len(rows):
            return NOTHING
        names, columns = columns_from(self.place, self.key(*input_arrays(rows)), self.names, len(rows), self.key)
        return self.place.made([*names, *rows.names], [*columns, *rows.columns], rows.stored_weights)
