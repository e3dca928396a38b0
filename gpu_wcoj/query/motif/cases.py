"""Conditions as conjuncts, with negation in the comparisons, and as conjunctions of which no two hold at once.

Under SQL's three values, what is unknown is not true. Once negation has moved inwards to the comparisons, a condition
is true where enough of them are true. A conjunct that is an OR becomes a filter; only one whose sides join elements is
taken apart, so that a bag of matches counts each match once.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any as Anything

from gpu_wcoj.errors import CalculationError, TypeMismatchError
from gpu_wcoj.query.motif.condition import (
    All,
    Among,
    Any,
    Condition,
    Field,
    IsNull,
    Not,
    Null,
    Operation,
    Test,
    Truth,
    Value,
    fields_of,
)
from gpu_wcoj.query.terms import Constant

MOST_CASES = 64
"""How many conjunctions the conditions of a motif become at most."""
MOST_SPLIT = 8
"""How many sides of an OR become conjunctions of their own at most."""

Case = tuple["Condition | Untrue", ...]


@dataclass(frozen=True)
class Untrue:
    """That a condition is false or unknown."""

    condition: Condition

    def __str__(self) -> str:
        return f"{self.condition} IS NOT TRUE"


_OPPOSITE = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_COMPARED: dict[str, Callable[[Anything, Anything], bool]] = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def conjuncts(condition: Condition) -> tuple[Condition, ...]:
    """The parts that have all to be true, without `Not`.

    Examples
    --------
    >>> from gpu_wcoj.query.motif import parse as parse_motif
    >>> from gpu_wcoj.query.motif.condition import parse
    >>> given = parse("NOT (a.x > 1 OR a.y = 'n') AND a.z < 3", parse_motif("(a)"))
    >>> print(*conjuncts(given), sep="; ")
    a.x <= 1; a.y != "n"; a.z < 3
    """
    found: list[Condition] = []
    waiting = [_inwards(condition, False)]
    while waiting:
        one = waiting.pop(0)
        if isinstance(one, All):
            waiting = [*one.parts, *waiting]
        else:
            found.append(one)
    return tuple(found)


def _inwards(one: Condition, is_negated: bool) -> Condition:
    """The condition, or its negation, with negation in the comparisons."""
    while isinstance(one, Not):
        one, is_negated = one.part, not is_negated
    if isinstance(one, (All, Any)):
        parts = tuple(_inwards(part, is_negated) for part in one.parts)
        return All(parts) if isinstance(one, All) != is_negated else Any(parts)
    if isinstance(one, IsNull):
        return _null(one.value, one.is_negated != is_negated)
    if isinstance(one, Among):
        is_out = one.is_negated != is_negated
        if (is_out and one.has_null) or not (is_out or one.among):
            return Truth(False)
        return replace(one, is_negated=is_out, has_null=False)
    if not is_negated:
        return one
    if isinstance(one, Truth):
        return Truth(not one.holds)
    return replace(one, op=_OPPOSITE[one.op])


def _null(value: Value, is_negated: bool) -> Condition:
    """A value that is calculated is null where one of its fields is."""
    if isinstance(value, (Field, Null, Constant)):
        return IsNull(value, is_negated)
    parts = tuple(IsNull(one, is_negated) for one in dict.fromkeys(fields_of(value)))
    if not parts:
        return Truth(is_negated)
    return All(parts) if is_negated else Any(parts)


def known(condition: Condition, values: Callable[[Field], Value]) -> Condition:
    """The condition with fields replaced, and what that decides left out."""
    if isinstance(condition, Truth):
        return condition
    if isinstance(condition, (All, Any)):
        is_all = isinstance(condition, All)
        parts = [known(part, values) for part in condition.parts]
        if any(isinstance(part, Truth) and part.holds != is_all for part in parts):
            return Truth(not is_all)
        left = tuple(part for part in parts if not isinstance(part, Truth))
        if len(left) == 1:
            return left[0]
        return (All(left) if is_all else Any(left)) if left else Truth(is_all)
    if isinstance(condition, Not):
        raise AssertionError("negation stands in the comparisons")
    if isinstance(condition, IsNull):
        value = _replaced(condition.value, values)
        if isinstance(value, Field):
            return replace(condition, value=value)
        return Truth(isinstance(value, Null) != condition.is_negated)
    if isinstance(condition, Among):
        value = _replaced(condition.value, values)
        if isinstance(value, Null):
            return Truth(False)
        if isinstance(value, Constant):
            return Truth(any(_holds("=", value, one) for one in condition.among) != condition.is_negated)
        return replace(condition, value=value)
    left_value, right_value = _replaced(condition.left, values), _replaced(condition.right, values)
    if isinstance(left_value, Null) or isinstance(right_value, Null):
        return Truth(False)
    if isinstance(left_value, Constant) and isinstance(right_value, Constant):
        return Truth(_holds(condition.op, left_value, right_value))
    return replace(condition, left=left_value, right=right_value)


def _holds(op: str, left: Constant, right: Constant) -> bool:
    kinds = {"a number" if type(one.value) in (int, float) else type(one.value).__name__ for one in (left, right)}
    if len(kinds) > 1:
        raise TypeMismatchError(f"'{left} {op} {right}' compares values of two types; they do not compare.")
    return _COMPARED[op](left.value, right.value)


def _replaced(value: Value, values: Callable[[Field], Value]) -> Value:
    if isinstance(value, Field):
        return values(value)
    if not isinstance(value, Operation):
        return value
    operands = tuple(_replaced(one, values) for one in value.operands)
    if any(isinstance(one, Null) for one in operands):
        return Null()
    numbers = [one.value for one in operands if isinstance(one, Constant)]
    if len(numbers) < len(operands) or value.op.isalpha():
        return replace(value, operands=operands)
    if any(type(one) not in (int, float) for one in numbers):
        raise TypeMismatchError(f"'{replace(value, operands=operands)}' calculates with what is no number.")
    return Constant(_calculated(value, [one for one in numbers if isinstance(one, (int, float))]))


def _calculated(operation: Operation, numbers: Sequence[int | float]) -> int | float:
    if len(numbers) == 1:
        return -numbers[0]
    left, right = numbers
    if operation.op in "/%" and right == 0:
        raise CalculationError(f"'{operation}'", "divides by zero")
    if operation.op == "%":
        both_whole = isinstance(left, int) and isinstance(right, int)
        return int(math.copysign(abs(left) % abs(right), left)) if both_whole else math.fmod(left, right)
    calculate: dict[str, Callable[[int | float, int | float], int | float]] = {
        "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
    }  # fmt: skip
    return calculate[operation.op](left, right)


def cases(condition: Condition) -> list[Case]:
    """Conjunctions of which one holds where the condition is true, and no two at once: mostly the condition itself.

    An OR is taken apart where each of its sides compares columns of two elements for equality, by which they join.

    Examples
    --------
    >>> from gpu_wcoj.query.motif import parse as parse_motif
    >>> from gpu_wcoj.query.motif.condition import parse
    >>> for text in ("a.x = 1 OR b.y = 2", "a.x = b.x OR a.y = b.y AND a.z > 1"):
    ...     for case in cases(parse(text, parse_motif("(a); (b)"))):
    ...         print(*case, sep=" and ")
    (a.x = 1 OR b.y = 2)
    a.x = b.x
    a.y = b.y and a.z > 1 and a.x = b.x IS NOT TRUE
    """
    if not isinstance(condition, Any) or len(condition.parts) > MOST_SPLIT or not all(map(_joins, condition.parts)):
        return [(condition,)]
    return [
        (*(part.parts if isinstance(part, All) else (part,)), *map(Untrue, condition.parts[:at]))
        for at, part in enumerate(condition.parts)
    ]


def _joins(condition: Condition) -> bool:
    """Return whether a condition compares columns of two elements for equality."""
    if isinstance(condition, All):
        return any(map(_joins, condition.parts))
    if not isinstance(condition, Test) or condition.op != "=":
        return False
    left, right = condition.left, condition.right
    return isinstance(left, Field) and isinstance(right, Field) and left.element != right.element


def combined(conditions: Sequence[Condition]) -> list[Case]:
    """Conjunctions of which one holds where all conditions are true, and no two hold at once.

    There are `MOST_CASES` at most: beyond them, an OR stays whole.
    """
    found: list[Case] = [()]
    for one in conditions:
        ways = cases(one)
        ways = ways if len(found) * len(ways) <= MOST_CASES else [(one,)]
        found = [(*case, *way) for case, way in product(found, ways)]
    return found
