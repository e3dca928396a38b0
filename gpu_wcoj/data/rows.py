"""Rows, values and weights of plain Python, validated before they become columns.

Nothing is mixed, cut or rounded.
"""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Collection, Iterable, Sequence
from decimal import Decimal
from itertools import chain
from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt

from gpu_wcoj.data.column import Column, Int64Array
from gpu_wcoj.errors import (
    ArityError,
    SchemaError,
    TypeMismatchError,
    UnsupportedTypeError,
    WeightError,
    counted,
)

Row = tuple[Any, ...]
Values = npt.NDArray[Any] | list[Any]
"""One column: an array, or a list of Python values that are None or of one type."""


class FirstRow(tuple[Any, ...]):
    """The first row of a result, which subclasses give the names that pandas looks for there."""

    __slots__ = ()

    def __reduce__(self) -> tuple[type, tuple[Row]]:
        return tuple, (tuple(self),)


_ALLOWED = (int, float, str, bytes, bool, dt.date, dt.datetime, dt.time, dt.timedelta, Decimal, list, dict)
_NUMPY: tuple[type[Any], ...] = (np.integer, np.float32, np.float64, np.bool_, np.str_, np.bytes_)
_NAMES = "int, float, str, bytes, bool, date, datetime, time, timedelta, Decimal, UUID, list, dict or None"


def is_masked_array(values: object) -> TypeGuard[np.ma.MaskedArray[Any, Any]]:
    """Return whether values are a masked array, without loading ``numpy.ma`` for that.

    Examples
    --------
    >>> is_masked_array(np.zeros(2)), is_masked_array(np.ma.zeros(2))
    (False, True)
    """
    masked = sys.modules.get("numpy.ma")
    return masked is not None and isinstance(values, masked.MaskedArray)


def refuse_graph(data: object, what: str) -> None:
    """Raise for a graph of networkx or another library, whose elements are its nodes.

    Raises
    ------
    TypeMismatchError
        If it is one.
    """
    if hasattr(data, "nodes") and hasattr(data, "edges"):
        raise TypeMismatchError.mismatch(
            f"{what}: the data", "is a graph", type(data).__name__, "rows", "Pass its edges: graph.edges."
        )


def split_weights(rows: Iterable[Any], what: str = "the rows") -> tuple[list[Row], list[Any] | None]:
    """Return rows, and their weights if any row is written as ``(row, weight)``, else None.

    Examples
    --------
    >>> split_weights([(1, 2), ((2, 3), -1)])
    ([(1, 2), (2, 3)], [1, -1])
    """
    refuse_graph(rows, what)
    listed = list(rows)
    if any(not isinstance(row, (tuple, list)) for row in listed):
        row_index, row = next((i, row) for i, row in enumerate(listed) if not isinstance(row, (tuple, list)))
        hint = "Write a row of one value as (value,)."
        if isinstance(row, dict):
            hint = "Write all rows as dicts, or all as tuples; columns are a dict {'name': [values]}."
        row_text = f"an array of shape {row.shape}" if isinstance(row, np.ndarray) else repr(row)
        if isinstance(row, np.ndarray):
            hint = (
                "Arrays come in as columns by name, {'src': array, 'dst': array, 'weight': array}, or as one array of "
                "rows;\n  ZSet.from_numpy(rows, weights) takes one of rows and one of weights."
            )
        raise TypeMismatchError.mismatch(
            f"{what}: row {row_index}",
            "is not a row",
            row_text,
            "a tuple of values, or a pair (row, weight)",
            hint,
        )
    if not any(row and isinstance(row[0], (tuple, list)) for row in listed):
        return listed, None
    are_pairs = [_is_pair(row, row_index, what) for row_index, row in enumerate(listed)]
    if not any(are_pairs):
        return listed, None
    plain, weights = [], []
    for row_index, row in enumerate(listed):
        if not are_pairs[row_index]:
            row = (row, 1)
        if len(row) != 2:
            raise ArityError.mismatch(
                f"{what}: row {row_index}", "is not a row with a weight", repr(row), "a pair (row, weight)"
            )
        plain.append(row[0])
        weights.append(row[1])
    return plain, weights


