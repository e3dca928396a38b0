"""Calculation on codes, many rows at once.

Integers are int64 and checked: a result outside int64, and a quotient or rest by 0, are failures. ``/`` cuts off
towards 0 and ``%`` has the sign of the dividend, as in C and in Soufflé. Floats follow IEEE 754; they have no failures,
but for ``quotient`` and ``rest``, which are ``/`` and ``%`` that fail by 0. Of texts, characters are counted, from 0:
``substr(text, begin, length)`` ends where the text does, and fails for a negative begin or length; ``like`` fails for
an escape that is not one character or ends the pattern, ``match`` for a pattern that RE2 does not read. Decimals are
exact; what leaves int64 or the digits of the result's type is a failure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gpu_wcoj.backend import Backend, cpu_backend
from gpu_wcoj.column import float_codes, floats_of, without_zero_signs
from gpu_wcoj.join.calendar import calendar_of
from gpu_wcoj.join.casing import downcase, upcase
from gpu_wcoj.join.decimals import doubles, of_decimals
from gpu_wcoj.join.integers import OF_INTEGERS, Calculated
from gpu_wcoj.join.path import Calculation
from gpu_wcoj.join.pattern import like
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.zset.arrays import BoolArray

if TYPE_CHECKING:
    from gpu_wcoj.dictionary import Dictionary


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
    if calculation.op in ("year", "month", "day"):
        return calendar_of(calculation.op, arguments[0], calculation.per_day, backend.xp), None
    if calculation.family.startswith("float"):
        return _of_floats(calculation, arguments, backend)
    if calculation.family == "decimal":
        return of_decimals(calculation, arguments, backend.xp)
    return OF_INTEGERS[calculation.op](backend.xp, *arguments)


def _of_floats(calculation: Calculation, arguments: Sequence[Int64Array], backend: Backend) -> Calculated:
    xp = backend.xp
    width = 4 if calculation.family == "float32" else 8
    values: list[Any] = []
    for i, (column, family) in enumerate(zip(arguments, calculation.families, strict=True)):
        if family == "integer":
            values.append(column.astype(f"f{width}"))
        elif family == "decimal":
            values.append(doubles(column, calculation.scales[i], backend).astype(f"f{width}"))
        else:
            values.append(floats_of(column, 4 if family == "float32" else 8, xp).astype(f"f{width}"))
    with np.errstate(all="ignore"):
        if len(values) == 1:
            result = _OF_ONE_FLOAT[calculation.op](values[0])
        elif calculation.op in ("%", "rest"):
            result = _float_rest(values[0], values[1], backend)
        else:
            result = _OF_FLOATS[calculation.op](values[0], values[1])
    codes = float_codes(result, xp)
    if not calculation.keeps_zero_sign:
        codes = without_zero_signs(codes, xp)
    return codes, values[1] == 0 if calculation.op in _FAILING else None


_FAILING = ("quotient", "rest")
_OF_ONE_FLOAT: dict[str, Callable[[Any], Any]] = {
    "-": lambda value: -value,
    "abs": abs,
    "double": lambda value: value,
}
_OF_FLOATS: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": lambda left, right: left * right,
    "/": lambda left, right: left / right,
    "quotient": lambda left, right: left / right,
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
        found: list[Any] = []
        if calculation.op == "match":
            found += dictionary.matching(*(column[starts] for column in columns))
        else:
            given = [
                dictionary.values_of(column[starts]) if family == "string" else column[starts].tolist()
                for column, family in zip(columns, calculation.families, strict=True)
            ]
            found += [_TEXT[calculation.op](*values) for values in zip(*given, strict=True)]
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


_TEXT: dict[str, Callable[..., Any]] = {
    "cat": lambda *texts: "".join(texts),
    "substr": _part,
    "strlen": len,
    "lower": str.lower,
    "upper": str.upper,
    "downcase": downcase,
    "upcase": upcase,
    "like": like,
    "contains": lambda part, text: part in text,
}
