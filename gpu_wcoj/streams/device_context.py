"""Execution context of a circuit: a backend, and the dictionaries of all its texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from gpu_wcoj.backend import Backend, cpu_backend
from gpu_wcoj.data.column import Column, Dictionary, on_host, without_zero_signs
from gpu_wcoj.data.schema import DataType
from gpu_wcoj.errors import ColumnError, SchemaError, TypeMismatchError, WeightOverflowError
from gpu_wcoj.join.prefixes import multiply_exactly
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.zset import zset as algebra
from gpu_wcoj.zset import zset as device
from gpu_wcoj.zset.arrays import BoolArray, numbers, positions
from gpu_wcoj.zset.zset import ZSet, check_arity

_LOWEST = -(2**63)
"""The smallest value of int64."""

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
        return ZSet.from_columns(names, columns, weights, backend=None if self.backend.device is None else self.backend)

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
            return self.made(zset.names, self._moved(zset.encoded_for(self.string, self.binary)), zset.stored_weights)
        if self.backend.device is None or zset.backend is self.backend:
            return zset.with_weight_name("weight")
        return self.trusted(zset.names, self._moved(zset.columns), self.backend.asarray(zset.stored_weights))

    def _moved(self, columns: Sequence[Column]) -> Sequence[Column]:
        return columns if self.backend.device is None else [device.moved(column, self.backend) for column in columns]

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
        return {"string": self.string, "binary": self.binary}.get(kind.dictionary)

    def taken_column(self, column: Column, rows: Any) -> Column:
        """Return the column's rows at these positions, or in this slice."""
        valid = None if column.stored_valid is None else column.stored_valid[rows]
        if valid is not None and bool(valid.all()):
            valid = None
        return Column(column.type, column.stored[rows], valid, column.dictionary)

    def converted(self, column: Column, kind: DataType) -> Column:
        """Return the same values in a type that contains them all."""
        if column.type == kind:
            return column
        if column.type.factor_to(kind) == 1 and column.type.family == kind.family:
            return Column(kind, column.stored, column.stored_valid, column.dictionary)
        return self._moved([device.to_host(column).as_type(kind)])[0]

    def stacked(self, parts: Sequence[Column], what: str = "the column") -> Column:
        """Concatenate columns in the type that contains all their values."""
        if len(parts) == 1:
            return parts[0]
        kind = common_type([part.type for part in parts], what)
        parts = [self.converted(part, kind) for part in parts]
        xp = self.xp
        valid = None
        if any(part.stored_valid is not None for part in parts):
            masks = [xp.ones(len(p), np.bool_) if p.stored_valid is None else p.stored_valid for p in parts]
            valid = xp.concatenate(masks)
        return Column(kind, xp.concatenate([part.stored for part in parts]), valid, parts[0].dictionary)

    def concatenated(self, parts: Sequence[Int64Array]) -> Int64Array:
        """Concatenate arrays; a single array is returned itself."""
        joined: Int64Array = parts[0] if len(parts) == 1 else self.xp.concatenate(parts)
        return joined

    def nulls(self, like: Column, count: int) -> Column:
        """Return a column of the same type with `count` nulls."""
        xp = self.xp
        valid = xp.zeros(count, np.bool_) if count else None
        return Column(like.type, xp.zeros(count, np.int64), valid, like.dictionary)

    # Z-sets

    def taken(self, zset: ZSet, rows: Any) -> ZSet:
        """Return the rows at these ascending positions, or in this slice."""
        columns = [self.taken_column(column, rows) for column in zset.columns]
        return self.trusted(zset.names, columns, zset.stored_weights[rows])

    def select_rows(self, zset: ZSet, mask: BoolArray) -> ZSet:
        """Return the rows that the mask selects."""
        if not len(zset):
            return zset
        rows = positions(self.backend, mask)[0] if zset.columns else np.flatnonzero(mask)
        return zset if len(rows) == len(zset) else self.taken(zset, rows)

    def selected(self, zset: ZSet, columns: Sequence[int], names: Sequence[str] | None = None) -> ZSet:
        """Return these columns, consolidated."""
        chosen_names = [zset.names[column] for column in columns] if names is None else list(names)
        if tuple(columns) == tuple(range(len(zset.columns))):
            return self.trusted(chosen_names, zset.columns, zset.stored_weights)
        weights = zset.weights if not columns else zset.stored_weights
        return self.made(chosen_names, [zset.columns[column] for column in columns], weights)

    def turned(self, left: ZSet, right: ZSet) -> ZSet:
        """Return `right` with columns in the order of `left` if both have the same names."""
        if not algebra.is_turned(left.names, right.names):
            return right
        return self.selected(right, [right.names.index(name) for name in left.names])

    def plus(self, left: ZSet, right: ZSet) -> ZSet:
        """``left + right``, with the names of `left`; exact, or `WeightOverflowError`."""
        if is_nothing(left) or is_nothing(right):
            return right if is_nothing(left) else left
        check_arity(left.names, right.names)
        if not len(left) or not len(right):
            wide = right if not len(left) else left
            if all(a.type == b.type for a, b in zip(left.columns, right.columns, strict=True)):
                return self.trusted(left.names, wide.columns, wide.stored_weights)
        if not left.columns:
            return algebra.plus(left, right)
        columns = [
            self.stacked([left_column, right_column], f"column '{name}'")
            for name, left_column, right_column in zip(left.names, left.columns, right.columns, strict=True)
        ]
        return self.made(left.names, columns, self.xp.concatenate([left.stored_weights, right.stored_weights]))

    def negated(self, zset: ZSet) -> ZSet:
        """``-zset``; raises for a weight of -2^63."""
        if not zset.columns or self._has_lowest(zset):
            return algebra.negate(zset)
        return self.trusted(zset.names, zset.columns, -zset.stored_weights)

    def minus(self, left: ZSet, right: ZSet) -> ZSet:
        """``left - right``, with the names of `left`."""
        if not right.columns or self._has_lowest(right):
            return left if is_nothing(right) else self.adopted(algebra.minus(left, right))
        return self.plus(left, self.negated(right))

    def _has_lowest(self, zset: ZSet) -> bool:
        weights = zset.stored_weights
        return bool(len(weights)) and bool((weights == _LOWEST).any())

    def unit(self, zset: ZSet) -> ZSet:
        """Return the same rows, each with weight 1."""
        weights = self.xp.ones(len(zset), np.int64) if zset.columns else np.ones(len(zset), np.int64)
        return self.trusted(zset.names, zset.columns, weights)

    def equal(self, left: Any, right: Any) -> bool:
        """Return whether two values are known to be equal: Z-sets by content, others by identity."""
        if left is right or not isinstance(left, ZSet) or not isinstance(right, ZSet):
            return left is right
        if len(left) != len(right):
            return False
        if not len(left):
            return True
        if self.backend.device is not None and left.columns and len(left.columns) == len(right.columns):
            if any(a.type != b.type for a, b in zip(left.columns, right.columns, strict=True)):
                return algebra.equal(left, right)
            pairs = [(left.stored_weights, right.stored_weights)]
            for left_column, right_column in zip(left.columns, right.columns, strict=True):
                if (left_column.stored_valid is None) != (right_column.stored_valid is None):
                    return False
                pairs.append((left_column.stored, right_column.stored))
                if left_column.stored_valid is not None:
                    pairs.append((left_column.stored_valid, right_column.stored_valid))
            return not any(
                numbers(self.backend, *((left_array != right_array).sum() for left_array, right_array in pairs))
            )
        return algebra.equal(left, right)

    def exact(self, names: Sequence[str], columns: Sequence[Column], left: Int64Array, right: Int64Array) -> ZSet:
        """Return rows whose weights are products: exact, or `WeightOverflowError`.

        Slow only if a product may overflow.
        """
        weights = multiply_exactly(left, right, self.backend, None)
        if weights.dtype != object:
            return self.made(names, columns, weights)
        levels = [on_host(level) for column in columns for level in _levels(column)]
        sums = np.array([weights.sum()], object)
        if levels:
            levels, sums = cpu_backend().kernels.consolidate(levels, weights)
        parts = iter(map(self.backend.asarray, levels))
        made = []
        for column in columns:
            valid = None if column.stored_valid is None else next(parts) != 0
            valid = None if valid is None or bool(valid.all()) else valid
            made.append(Column(column.type, next(parts), valid, column.dictionary))
        rows = self.trusted(names, made, self.backend.asarray(np.ones(len(sums), np.int64)))
        for row, weight in enumerate(sums.tolist()):
            if not -(1 << 63) <= weight < 1 << 63:
                raise WeightOverflowError("<stream>", rows.rows()[row][0] if columns else (), weight)
        summed = sums.astype(np.int64)
        return self.trusted(names, made, self.backend.asarray(summed)) if columns else self.made((), (), summed)