def _is_pair(row: Sequence[Any], row_index: int, what: str) -> bool:
    """Return whether a row is written as a row and its weight; a list may also be a value.

    Raises
    ------
    TypeMismatchError
        If it may be both.
    """
    if not row or not isinstance(row[0], (tuple, list)):
        return False
    if isinstance(row[0], tuple) or isinstance(row, list):
        return True
    if len(row) == 2 and type(row[1]) is int:
        raise TypeMismatchError(
            f"{what}: row {row_index}, {row!r:.80}, may be a list and an integer, or a row and its weight.\n"
            f"  Write ((list, {row[1]}), 1) for the first, and (tuple, {row[1]}) for the second."
        )
    return False


def columns_of(rows: Sequence[Row], what: str = "the rows") -> list[Values]:
    """Return one int64 array or list of checked values per column.

    Raises
    ------
    ArityError
        If the rows differ in length.
    TypeMismatchError
        If a column holds values of two types, or an integer outside int64.
    UnsupportedTypeError
        If the type of a value is not supported.

    Examples
    --------
    >>> columns_of([(1, "a"), (2, None)])
    [array([1, 2]), ['a', None]]
    """
    return [
        values if isinstance(values, np.ndarray) else checked_values(values, f"{what}, column {i}")
        for i, values in enumerate(columns_as_written(rows, what))
    ]


def columns_as_written(rows: Sequence[Row], what: str = "the rows") -> list[Values]:
    """Return one int64 array or list of values per column, which nothing has checked.

    Raises
    ------
    ArityError
        If the rows differ in length.

    Examples
    --------
    >>> columns_as_written([(1, "a"), (2, 0.5)])
    [[1, 2], ['a', 0.5]]
    """
    if not rows:
        return []
    width = len(rows[0])
    if any(len(row) != width for row in rows):
        short = next(row_index for row_index, row in enumerate(rows) if len(row) != width)
        n_values = counted(len(rows[short]), "value")
        raise ArityError.mismatch(
            f"{what}, row {short},", "has another length than row 0", f"{n_values}, {rows[short]!r:.80}", width,
            "Give all rows the same number of values, with None where there is no value.",
        )  # fmt: skip
    if set(map(type, chain.from_iterable(rows))) == {int}:
        try:
            flat = np.fromiter(chain.from_iterable(rows), np.int64, len(rows) * width)
            return list(np.ascontiguousarray(flat.reshape(len(rows), width).T))
        except OverflowError:
            pass  # the check of the values names the one that is too large
    return list(map(list, zip(*rows, strict=True)))


def as_python(value: Any) -> Any:
    """Return a NumPy scalar as a Python value; everything else is returned unchanged.

    Examples
    --------
    >>> as_python(np.int8(5)), as_python(np.timedelta64(5, "ns"))
    (5, np.timedelta64(5,'ns'))
    """
    if isinstance(value, np.timedelta64):  # a subclass of np.integer, and item() returns some values as int
        return value
    return value.item() if isinstance(value, _NUMPY) else value


