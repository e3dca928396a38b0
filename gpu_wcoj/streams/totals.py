"""Aggregators that are functions of totals: numbers of rows, sums, means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gpu_wcoj.column import Column, float_codes, without_zero_signs
from gpu_wcoj.errors import TypeMismatchError, UnsupportedTypeError
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.schema import INT64, DataType
from gpu_wcoj.streams.aggregator import Aggregator, ColumnName, per_group
from gpu_wcoj.streams.grouped import Groups
from gpu_wcoj.streams.place import Place, place_of
from gpu_wcoj.streams.words import Words, by_group, column_of, words_of
from gpu_wcoj.zset.arrays import numbers
from gpu_wcoj.zset.zset import ZSet

_DOUBLE = DataType("double")


class _OfTotals(Aggregator):
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


class Count(_OfTotals):
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


class Sum(_OfTotals):
    """The sum of a column of numbers, each as often as its weight says; nulls are left out.

    It is exact; of floats, it is the exact sum rounded once, so that the same rows give the same bits. A group with
    nothing but nulls has the sum null.
    """

    def __init__(self, column: ColumnName, name: str | None = None) -> None:
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

    def __init__(self, column: ColumnName, name: str | None = None) -> None:
        super().__init__(column, f"mean_{column}" if name is None else name)

    def finished(self, totals: Sequence[Int64Array], like: ZSet, place: Place) -> tuple[list[str], list[Column]]:
        """See `Aggregator.finished`."""
        _, counted, sums = (place.backend.to_host(each) for each in totals)
        kind = like.columns[place_of(like.names, self.column)].type
        scale = 10 ** _scale(kind) if kind.family == "decimal" else 1
        return [self.name], [_floats(place, sums / np.maximum(counted, 1) / scale, counted > 0)]


def group_sums(groups: Groups, values: Int64Array, what: str) -> Int64Array:
    """The exact sum of each group; an error if it leaves int64."""
    place = groups.place
    if values.dtype == object:
        sums = np.add.reduceat(values, place.backend.to_host(groups.starts))
        if any(not -(1 << 63) <= total < 1 << 63 for total in sums.tolist()):
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
    codes = np.where(valid, without_zero_signs(float_codes(np.asarray(values, np.float64))), 0)
    moved = _validity(place.backend.asarray(np.asarray(valid)))
    return Column(_DOUBLE, place.backend.asarray(codes), moved)


def _validity(valid: Any) -> Any:
    return None if bool(valid.all()) else valid
