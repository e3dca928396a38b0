"""What can be made of the rows of a group: numbers of rows, sums, extremes, first rows, and functions of a user's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from gpu_wcoj.column import Column, float_codes
from gpu_wcoj.errors import TypeMismatchError, UnsupportedTypeError, UsageError
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.options import positive
from gpu_wcoj.schema import INT64, DataType
from gpu_wcoj.streams.callables import Names, columns_from, given, rows_from
from gpu_wcoj.streams.grouped import Groups, levels_of
from gpu_wcoj.streams.ordering import in_order
from gpu_wcoj.streams.place import Place, place_of
from gpu_wcoj.streams.words import Words, by_group, column_of, words_of
from gpu_wcoj.zset.arrays import numbers, positions
from gpu_wcoj.zset.zset import ZSet

_DOUBLE = DataType("double")
_Name = str | int


class Aggregator:
    """Makes a row, or some rows, of every group; pure: the same rows give the same.

    Attributes
    ----------
    counts_once
        Whether `totals` are of rows of positive weight, each once, and not as often as its weight says.
    """

    counts_once = False

    def of(self, groups: Groups) -> ZSet:
        """The rows made of all groups: their key columns and the results, each once. No weight is below 1."""
        raise NotImplementedError

    def totals(self, rows: ZSet, place: Place) -> list[Int64Array] | None:
        """Per row, what it adds to each total of its group, the number of rows first; None if there are no totals.

        Aggregates that are functions of sums are kept up to date without looking at a group again.
        """
        del rows, place
        return None

    def finished(self, totals: Sequence[Int64Array], like: ZSet, place: Place) -> tuple[list[str], list[Column]]:
        """The result columns from the totals of some groups; `like` has the columns of what is aggregated."""
        raise NotImplementedError

    def first(self, rows: ZSet) -> tuple[int, tuple[tuple[int, bool], ...]] | None:
        """How many rows decide, and the columns whose order of codes puts these first; None if codes do not tell."""
        del rows
        return None

    @property
    def sorts_by(self) -> tuple[tuple[_Name, bool], ...]:
        """The columns by which a trace is sorted for `first`, True for a descending one."""
        return ()


class _Linear(Aggregator):
    """A function of totals."""

    def of(self, groups: Groups) -> ZSet:
        """See `Aggregator.of`."""
        groups = self.counted(groups)
        totals = self.totals(groups.rows, groups.place)
        assert totals is not None
        return self.of_totals(groups, [group_sums(groups, each, self.shown) for each in totals])

    def of_totals(self, groups: Groups, totals: Sequence[Int64Array]) -> ZSet:
        return per_group(groups, *self.finished(totals, groups.rows, groups.place))

    def counted(self, groups: Groups) -> Groups:
        """The groups with rows that weigh what they count, if they have no negative ones."""
        if not self.counts_once:
            return groups
        return replace(groups, rows=groups.place.unit(groups.rows))

    @property
    def shown(self) -> str:
        """What an error calls it."""
        return type(self).__name__.lower()


class Count(_Linear):
    """The number of rows of a group, by weight."""

    def __init__(self, name: str = "count") -> None:
        self.name = name

    def totals(self, rows: ZSet, place: Place) -> list[Int64Array] | None:
        """See `Aggregator.totals`."""
        del place
        return [rows.stored_weights]

    def finished(self, totals: Sequence[Int64Array], like: ZSet, place: Place) -> tuple[list[str], list[Column]]:
        """See `Aggregator.finished`."""
        del like, place
        return [self.name], [Column(INT64, totals[0])]


class Sum(_Linear):
    """The sum of a column of numbers, each as often as its weight says; nulls are left out.

    It is exact; of floats, it is the exact sum rounded once, so that the same rows give the same bits. A group with
    nothing but nulls has the sum null.
    """

    def __init__(self, column: _Name, name: str | None = None) -> None:
        self.column = column
        self.name = f"sum_{column}" if name is None else name

    @property
    def shown(self) -> str:
        """What an error calls it."""
        return f"the sum of column '{self.column}'"

    def totals(self, rows: ZSet, place: Place) -> list[Int64Array] | None:
        """See `Aggregator.totals`."""
        column = rows.columns[place_of(rows.names, self.column)]
        if _numeric(column, self.shown) in ("float32", "float64"):
            return None
        weights = rows.stored_weights
        counted = weights
        if column.stored_valid is not None:
            counted = place.xp.where(column.stored_valid, weights, 0)
        return [weights, counted, _product(place, column.stored, counted)]

    def of(self, groups: Groups) -> ZSet:
        """See `Aggregator.of`."""
        column = groups.rows.columns[place_of(groups.rows.names, self.column)]
        if _numeric(column, self.shown) in ("integer", "decimal"):
            return super().of(groups)
        groups = self.counted(groups)
        words = by_group(len(groups), *(each.tolist() for each in self.words(groups)))
        return per_group(groups, [self.name], [self.of_words(words, groups.place)])

    def words(self, groups: Groups) -> tuple[Int64Array, Int64Array, Int64Array]:
        """What the rows add to the sums of floats of their groups; see `gpu_wcoj.streams.words`."""
        return words_of(groups, groups.rows.columns[place_of(groups.rows.names, self.column)])

    def of_words(self, words: Sequence[Words], place: Place) -> Column:
        """The results from the words of some groups."""
        return column_of(place, words, is_mean=isinstance(self, Mean))

    def finished(self, totals: Sequence[Int64Array], like: ZSet, place: Place) -> tuple[list[str], list[Column]]:
        """See `Aggregator.finished`."""
        _, counted, sums = totals
        kind = like.columns[place_of(like.names, self.column)].type
        limit = 2**63 - 1
        if kind.family == "decimal":
            kind, limit = DataType(f"decimal128(18, {_scale(kind)})"), 10**18 - 1
        else:
            kind = INT64
        if len(sums) and max(map(abs, numbers(place.backend, sums.max(), sums.min()))) > limit:
            raise UnsupportedTypeError(f"{self.shown} has more than 18 digits, the most that a decimal has here.")
        return [self.name], [Column(kind, sums, _validity(counted > 0))]


class Mean(Sum):
    """The mean of a column of numbers over the rows of positive weight, each once, as a double; nulls are left out.

    Examples
    --------
    >>> from gpu_wcoj.streams import Circuit
    >>> circuit = Circuit(backend="cpu")
    >>> circuit.sink("mean", circuit.source("r").incremental_aggregate([], Mean(0)).integrate())
    >>> circuit.step({"r": [((1,), 3), ((4,), 1)]})["mean"].rows()
    [((2.5,), 1)]
    """

    counts_once = True

    def __init__(self, column: _Name, name: str | None = None) -> None:
        super().__init__(column, f"mean_{column}" if name is None else name)

    def finished(self, totals: Sequence[Int64Array], like: ZSet, place: Place) -> tuple[list[str], list[Column]]:
        """See `Aggregator.finished`."""
        _, counted, sums = (place.backend.to_host(each) for each in totals)
        kind = like.columns[place_of(like.names, self.column)].type
        scale = 10 ** _scale(kind) if kind.family == "decimal" else 1
        return [self.name], [_floats(place, sums / np.maximum(counted, 1) / scale, counted > 0)]


class _Extreme(Aggregator):
    """The first value of a group in one direction."""

    descending = False

    def __init__(self, column: _Name, name: str | None = None) -> None:
        self.column = column
        self.name = f"{type(self).__name__.lower()}_{column}" if name is None else name

    def of(self, groups: Groups) -> ZSet:
        """See `Aggregator.of`."""
        at = place_of(groups.rows.names, self.column)
        order = in_order(groups, [(at, self.descending)], total=False)
        column = groups.place.taken_column(groups.rows.columns[at], order[groups.starts])
        return per_group(groups, [self.name], [column])

    def first(self, rows: ZSet) -> tuple[int, tuple[tuple[int, bool], ...]] | None:
        """See `Aggregator.first`."""
        at = place_of(rows.names, self.column)
        return None if rows.columns[at].dictionary is not None else (1, ((at, self.descending),))

    @property
    def sorts_by(self) -> tuple[tuple[_Name, bool], ...]:
        """See `Aggregator.sorts_by`."""
        return ((self.column, self.descending),)


class Min(_Extreme):
    """The least value of a column among rows of positive weight, texts in the order of texts; nulls are left out."""


class Max(_Extreme):
    """The greatest value of a column among rows of positive weight; see `Min`."""

    descending = True


class CountDistinct(Aggregator):
    """How many different values, or combinations of them, rows of positive weight have; nulls are left out."""

    def __init__(self, *columns: _Name, name: str = "count") -> None:
        if not columns:
            raise UsageError("CountDistinct counts the values of one or more columns, and none is given.")
        self.columns, self.name = columns, name

    def of(self, groups: Groups) -> ZSet:
        """See `Aggregator.of`."""
        place, rows, xp = groups.place, groups.rows, groups.place.xp
        values = [rows.columns[place_of(rows.names, column)] for column in self.columns]
        number, kernels = groups.number, place.backend.kernels
        levels = [number, *levels_of(place, values)]
        order = kernels.lexsort(levels)
        starts = kernels.run_starts([level[order] for level in levels])
        first = order[starts]
        for column in values:
            if column.stored_valid is not None:
                first = first[positions(place.backend, column.stored_valid[first])[0]]
        ends = xp.searchsorted(number[first], xp.arange(len(groups) + 1), side="left")
        return per_group(groups, [self.name], [Column(INT64, (ends[1:] - ends[:-1]).astype(np.int64))])


class TopK(Aggregator):
    """The first `k` rows of a group, by some columns and then by all others, so that the order is total; nulls last.

    Parameters
    ----------
    by
        Columns, each alone or as ``(column, "desc")``.

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

    def __init__(self, k: int, by: Sequence[_Name | tuple[_Name, Literal["asc", "desc"]]]) -> None:
        self.k = positive("k", k, 1)
        listed = [one if isinstance(one, tuple) else (one, "asc") for one in by]
        for _, direction in listed:
            if direction not in ("asc", "desc"):
                raise UsageError(f"a direction is 'asc' or 'desc', and not {direction!r}.")
        self.by = tuple((column, direction == "desc") for column, direction in listed)

    def of(self, groups: Groups) -> ZSet:
        """See `Aggregator.of`."""
        place, rows = groups.place, groups.rows
        by = [(place_of(rows.names, column), descending) for column, descending in self.by]
        order = in_order(groups, by)
        (kept,) = positions(place.backend, place.xp.arange(len(order)) - groups.starts[groups.number] < self.k)
        columns = [place.taken_column(column, order[kept]) for column in rows.columns]
        return place.made(rows.names, columns, place.xp.ones(len(kept), np.int64))

    def first(self, rows: ZSet) -> tuple[int, tuple[tuple[int, bool], ...]] | None:
        """See `Aggregator.first`."""
        if any(column.dictionary is not None for column in rows.columns):
            return None
        return self.k, tuple((place_of(rows.names, column), descending) for column, descending in self.by)

    @property
    def sorts_by(self) -> tuple[tuple[_Name, bool], ...]:
        """See `Aggregator.sorts_by`."""
        return self.by


