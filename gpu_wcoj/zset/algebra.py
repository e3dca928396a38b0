"""What can be done with Z-sets: consolidate, plus, minus, scale, distinct, filter, map; weights stay exact."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gpu_wcoj.backend import select_backend
from gpu_wcoj.column import BoolArray, Column, Int64Array
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
    """The rows sorted by code (nulls first), weights of equal rows added, rows of weight 0 dropped.

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
    found, sums = select_backend("cpu").kernels.consolidate(keys, weights)
    parts = iter(found)
    merged = []
    for column in columns:
        valid = None if column.valid is None else next(parts).astype(bool)
        codes = next(parts)
        merged.append(Column(column.type, codes, None if valid is None or valid.all() else valid, column.dictionary))
    return tuple(merged), sums


def _consolidate_few(columns: Sequence[Column], weights: Int64Array) -> tuple[Columns, Int64Array]:
    """Up to one row, or any number of rows without columns, which are all equal."""
    total = sum(weights.tolist())
    if not columns:
        if not _LOWEST <= total <= _HIGHEST:
            raise WeightOverflowError(None, (), total)
        return (), np.array([total] if total else [], np.int64)
    if total or not len(weights):
        return tuple(column.unshared() for column in columns), weights
    return tuple(column.take(slice(0)) for column in columns), weights[:0]


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
    """Raise if the exact sum of a row leaves int64: halves of the weights are added apart, so no sum can wrap."""
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


def _row(columns: Sequence[Column], at: int) -> tuple[Any, ...]:
    return tuple(python_values(column.take(slice(at, at + 1)))[0] for column in columns)


def python_values(column: Column) -> list[Any]:
    """The values as Python holds them; PyArrow is not loaded for integers."""
    if column.valid is None and column.type.family == "integer":
        values: list[Any] = column.codes.tolist()
        return values
    from gpu_wcoj.arrow import to_python

    return to_python(column)


def weight_of(zset: ZSet, row: tuple[Any, ...]) -> int:
    """The weight of a row, 0 if it is not there. O(n).

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
    equal_rows = [(held, weight) for held, weight in _taken(zset, mask).rows() if held == row]
    same = (weight for held, weight in equal_rows if repr(held) == repr(row))  # Python's 0.0 equals -0.0
    return next(same, equal_rows[0][1] if equal_rows else 0)


def plus(left: ZSet, right: ZSet) -> ZSet:
    """``(left + right)(row) = left(row) + right(row)``, with the names of `left`.

    Columns go by position, as in SQL's UNION; those that have the same names in another order go by name.

    Raises
    ------
    ArityError, TypeMismatchError
        If the columns of the two do not fit. A Z-set without rows and columns fits every other.
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
    """``(left - right)(row) = left(row) - right(row)``, with the names of `left`; errors as in `plus`.

    Examples
    --------
    >>> from gpu_wcoj.zset.zset import ZSet
    >>> minus(ZSet.from_rows([(1,), (2,)]), ZSet.from_rows([(1,), (3,)])).rows()
    [((2,), 1), ((3,), -1)]
    """
    weights = right.weights
    lowest = weights == _LOWEST
    if bool(lowest.any()):  # 2^63 is no int64, but it may be part of a sum that is: it comes in two rows
        twice = tuple(column.stacked(column.take(lowest)) for column in right.columns)
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
            raise ArityError(
                f"a Z-set of {len(left.columns)} columns ({', '.join(left.names)}) and one of"
                f" {len(right.columns)} ({', '.join(right.names)}) do not add up."
            )
        if is_turned(left.names, right.names):
            turned = tuple(right.columns[right.names.index(name)] for name in left.names)
            right = type(right)(left.names, turned, right.weights, right.weight_name)
        aligned = _aligned(left, right)
        names, columns = left.names, [mine.stacked(theirs) for mine, theirs in aligned]
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
    """The columns of both, pair by pair in one type and one dictionary."""
    pairs = []
    for name, mine, theirs in zip(left.names, left.columns, right.columns, strict=True):
        try:
            kind = mine.type.common(theirs.type)
        except TypeMismatchError as error:
            raise TypeMismatchError(f"column '{name}': {error}") from None
        mine, theirs = mine.as_type(kind), theirs.as_type(kind)
        if mine.dictionary is not theirs.dictionary and mine.dictionary is not None:
            # A dictionary of its own: those of the operands may be a program's, which only the program adds to.
            fresh = mine.dictionary.fresh()
            mine, theirs = mine.recoded(fresh), theirs.recoded(fresh)
        pairs.append((mine, theirs))
    return pairs


