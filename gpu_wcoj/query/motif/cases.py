"""Normal forms of conditions: conjuncts without negation, and disjoint conjunctions.

In SQL's three-valued logic, unknown is not true. After negation is pushed down to the comparisons, a condition is a
monotone formula of them. An OR becomes a filter; only an OR whose sides join elements is split, into disjoint cases, so
that a bag of matches counts each match once.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any as Anything

from gpu_wcoj.errors import CalculationError, TypeMismatchError
from gpu_wcoj.query.ir import Constant
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

MAX_CASES = 64
"""The largest number of conjunctions that the conditions of a motif become."""
MAX_SPLIT = 8
"""The largest number of sides of an OR that is split into conjunctions."""

Case = tuple["Condition | Untrue", ...]


@dataclass(frozen=True)
class Untrue:
    """A negated condition: it is false or unknown."""

    condition: Condition

    def __str__(self) -> str:
        return f"{self.condition} IS NOT TRUE"


_OPPOSITE = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_COMPARED: dict[str, Callable[[Anything, Anything], bool]] = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def conjuncts(condition: Condition) -> tuple[Condition, ...]:
    """Return the conjuncts of a condition, without `Not`.

    Examples
    --------
    >>> from gpu_wcoj.query.motif import parse as parse_motif
    >>> from gpu_wcoj.query.motif.condition import parse
    >>> condition = parse("NOT (a.x > 1 OR a.y = 'n') AND a.z < 3", parse_motif("(a)"))
    >>> print(*conjuncts(condition), sep="; ")
    a.x <= 1; a.y != "n"; a.z < 3
    """
    parts: list[Condition] = []
    waiting = [_push_negation(condition, False)]
    while waiting:
        part = waiting.pop(0)
        if isinstance(part, All):
            waiting = [*part.parts, *waiting]
        else:
            parts.append(part)
    return tuple(parts)


def _push_negation(condition: Condition, is_negated: bool) -> Condition:
    """Return the condition, or its negation, with negation pushed down to comparisons."""
    while isinstance(condition, Not):
        condition, is_negated = condition.part, not is_negated
    if isinstance(condition, (All, Any)):
        parts = tuple(_push_negation(part, is_negated) for part in condition.parts)
        return All(parts) if isinstance(condition, All) != is_negated else Any(parts)
    if isinstance(condition, IsNull):
        return _null_test(condition.value, condition.is_negated != is_negated)
    if isinstance(condition, Among):
        is_out = condition.is_negated != is_negated
        if (is_out and condition.has_null) or not (is_out or condition.values):
            return Truth(False)
        return replace(condition, is_negated=is_out, has_null=False)
    if not is_negated:
        return condition
    if isinstance(condition, Truth):
        return Truth(not condition.holds)
    return replace(condition, op=_OPPOSITE[condition.op])


def _null_test(value: Value, is_negated: bool) -> Condition:
    """Return a null test on the fields of a value; an operation is null if a field is."""
    if isinstance(value, (Field, Null, Constant)):
        return IsNull(value, is_negated)
    parts = tuple(IsNull(field, is_negated) for field in dict.fromkeys(fields_of(value)))
    if not parts:
        return Truth(is_negated)
    return All(parts) if is_negated else Any(parts)


def simplify(condition: Condition, values: Callable[[Field], Value]) -> Condition:
    """Replace fields by their values, and remove the decided parts of a condition."""
    if isinstance(condition, Truth):
        return condition
    if isinstance(condition, (All, Any)):
        is_all = isinstance(condition, All)
        parts = [simplify(part, values) for part in condition.parts]
        if any(isinstance(part, Truth) and part.holds != is_all for part in parts):
            return Truth(not is_all)
        undecided = tuple(part for part in parts if not isinstance(part, Truth))
        if len(undecided) == 1:
            return undecided[0]
        return (All(undecided) if is_all else Any(undecided)) if undecided else Truth(is_all)
    if isinstance(condition, Not):
        raise AssertionError("negation was not pushed down to the comparisons")
    if isinstance(condition, IsNull):
        value = _substitute(condition.value, values)
        if isinstance(value, Field):
            return replace(condition, value=value)
        return Truth(isinstance(value, Null) != condition.is_negated)
    if isinstance(condition, Among):
        value = _substitute(condition.value, values)
        if isinstance(value, Null):
            return Truth(False)
        if isinstance(value, Constant):
            return Truth(any(_compare("=", value, constant) for constant in condition.values) != condition.is_negated)
        return replace(condition, value=value)
    left_value, right_value = _substitute(condition.left, values), _substitute(condition.right, values)
    if isinstance(left_value, Null) or isinstance(right_value, Null):
        return Truth(False)
    if isinstance(left_value, Constant) and isinstance(right_value, Constant):
        return Truth(_compare(condition.op, left_value, right_value))
    return replace(condition, left=left_value, right=right_value)


def _compare(op: str, left: Constant, right: Constant) -> bool:
    kinds = {
        "a number" if type(constant.value) in (int, float) else type(constant.value).__name__
        for constant in (left, right)
    }
    if len(kinds) > 1:
        raise TypeMismatchError(
            f"'{left} {op} {right}' compares values of different types: expected values of the same type."
        )
    return _COMPARED[op](left.value, right.value)


def _substitute(value: Value, values: Callable[[Field], Value]) -> Value:
    if isinstance(value, Field):
        return values(value)
    if not isinstance(value, Operation):
        return value
    operands = tuple(_substitute(operand, values) for operand in value.operands)
    if any(isinstance(operand, Null) for operand in operands):
        return Null()
    numbers = [operand.value for operand in operands if isinstance(operand, Constant)]
    if len(numbers) < len(operands) or value.op.isalpha():
        return replace(value, operands=operands)
    if any(type(number) not in (int, float) for number in numbers):
        raise TypeMismatchError(
            f"'{replace(value, operands=operands)}' has an operand of the wrong type: expected numbers."
        )
    return Constant(_calculate(value, [number for number in numbers if isinstance(number, (int, float))]))


def _calculate(operation: Operation, numbers: Sequence[int | float]) -> int | float:
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


def split_cases(condition: Condition) -> list[Case]:
    """Split a condition into disjoint conjunctions; usually into itself.

    An OR is split where each of its sides compares columns of two elements for equality and thus joins them.

    Examples
    --------
    >>> from gpu_wcoj.query.motif import parse as parse_motif
    >>> from gpu_wcoj.query.motif.condition import parse
    >>> for text in ("a.x = 1 OR b.y = 2", "a.x = b.x OR a.y = b.y AND a.z > 1"):
    ...     for case in split_cases(parse(text, parse_motif("(a); (b)"))):
    ...         print(*case, sep=" and ")
    (a.x = 1 OR b.y = 2)
    a.x = b.x
    a.y = b.y and a.z > 1 and a.x = b.x IS NOT TRUE
    """
    if not isinstance(condition, Any) or len(condition.parts) > MAX_SPLIT or not all(map(_joins, condition.parts)):
        return [(condition,)]
    return [
        (*(part.parts if isinstance(part, All) else (part,)), *map(Untrue, condition.parts[:position]))
        for position, part in enumerate(condition.parts)
    ]


def _joins(condition: Condition) -> bool:
    """Return whether a condition compares columns of two elements for equality."""
    if isinstance(condition, All):
        return any(map(_joins, condition.parts))
    if not isinstance(condition, Test) or condition.op != "=":
        return False
    left, right = condition.left, condition.right
    return isinstance(left, Field) and isinstance(right, Field) and left.element != right.element


def conjoin(conditions: Sequence[Condition]) -> list[Case]:
    """Return disjoint conjunctions whose union is the conjunction of all conditions.

    At most `MAX_CASES` are returned: beyond that, an OR is not split.
    """
    combinations: list[Case] = [()]
    for condition in conditions:
        alternatives = split_cases(condition)
        alternatives = alternatives if len(combinations) * len(alternatives) <= MAX_CASES else [(condition,)]
        combinations = [(*case, *alternative) for case, alternative in product(combinations, alternatives)]
    return combinations
