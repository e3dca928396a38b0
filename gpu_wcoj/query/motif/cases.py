"""Conditions as conjunctions of which no two hold at once, so that a bag of matches counts each match once.

Under SQL's three values, what is unknown is not true. Once negation has moved inwards to the comparisons, a condition
is true where enough of them are true; so only "true" and "not true" are told apart from there on.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import product
from typing import Any as Anything

from gpu_wcoj.errors import CalculationError, TypeMismatchError, UnsupportedError
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
"""How many conjunctions a condition may become."""

Literal = Test | Among | IsNull
Case = tuple[Literal, ...]

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


def cases(condition: Condition, limit: int = MOST_CASES) -> list[Case]:
    """Conjunctions of which one holds where the condition is true, and no two hold at once.

    Raises
    ------
    UnsupportedError
        If there are more than `limit`.

    Examples
    --------
    >>> from gpu_wcoj.query.motif import parse as parse_motif
    >>> from gpu_wcoj.query.motif.condition import parse
    >>> given = parse("a.x = 1 OR a.y = 2", parse_motif("(a)"))
    >>> for case in cases(given):
    ...     print(*case, sep=" and ")
    a.x = 1
    a.x != 1 and a.y = 2
    a.x IS NULL and a.y = 2
    """
    done: list[Case] = []
    waiting: list[tuple[Case, tuple[_Goal, ...]]] = [((), ((condition, True),))]
    while waiting:
        so_far, goals = waiting.pop(0)
        if not goals:
            done.append(so_far)
        else:
            (first, is_true), *rest = goals
            ways = [
                (longer, (*further, *rest))
                for literals, further in _ways(first, is_true)
                if (longer := _joined(so_far, literals)) is not None
            ]
            waiting = [*ways, *waiting]
        if len(done) + len(waiting) > limit:
            raise UnsupportedError(too_many(limit))
    return done


_Goal = tuple[Condition, bool]
"""A condition, and whether it is to be true, or else false or unknown."""


def _ways(one: Condition, is_true: bool) -> list[tuple[Case, tuple[_Goal, ...]]]:
    """The ways to reach a goal, which exclude each other: literals, and goals that are left."""
    if isinstance(one, Truth):
        return [((), ())] if one.holds == is_true else []
    if isinstance(one, (All, Any)):
        if isinstance(one, All) == is_true:
            return [((), tuple((part, is_true) for part in one.parts))]
        first, *others = one.parts
        ways: list[tuple[Case, tuple[_Goal, ...]]] = [((), ((first, is_true),))]
        if others:
            left = All(tuple(others)) if isinstance(one, All) else Any(tuple(others))
            ways.append(((), ((first, not is_true), (left, is_true))))
        return ways
    assert not isinstance(one, Not), "negation stands in the comparisons"
    if is_true:
        return [((one,), ())]
    if isinstance(one, IsNull):
        return [((replace(one, is_negated=not one.is_negated),), ())]
    opposite: Literal
    if isinstance(one, Among):
        opposite = replace(one, is_negated=not one.is_negated)
    else:
        opposite = replace(one, op=_OPPOSITE[one.op])
    fields = list(dict.fromkeys(fields_of(one)))
    unknown = [(*(IsNull(before, True) for before in fields[:at]), IsNull(field)) for at, field in enumerate(fields)]
    return [((opposite,), ()), *((case, ()) for case in unknown)]


def too_many(limit: int) -> str:
    """What is said of a condition with too many cases."""
    return (
        f"the condition has more than {limit} cases that exclude each other.\n"
        "  Ask for less with OR, or put a list of values into IN."
    )


def _joined(left: Iterable[Literal], right: Iterable[Literal]) -> Case | None:
    """Both conjunctions; None if they ask for a null that another part of them excludes."""
    both = tuple(dict.fromkeys([*left, *right]))
    nulls = {one.value for one in both if isinstance(one, IsNull) and not one.is_negated}
    if nulls:
        for one in both:
            is_null = isinstance(one, IsNull) and not one.is_negated
            if not is_null and nulls & set(fields_of(one)):
                return None
    return both


def combined(parts: Sequence[Sequence[Case]], limit: int = MOST_CASES) -> list[Case]:
    """Every choice of one case of each part."""
    if math.prod(map(len, parts)) > limit:
        raise UnsupportedError(too_many(limit))
    joined = (tuple(literal for case in choice for literal in case) for choice in product(*parts))
    return [found for one in joined if (found := _joined(one, ())) is not None]