def checked_values(values: Sequence[Any], what: str = "the column") -> Values:
    """Return the values as an int64 array, or as a list of None and values of one type.

    NumPy scalars count as the Python values that they are.
    """
    kinds = set(map(type, values)) - {type(None)}
    if any(issubclass(kind, np.generic) for kind in kinds):
        if kinds == {np.datetime64} or kinds == {np.timedelta64}:
            return _times(values, what)
        values = list(map(as_python, values))
        kinds = set(map(type, values)) - {type(None)}
    if kinds == {np.ndarray}:  # as pandas holds lists
        values = [value.tolist() if value is not None and value.ndim else value for value in values]
        kinds = set(map(type, values)) - {type(None)}
    if not kinds.issubset(_ALLOWED) and not _are_uuids(kinds):
        at = next(
            row_index for row_index, value in enumerate(values) if value is not None and type(value) not in _ALLOWED
        )
        kind = type(values[at])
        raise UnsupportedTypeError(
            f"{what}: the value {values[at]!r:.80} (row {at}) is of type '{kind.__module__}.{kind.__qualname__}'.\n"
            f"  A value is {_NAMES}."
        )
    if len(kinds) > 1:
        _refuse_mixed(values, what, "types", type)
    if kinds == {int}:
        return _integers(values, what)
    if kinds == {list} or kinds == {dict}:
        _check_parts(values, what)
    if kinds == {dt.time}:
        for row, value in enumerate(values):
            if value is not None and value.tzinfo is not None:
                raise UnsupportedTypeError(
                    f"{what}: the value {value!r} (row {row}) is a time of day in a zone.\n"
                    "  Leave the zone out, or pass complete datetimes."
                )
    if kinds == {dt.datetime}:
        _refuse_mixed(values, what, "zones", lambda value: "no zone" if value.utcoffset() is None else "a zone")
    if kinds == {Decimal}:
        for row, value in enumerate(values):
            if value is not None and not value.is_finite():
                raise UnsupportedTypeError(
                    f"{what}: the value {value!r} (row {row}) is not a number of fixed digits.\n"
                    "  Use None where there is no value, or floats in the whole column."
                )
    return list(values)


def _are_uuids(kinds: set[type]) -> bool:
    """Return whether all values are UUIDs, without loading ``uuid`` for that."""
    module = sys.modules.get("uuid")
    return module is not None and kinds == {module.UUID}


def _check_parts(values: Sequence[Any], what: str) -> None:
    """Raise if the items of lists, or the fields of dicts, are not columns of one type.

    Arrow would convert items to one type, and fill in fields.
    """
    present = [value for value in values if value is not None]
    if present and isinstance(present[0], list):
        checked_values(list(chain.from_iterable(present)), f"{what}, items of the lists")
        return
    for row, value in enumerate(values):
        if value is not None and (value.keys() != present[0].keys() or not all(type(key) is str for key in value)):
            raise TypeMismatchError(
                f"{what}: the dict {value!r:.80} (row {row}) has other keys than {present[0]!r:.80}, or keys that are "
                "not texts.\n  Give all dicts of a column the same keys, with None where there is no value."
            )
    for key in present[0] if present else ():
        checked_values([value[key] for value in present], f"{what}, field '{key}'")


def _times(values: Sequence[np.datetime64 | np.timedelta64 | None], what: str) -> Values:
    """Return NumPy times or durations as an array, after a check that they have one unit.

    NumPy would convert several units to one and wrap values that leave its range.
    """
    with_unit = [None if value is None or np.datetime_data(value)[0] == "generic" else value for value in values]
    _refuse_mixed(with_unit, what, "units", lambda value: value.dtype)
    kind = next((value.dtype for value in with_unit if value is not None), None)
    if kind is None:  # all are missing
        is_date = any(isinstance(value, np.datetime64) for value in values)
        kind = np.dtype("datetime64[D]" if is_date else "timedelta64[s]")
    missing = np.array("NaT", kind)[()]
    return np.array([missing if value is None else value for value in with_unit])


def _integers(values: Sequence[int | None], what: str) -> Values:
    present = [value for value in values if value is not None]
    if max(present) >= 2**63 and min(present) >= 0 and max(present) < 2**64:
        unsigned = np.array([value or 0 for value in values], np.uint64)
        return np.ma.masked_array(unsigned, [value is None for value in values]) if None in values else unsigned
    for row_index, value in enumerate(values):
        if value is not None and not -(2**63) <= value < 2**63:
            raise UnsupportedTypeError(
                f"{what}: the value {value} (row {row_index}) is outside int64, -2^63 to 2^63-1, and uint64.\n"
                "  Use text, or a smaller number that stands for it."
            )
    return list(values) if None in values else np.array(values, np.int64)


