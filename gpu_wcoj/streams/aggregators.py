"""Aggregators for extremes, first rows, distinct values, and user-defined functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from gpu_wcoj.data.column import Column
from gpu_wcoj.data.schema import INT64
from gpu_wcoj.engine.options import validate_positive
from gpu_wcoj.errors import UsageError
from gpu_wcoj.streams.aggregator import Aggregator, ColumnName, per_group
from gpu_wcoj.streams.device_context import place_of
from gpu_wcoj.streams.grouped import Groups, levels_of
from gpu_wcoj.streams.operators.linear import Names, columns_from, input_arrays, rows_from
from gpu_wcoj.streams.ordering import in_order
from gpu_wcoj.zset.arrays import positions
from gpu_wcoj.zset.zset import ZSet


class _Extreme(Aggregator):
    """The first value of a group in one direction."""

    descending = False

    def __init__(self, column: ColumnName, name: str | None = None) -> None:
        self.column = column
        self.name = f"{type(self).__name__.lower()}_{column}" if name is None else name

    def of(self, groups: Groups) -> ZSet:
        """See `Aggregator.of`."""
        position = place_of(groups.rows.names, self.column)
        order = in_order(groups, [(position, self.descending)], total=False)
        column = groups.place.taken_column(groups.rows.columns[position], order[groups.starts])
        return per_group(groups, [self.name], [column])

    def first(self, rows: ZSet) -> tuple[int, tuple[tuple[int, bool], ...]] | None:
        """See `Aggregator.first`."""
        position = place_of(rows.names, self.column)
        return None if rows.columns[position].dictionary is not None else (1, ((position, self.descending),))

    @property
    def sorts_by(self) -> tuple[tuple[ColumnName, bool], ...]:
        """See `Aggregator.sorts_by`."""
        return ((self.column, self.descending),)


class Min(_Extreme):
    """The minimum of a column over rows of positive weight; texts in text order, without nulls."""


class Max(_Extreme):
    """The maximum of a column over rows of positive weight; see `Min`."""

    descending = True


class CountDistinct(Aggregator):
    """The number of distinct values, or tuples of values, without nulls.

    Only rows of positive weight count.
    """

    def __init__(self, *columns: ColumnName, name: str = "count") -> None:
        if not columns:
            raise UsageError.missing("CountDistinct", "one or more columns")
        self.columns, self.name = columns, name

    def of(self, groups: Groups) -> ZSet:
        """See `Aggregator.of`."""
        place, rows, xp = groups.place, groups.rows, groups.place.xp
        values = [rows.columns[place_of(rows.names, column)] for column in self.columns]
        group_index, kernels = groups.group_of_rows, place.backend.kernels
        levels = [group_index, *levels_of(place, values)]
        order = kernels.lexsort(levels)
        starts = kernels.run_starts([level[order] for level in levels])
        first = order[starts]
        for column in values:
            if column.stored_valid is not None:
                first = first[positions(place.backend, column.stored_valid[first])[0]]
        ends = xp.searchsorted(group_index[first], xp.arange(len(groups) + 1), side="left")
        return per_group(groups, [self.name], [Column(INT64, (ends[1:] - ends[:-1]).astype(np.int64))])


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
        by = [(place_of(rows.names, column), descending) for column, descending in self.by]
        order = in_order(groups, by)
        (rows_kept,) = positions(
            place.backend, place.xp.arange(len(order)) - groups.starts[groups.group_of_rows] < self.k
        )
        columns = [place.taken_column(column, order[rows_kept]) for column in rows.columns]
        return place.made(rows.names, columns, place.xp.ones(len(rows_kept), np.int64))

    def first(self, rows: ZSet) -> tuple[int, tuple[tuple[int, bool], ...]] | None:
        """See `Aggregator.first`."""
        if any(column.dictionary is not None for column in rows.columns):
            return None
        return self.k, tuple((place_of(rows.names, column), descending) for column, descending in self.by)

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
    return Groups(groups.place, groups.place.taken(groups.rows, in_order(groups, [])), groups.keys, groups.starts)
