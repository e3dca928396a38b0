"""What functions and aggregates say of values of Python."""

from __future__ import annotations

import math
from collections.abc import Sequence


class UndefinedError(Exception):
    """Something has no value: a quotient by zero, a number outside int64, a group with a negative weight."""


class BeyondError(UndefinedError):
    """A sum, difference or product is outside int64, so it equals nothing that a relation holds."""


def called(op: str, arguments: Sequence[object]) -> object:
    """What a function says of values: an integer quotient is cut off toward zero, a rest has the dividend's sign."""
    if op == "cat":
        return "".join(map(str, arguments))
    if op == "strlen":
        (text,) = arguments
        return len(str(text))
    if op == "substr":
        text, start, length = arguments
        assert isinstance(start, int)
        assert isinstance(length, int)
        if start < 0 or length < 0:
            raise UndefinedError(f"substr({text!r}, {start}, {length})")
        return str(text)[start : start + length]
    if op == "-" and len(arguments) == 1:
        return called("-", [0, *arguments]) if isinstance(arguments[0], int) else -arguments[0]  # type: ignore[operator]
    left, right = arguments
    assert isinstance(left, (int, float))
    assert isinstance(right, (int, float))
    if isinstance(left, float) or isinstance(right, float):
        if op in ("/", "%") and right == 0:
            raise UndefinedError(f"{left} {op} {right}")
        return {
            "+": lambda: left + right,
            "-": lambda: left - right,
            "*": lambda: left * right,
            "/": lambda: left / right,
            "%": lambda: math.fmod(left, right),
        }[op]()
    if op in ("/", "%"):
        if right == 0:
            raise UndefinedError(f"{left} {op} {right}")
        quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
        return in_range(quotient if op == "/" else left - right * quotient)
    result = {"+": left + right, "-": left - right, "*": left * right}[op]
    if not -(2**63) <= result < 2**63:
        raise BeyondError(f"{left} {op} {right} is outside int64")
    return result


def in_range(number: int) -> int:
    """`number`, if int64 has it."""
    if not -(2**63) <= number < 2**63:
        raise UndefinedError(f"{number} is outside int64")
    return number


def aggregated(op: str, values: Sequence[tuple[object, int]]) -> object:
    """What an aggregate says of (value, weight) pairs; None where it says nothing."""
    if any(weight < 0 for _, weight in values):
        raise UndefinedError(f"{op} of rows with a negative weight")
    if op == "count":
        return in_range(sum(weight for _, weight in values))
    if op == "sum":
        total = sum(own * weight for own, weight in values)  # type: ignore[operator]
        return total if isinstance(total, float) else in_range(total)
    held = [own for own, weight in values if weight > 0]
    if not held:
        return None
    if op == "mean":
        return math.fsum(held) / len(held)  # type: ignore[arg-type]
    return min(held) if op == "min" else max(held)  # type: ignore[type-var]