def _refuse_mixed(values: Sequence[Any], what: str, aspect: str, describe: Any) -> None:
    first: Any = None
    for row_index, value in enumerate(values):
        if value is None:
            continue
        if first is None:
            first = (row_index, value)
        elif describe(value) != describe(first[1]):
            raise TypeMismatchError(
                f"{what} mixes {aspect}: {first[1]!r:.80} (row {first[0]}) and {value!r:.80} (row {row_index}).\n"
                f"  Write all values of a column as one type{_missing(first[1], value)}."
            )


def _missing(*values: object) -> str:
    """Return the remedy for a NaN that stands for a missing value, as pandas writes it in texts."""
    is_nan = [type(value) is float and value != value for value in values]
    return "; NaN is a float, and None a value that is missing (of a pandas column: convert_dtypes())" * any(is_nan)


# Validation of weights: non-null integers of 64 bits, or an error that names the value.


def as_weights(values: Column | npt.NDArray[np.generic] | Iterable[object], what: str = "the weights") -> Int64Array:
    """Return the values as int64 weights that share no memory with a NumPy array.

    Raises
    ------
    WeightError
        If a value is null, a bool, not an integer, or outside int64.

    Examples
    --------
    >>> as_weights([1, -2])
    array([ 1, -2])
    """
    if isinstance(values, Column):
        if values.type.family != "integer":
            raise WeightError(_message(what, f"a column of type '{values.type}'"))
        if values.valid is not None:
            raise WeightError(_message(what, f"null (row {int(np.argmin(values.valid))})"))
        return values.codes
    if isinstance(values, np.ndarray):
        if values.ndim != 1:
            raise SchemaError.mismatch(what, "have the wrong shape", values.shape, "a single dimension")
        if values.dtype == object:
            return as_weights(values.tolist(), what)
        if values.dtype.kind not in "iu":
            raise WeightError(_message(what, f"an array of type '{values.dtype}'"))
        if is_masked_array(values) and np.ma.is_masked(values):
            raise WeightError(_message(what, f"null (row {int(np.ma.getmaskarray(values).argmax())})"))
        if values.dtype.itemsize == 8 and values.dtype.kind == "u" and bool((values > np.uint64(2**63 - 1)).any()):
            raise WeightError(_message(what, f"{values.max()} (row {int(values.argmax())})"))
        return np.array(values, np.int64, subok=False)
    values = list(values)
    for row, value in enumerate(values):
        is_integer = isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.timedelta64))
        if not is_integer or not -(2**63) <= int(value) < 2**63:  # type: ignore[call-overload]  # it is an integer
            raise WeightError(_message(what, f"{value!r} (row {row})"))
    return np.array(values, np.int64)


def weight_name(names: Collection[str]) -> str:
    """Return the name of the weight column beside columns of these names.

    Examples
    --------
    >>> weight_name(["a", "b"]), weight_name(["weight", "b"])
    ('weight', '_weight')
    """
    name = "weight"
    while name in names:
        name = f"_{name}"
    return name


def weight_among(names: Collection[str], relation_names: Collection[str] | None = None) -> str | None:
    """Return the name of the column that may hold weights; None if there is none.

    Parameters
    ----------
    relation_names
        The relation's names, if it has any; else the columns of rows are counted.

    Examples
    --------
    >>> weight_among(["a", "weight"]), weight_among(["weight", "_weight"]), weight_among(["a", "_weight"])
    ('weight', '_weight', None)
    >>> weight_among(["weight", "_weight"], ["_weight"]), weight_among(["a", "weight"], ["a", "weight"])
    ('weight', None)
    """
    if relation_names is not None:
        name = weight_name(relation_names)
        if name in names or len(names) <= len(relation_names):
            return name if name in names else None
    name = "weight"
    while f"_{name}" in names and name in names:
        name = f"_{name}"
    return name if name in names else None


def _message(what: str, value: str) -> str:
    return (
        f"{what} contain an invalid value: got {value}, expected integers from -2^63 to 2^63-1.\n"
        "  Round or drop such rows before you pass them; a row that is present once has the weight 1."
    )
