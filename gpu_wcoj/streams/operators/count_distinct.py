"""Incremental counts of distinct values, without reading groups again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpu_wcoj.data.column import Column
from gpu_wcoj.data.schema import INT64
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.streams.aggregators import CountDistinct
from gpu_wcoj.streams.device_context import NOTHING, places_of
from gpu_wcoj.streams.grouped import keys_of, refuse_negative
from gpu_wcoj.streams.layout import ColumnName, Sorting
from gpu_wcoj.streams.operator import Operator
from gpu_wcoj.streams.trace import Trace
from gpu_wcoj.zset.arrays import positions
from gpu_wcoj.zset.zset import ZSet


@dataclass(frozen=True, eq=False)
class _Counts:
    """State of the counts.

    Attributes
    ----------
    values
        How often each value stands in each group.
    rows, distinct
        How many rows, and how many values, each group has.
    """

    values: Trace
    rows: Trace
    distinct: Trace


class IncrementalCountDistinct(Operator):
    """The change of the number of distinct values per group: distinct, then count. Not linear.

    O(rows of the change), times a logarithm.
    """

    state: _Counts

    def __init__(self, keys: tuple[ColumnName, ...], aggregator: CountDistinct) -> None:
        self.keys, self.aggregator = keys, aggregator

    def clock_start(self, scope: int) -> None:
        """Reset to no rows at the start of the operator's clock."""
        if scope == 0:
            empty = Trace(self.place, Sorting(None))
            self.state = _Counts(empty, empty, empty)

    def evaluate(self, change: ZSet, after: Trace) -> ZSet:
        """Return the change of the counts."""
        if not len(change):
            return NOTHING
        place, state = self.place, self.state
        refuse_negative(place, change, after.weights_of(change), "aggregate")
        keys = places_of(change.names, self.keys)
        counted = places_of(change.names, self.aggregator.columns)
        both = place.selected(
            change, [*keys, *counted], [f"#{position}" for position in range(len(keys) + len(counted))]
        )
        old = state.values.weights_of(both)
        new = old + place.backend.asarray(both.stored_weights)
        signs = (new > 0).astype(np.int64) - (old > 0).astype(np.int64)
        for column in both.columns[len(keys) :]:
            if column.stored_valid is not None:
                signs = place.xp.where(column.stored_valid, signs, 0)
        names = [change.names[key] for key in keys]
        more = place.made(names, both.columns[: len(keys)], signs if keys else place.backend.to_host(signs))
        self.state = _Counts(
            state.values.append(both),
            state.rows.append(place.selected(change, keys)),
            state.distinct.append(more),
        )
        touched = keys_of(place, change, keys)
        return place.minus(self._counts(touched, self.state), self._counts(touched, state))

    def _counts(self, groups: ZSet, state: _Counts) -> ZSet:
        """Return the counts of the groups that have rows."""
        place = self.place
        (present,) = positions(place.backend, state.rows.weights_of(groups) > 0)
        distinct: Int64Array = state.distinct.weights_of(groups)[present]
        columns = [place.taken_column(column, present) for column in groups.columns]
        ones = place.xp.ones(len(present), np.int64)
        return place.made([*groups.names, self.aggregator.name], [*columns, Column(INT64, distinct)], ones)

    @property
    def label(self) -> str:
        """A short description of the operator."""
        return f"CountDistinct by {', '.join(map(str, self.keys)) or 'nothing'}"
