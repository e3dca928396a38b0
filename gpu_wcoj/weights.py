"""Validation of weights: non-null integers of 64 bits, or an error that names the value."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import numpy as np
import numpy.typing as npt

from gpu_wcoj.data.column import Column, Int64Array
from gpu_wcoj.errors import SchemaError, WeightError


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
            raise WeightError(_message(what, f"a column of type '{values.type.name}'"))
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
        if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
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
