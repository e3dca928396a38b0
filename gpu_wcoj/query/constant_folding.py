"""Constant folding: evaluate and simplify calls of functions whose arguments are constants."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from typing import Any

from gpu_wcoj import functions
from gpu_wcoj.data.column import Dictionary
from gpu_wcoj.errors import CalculationError, TypeMismatchError
from gpu_wcoj.functions import like
from gpu_wcoj.query.ir import (
    ARITHMETIC,
    CHECKED,
    COMPARING,
    FALSE,
    MAX_DIGITS,
    NULL,
    NULL_AWARE,
    OPPOSITE,
    TRUE,
    Call,
    Constant,
    Expression,
    Variable,
)

OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def evaluate(call: Call, arguments: Sequence[Constant]) -> Constant:
    """Return the value of a call of constants; `Call` documents the functions.

    Raises
    ------
    CalculationError
        If the call has no value.
    TypeMismatchError
        If the function does not take such arguments.

    Examples
    --------
    >>> from gpu_wcoj.query.ir import Variable
    >>> print(evaluate(Call("/", (Constant(-7), Constant(2))), (Constant(-7), Constant(2))))
    -3
    >>> print(evaluate(Call("+", (Constant(1), Constant(0.5))), (Constant(1), Constant(0.5))))
    1.5
    """
    if call.op in NULL_AWARE:
        return _null_aware(call.op, arguments)
    if NULL in arguments:  # functions that are not null-aware give null for it
        return NULL
    values: list[Any] = [argument.value for argument in arguments]
    call_text = str(Call(call.op, tuple(arguments)))
    op = CHECKED.get(call.op, call.op)
    if op in (*ARITHMETIC, "abs", "double"):
        if any(type(value) not in (int, float, Decimal) for value in values):
            raise TypeMismatchError(f"'{call_text}' calculates with a value that is not a number.\n  Leave it out.")
        if op == "/" and any(isinstance(value, Decimal) for value in values):
            raise TypeMismatchError(f"'{call_text}' divides decimals, which has no exact result.\n  Write double(...).")
        try:
            value = _compute(op, values)
        except ZeroDivisionError:
            raise CalculationError(f"'{call_text}'", "divides by zero") from None
        except OverflowError:
            value = math.inf
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise CalculationError(f"'{call_text}'", f"is {value}, outside int64, -2^63 to 2^63-1")
        if isinstance(value, float) and not math.isfinite(value):
            raise CalculationError(f"'{call_text}'", "is too large for a float")
        if isinstance(value, Decimal) and abs(value.adjusted()) + len(value.as_tuple().digits) > MAX_DIGITS:
            raise CalculationError(f"'{call_text}'", f"has more than {MAX_DIGITS} digits")
        return Constant(value)
    if call.op in ("year", "month", "day"):
        raise TypeMismatchError(
            f"'{call_text}' has a constant argument: expected a column of dates or timestamps.\n  Write its value."
        )
    expected_types = (str, int, int) if call.op == "substr" else (str,) * len(values)
    if tuple(map(type, values)) != expected_types:
        expected = " and ".join(map(_WORDS.__getitem__, expected_types))
        raise TypeMismatchError(f"'{call_text}': '{call.op}' takes {expected}.")
    if call.op == "cat":
        return Constant("".join(map(str, values)))
    text = str(values[0])
    if call.op in ("downcase", "upcase"):
        return Constant(functions.downcase(text) if call.op == "downcase" else functions.upcase(text))
    if call.op in ("lower", "upper"):
        return Constant(text.lower() if call.op == "lower" else text.upper())
    if call.op == "like":
        is_like = like(*values)
        if is_like is None:
            raise CalculationError(f"'{call_text}'", "has an escape that is not one character, or ends the pattern")
        return Constant(is_like)
    if call.op == "match":
        dictionary = Dictionary("string")
        (is_match,) = dictionary.match(*(dictionary.codes_of([value]) for value in values))
        if is_match is None:
            raise CalculationError(f"'{call_text}'", "has a pattern that RE2 does not read")
        return Constant(is_match)
    if call.op == "contains":
        return Constant(text in values[1])
    if call.op == "strlen":
        return Constant(len(text))
    start, length = int(values[1]), int(values[2])
    if start < 0 or length < 0:
        raise CalculationError(f"'{call_text}'", "has a negative start or length")
    return Constant(text[start : start + length])


def equality_key(constant: Expression, *, is_double: bool) -> object:
    """Return a key that equal constants share, such as numbers of any spelling, or 0.0 and -0.0.

    Parameters
    ----------
    is_double
        Compare as doubles, to which several decimals may round; otherwise compare the exact written values.

    Examples
    --------
    >>> exact, nearest = Constant(0.1), Constant(Decimal("0.10"))
    >>> equality_key(exact, is_double=False) == equality_key(nearest, is_double=False)
    True
    """
    value = constant.value if isinstance(constant, Constant) else None
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        return constant
    return float(value) if is_double else Decimal(repr(value) if isinstance(value, float) else value)


def _null_aware(op: str, arguments: Sequence[Constant]) -> Constant:
    """Return the value of a function of three-valued logic."""
    if op in COMPARING:
        left, right = arguments
        return NULL if NULL in arguments else Constant(holds(COMPARING[op], left, right))
    if op in ("all", "any"):
        decisive = Constant(op == "any")
        return decisive if decisive in arguments else NULL if NULL in arguments else Constant(op == "all")
    if op == "among":
        value, *listed = arguments
        matches = [element for element in listed if element != NULL and value != NULL and holds("=", value, element)]
        return Constant(True) if matches else NULL if NULL in arguments else Constant(False)
    if op == "isnull":
        return Constant(arguments[0] == NULL)
    if op == "istrue":
        return Constant(arguments[0] == Constant(True))
    for condition, value in zip(arguments[::2], arguments[1::2], strict=False):
        if condition == Constant(True):
            return value
    return arguments[-1] if len(arguments) % 2 else NULL


_WORDS = {str: "a text", int: "an integer"}
_EXACT = Context(prec=200, Emax=MAX_EMAX, Emin=MIN_EMIN)


def _compute(op: str, values: Sequence[Any]) -> int | float | Decimal:
    if any(isinstance(value, float) for value in values):
        values = [float(value) if isinstance(value, Decimal) else value for value in values]
    if len(values) == 1:
        (only,) = values
        if op == "double":
            return float(only)
        if isinstance(only, Decimal):
            return only.copy_negate() if op == "-" else only.copy_abs()
        return -only if op == "-" else abs(only)  # type: ignore[no-any-return]  # a number, as the caller has seen
    left, right = values
    if isinstance(left, Decimal) or isinstance(right, Decimal):
        if op == "%" and right == 0:
            raise ZeroDivisionError
        name = {"+": "add", "-": "subtract", "*": "multiply", "%": "remainder"}[op]
        return getattr(_EXACT, name)(Decimal(left), Decimal(right))  # type: ignore[no-any-return]  # a decimal
    if op in "+-*":
        return {"+": operator.add, "-": operator.sub, "*": operator.mul}[op](left, right)  # type: ignore[no-any-return]  # a number
    if right == 0:
        raise ZeroDivisionError
    if isinstance(left, float) or isinstance(right, float):
        return left / right if op == "/" else math.fmod(left, right)
    quotient = abs(left) // abs(right)
    quotient = quotient if (left < 0) == (right < 0) else -quotient
    return quotient if op == "/" else left - right * quotient  # type: ignore[no-any-return]  # a number


def simplified_call(op: str, *arguments: Expression) -> Expression:
    """Return a simplified call of a null-aware function, or of a function nested in one.

    Examples
    --------
    >>> from gpu_wcoj.query.ir import FALSE
    >>> x = Variable("x")
    >>> print(simplified_call("any", simplified_call("eq", x, NULL), FALSE, simplified_call("gt", x, Constant(2))))
    any(null, gt(x, 2))
    >>> print(simplified_call("all", simplified_call("eq", x, NULL), FALSE))
    false
    >>> print(simplified_call("eq", simplified_call("ne", x, Constant(1)), FALSE))
    eq(x, 1)
    """
    if op in ("all", "any"):
        parts: dict[Expression, None] = {}
        for argument in arguments:
            is_same = isinstance(argument, Call) and argument.op == op
            parts.update(dict.fromkeys(argument.arguments if isinstance(argument, Call) and is_same else (argument,)))
        decisive, neutral = Constant(op == "any"), Constant(op == "all")
        if decisive in parts:
            return decisive
        left = [part for part in parts if part != neutral]
        if op == "any" and len(left) > 1:
            left = _as_list(left)
        return Call(op, tuple(left)) if len(left) > 1 else left[0] if left else neutral
    constants = [argument for argument in arguments if isinstance(argument, Constant)]
    if len(constants) == len(arguments):
        return evaluate(Call(op, tuple(arguments)), constants)
    if op in COMPARING or op not in NULL_AWARE:
        if NULL in arguments:
            return NULL
        if op in ("eq", "ne") and all(isinstance(argument, Variable) for argument in arguments):
            arguments = tuple(sorted(arguments, key=str))
    if op == "eq" and FALSE in arguments:
        return negated(arguments[1] if arguments[0] == FALSE else arguments[0])
    if op in ("istrue", "isnull") and _has_value(arguments[0]):
        return arguments[0] if op == "istrue" else FALSE
    if op == "case":
        return _simplified_case(arguments)
    return Call(op, arguments)


def _as_list(sides: Sequence[Expression]) -> list[Expression]:
    """Merge an OR of equalities of one variable with constants into ``among``."""
    calls = [side for side in sides if isinstance(side, Call) and side.op in ("eq", "among")]
    firsts = {call.arguments[0] for call in calls}
    listed = dict.fromkeys(part for call in calls for part in call.arguments[1:])
    if len(calls) < len(sides) or len(firsts) > 1 or not all(isinstance(element, Constant) for element in listed):
        return list(sides)
    return [Call("among", (*firsts, *listed))]


def _has_value(condition: Expression) -> bool:
    """Return whether a condition is never unknown."""
    if not isinstance(condition, Call):
        return False
    if condition.op == "eq" and condition.arguments[1] == FALSE:
        return _has_value(condition.arguments[0])
    return condition.op in ("isnull", "istrue")


def _simplified_case(parts: Sequence[Expression]) -> Expression:
    """Return a CASE without the conditions that constants decide."""
    left: list[Expression] = []
    default: Expression = parts[-1] if len(parts) % 2 else NULL
    for condition, value in zip(parts[::2], parts[1::2], strict=False):
        if condition == TRUE:
            default = value
            break
        if not isinstance(condition, Constant):
            left += [condition, value]
    if all(value == default for value in left[1::2]) and not (isinstance(default, Call) and default.function):
        return default
    if not left:  # a Python function is null for null only within a null-aware function
        left += [TRUE, default]
        default = NULL
    return Call("case", (*left, *(() if default == NULL else (default,))))


def fold_constants(value: Expression) -> Expression:
    """Evaluate all parts of an expression that consist of constants only.

    Examples
    --------
    >>> print(fold_constants(Call("+", (Variable("x"), Call("*", (Constant(2), Constant(3)))))))
    x + 6
    """
    if not isinstance(value, Call):
        return value
    arguments = [fold_constants(argument) for argument in value.arguments]
    if value.function is not None:
        return replace(value, arguments=tuple(arguments))
    if value.takes_nulls or all(isinstance(argument, Constant) for argument in arguments):
        return simplified_call(value.op, *arguments)
    return replace(value, arguments=tuple(arguments))


def is_spelled(expression: Expression) -> bool:
    """Return whether an expression is a text constant or a CASE of them.

    Such an expression is a text, a date or a time, depending on the value that it is compared with.
    """
    if isinstance(expression, Constant):
        return isinstance(expression.value, str)
    if not isinstance(expression, Call) or expression.op != "case":
        return False
    parts = expression.arguments
    values = (*parts[1::2], parts[-1]) if len(parts) % 2 else parts[1::2]
    return all(value == NULL or is_spelled(value) for value in values) and any(map(is_spelled, values))


def negated(condition: Expression) -> Expression:
    """Return NOT of a condition, with comparisons inverted; unknown stays unknown."""
    if isinstance(condition, Constant):
        return NULL if condition == NULL else Constant(condition == FALSE)
    if isinstance(condition, Call):
        if condition.op in ("all", "any"):
            return simplified_call("any" if condition.op == "all" else "all", *map(negated, condition.arguments))
        if condition.op in COMPARING:
            if condition.op == "eq" and condition.arguments[1] == FALSE:
                return condition.arguments[0]
            return Call(OPPOSITE[condition.op], condition.arguments)
    return Call("eq", (condition, FALSE))


def holds(op: str, left: Constant, right: Constant) -> bool:
    """Return whether a comparison of two constants holds; with null, it is a null test.

    Raises
    ------
    TypeMismatchError
        If their types do not compare.

    Examples
    --------
    >>> holds("<", Constant(2), Constant(2.5))
    True
    """
    if NULL in (left, right):
        return (left == right) == (op == "=")
    values = [left.value, right.value]
    numbers = all(type(value) in (int, float, Decimal) for value in values)
    if float in map(type, values):
        values = [float(value) if isinstance(value, Decimal) else value for value in values]
    if not numbers and type(left.value) is not type(right.value):
        raise TypeMismatchError(
            f"'{left} {op} {right}' compares values of different types.\n  Compare values of the same type."
        )
    return OPERATORS[op](*values)
