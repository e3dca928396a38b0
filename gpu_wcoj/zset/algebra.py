"""Algebra of Z-sets with exact weights: plus, minus, scale, distinct, filter, map."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gpu_wcoj.backend import select_backend
from gpu_wcoj.data.column import BoolArray, Column, Int64Array
from gpu_wcoj.errors import (
    ArityError,
    ColumnError,
    SchemaError,
    TypeMismatchError,
    UsageError,
    WeightOverflowError,
)

if TYPE_CHECKING:
    from gpu_wcoj.zset.zset import ZSet

Columns = tuple[Column, ...]
_LOWEST, _HIGHEST = -(2**63), 2**63 - 1


def consolidate(columns: Sequence[Column], weights: Int64Array) -> tuple[Columns, Int64Array]:
    """Sort rows by code, nulls first, add the weights of equal rows, and drop rows of weight 0.

    Raises
    ------
    WeightOverflowError
        If and only if the exact weight of a row leaves int64.
    """
    count = len(weights)
    if count <= 1 or not columns:
        return _consolidate_few(columns, weights)
    keys = _keys(columns)
    if _largest(weights) * count > _HIGHEST:
        _refuse_overflow(columns, keys, weights)
    key_columns, sums = select_backend("cpu").kernels.consolidate(keys, weights)
    parts = iter(key_columns)
    merged = []
    for column in columns:
        valid = None if column.valid is None else next(parts).astype(bool)
        codes = next(parts)
        merged.append(Column(column.type, codes, None if valid is None or valid.all() else valid, column.dictionary))
    return tuple(merged), sums


def _consolidate_few(columns: Sequence[Column], weights: Int64Array) -> tuple[Columns, Int64Array]:
    """Consolidate at most one row, or rows without columns, which are all equal."""
    total = sum(weights.tolist())
    if not columns:
        if not _LOWEST <= total <= _HIGHEST:
            raise WeightOverflowError(None, (), total)
        return (), np.array([total] if total else [], np.int64)
    if total or not len(weights):
        return tuple(column.unshared() for column in columns), weights
    return tuple(column.gather(slice(0)) for column in columns), weights[:0]


def _keys(columns: Sequence[Column]) -> list[Int64Array]:
    keys = []
    for column in columns:
        if column.valid is not None:
            keys.append(column.valid.astype(np.int64))
        keys.append(np.ascontiguousarray(column.codes))
    return keys


def _largest(weights: Int64Array) -> int:
    return max(int(weights.max()), -int(weights.min())) if len(weights) else 0


def _refuse_overflow(columns: Sequence[Column], keys: Sequence[Int64Array], weights: Int64Array) -> None:
    """Raise if the exact sum of a row leaves int64; halves of weights are added separately."""
    kernels = select_backend("cpu").kernels
    order = kernels.lexsort(keys)
    starts = kernels.run_starts([key[order] for key in keys])
    lows = np.add.reduceat(weights[order] & 0xFFFFFFFF, starts)
    highs = np.add.reduceat(weights[order] >> 32, starts) + (lows >> 32)
    beyond = np.flatnonzero((highs < -(2**31)) | (highs >= 2**31))
    if len(beyond):
        first = int(beyond[0])
        exact = (int(highs[first]) << 32) + (int(lows[first]) & 0xFFFFFFFF)
        raise WeightOverflowError(None, _row(columns, int(order[starts[first]])), exact)


def _row(columns: Sequence[Column], row_index: int) -> tuple[Any, ...]:
    return tuple(python_values(column.gather(slice(row_index, row_index + 1)))[0] for column in columns)


def python_values(column: Column) -> list[Any]:
    """Return the values as Python objects; PyArrow is not loaded for integers."""
    if column.valid is None and column.type.family == "integer":
        values: list[Any] = column.codes.tolist()
        return values
    from gpu_wcoj.arrow import to_python

    return to_python(column)


def weight_of(zset: ZSet, row: tuple[Any, ...]) -> int:
    """Return the weight of a row, 0 if absent. O(n).

    Examples
    --------
    >>> from gpu_wcoj.zset.zset import ZSet
    >>> weight_of(ZSet.from_rows([((1, "a"), 3)]), (1, "a")), weight_of(ZSet.from_rows([(1,)]), (1, "a"))
    (3, 0)
    """
    zset = zset.to_host()
    if len(row) != len(zset.columns):
        return 0
    mask: BoolArray = np.ones(len(zset), np.bool_)
    for column, value in zip(zset.columns, row, strict=True):
        if column.type.family == "integer" and type(value) is int and _LOWEST <= value <= _HIGHEST:
            mask &= column.codes == value
    equal_rows = [(present_row, weight) for present_row, weight in _taken(zset, mask).rows() if present_row == row]
    same = (weight for present_row, weight in equal_rows if repr(present_row) == repr(row))  # Python's 0.0 equals -0.0
    return next(same, equal_rows[0][1] if equal_rows else 0)


def plus(left: ZSet, right: ZSet) -> ZSet:
    """``(left + right)(row) = left(row) + right(row)``, with the names of `left`.

    Columns are matched by position, as in SQL's UNION; if both sides have the same names in another order, by name.

    Raises
    ------
    ArityError, TypeMismatchError
        If the columns do not fit. A Z-set without rows and columns fits every Z-set.
    WeightOverflowError
        If the exact weight of a row leaves int64.

    Examples
    --------
    >>> from gpu_wcoj.zset.zset import ZSet
    >>> plus(ZSet.from_rows([(1,), (2,)]), ZSet.from_rows([((1,), -1)])).rows()
    [((2,), 1)]
    >>> plus(ZSet.from_arrow({"a": [1], "b": [2]}), ZSet.from_arrow({"b": [4], "a": [3]})).rows()
    [((1, 2), 1), ((3, 4), 1)]
    """
    return _combined(left, right, [left.weights, right.weights])


def minus(left: ZSet, right: ZSet) -> ZSet:
    """``(left - right)(row) = left(row) - right(row)``, with the names of `left`.

    Errors as in `plus`.

    Examples
    --------
    >>> from gpu_wcoj.zset.zset import ZSet
    >>> minus(ZSet.from_rows([(1,), (2,)]), ZSet.from_rows([(1,), (3,)])).rows()
    [((2,), 1), ((3,), -1)]
    """
    weights = right.weights
    lowest = weights == _LOWEST
    if bool(lowest.any()):  # 2^63 does not fit int64, but a sum with it may: add it in two rows
        twice = tuple(column.stack(column.gather(lowest)) for column in right.columns)
        weights = np.concatenate([np.where(lowest, _LOWEST + 1, weights), np.full(int(lowest.sum()), -1)])
        right = type(right)(right.names, twice, weights, right.weight_name)
    return _combined(left, right, [left.weights, -weights])


def _combined(left: ZSet, right: ZSet, weights: Sequence[Int64Array]) -> ZSet:
    if not right.columns and not len(right):
        return left
    columns: Sequence[Column] = right.columns
    names = right.names
    if left.columns or len(left):
        if len(left.columns) != len(right.columns):
            raise ArityError.mismatch(
                "the right Z-set",
                "has the wrong number of columns",
                f"{len(right.columns)} ({', '.join(right.names)})",
                f"{len(left.columns)} ({', '.join(left.names)})",
            )
        if is_turned(left.names, right.names):
            turned = tuple(right.columns[right.names.index(name)] for name in left.names)
            right = type(right)(left.names, turned, right.weights, right.weight_name)
        aligned = _aligned(left, right)
        names, columns = left.names, [left_column.stack(right_column) for left_column, right_column in aligned]
    return type(left)(names, *consolidate(columns, np.concatenate(weights)), left.weight_name)


def is_turned(left: Sequence[str], right: Sequence[str]) -> bool:
    """Return whether two Z-sets have the same names of columns in different orders.

    Examples
    --------
    >>> is_turned(["a", "b"], ["b", "a"]), is_turned(["a", "b"], ["a", "b"]), is_turned(["a", "b"], ["x", "y"])
    (True, False, False)
    """
    return list(left) != list(right) and sorted(left) == sorted(right)


def _aligned(left: ZSet, right: ZSet) -> list[tuple[Column, Column]]:
    """Return the columns of both sides in pairs of one type and one dictionary."""
    pairs = []
    for name, left_column, right_column in zip(left.names, left.columns, right.columns, strict=True):
        try:
            kind = left_column.type.common(right_column.type)
        except TypeMismatchError as error:
            raise TypeMismatchError(f"column '{name}': {error}") from None
        left_column, right_column = left_column.as_type(kind), right_column.as_type(kind)
        if left_column.dictionary is not right_column.dictionary and left_column.dictionary is not None:
            # Use a new dictionary: those of the operands may be a program's, which only the program extends.
            fresh = left_column.dictionary.fresh()
            left_column, right_column = left_column.recode(fresh), right_column.recode(fresh)
        pairs.append((left_column, right_column))
    return pairs


def equal(left: ZSet, right: ZSet) -> bool:
    """Return whether both have equal rows and weights; names and integer widths may differ."""
    if len(left) != len(right) or not len(left):
        return len(left) == len(right)
    kinds = [[column.type.family for column in side.columns] for side in (left, right)]
    if kinds[0] != kinds[1]:
        return False
    try:
        pairs = _aligned(left, right)
    except TypeMismatchError:  # decimals whose common type would have more than 18 digits
        return left.to_dict() == right.to_dict()
    sides: list[tuple[Sequence[Column], Int64Array]] = []
    for side, columns in ((left, [pair[0] for pair in pairs]), (right, [pair[1] for pair in pairs])):
        recoded = any(a.dictionary is not b.dictionary for a, b in zip(columns, side.columns, strict=True))
        sides.append(consolidate(columns, side.weights) if recoded else (columns, side.weights))
    (left_columns, left_weights), (right_columns, right_weights) = sides
    return np.array_equal(left_weights, right_weights) and all(
        np.array_equal(a.codes, b.codes)
        and (a.valid is None) == (b.valid is None)
        and (a.valid is None or b.valid is None or np.array_equal(a.valid, b.valid))
        for a, b in zip(left_columns, right_columns, strict=True)
    )


def negate(zset: ZSet) -> ZSet:
    """``(-zset)(row) = -zset(row)``; a weight of -2^63 raises an error.

    Examples
    --------
    >>> from gpu_wcoj.zset.zset import ZSet
    >>> negate(ZSet.from_rows([(1, 2)])).rows()
    [((1, 2), -1)]
    """
    return scale(zset, -1)


def scale(zset: ZSet, factor: int | np.integer[Any]) -> ZSet:
    """``(factor * zset)(row) = factor * zset(row)``.

    Raises
    ------
    UsageError
        If the factor is not an integer.
    WeightOverflowError
        If a weight leaves int64.

    Examples
    --------
    >>> from gpu_wcoj.zset.zset import ZSet
    >>> scale(ZSet.from_rows([(1,), ((2,), -2)]), 3).rows()
    [((1,), 3), ((2,), -6)]
    """
    zset = zset.to_host()
    if isinstance(factor, (bool, np.timedelta64)) or not isinstance(factor, (int, np.integer)):
        raise UsageError.wrong_type("factor", factor, "an integer")
    factor = int(factor)
    if factor == 0:
        return _taken(zset, slice(0))
    if _largest(zset.weights) * abs(factor) > _HIGHEST:
        for row_index, weight in enumerate(zset.weights.tolist()):
            if not _LOWEST <= weight * factor <= _HIGHEST:
                raise WeightOverflowError(None, _row(zset.columns, row_index), weight * factor)
    if _LOWEST <= factor <= _HIGHEST:
        weights = zset.weights * np.int64(factor)
    else:  # 2^63 times -1
        weights = np.array([weight * factor for weight in zset.weights.tolist()], np.int64)
    return type(zset)(zset.names, zset.columns, weights, zset.weight_name)


def distinct(zset: ZSet) -> ZSet:
    """Return the rows of positive weight, each with weight 1.

    Examples
    --------
    >>> from gpu_wcoj.zset.zset import ZSet
    >>> distinct(ZSet.from_rows([((1,), 3), ((2,), -2)])).rows()
    [((1,), 1)]
    """
    zset = zset.to_host()
    positive = zset if bool((zset.weights > 0).all()) else _taken(zset, zset.weights > 0)
    return type(zset)(zset.names, positive.columns, np.ones(len(positive), np.int64), zset.weight_name)


def filter_rows(zset: ZSet, condition: BoolArray | Callable[..., Any]) -> ZSet:
    """Return the rows for which a mask is True.

    Parameters
    ----------
    zset
        The Z-set to filter.
    condition
        A mask of shape (n,), or a function that returns one: it is called once, with one array per column as in
        `ZSet.to_numpy`. A null in the mask counts as False.

    Raises
    ------
    UsageError
        If the mask is not boolean, or not as long as the Z-set.

    Examples
    --------
    >>> from gpu_wcoj.zset.zset import ZSet
    >>> filter_rows(ZSet.from_rows([(1, 2), (3, 2)]), lambda a, b: a < b).rows()
    [((1, 2), 1)]
    """
    if callable(condition):
        from gpu_wcoj.arrow import to_numpy

        condition = condition(*map(to_numpy, zset.columns))
    mask = np.ma.filled(condition, False) if isinstance(condition, np.ma.MaskedArray) else np.asarray(condition)
    if mask.shape != zset.weights.shape or mask.dtype != bool:
        raise UsageError.mismatch(
            "the filter",
            "has the wrong shape or type",
            f"{mask.dtype} of shape {mask.shape}",
            f"a boolean mask of shape {zset.weights.shape}",
            "Return one boolean per row; a function gets one array per column.",
        )
    return _taken(zset, mask)


def map_rows(
    zset: ZSet,
    to: Sequence[str | int] | Callable[[tuple[Any, ...]], tuple[Any, ...]],
    names: Sequence[str] | None = None,
) -> ZSet:
    """Map every row to a row; the weights of equal results add.

    Parameters
    ----------
    zset
        The Z-set to map.
    to
        Names or positions of the columns to keep, in their new order; or a function from row to row, which is called
        for each row. Types are then those of the Python values that it returns.
    names
        Names of the new columns; by default the present names, or c0, c1, ... for a function. For a Z-set without rows,
        a function makes only these columns, of int64.

    Raises
    ------
    ColumnError
        If a column does not exist.
    TypeMismatchError
        If a function returns something other than a tuple.

    Examples
    --------
    >>> from gpu_wcoj.zset.zset import ZSet
    >>> edges = ZSet.from_rows([("a", 1), ("b", 1)], names=["name", "group"])
    >>> map_rows(edges, ["group"]).rows()
    [((1,), 2)]
    >>> map_rows(edges, lambda row: (row[1] + 1, row[0])).rows()
    [((2, 'a'), 1), ((2, 'b'), 1)]
    """
    zset = zset.to_host()
    if not callable(to):
        if isinstance(to, str):
            raise UsageError.wrong_type("to", to, "a list of columns", f"Write [{to!r}].")
        places = [_position(zset, column) for column in to]
        chosen_names = [zset.names[place] for place in places] if names is None else list(names)
        if len(chosen_names) != len(places):
            raise ArityError.mismatch("names", "have the wrong length", len(chosen_names), len(places))
        if len(set(chosen_names)) < len(chosen_names):
            twice = next(name for name in chosen_names if chosen_names.count(name) > 1)
            raise SchemaError.duplicate("column", twice, f"in {', '.join(chosen_names)}", "Rename one of them.")
        columns = [zset.columns[place] for place in places]
        return type(zset)(tuple(chosen_names), *consolidate(columns, zset.weights), zset.weight_name)
    pairs = []
    for row, weight in zset.rows():
        mapped = to(row)
        if not isinstance(mapped, tuple):
            raise TypeMismatchError.wrong_type(f"the result of the function for the row {row!r}", mapped, "a tuple")
        pairs.append((mapped, weight))
    return type(zset).from_rows(pairs, names)


def _position(zset: ZSet, column: str | int) -> int:
    if isinstance(column, str) and column in zset.names:
        return zset.names.index(column)
    if isinstance(column, int) and -len(zset.names) <= column < len(zset.names):
        return column % len(zset.names)
    raise ColumnError(None, str(column), zset.names)


def _taken(zset: ZSet, rows: BoolArray | slice) -> ZSet:
    columns = tuple(column.gather(rows) for column in zset.columns)
    return type(zset)(zset.names, columns, zset.weights[rows], zset.weight_name)
