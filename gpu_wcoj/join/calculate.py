"""Calculation on codes, many rows at once.

Integers are int64 and checked: a result outside int64, and a quotient or rest by 0, are failures. ``/`` cuts off
towards 0 and ``%`` has the sign of the dividend, as in C and in Soufflé. Floats follow IEEE 754; they have no failures.
Of texts, characters are counted, from 0: ``substr(text, begin, length)`` ends where the text does, and fails for a
negative begin or length.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gpu_wcoj.backend import Backend, cpu_backend
from gpu_wcoj.column import float_codes, floats_of
from gpu_wcoj.join.path import Calculation
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.zset.arrays import BoolArray

if TYPE_CHECKING:
    from gpu_wcoj.dictionary import Dictionary

Calculated = tuple[Int64Array, BoolArray | None]
"""The codes, and where there is no value: there the code is one that follows from the arguments all the same."""


def calculated(
    calculation: Calculation,
    arguments: Sequence[Int64Array],
    alive: BoolArray,
    backend: Backend,
    dictionary: Dictionary | None = None,
) -> Calculated:
    """The results for every row; of texts, for the rows that are alive.

    Examples
    --------
    >>> division = Calculation("z", "/", ("x", "y"), ("integer", "integer"), "integer")
    >>> columns = [np.array([7, -7, 7]), np.array([2, 2, 0])]
    >>> calculated(division, columns, np.ones(3, bool), cpu_backend())
    (array([ 3, -3,  7]), array([False, False,  True]))
    """
    if "string" in calculation.families:
        assert dictionary is not None
        return _of_texts(calculation, arguments, alive, backend, dictionary)
    if calculation.family.startswith("float"):
        return _of_floats(calculation, arguments, backend), None
    return _OF_INTEGERS[calculation.op](backend.xp, *arguments)


def _sum(xp: Any, left: Int64Array, right: Int64Array) -> Calculated:  # noqa: ARG001  # called as the others are
    total = left + right
    return total, ((left ^ total) & (right ^ total)) < 0


def _difference(xp: Any, left: Int64Array, right: Int64Array | None = None) -> Calculated:
    if right is None:
        left, right = xp.zeros(len(left), np.int64), left
    rest = left - right
    return rest, ((left ^ right) & (left ^ rest)) < 0


def _product(xp: Any, left: Int64Array, right: Int64Array) -> Calculated:
    """The sign of a product tells whether it was wrapped, up to 2^64 in magnitude; a float tells it beyond."""
    product = left * right
    about = left.astype(np.float64) * right.astype(np.float64)
    large = xp.abs(about)
    return product, (large > 1.5 * 2.0**63) | ((large > 2.0**62) & ((product < 0) != (about < 0)))


def _quotient(xp: Any, left: Int64Array, right: Int64Array) -> Calculated:
    failed = (right == 0) | ((right == -1) & (left == -(1 << 63)))
    by = xp.where(failed, 1, right)
    quotient = left // by
    return quotient + ((quotient * by != left) & ((left < 0) != (by < 0))), failed


def _rest(xp: Any, left: Int64Array, right: Int64Array) -> Calculated:
    failed = right == 0
    by = xp.where(failed | (right == -1), 1, right)
    rest = left - left // by * by
    return xp.where((rest != 0) & ((left < 0) != (by < 0)), rest - by, rest), failed


_OF_INTEGERS: dict[str, Callable[..., Calculated]] = {
    "+": _sum,
    "-": _difference,
    "*": _product,
    "/": _quotient,
    "%": _rest,
}


def _of_floats(calculation: Calculation, arguments: Sequence[Int64Array], backend: Backend) -> Int64Array:
    xp = backend.xp
    width = 4 if calculation.family == "float32" else 8
    values: list[Any] = []
    for column, family in zip(arguments, calculation.families, strict=True):
        if family == "integer":
            values.append(column.astype(f"f{width}"))
        else:
            values.append(floats_of(column, 4 if family == "float32" else 8, xp).astype(f"f{width}"))
    with np.errstate(all="ignore"):
        if len(values) == 1:
            result = -values[0]
        elif calculation.op == "%":
            result = _float_rest(values[0], values[1], backend)
        else:
            result = _OF_FLOATS[calculation.op](values[0], values[1])
    return float_codes(result, xp)


_OF_FLOATS: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": lambda left, right: left * right,
    "/": lambda left, right: left / right,
}


def _float_rest(left: Any, right: Any, backend: Backend) -> Any:
    """The rest with the sign of the dividend, exact; on the host, as devices' array modules differ here."""
    return backend.asarray(np.fmod(backend.to_host(left), backend.to_host(right)))


def _of_texts(
    calculation: Calculation,
    arguments: Sequence[Int64Array],
    alive: BoolArray,
    backend: Backend,
    dictionary: Dictionary,
) -> Calculated:
    """By value, on the host: each combination of arguments that occurs is looked at once."""
    (rows,) = np.nonzero(backend.to_host(alive))
    codes, failures = np.zeros(len(alive), np.int64), np.zeros(len(alive), np.bool_)
    if len(rows):
        kernels = cpu_backend().kernels
        columns = [backend.to_host(column)[rows] for column in arguments]
        order = kernels.lexsort(columns)
        columns = [column[order] for column in columns]
        starts = kernels.run_starts(columns)
        given = [
            dictionary.values_of(column[starts]) if family == "string" else column[starts].tolist()
            for column, family in zip(columns, calculation.families, strict=True)
        ]
        found = [_TEXT[calculation.op](*values) for values in zip(*given, strict=True)]
        missing = np.array([value is None for value in found], np.bool_)
        if calculation.family == "string":
            distinct = dictionary.codes_of(["" if value is None else value for value in found])
        else:
            distinct = np.array([value or 0 for value in found], np.int64)
        lengths = np.diff(np.append(starts, len(order)))
        codes[rows[order]], failures[rows[order]] = np.repeat(distinct, lengths), np.repeat(missing, lengths)
    return backend.asarray(codes), backend.asarray(failures)


def _part(text: str, begin: int, length: int) -> str | None:
    return None if begin < 0 or length < 0 else text[begin : begin + length]


_TEXT: dict[str, Callable[..., Any]] = {"cat": lambda *texts: "".join(texts), "substr": _part, "strlen": len}