class Apply(Aggregator):
    """A function of all groups at once.

    Parameters
    ----------
    function
        Called with one array per column, as `ZSet.to_numpy` gives them, and an array that says where each group
        begins; it returns one array or list per name, a value a group. Rows of a group stand in a fixed order.
    names
        The result columns; or a mapping from them to their types.
    """

    def __init__(self, function: Callable[..., Any], names: Names) -> None:
        self.function, self.names = function, names

    def of(self, groups: Groups) -> ZSet:
        """See `Aggregator.of`."""
        groups = _settled_order(groups)
        starts = groups.place.backend.to_host(groups.starts)
        made = self.function(*given(groups.rows), starts)
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
        groups = _settled_order(groups)
        rows = [row for row, _ in groups.rows.rows()]
        ends = [*groups.place.backend.to_host(groups.starts).tolist(), len(rows)]
        made = [self.function(rows[begin:end]) for begin, end in pairwise(ends)]
        return per_group(groups, *rows_from(groups.place, made, self.names, self.function))


def per_group(groups: Groups, names: Sequence[str], columns: Sequence[Column]) -> ZSet:
    """A row a group: its key columns, then these."""
    keys = [groups.rows.names[key] for key in groups.keys]
    ones = groups.place.xp.ones(len(groups), np.int64)
    return groups.place.made([*keys, *names], [*groups.heads(), *columns], ones)


