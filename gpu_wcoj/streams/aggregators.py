"""Aggregates: functions of groups, and the operators that apply them to values and changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from gpu_wcoj.circuit.aggregate import COUNT, UNCOUNTED, GroupChange, GroupingPlan, Totals, first_nodes
from gpu_wcoj.circuit.operator import distinct_change
from gpu_wcoj.circuit.recursion.relation import iteration_ranges
from gpu_wcoj.data.column import Column
from gpu_wcoj.data.schema import INT64, DataType
from gpu_wcoj.engine.options import validate_positive
from gpu_wcoj.errors import AggregateOverflowError, TypeMismatchError, UnsupportedTypeError, UsageError
from gpu_wcoj.kernels.protocol import IndexArray, Int64Array
from gpu_wcoj.streams.device_context import NOTHING, Place
from gpu_wcoj.streams.linear import Names, columns_from, input_arrays, rows_from
from gpu_wcoj.streams.operator import Operator, Pending, take_due
from gpu_wcoj.streams.trace import (
    ColumnName,
    Groups,
    Sorting,
    TimedTrace,
    Trace,
    TraceLookup,
    grouped,
    keys_of,
    refuse_negative,
    upto,
)
from gpu_wcoj.trace.arrangement import ArrangementKey
from gpu_wcoj.zset.arrays import positions
from gpu_wcoj.zset.index import IndexedZSet
from gpu_wcoj.zset.zset import (
    ZSet,
    column_position,
    column_positions,
    distinct,
    select_columns,
    sort_keys,
    take_rows,
    unit,
)


class Aggregator:
    """Base of aggregators, which make one or more rows of every group; must be deterministic.

    `Count`, `Sum` and the others of `gpu_wcoj.streams` are subclasses. `Apply` and `ApplyRows` make one of a function.
    """

    def of(self, groups: Groups) -> ZSet:
        """Return the rows made of all groups: key columns, then results. All weights are positive."""
        raise NotImplementedError

    def first(self, rows: ZSet) -> tuple[int, tuple[tuple[int, bool], ...]] | None:
        """Return the number of deciding rows and the columns that sort them first.

        None if unsortable.
        """
        del rows
        return None

    @property
    def sorts_by(self) -> tuple[tuple[ColumnName, bool], ...]:
        """Columns by which a trace is sorted for `first`, True for a descending column."""
        return ()


def per_group(groups: Groups, names: Sequence[str], columns: Sequence[Column]) -> ZSet:
    """Return one row per group: its key columns, then `columns`."""
    keys = [groups.rows.names[key] for key in groups.keys]
    ones = groups.place.xp.ones(len(groups), np.int64)
    return groups.place.made([*keys, *names], [*groups.heads(), *columns], ones)


class TotalsAggregator(Aggregator):
    """Base of aggregators that are functions of totals; no group is read again.

    Attributes
    ----------
    op
        ``count``, ``sum`` or ``mean``.
    column
        The aggregated column; None for ``count``.
    """

    op: Literal["count", "sum", "mean"] = "count"
    column: ColumnName | None = None
    name: str

    @property
    def counts_once(self) -> bool:
        """True if each row of positive weight counts once instead of with its weight."""
        return self.op == "mean"

    @property
    def description(self) -> str:
        """The name of the aggregate in errors."""
        return "the count" if self.column is None else f"the {self.op} of column '{self.column}'"

    def of(self, groups: Groups) -> ZSet:
        """See `Aggregator.of`."""
        if self.counts_once:
            groups = replace(groups, rows=unit(groups.rows))
        totals, results = self._follow(groups, [], ())
        return self._answers(groups, totals.words_after, results)

    def value_type(self, rows: ZSet) -> DataType | None:
        """Return the type of the aggregated column; None for ``count``.

        Raises
        ------
        TypeMismatchError
            If the column is not numeric.
        """
        column = self._values(rows)
        if column is None:
            return None
        if column.type.family not in ("integer", "decimal", "float32", "float64"):
            raise TypeMismatchError.mismatch(
                self.description, "has the wrong type", f"'{column.type}'", "a numeric column"
            )
        return column.type

    def _values(self, rows: ZSet) -> Column | None:
        return None if self.column is None else rows.columns[column_position(rows.names, self.column)]

    def change(self, groups: Groups, before: Trace) -> tuple[ZSet, Trace]:
        """Return the change of the rows of some groups, and their totals after it.

        Parameters
        ----------
        groups
            The changed rows.
        before
            The totals: rows of (key columns, index of a word), with the word as weight; see `Totals`.

        Raises
        ------
        UnsupportedTypeError
            If a count, or a sum of integers, leaves int64; or a sum of decimals has more than 18 digits.
        """
        place, rows, heads = groups.place, groups.rows, groups.heads()
        names = [*(rows.names[key] for key in groups.keys), "#word"]
        words = Column.of_integers(place.xp.zeros(len(groups), np.int64))
        before = before.fitted(place.trusted(names, [*heads, words], words.stored))
        assert before.layout is not None
        _, levels = before.layout.probe(heads, place, nulls=True)
        totals, results = self._follow(groups, levels, before.spine.batches)
        group, word, amount = totals.additions
        columns = [*(head.gather(group) for head in heads), Column.of_integers(word)]
        was, now = (
            self._answers(groups, totals.words, totals.before()),
            self._answers(groups, totals.words_after, results),
        )
        return place.minus(now, was), before.append(place.made(names, columns, amount), is_exact=False)

    def _counted(self, groups: Groups) -> list[Column]:
        """Return the columns that are null in rows that do not count."""
        column = self._values(groups.rows)
        return [] if column is None else [column]

    def _follow(
        self, groups: Groups, levels: Sequence[Int64Array], batches: Sequence[IndexedZSet]
    ) -> tuple[Totals, tuple[Int64Array, Int64Array]]:
        """Return the totals of groups after their change, and their numbers of values and results."""
        xp, kind, column = groups.place.xp, self.value_type(groups.rows), self._values(groups.rows)
        weights = counted = groups.weights
        for counted_column in self._counted(groups):
            if counted_column.stored_valid is not None:
                counted = xp.where(counted_column.stored_valid, counted, 0)
        is_float = kind is not None and kind.family.startswith("float")
        owner = groups.group_of_rows if is_float else xp.zeros(0, np.int64)
        values = None if column is None else column.stored
        change = GroupChange(levels, len(groups), groups.starts, owner, values, counted)
        is_decimal = kind is not None and kind.family == "decimal"
        plan = GroupingPlan(
            op=self.op, source=ArrangementKey("<stream>", ()), group=(), value=0, head=tuple(range(len(levels))),
            result=len(levels), family="integer" if kind is None else kind.family,
            scale=kind.digits[1] if kind and is_decimal else 0, max_sum=10**18 - 1 if is_decimal else 0,
        )  # fmt: skip
        totals = Totals("<stream>", batches, change, plan, groups.place.backend)
        try:
            if counted is not weights:
                totals.count(UNCOUNTED, weights - counted)
            return totals, totals.after()
        except AggregateOverflowError as error:
            problem = "is outside int64, -2^63 to 2^63-1."
            if isinstance(error.value, Decimal):
                problem = "has more than 18 digits, the maximum of a decimal."
            raise UnsupportedTypeError(f"{self.description} over a group {problem}") from None

    def _answers(self, groups: Groups, words: Int64Array, results: tuple[Int64Array, Int64Array]) -> ZSet:
        """Return a row for each group that has rows: its key columns, then its result."""
        place, result = groups.place, self._column(self.value_type(groups.rows), groups.place, *results)
        (chosen,) = positions(place.backend, (words[COUNT] > 0) | (words[UNCOUNTED] > 0))
        columns = [column.gather(chosen) for column in (*groups.heads(), result)]
        names = [*(groups.rows.names[key] for key in groups.keys), self.name]
        return place.trusted(names, columns, place.xp.ones(len(chosen), np.int64))

    def _column(self, kind: DataType | None, place: Place, counts: Int64Array, results: Int64Array) -> Column:
        """Return the results as a column; null for sums and means of groups without values."""
        if kind is None:
            return Column(INT64, results)
        valid = counts > 0
        if self.op == "mean" or kind.family.startswith("float"):
            kind = DataType("double")
        elif kind.family == "decimal":
            kind = DataType(f"decimal128(18, {kind.digits[1]})")
        else:
            kind = INT64
        return Column(kind, place.xp.where(valid, results, 0), None if bool(valid.all()) else valid)


class Count(TotalsAggregator):
    """The number of rows of a group, by weight.

    Examples
    --------
    >>> from gpu_wcoj.streams import Circuit
    >>> circuit = Circuit(backend="cpu")
    >>> circuit.sink("out", circuit.source("r").incremental_aggregate([0], Count()))
    >>> circuit.step({"r": [(1, 2), (1, 3)]})["out"].rows()
    [((1, 2), 1)]
    >>> circuit.step({"r": [((1, 3), -1)]})["out"].rows()
    [((1, 1), 1), ((1, 2), -1)]
    """

    def __init__(self, name: str = "count") -> None:
        self.name = name


class Sum(TotalsAggregator):
    """The sum of a numeric column, each value multiplied by its weight; nulls are ignored.

    It is exact; for floats, it is the exact sum rounded once, so that equal rows give equal bits. A group with only
    nulls has the sum null.

    Examples
    --------
    >>> from gpu_wcoj.streams import Circuit
    >>> circuit = Circuit(backend="cpu")
    >>> circuit.sink("out", circuit.source("r").incremental_aggregate([0], Sum(1)))
    >>> circuit.step({"r": [(1, 2), (1, 3)]})["out"].rows()
    [((1, 5), 1)]
    >>> circuit.step({"r": [((1, 3), -1)]})["out"].rows()
    [((1, 2), 1), ((1, 5), -1)]
    """

    op: Literal["count", "sum", "mean"] = "sum"

    def __init__(self, column: ColumnName, name: str | None = None) -> None:
        self.column = column
        self.name = f"{self.op}_{column}" if name is None else name


class Mean(Sum):
    """The mean of a numeric column over the rows of positive weight, as a double.

    Nulls are ignored.

    Examples
    --------
    >>> from gpu_wcoj.streams import Circuit
    >>> circuit = Circuit(backend="cpu")
    >>> circuit.sink("mean", circuit.source("r").incremental_aggregate([], Mean(0)).integrate())
    >>> circuit.step({"r": [((1,), 3), ((4,), 1)]})["mean"].rows()
    [((2.5,), 1)]
    """

    op = "mean"


# First rows of groups in a trace, found without reading whole groups.


def first_rows(trace: Trace, keys: Sequence[Column], k: int) -> ZSet:
    """Return the first `k` rows of positive weight per group, in the order of the trace."""
    layout, place = trace.layout, trace.place
    if layout is None:
        return NOTHING
    mask, levels = layout.probe(keys, place, True)
    if mask is not None:
        (rows,) = positions(place.backend, mask)
        levels = [level[rows] for level in levels]
    leaf, n = layout.width(len(layout.order)) - 1, len(levels[0])
    owner, below, weights = first_nodes(trace.spine.batches, levels, n, leaf, k, place.backend)
    columns = layout.columns([*(level[owner] for level in levels), *below], place)
    return place.made(layout.names, columns, weights)


# The order of values inside groups: numbers, dates and texts by value, nulls last.


def in_order(groups: Groups, by: Sequence[tuple[int, bool]], total: bool = True) -> IndexArray:
    """Return the rows of each group in the order of these columns, True for a descending column.

    Parameters
    ----------
    total
        Whether ties are sorted by all other columns.
    """
    place, columns = groups.place, groups.rows.columns
    for position, _ in by:
        if columns[position].type.family == "nested":
            raise TypeMismatchError.mismatch(
                f"column '{groups.rows.names[position]}'",
                "has no order",
                f"'{columns[position].type.name}'",
                "a column of numbers, texts, bytes or times",
            )
    listed = list(by)
    if total:
        named = {column for column, _ in by}
        listed += [
            (position, False)
            for position in range(len(columns))
            if position not in named and position not in groups.keys
        ]
    keys = [groups.group_of_rows]
    for column, descending in listed:
        keys += sort_keys(columns[column], descending, backend=place.backend)
    return place.backend.kernels.lexsort([place.xp.ascontiguousarray(key) for key in keys])


class _Extreme(Aggregator):
    """The first value of a group in one direction."""

    descending = False

    def __init__(self, column: ColumnName, name: str | None = None) -> None:
        self.column = column
        self.name = f"{type(self).__name__.lower()}_{column}" if name is None else name

    def of(self, groups: Groups) -> ZSet:
        """See `Aggregator.of`."""
        position = column_position(groups.rows.names, self.column)
        order = in_order(groups, [(position, self.descending)], total=False)
        column = groups.rows.columns[position].gather(order[groups.starts])
        return per_group(groups, [self.name], [column])

    def first(self, rows: ZSet) -> tuple[int, tuple[tuple[int, bool], ...]] | None:
        """See `Aggregator.first`."""
        position = column_position(rows.names, self.column)
        return None if rows.columns[position].dictionary is not None else (1, ((position, self.descending),))

    @property
    def sorts_by(self) -> tuple[tuple[ColumnName, bool], ...]:
        """See `Aggregator.sorts_by`."""
        return ((self.column, self.descending),)


class Min(_Extreme):
    """The minimum of a column over rows of positive weight; texts in text order, without nulls.

    Examples
    --------
    >>> from gpu_wcoj.streams import Circuit
    >>> circuit = Circuit(backend="cpu")
    >>> circuit.sink("out", circuit.source("r").incremental_aggregate([0], Min(1)))
    >>> circuit.step({"r": [(1, 2), (1, 3)]})["out"].rows()
    [((1, 2), 1)]
    >>> circuit.step({"r": [((1, 3), -1)]})["out"].rows()
    []
    """


class Max(_Extreme):
    """The maximum of a column over rows of positive weight; see `Min`.

    Examples
    --------
    >>> from gpu_wcoj.streams import Circuit
    >>> circuit = Circuit(backend="cpu")
    >>> circuit.sink("out", circuit.source("r").incremental_aggregate([0], Max(1)))
    >>> circuit.step({"r": [(1, 2), (1, 3)]})["out"].rows()
    [((1, 3), 1)]
    >>> circuit.step({"r": [((1, 3), -1)]})["out"].rows()
    [((1, 2), 1), ((1, 3), -1)]
    """

    descending = True


class CountDistinct(TotalsAggregator):
    """The number of distinct values, or tuples of values, without nulls.

    Only rows of positive weight count.

    Examples
    --------
    >>> from gpu_wcoj.streams import Circuit
    >>> circuit = Circuit(backend="cpu")
    >>> circuit.sink("out", circuit.source("r").incremental_aggregate([0], CountDistinct(1)))
    >>> circuit.step({"r": [(1, 2), (1, 3)]})["out"].rows()
    [((1, 2), 1)]
    >>> circuit.step({"r": [((1, 3), -1)]})["out"].rows()
    [((1, 1), 1), ((1, 2), -1)]
    """

    def __init__(self, *columns: ColumnName, name: str = "count") -> None:
        if not columns:
            raise UsageError.missing("CountDistinct", "a column")
        self.columns, self.name = columns, name

    @property
    def counts_once(self) -> bool:
        """True: each value counts once."""
        return True

    def of(self, groups: Groups) -> ZSet:
        """See `Aggregator.of`."""
        pairs = self.pairs(groups.rows, groups.keys)
        return super().of(grouped(groups.place, pairs, range(len(groups.keys))))

    def pairs(self, rows: ZSet, keys: Sequence[int]) -> ZSet:
        """Return the groups with their values: the key columns, then the counted columns."""
        counted = column_positions(rows.names, self.columns)
        names = [*(rows.names[key] for key in keys), *(f"#{position}" for position in range(len(counted)))]
        return select_columns(rows, [*keys, *counted], names)

    def _counted(self, groups: Groups) -> list[Column]:
        return list(groups.rows.columns[len(groups.keys) :])


class TopK(Aggregator):
    """The first `k` rows of a group by some columns, then by all other columns; nulls last.

    Parameters
    ----------
    by
        Columns, each as a name or as ``(column, "desc")``.

    Examples
    --------
    >>> from gpu_wcoj.streams import Circuit
    >>> circuit = Circuit(backend="cpu")
    >>> scores = circuit.source("score", {"post": "int64", "points": "int64"})
    >>> circuit.sink("best", scores.incremental_aggregate([], TopK(1, [("points", "desc")])))
    >>> circuit.step({"score": [(1, 10), (2, 30), (3, 30)]})["best"].rows()
    [((2, 30), 1)]
    >>> circuit.step({"score": [((2, 30), -1)]})["best"].rows()
    [((2, 30), -1), ((3, 30), 1)]
    """

    def __init__(self, k: int, by: Sequence[ColumnName | tuple[ColumnName, Literal["asc", "desc"]]]) -> None:
        self.k = validate_positive("k", k, 1)
        listed = [column if isinstance(column, tuple) else (column, "asc") for column in by]
        for _, direction in listed:
            if direction not in ("asc", "desc"):
                raise UsageError.invalid_value("direction", direction, "'asc' or 'desc'")
        self.by = tuple((column, direction == "desc") for column, direction in listed)

    def of(self, groups: Groups) -> ZSet:
        """See `Aggregator.of`."""
        place, rows = groups.place, groups.rows
        by = [(column_position(rows.names, column), descending) for column, descending in self.by]
        order = in_order(groups, by)
        (rows_kept,) = positions(
            place.backend, place.xp.arange(len(order)) - groups.starts[groups.group_of_rows] < self.k
        )
        columns = [column.gather(order[rows_kept]) for column in rows.columns]
        return place.made(rows.names, columns, place.xp.ones(len(rows_kept), np.int64))

    def first(self, rows: ZSet) -> tuple[int, tuple[tuple[int, bool], ...]] | None:
        """See `Aggregator.first`."""
        if any(column.dictionary is not None for column in rows.columns):
            return None
        return self.k, tuple((column_position(rows.names, column), descending) for column, descending in self.by)

    @property
    def sorts_by(self) -> tuple[tuple[ColumnName, bool], ...]:
        """See `Aggregator.sorts_by`."""
        return self.by


class Apply(Aggregator):
    """A function of all groups at once.

    Parameters
    ----------
    function
        Called with one array per column, as in `ZSet.to_numpy`, and an array of the offset of each group; it returns
        one array or list per name, with one value per group. Rows of a group are in a fixed order.
    names
        The result columns; or a mapping from them to their types.

    Examples
    --------
    >>> import numpy as np
    >>> from gpu_wcoj.streams import Circuit
    >>> circuit = Circuit(backend="cpu")
    >>> spread = Apply(lambda a, b, starts: np.maximum.reduceat(b, starts) - np.minimum.reduceat(b, starts), ["spread"])
    >>> circuit.sink("out", circuit.source("r").incremental_aggregate([0], spread))
    >>> circuit.step({"r": [(1, 2), (1, 5)]})["out"].rows()
    [((1, 3), 1)]
    """

    def __init__(self, function: Callable[..., Any], names: Names) -> None:
        self.function, self.names = function, names

    def of(self, groups: Groups) -> ZSet:
        """See `Aggregator.of`."""
        groups = _sort_groups(groups)
        starts = groups.place.backend.to_host(groups.starts)
        made = self.function(*input_arrays(groups.rows), starts)
        return per_group(groups, *columns_from(groups.place, made, self.names, len(starts), self.function))


class ApplyRows(Aggregator):
    """A function of the rows of one group.

    Parameters
    ----------
    function
        Called with the list of a group's rows of positive weight, as tuples in a fixed order; it returns a tuple.
    names
        The result columns; or a mapping from them to their types.

    Examples
    --------
    >>> from gpu_wcoj.streams import Circuit
    >>> circuit = Circuit(backend="cpu")
    >>> spread = ApplyRows(lambda rows: (rows[-1][1] - rows[0][1],), ["spread"])
    >>> circuit.sink("out", circuit.source("r").incremental_aggregate([0], spread))
    >>> circuit.step({"r": [(1, 2), (1, 5)]})["out"].rows()
    [((1, 3), 1)]
    """

    def __init__(self, function: Callable[[list[tuple[Any, ...]]], tuple[Any, ...]], names: Names) -> None:
        self.function, self.names = function, names

    def of(self, groups: Groups) -> ZSet:
        """See `Aggregator.of`."""
        groups = _sort_groups(groups)
        rows = [row for row, _ in groups.rows.rows()]
        ends = [*groups.place.backend.to_host(groups.starts).tolist(), len(rows)]
        made = [self.function(rows[begin:end]) for begin, end in pairwise(ends)]
        return per_group(groups, *rows_from(groups.place, made, self.names, self.function))


def _sort_groups(groups: Groups) -> Groups:
    """Return the groups with rows sorted by their values."""
    return Groups(groups.place, take_rows(groups.rows, in_order(groups, [])), groups.keys, groups.starts)


# Operators: distinct and aggregates, of values, of changes, and under nested time.


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