def equal(left: ZSet, right: ZSet) -> bool:
    """Whether both hold the same rows with the same weights; types may differ in width, names in everything."""
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
    (mine, my_weights), (theirs, their_weights) = sides
    return np.array_equal(my_weights, their_weights) and all(
        np.array_equal(a.codes, b.codes)
        and (a.valid is None) == (b.valid is None)
        and (a.valid is None or b.valid is None or np.array_equal(a.valid, b.valid))
        for a, b in zip(mine, theirs, strict=True)
    )


def negate(zset: ZSet) -> ZSet:
    """``(-zset)(row) = -zset(row)``; a weight of -2^63 is refused.

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
        raise UsageError(f"a Z-set is scaled by an integer, and the factor is {factor!r}.")
    factor = int(factor)
    if factor == 0:
        return _taken(zset, slice(0))
    if _largest(zset.weights) * abs(factor) > _HIGHEST:
        for at, weight in enumerate(zset.weights.tolist()):
            if not _LOWEST <= weight * factor <= _HIGHEST:
                raise WeightOverflowError(None, _row(zset.columns, at), weight * factor)
    if _LOWEST <= factor <= _HIGHEST:
        weights = zset.weights * np.int64(factor)
    else:  # 2^63 times -1
        weights = np.array([weight * factor for weight in zset.weights.tolist()], np.int64)
    return type(zset)(zset.names, zset.columns, weights, zset.weight_name)


def distinct(zset: ZSet) -> ZSet:
    """Every row of positive weight, with the weight 1.

    Examples
    --------
    >>> from gpu_wcoj.zset.zset import ZSet
    >>> distinct(ZSet.from_rows([((1,), 3), ((2,), -2)])).rows()
    [((1,), 1)]
    """
    zset = zset.to_host()
    kept = zset if bool((zset.weights > 0).all()) else _taken(zset, zset.weights > 0)
    return type(zset)(zset.names, kept.columns, np.ones(len(kept), np.int64), zset.weight_name)


def filter_rows(zset: ZSet, condition: BoolArray | Callable[..., Any]) -> ZSet:
    """The rows for which a mask is True.

    Parameters
    ----------
    zset
        What to filter.
    condition
        A mask of shape (n,), or a function that makes one of the columns: it is called once, with one array per
        column as `ZSet.to_numpy` gives them. A null in the mask counts as False.

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
        raise UsageError(
            f"a filter is a boolean mask of shape {zset.weights.shape}, and this one has shape {mask.shape} and"
            f" type {mask.dtype}.\n  A function gets one array per column and returns one boolean per row."
        )
    return _taken(zset, mask)


def map_rows(
    zset: ZSet,
    to: Sequence[str | int] | Callable[[tuple[Any, ...]], tuple[Any, ...]],
    names: Sequence[str] | None = None,
) -> ZSet:
    """Every row mapped to another, weights of rows that become equal added.

    Parameters
    ----------
    zset
        What to map.
    to
        Names or positions of the columns to keep, in their new order; or a function from row to row, which is called
        for each of them. Types are then those of the Python values that it returns.
    names
        What the new columns are called; by default as before, or c0, c1, ... for a function. Where there is no row, a
        function leaves only these columns, of int64.

    Raises
    ------
    ColumnError
        If there is no such column.
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
            raise UsageError(f"map takes a list of columns, and this is the text {to!r}.\n  Write [{to!r}].")
        places = [_position(zset, column) for column in to]
        kept = [zset.names[place] for place in places] if names is None else list(names)
        if len(kept) != len(places):
            raise ArityError(f"there are {len(kept)} names for {len(places)} columns.")
        if len(set(kept)) < len(kept):
            raise SchemaError(f"the names of the columns differ, and these do not: {', '.join(kept)}.")
        columns = [zset.columns[place] for place in places]
        return type(zset)(tuple(kept), *consolidate(columns, zset.weights), zset.weight_name)
    pairs = []
    for row, weight in zset.rows():
        mapped = to(row)
        if not isinstance(mapped, tuple):
            raise TypeMismatchError(f"the function maps the row {row!r} to {mapped!r}, which is not a tuple.")
        pairs.append((mapped, weight))
    return type(zset).from_rows(pairs, names)


def _position(zset: ZSet, column: str | int) -> int:
    if isinstance(column, str) and column in zset.names:
        return zset.names.index(column)
    if isinstance(column, int) and -len(zset.names) <= column < len(zset.names):
        return column % len(zset.names)
    raise ColumnError(None, str(column), zset.names)


def _taken(zset: ZSet, rows: BoolArray | slice) -> ZSet:
    columns = tuple(column.take(rows) for column in zset.columns)
    return type(zset)(zset.names, columns, zset.weights[rows], zset.weight_name)
