"""Aggregation, per value and incremental."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from gpu_wcoj.circuit.operator import distinct_change
from gpu_wcoj.circuit.recursion.relation import iteration_ranges
from gpu_wcoj.data.schema import DataType
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.streams.aggregators import Aggregator, CountDistinct, TotalsAggregator, first_rows
from gpu_wcoj.streams.device_context import NOTHING, Place
from gpu_wcoj.streams.operator import Operator, Pending, take_due
from gpu_wcoj.streams.trace import (
    ColumnName,
    Sorting,
    TimedTrace,
    Trace,
    TraceLookup,
    grouped,
    keys_of,
    refuse_negative,
    upto,
)
from gpu_wcoj.zset.arrays import positions
from gpu_wcoj.zset.zset import ZSet, column_positions, distinct, take_rows, unit


class Distinct(Operator):
    """``out(r) = 1 if in(r) > 0 else 0``. Not linear."""

    def evaluate(self, rows: ZSet) -> ZSet:
        """Return the rows of positive weight, each with weight 1."""
        return distinct(rows)


class IncrementalDistinct(Operator):
    """``out = d(trace + change) - d(trace)``, d(w) = 1 if w > 0 else 0, per row. Not linear.

    The trace is that of the changes before. O(rows of the change), times a logarithm.
    """

    def evaluate(self, change: ZSet, before: Trace) -> ZSet:
        """Return the inserted and deleted rows."""
        if not len(change):
            return change
        after = before.weights_of(change) + self.place.backend.asarray(change.stored_weights)
        return distinct_change_of(self.place, change, after)


def distinct_change_of(place: Place, change: ZSet, after: Int64Array) -> ZSet:
    """Return the rows whose weight becomes or ceases to be positive, with weights 1 and -1.

    Parameters
    ----------
    after
        The weight of each row after the change.
    """
    signs = distinct_change(after - place.backend.asarray(change.stored_weights), after)
    if not change.columns:
        return place.made((), (), place.backend.to_host(signs))
    (rows,) = positions(place.backend, signs != 0)
    turned = place.trusted(change.names, change.columns, signs)
    return turned if len(rows) == len(change) else take_rows(turned, rows)


def aggregate_rows(place: Place, rows: ZSet, keys: Sequence[ColumnName], aggregator: Aggregator) -> ZSet:
    """Return the aggregator's rows for all groups of rows that agree in the key columns.

    Raises
    ------
    NegativeWeightError
        If a row has a negative weight.
    """
    if not len(rows):
        return NOTHING
    refuse_negative(place, rows, rows.stored_weights, "aggregate")
    return aggregator.of(grouped(place, rows, column_positions(rows.names, keys)))


class Aggregate(Operator):
    """``out = the aggregator's rows of every group of in``. Not linear."""

    def __init__(self, keys: Sequence[ColumnName], aggregator: Aggregator) -> None:
        self.keys, self.aggregator = tuple(keys), aggregator

    def evaluate(self, rows: ZSet) -> ZSet:
        """Return the rows made of the groups."""
        return aggregate_rows(self.place, rows, self.keys, self.aggregator)

    @property
    def label(self) -> str:
        """A short description of the operator."""
        return f"{type(self.aggregator).__name__} by {', '.join(map(str, self.keys)) or 'nothing'}"


class IncrementalAggregate(Aggregate):
    """The change of an aggregate, from changes and the trace with and without them. Not linear.

    Aggregates of totals (count, sum, mean, distinct count) cost the size of the change; first rows of groups (min, max,
    top k) are read from the front of the trace. All others, and orders of texts, read every group that changes.
    """

    state: tuple[DataType | None, Trace, Trace] | None = None
    """The type of the aggregated column, the totals of groups by word, and for a distinct count how often each value
    occurs in each group; None at first."""

    def clock_start(self, scope: int) -> None:
        """Reset to no rows at the start of the operator's clock."""
        if scope == 0:
            self.state = None

    def evaluate(self, change: ZSet, after: Trace, before: Trace) -> ZSet:  # type: ignore[override]  # more inputs
        """Return the change of the rows made of the groups."""
        if not len(change):
            return NOTHING
        place, aggregator = self.place, self.aggregator
        weights = after.weights_of(change)
        refuse_negative(place, change, weights, "aggregate")
        assert after.layout is not None
        change = place.fitted(change, after.layout.types)
        if isinstance(aggregator, TotalsAggregator):
            return self._follow_totals(aggregator, change, weights, before)
        keys = column_positions(change.names, self.keys)
        touched = keys_of(place, change, keys)
        first = aggregator.first(change)
        if first is not None:
            now = unit(first_rows(after, touched.columns, first[0]))
            was = unit(first_rows(before, touched.columns, first[0]))
        else:
            entries = after.below(touched.columns, nulls=True)
            now = NOTHING if entries is None else place.made(after.names, entries.columns, entries.weights)
            entries = before.below(touched.columns, nulls=True)
            was = NOTHING if entries is None else place.made(before.names, entries.columns, entries.weights)
        made = [aggregate_rows(place, rows, self.keys, aggregator) for rows in (now, was)]
        return place.minus(made[0], made[1])

    def _follow_totals(self, aggregator: TotalsAggregator, change: ZSet, weights: Int64Array, before: Trace) -> ZSet:
        """Return the change of the rows from the totals of the changed groups."""
        place, kind, out = self.place, aggregator.value_type(change), NOTHING
        keys: Sequence[int] = column_positions(change.names, self.keys)
        if self.state is None or self.state[0] != kind:
            self.state = kind, self._totals_of(aggregator, before, change), Trace(place, Sorting(None))
        _, totals, pairs = self.state
        if isinstance(aggregator, CountDistinct):
            change, keys = aggregator.pairs(change, keys), range(len(keys))
            weights = pairs.weights_of(change) + place.backend.asarray(change.stored_weights)
            pairs = pairs.append(change)
        if aggregator.counts_once:
            change = distinct_change_of(place, change, weights)
        if len(change):
            out, totals = aggregator.change(grouped(place, change, keys), totals)
        self.state = kind, totals, pairs
        return out

    def _totals_of(self, aggregator: TotalsAggregator, before: Trace, like: ZSet) -> Trace:
        """Return the totals of all previous rows in the types of `like`."""
        rows, place = before.consolidated(), self.place
        empty = Trace(place, Sorting(tuple(range(len(self.keys)))))
        if not len(rows):
            return empty
        rows = place.fitted(rows, [column.type for column in like.columns])
        rows = unit(rows) if aggregator.counts_once else rows
        return aggregator.change(grouped(place, rows, column_positions(rows.names, self.keys)), empty)[1]