def group_sums(groups: Groups, values: Int64Array, what: str) -> Int64Array:
    """The exact sum of each group; an error if it leaves int64."""
    place = groups.place
    if values.dtype == object:
        sums = np.add.reduceat(values, place.backend.to_host(groups.starts))
        if any(not -(1 << 63) <= one < 1 << 63 for one in sums.tolist()):
            raise UnsupportedTypeError(f"{what} over a group is outside int64, -2^63 to 2^63-1.")
        moved: Int64Array = place.backend.asarray(sums.astype(np.int64))
        return moved
    try:
        return place.backend.kernels.segment_sums(values, groups.starts)
    except OverflowError:
        raise UnsupportedTypeError(f"{what} over a group is outside int64, -2^63 to 2^63-1.") from None


def _product(place: Place, values: Int64Array, weights: Int64Array) -> Int64Array:
    """Elementwise product; of Python's integers, on the host, where int64 might not hold it."""
    if not len(values):
        return weights
    ends = numbers(place.backend, values.max(), values.min(), weights.max(), weights.min())
    if max(ends[0], -ends[1]) * max(ends[2], -ends[3]) < 1 << 63:
        return values * weights
    to_host = place.backend.to_host
    product: Int64Array = to_host(values).astype(object) * to_host(weights).astype(object)
    return product


def _numeric(column: Column, what: str) -> str:
    family = column.type.family
    if family not in ("integer", "decimal", "float32", "float64"):
        raise TypeMismatchError(f"{what} is asked for, and its type is '{column.type.name}'.\n  Numbers have sums.")
    return family


def _scale(kind: DataType) -> int:
    return int(kind.value_name.rstrip(")").rpartition(",")[2])


def _floats(place: Place, values: Any, valid: Any) -> Column:
    """A column of doubles from the host."""
    codes = np.where(valid, float_codes(np.asarray(values, np.float64)), 0)
    moved = _validity(place.backend.asarray(np.asarray(valid)))
    return Column(_DOUBLE, place.backend.asarray(codes), moved)


def _validity(valid: Any) -> Any:
    return None if bool(valid.all()) else valid


def _settled_order(groups: Groups) -> Groups:
    """The groups with the rows of each in the order of their values."""
    return Groups(groups.place, groups.place.taken(groups.rows, in_order(groups, [])), groups.keys, groups.starts)
