"""Execution context of a circuit: a backend, and the dictionaries of all its texts."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from gpu_wcoj.backend import Backend
from gpu_wcoj.data.column import Column, Dictionary, dictionary_of, without_zero_signs
from gpu_wcoj.data.schema import DataType
from gpu_wcoj.data.wide import codes_of
from gpu_wcoj.errors import TypeMismatchError
from gpu_wcoj.join.prefixes import multiply_exactly
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.zset.arrays import BoolArray
from gpu_wcoj.zset.zset import ZSet, consolidated, minus, moved, plus, to_host

NOTHING = ZSet.empty()
"""The zero of all streams: no rows and unknown columns. It can be added to every Z-set."""


def is_nothing(zset: ZSet) -> bool:
    """Return whether a Z-set has neither rows nor columns."""
    return not zset.columns and not len(zset)


@dataclass(frozen=True, eq=False)
class Place:
    """Context that makes the Z-sets of one circuit: a backend and two shared dictionaries."""

    backend: Backend
    string: Dictionary
    binary: Dictionary

    @property
    def xp(self) -> Any:
        """The array module."""
        return self.backend.xp

    def made(self, names: Sequence[str], columns: Sequence[Column], weights: Any) -> ZSet:
        """Return a consolidated Z-set of arbitrary rows."""
        return ZSet.from_columns(names, columns, weights, backend=self.backend)

    def trusted(self, names: Sequence[str], columns: Sequence[Column], weights: Any) -> ZSet:
        """Return a Z-set of rows that are already sorted and distinct."""
        on_device = self.backend.device is not None and bool(columns)
        return ZSet(tuple(names), tuple(columns), weights, backend=self.backend if on_device else None)

    def adopted(self, zset: ZSet) -> ZSet:
        """Return the Z-set on this backend and in this circuit's codes; rows stay sorted."""
        if not zset.columns:
            return zset.to_host()
        if self.backend.device is None:
            zset = zset.to_host()
        unsigned = [self.equated(column) for column in zset.columns]
        if any(replaced is not column for replaced, column in zip(unsigned, zset.columns, strict=True)):
            zset = ZSet.from_columns(zset.names, unsigned, zset.stored_weights, backend=zset.backend)
        dictionaries = (None, self.string, self.binary)
        if any(column.dictionary not in dictionaries for column in zset.columns):
            return self.made(zset.names, self.moved(zset.encoded_for(self.string, self.binary)), zset.stored_weights)
        if self.backend.device is None or zset.backend is self.backend:
            return zset.with_weight_name("weight")
        return self.trusted(zset.names, self.moved(zset.columns), self.backend.asarray(zset.stored_weights))

    def moved(self, columns: Sequence[Column]) -> Sequence[Column]:
        """Return the columns in the memory of the backend."""
        return columns if self.backend.device is None else [moved(column, self.backend) for column in columns]

    # Columns

    def equated(self, column: Column) -> Column:
        """Return the column with -0.0 replaced by 0.0, as operators may compare any column."""
        if column.type.family not in ("float32", "float64"):
            return column
        codes = without_zero_signs(column.stored, np if column.is_on_host else self.xp)
        if codes is column.stored:
            return column
        return Column(column.type, codes, column.stored_valid, column.dictionary)

    def dictionary(self, kind: DataType) -> Dictionary | None:
        """Return the dictionary of a type's codes; None if codes are the values."""
        return dictionary_of(kind, (self.string, self.binary))

    def converted(self, column: Column, kind: DataType) -> Column:
        """Return the same values in a type that contains them all."""
        if column.type == kind:
            return column
        if column.type.factor_to(kind) == 1 and column.type.family == kind.family:
            return Column(kind, column.stored, column.stored_valid, column.dictionary)
        return self.moved([to_host(column).as_type(kind, self.binary)])[0]

    def fitted(self, zset: ZSet, kinds: Sequence[DataType]) -> ZSet:
        """Return the rows in columns of these types, which contain all their values."""
        pairs = list(zip(zset.columns, kinds, strict=True))
        if all(column.type == kind for column, kind in pairs):
            return zset
        make = self.trusted if all(column.type.family == kind.family for column, kind in pairs) else self.made
        return make(zset.names, [self.converted(column, kind) for column, kind in pairs], zset.stored_weights)

    def codes_in(self, column: Column, kind: DataType, what: str) -> tuple[Int64Array, BoolArray | None]:
        """Return the codes of values in another type, and a mask of those that it has; None for all."""
        common, codes = common_type([kind, column.type], what), column.stored
        if kind.family == "wide":
            return self.converted(column, common).stored, None
        if column.type.family == "wide":
            return self._narrow_codes(column, kind)
        up, down = column.type.factor_to(kind), kind.factor_to(column.type)
        if up > 1:
            limit = (2**63 - 1) // up
            fits = (codes <= limit) & (codes >= -limit)
            return self.xp.where(fits, codes, 0) * up, fits
        return (codes // down, codes % down == 0) if down > 1 else (codes, None)

    def _narrow_codes(self, column: Column, kind: DataType) -> tuple[Int64Array, BoolArray]:
        assert column.dictionary is not None
        codes = np.zeros(len(column), np.int64)
        fits = np.zeros(len(column), np.bool_) if column.valid is None else ~column.valid
        rows = np.flatnonzero(~fits)
        for row, entry in zip(rows.tolist(), column.dictionary.values_of(column.codes[rows]), strict=True):
            with suppress(TypeMismatchError):
                (codes[row],) = codes_of([entry], kind)
                fits[row] = True
        return self.backend.asarray(codes), self.backend.asarray(fits)

    def stacked(self, left: Column, right: Column) -> Column:
        """Return the rows of both columns in the type that contains all their values."""
        kind = common_type([left.type, right.type], "the column")
        return self.converted(left, kind).stack(self.converted(right, kind), self.xp)

    def nulls(self, like: Column, count: int) -> Column:
        """Return a column of the same type with `count` nulls."""
        xp = self.xp
        valid = xp.zeros(count, np.bool_) if count else None
        return Column(like.type, xp.zeros(count, np.int64), valid, like.dictionary)

    # Z-sets

    def plus(self, left: ZSet, right: ZSet) -> ZSet:
        """``left + right``, with the names of `left`; exact, or `WeightOverflowError`."""
        return plus(left, right, self.binary)

    def minus(self, left: ZSet, right: ZSet) -> ZSet:
        """``left - right``, with the names of `left`."""
        return minus(left, right, self.binary)

    def exact(self, names: Sequence[str], columns: Sequence[Column], left: Int64Array, right: Int64Array) -> ZSet:
        """Return rows whose weights are products: exact, or `WeightOverflowError`.

        Slow only if a product may overflow.
        """
        weights = multiply_exactly(left, right, self.backend, None)
        if not columns:
            weights = self.backend.to_host(weights)
        backend = None if self.backend.device is None else self.backend
        return consolidated(tuple(names), columns, weights, "weight", backend if columns else None)


def common_type(kinds: Sequence[DataType], what: str) -> DataType:
    """Return the type that contains the values of all types."""
    try:
        return reduce(DataType.common, kinds)
    except TypeMismatchError as error:
        raise TypeMismatchError(f"{what}: {error}") from None