class Nested(Pending):
    """The change of a function of groups under nested time. Not linear.

    With F the sum of the entries of earlier ticks up to an iteration, and G that of this tick's, the change at
    iteration i is ``[f(F(i) + G(i)) - f(F(i-1) + G(i-1))] - [f(F(i)) - f(F(i-1))]``. A group that changes at i is
    evaluated again at every later iteration at which F has an entry of it: the state is the keys of these groups.
    """

    def _change(self, change: ZSet, trace: TimedTrace, keys: Sequence[int], function: Callable[[ZSet], ZSet]) -> ZSet:
        """Return the change at this iteration of a function from all rows of some groups to rows.

        Parameters
        ----------
        change
            This iteration's change, which `trace` holds already.
        keys
            The positions of the group's columns, which are the trace's key columns.
        """
        place, now = self.place, self.time.iteration
        touched = keys_of(place, change, keys) if len(change) else NOTHING
        due, self.state = take_due(place, self.state, (), now)
        groups = unit(place.plus(touched, due)) if len(due) else touched
        if not len(groups):
            return NOTHING
        earlier = trace.earlier.below(groups.columns, nulls=True)
        present = trace.present.below(groups.columns, nulls=True)
        if earlier is not None and len(touched):
            again = earlier if touched is groups else trace.earlier.below(touched.columns, nulls=True)
            if again is not None:
                self._schedule(touched, again, now)
        names = trace.names
        out = NOTHING
        for until, sign in ((now, 1), (now - 1, -1)):
            history = NOTHING if earlier is None else upto(place, earlier, names, until)
            current = NOTHING if present is None else upto(place, present, names, until)
            both = place.plus(history, current)
            if not len(current):
                continue  # both terms of this iteration are the same
            step = place.minus(function(both), function(history))
            out = place.plus(out, step) if sign > 0 else place.minus(out, step)
        return out

    def _schedule(self, touched: ZSet, entries: TraceLookup, now: int) -> None:
        """Schedule these groups at every later iteration at which they have an entry."""
        place = self.place
        xp, backend = place.xp, place.backend
        times = entries.columns[-1].stored
        (ahead,) = positions(backend, times > now)
        if not len(ahead):
            return
        pairs = backend.kernels.distinct_rows([times[ahead], entries.owner[ahead].astype(np.int64)])
        for iteration, begin, end in iteration_ranges(pairs[0], backend):
            rows = xp.sort(pairs[1][begin:end])
            groups = take_rows(touched, rows) if touched.columns else touched
            scheduled = self.state.get(iteration)
            self.state[iteration] = groups if scheduled is None else unit(place.plus(scheduled, groups))


class NestedDistinct(Nested):
    """The change of the set of rows of positive weight, by tick and iteration. Not linear.

    The trace holds this iteration's change, and its key columns are all columns.
    """

    def evaluate(self, change: ZSet, trace: TimedTrace) -> ZSet:
        """Return inserted and deleted rows at this iteration against that of the previous tick."""
        if not len(change) and not self.state:
            return change
        out = self._change(change, trace, range(len(trace.names)), distinct)
        return out if out.columns or len(out) or not change.columns else take_rows(change, slice(0))


class NestedAggregate(Nested, Aggregate):
    """The change of an aggregate under nested time. Not linear.

    The trace includes this iteration's change.
    """

    def evaluate(self, change: ZSet, trace: TimedTrace) -> ZSet:  # type: ignore[override]  # more inputs
        """Return the change of the groups' rows at this iteration against that of the previous tick."""
        if not len(change) and not self.state:
            return NOTHING
        return self._change(
            change, trace, column_positions(trace.names, self.keys),
            lambda rows: aggregate_rows(self.place, rows, self.keys, self.aggregator),
        )  # fmt: skip