def _levels(column: Column) -> list[Int64Array]:
    """Return the sort keys of a column of a Z-set: nulls first, then codes."""
    if column.stored_valid is None:
        return [column.stored]
    return [column.stored_valid.astype(np.int64), column.stored]


def common_type(kinds: Sequence[DataType], what: str) -> DataType:
    """Return the type that contains the values of all types."""
    try:
        return reduce(DataType.common, kinds)
    except TypeMismatchError as error:
        raise TypeMismatchError(f"{what}: {error}") from None


def place_of(names: Sequence[str], column: str | int, what: str = "<stream>") -> int:
    """Return the position of a column given by name or position."""
    if isinstance(column, str) and column in names:
        return list(names).index(column)
    if isinstance(column, int) and not isinstance(column, bool) and -len(names) <= column < len(names):
        return column % len(names)
    raise ColumnError(what, str(column), names)


def places_of(names: Sequence[str], columns: Sequence[str | int], what: str = "<stream>") -> list[int]:
    """Return the positions of distinct columns."""
    positions_of_columns = [place_of(names, column, what) for column in columns]
    if len(set(positions_of_columns)) < len(positions_of_columns):
        twice = next(position for position in positions_of_columns if positions_of_columns.count(position) > 1)
        raise SchemaError.duplicate("column", names[twice], remedy="Name each column once.")
    return positions_of_columns
