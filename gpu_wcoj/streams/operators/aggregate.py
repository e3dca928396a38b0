"""Aggregation, per value and incremental."""

from __future__ import annotations

from collections.abc import Sequence

from gpu_wcoj.circuit.operator import distinct_change
from gpu_wcoj.data.schema import DataType
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.streams.aggregators import Aggregator, CountDistinct, TotalsAggregator, first_rows
from gpu_wcoj.streams.device_context import NOTHING, Place, places_of
from gpu_wcoj.streams.operator import Due, Operator, nested_change
from gpu_wcoj.streams.trace import ColumnName, Sorting, TimedTrace, Trace, grouped, keys_of, refuse_negative
from gpu_wcoj.zset.arrays import positions
from gpu_wcoj.zset.zset import ZSet

# Distinct: rows of positive weight as a set.


class Distinct(Operator):
    """``out(r) = 1 if in(r) > 0 else 0``. Not linear."""

    def evaluate(self, rows: ZSet) -> ZSet:
        """Return the rows of positive weight, each with weight 1."""
        return distinct(self.place, rows)


def distinct(place: Place, rows: ZSet) -> ZSet:
    """Return the rows of positive weight, each with weight 1."""
    return place.unit(place.select_rows(rows, rows.stored_weights > 0))


# Incremental distinct: the change of the set of rows of positive weight.


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
    return turned if len(rows) == len(change) else place.taken(turned, rows)


# Distinct of a trace under nested time.


class NestedDistinct(Operator):
    """The change of the set of rows of positive weight, by tick and iteration. Not linear.

    The trace holds this iteration's change, and its key columns are all columns. A row that changes at one iteration
    is looked at again at every later one at which it has changed in an earlier tick.
    """

    state: Due = Due()

    def clock_start(self, scope: int) -> None:
        """Clear the due rows at the start of a tick."""
        if scope == 0:
            self.state = Due()

    def evaluate(self, change: ZSet, trace: TimedTrace) -> ZSet:
        """Return inserted and deleted rows at this iteration against that of the previous tick."""
        if not len(change) and not self.state:
            return change
        place = self.place
        keys = range(len(trace.names))
        out, self.state = nested_change(
            change, trace, keys, self.state, self.time.iteration, lambda rows: distinct(place, rows)
        )
        return out if out.columns or len(out) else change if not len(change) else place.taken(change, slice(0))

    @property
    def settled(self) -> bool:
        """True if no row is due later."""
        return not self.state


# Incremental counts of distinct values, without reading groups again.


class IncrementalCountDistinct(Operator):
    """The change of the number of distinct values per group: distinct, then count. Not linear.

    O(rows of the change), times a logarithm.
    """

    state: tuple[Trace, Trace]
    """How often each value occurs in each group, and the totals of groups by word."""

    def __init__(self, keys: tuple[ColumnName, ...], aggregator: CountDistinct) -> None:
        self.keys, self.aggregator = keys, aggregator

    def clock_start(self, scope: int) -> None:
        """Reset to no rows at the start of the operator's clock."""
        if scope == 0:
            self.state = (
                Trace(self.place, Sorting(None)),
                Trace(self.place, Sorting(tuple(range(len(self.keys))))),
            )

    def evaluate(self, change: ZSet, after: Trace) -> ZSet:
        """Return the change of the counts."""
        if not len(change):
            return NOTHING
        place, (values, totals) = self.place, self.state
        refuse_negative(place, change, after.weights_of(change), "aggregate")
        keys = places_of(change.names, self.keys)
        counted = places_of(change.names, self.aggregator.columns)
        names = [change.names[key] for key in keys] + [f"#{position}" for position in range(len(counted))]
        both = place.selected(change, [*keys, *counted], names)
        if not len(both):
            return NOTHING
        old = values.weights_of(both)
        signs = distinct_change(old, old + place.backend.asarray(both.stored_weights))
        for column in both.columns[len(keys) :]:
            if column.stored_valid is not None:
                signs = place.xp.where(column.stored_valid, signs, 0)
        made = self.aggregator.change(grouped(place, both, range(len(keys))), totals, signs)
        self.state = values.append(both), made.totals
        return place.minus(made.after, made.before)

    @property
    def label(self) -> str:
        """A short description of the operator."""
        return f"CountDistinct by {', '.join(map(str, self.keys)) or 'nothing'}"


