"""What can be worked out of constants alone."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

from gpu_wcoj.errors import CalculationError, TypeMismatchError
from gpu_wcoj.query.terms import ARITHMETIC, NULL, Call, Constant

OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def calculated(call: Call, arguments: Sequence[Constant]) -> Constant:
    """The value of a call of constants; see `Call` for what it means.

    Raises
    ------
    CalculationError
        If it has none.
    TypeMismatchError
        If the function does not take such arguments.

    Examples
    --------
    >>> from gpu_wcoj.query.terms import Variable
    >>> print(calculated(Call("/", (Constant(-7), Constant(2))), (Constant(-7), Constant(2))))
    -3
    >>> print(calculated(Call("+", (Constant(1), Constant(0.5))), (Constant(1), Constant(0.5))))
    1.5
    """
    values = [one.value for one in arguments]
    shown = str(Call(call.op, tuple(arguments)))
    if call.op in ARITHMETIC:
        if any(type(one) not in (int, float) for one in values):
            raise TypeMismatchError(f"'{shown}' calculates with something that is no number.\n  Leave it out.")
        try:
            value = _number(call.op, values)
        except ZeroDivisionError:
            raise CalculationError(f"'{shown}'", "divides by zero") from None
        except OverflowError:
            value = math.inf
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise CalculationError(f"'{shown}'", f"is {value}, outside int64, -2^63 to 2^63-1")
        if isinstance(value, float) and not math.isfinite(value):
            raise CalculationError(f"'{shown}'", "is too large for a float")
        return Constant(value)
    wanted = {"cat": (str,) * len(values), "strlen": (str,), "substr": (str, int, int)}[call.op]
    if tuple(map(type, values)) != wanted:
        raise TypeMismatchError(f"'{shown}': '{call.op}' takes {' and '.join(_WORDS[one] for one in wanted)}.")
    if call.op == "cat":
        return Constant("".join(map(str, values)))
    text = str(values[0])
    if call.op == "strlen":
        return Constant(len(text))
    start, length = int(values[1]), int(values[2])
    if start < 0 or length < 0:
        raise CalculationError(f"'{shown}'", "has a negative start or length")
    return Constant(text[start : start + length])


_WORDS = {str: "a text", int: "an integer"}


def _number(op: str, values: Sequence[Any]) -> int | float:
    if len(values) == 1:
        return -values[0]  # type: ignore[no-any-return]  # a number, as the caller has seen
    left, right = values
    if op in "+-*":
        return {"+": operator.add, "-": operator.sub, "*": operator.mul}[op](left, right)  # type: ignore[no-any-return]  # so too
    if right == 0:
        raise ZeroDivisionError
    if isinstance(left, float) or isinstance(right, float):
        return left / right if op == "/" else math.fmod(left, right)
    quotient = abs(left) // abs(right)
    quotient = quotient if (left < 0) == (right < 0) else -quotient
    return quotient if op == "/" else left - right * quotient  # type: ignore[no-any-return]  # so too


def holds(op: str, left: Constant, right: Constant) -> bool:
    """Whether a comparison of two constants holds; with null, it asks whether the other one is null, too.

    Raises
    ------
    TypeMismatchError
        If they do not compare.

    Examples
    --------
    >>> holds("<", Constant(2), Constant(2.5))
    True
    """
    if NULL in (left, right):
        return (left == right) == (op == "=")
    numbers = all(type(one.value) in (int, float) for one in (left, right))
    if not numbers and type(left.value) is not type(right.value):
        raise TypeMismatchError(f"'{left} {op} {right}' compares two types.\n  Compare values of one.")
    return OPERATORS[op](left.value, right.value)
