"""Aggregators that are functions of totals: row counts, sums, means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gpu_wcoj.data.column import Column, float_codes, without_zero_signs
from gpu_wcoj.data.schema import INT64, DataType
from gpu_wcoj.errors import TypeMismatchError, UnsupportedTypeError
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.streams.aggregator import Aggregator, ColumnName, per_group
from gpu_wcoj.streams.device_context import Place, place_of
from gpu_wcoj.streams.grouped import Groups
from gpu_wcoj.streams.words import Words, column_of, words_by_group, words_of_groups
from gpu_wcoj.zset.arrays import numbers
from gpu_wcoj.zset.zset import ZSet

_DOUBLE = DataType("double")


class _TotalsAggregator(Aggregator):
    """Base of aggregators that are functions of totals."""

    def of(self, groups: Groups) -> ZSet:
        """See `Aggregator.of`."""
        groups = self.counted(groups)
        totals = self.totals(groups.rows, groups.place)
        assert totals is not None
        return self.of_totals(groups, [group_sums(groups, each, self.description) for each in totals])

    def of_totals(self, groups: Groups, totals: Sequence[Int64Array]) -> ZSet:
        return per_group(groups, *self.finished(totals, groups.rows, groups.place))

    def counted(self, groups: Groups) -> Groups:
        """Return the groups with the row weights to count; all weights are positive."""
        if not self.counts_once:
            return groups
        return replace(groups, rows=groups.place.unit(groups.rows))

    @property
    def description(self) -> str:
        """The name of the aggregate in errors."""
        return type(self).__name__.lower()


class Count(_TotalsAggregator):
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


class Sum(_TotalsAggregator):
    """The sum of a numeric column, each value multiplied by its weight; nulls are ignored.

    It is exact; for floats, it is the exact sum rounded once, so that equal rows give equal bits. A group with only
    nulls has the sum null.
    """

    def __init__(self, column: ColumnName, name: str | None = None) -> None:
        self.column = column
        self.name = f"sum_{column}" if name is None else name

    @property
    def description(self) -> str:
        """The name of the aggregate in errors."""
        return f"the sum of column '{self.column}'"

    def totals(self, rows: ZSet, place: Place) -> list[Int64Array] | None:
        """See `Aggregator.totals`."""
        column = rows.columns[place_of(rows.names, self.column)]
        if _numeric(column, self.description) in ("float32", "float64"):
            return None
        weights = rows.stored_weights
        counted = weights
        if column.stored_valid is not None:
            counted = place.xp.where(column.stored_valid, weights, 0)
        return [weights, counted, _product(place, column.stored, counted)]

    def of(self, groups: Groups) -> ZSet:
        """See `Aggregator.of`."""
        column = groups.rows.columns[place_of(groups.rows.names, self.column)]
        if _numeric(column, self.description) in ("integer", "decimal"):
            return super().of(groups)
        groups = self.counted(groups)
        words = words_by_group(len(groups), *(each.tolist() for each in self.words(groups)))
        return per_group(groups, [self.name], [self.of_words(words, groups.place)])

    def words(self, groups: Groups) -> tuple[Int64Array, Int64Array, Int64Array]:
        """Return what the rows add to the float sums of their groups; see `gpu_wcoj.streams.words`."""
        return words_of_groups(groups, groups.rows.columns[place_of(groups.rows.names, self.column)])

    def of_words(self, words: Sequence[Words], place: Place) -> Column:
        """Return the results from the words of some groups."""
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
            raise UnsupportedTypeError(f"{self.description} has more than 18 digits, the maximum of a decimal.")
        return [self.name], [Column(kind, sums, _validity(counted > 0))]


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
    """Return the exact sum of each group; raise if it leaves int64."""
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
    """Return the elementwise product, as Python integers on the host if int64 may overflow."""
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
        raise TypeMismatchError.mismatch(what, "has the wrong type", f"'{column.type.name}'", "a numeric column")
    return family


def _scale(kind: DataType) -> int:
    return int(kind.value_name.rstrip(")").rpartition(",")[2])


def _floats(place: Place, values: Any, valid: Any) -> Column:
    """Return a column of doubles from host values."""
    codes = np.where(valid, without_zero_signs(float_codes(np.asarray(values, np.float64))), 0)
    moved = _validity(place.backend.asarray(np.asarray(valid)))
    return Column(_DOUBLE, place.backend.asarray(codes), moved)


def _validity(valid: Any) -> Any:
    return None if bool(valid.all()) else valid