# Aggregation of a Z-set by groups, shared by all aggregates.


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
    return aggregator.of(grouped(place, rows, places_of(rows.names, keys)))


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

    Aggregates of totals (count, sum, mean) cost the size of the change; first rows of groups (min, max, top k) are read
    from the front of the trace. All others, and orders of texts, read every group that changes.
    """

    state: tuple[DataType | None, Trace] | None = None
    """The type of the aggregated column, and the totals of groups by word; None at first."""

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
        columns = [place.converted(c, kind) for c, kind in zip(change.columns, after.layout.types, strict=True)]
        change = place.trusted(change.names, columns, change.stored_weights)
        if isinstance(aggregator, TotalsAggregator):
            return self._follow_totals(aggregator, change, weights, before)
        keys = places_of(change.names, self.keys)
        touched = keys_of(place, change, keys)
        first = aggregator.first(change)
        if first is not None:
            now = place.unit(first_rows(after, touched.columns, first[0]))
            was = place.unit(first_rows(before, touched.columns, first[0]))
        else:
            entries = after.below(touched.columns, nulls=True)
            now = NOTHING if entries is None else place.made(after.names, entries.columns, entries.weights)
            entries = before.below(touched.columns, nulls=True)
            was = NOTHING if entries is None else place.made(before.names, entries.columns, entries.weights)
        made = [aggregate_rows(place, rows, self.keys, aggregator) for rows in (now, was)]
        return place.minus(made[0], made[1])

    def _follow_totals(self, aggregator: TotalsAggregator, change: ZSet, weights: Int64Array, before: Trace) -> ZSet:
        """Return the change of the rows from the totals of the changed groups."""
        place, kind = self.place, aggregator.value_type(change)
        if aggregator.counts_once:
            change = distinct_change_of(place, change, weights)
            if not len(change):
                return NOTHING
        groups = grouped(place, change, places_of(change.names, self.keys))
        if self.state is None or self.state[0] != kind:
            self.state = kind, self._totals_of(aggregator, before, change)
        made = aggregator.change(groups, self.state[1])
        self.state = kind, made.totals
        return place.minus(made.after, made.before)

    def _totals_of(self, aggregator: TotalsAggregator, before: Trace, like: ZSet) -> Trace:
        """Return the totals of all previous rows in the types of `like`."""
        rows, place = before.consolidated(), self.place
        empty = Trace(place, Sorting(tuple(range(len(self.keys)))))
        if not len(rows):
            return empty
        columns = [place.converted(old, new.type) for old, new in zip(rows.columns, like.columns, strict=True)]
        rows = place.trusted(rows.names, columns, rows.stored_weights)
        rows = place.unit(rows) if aggregator.counts_once else rows
        return aggregator.change(grouped(place, rows, places_of(rows.names, self.keys)), empty).totals


class NestedAggregate(Aggregate):
    """The change of an aggregate under nested time. Not linear.

    The trace includes this iteration's change. Every group that changes is read now, and at later iterations at which
    it changed in an earlier tick.
    """

    state: Due = Due()

    def clock_start(self, scope: int) -> None:
        """Clear the due groups at the start of a tick."""
        if scope == 0:
            self.state = Due()

    def evaluate(self, change: ZSet, trace: TimedTrace) -> ZSet:  # type: ignore[override]  # more inputs
        """Return the change of the groups' rows at this iteration against that of the previous tick."""
        if not len(change) and not self.state:
            return NOTHING
        place = self.place
        keys = places_of(trace.names, self.keys)
        out, self.state = nested_change(
            change, trace, keys, self.state, self.time.iteration,
            lambda rows: aggregate_rows(place, rows, self.keys, self.aggregator),
        )  # fmt: skip
        return out

    @property
    def settled(self) -> bool:
        """True if no group is due later."""
        return not self.state
