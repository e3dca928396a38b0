"""Sums and differences of integers, solved for one of their arguments."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from gpu_wcoj.join.path import Calculation, Condition
from gpu_wcoj.planner.body import Body


def inverse_of(body: Body, name: str, bound: Collection[str]) -> Calculation | None:
    """Return the calculation that solves an integer sum or difference for a variable, or None.

    The result and the other argument have to be bound.
    """
    for one in body.calculations:
        if one.family != "integer" or one.op not in ("+", "-") or one.arguments.count(name) != 1:
            continue
        rest = [argument for argument in one.arguments if argument != name]
        result = one.variable if one.variable in bound else _equal_to(one.variable, body.conditions, bound)
        if result is None or not all(isinstance(argument, int) or argument in bound for argument in rest):
            continue
        if one.op == "-" and one.arguments[0] == name and rest:
            op, arguments = "+", (result, *rest)
        elif one.op == "-":
            op, arguments = "-", (*rest, result)
        else:
            op, arguments = "-", (result, *rest)
        families = ("integer",) * len(arguments)
        return Calculation(f"{name}~", op, arguments, families, "integer", is_inverse=True)
    return None


def _equal_to(name: str, conditions: Sequence[Condition], bound: Collection[str]) -> str | int | None:
    """Return a bound variable or code that conditions equate with a variable, or None."""
    for one in conditions:
        if one.op == "=" and name in (one.variable, one.other):
            other = one.other if one.variable == name else one.variable
            if isinstance(other, int) or other in bound:
                return other
    return None
