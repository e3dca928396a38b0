"""Sums and differences of integers, solved for one of their arguments."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from gpu_wcoj.join.plan import Calculation, Condition
from gpu_wcoj.planner.body import Body


def inverse_of(body: Body, name: str, bound: Collection[str]) -> Calculation | None:
    """Return the calculation that solves an integer sum or difference for a variable, or None.

    The result and the other argument have to be bound.
    """
    for calculation in body.calculations:
        if (
            calculation.family != "integer"
            or calculation.op not in ("+", "-")
            or calculation.arguments.count(name) != 1
        ):
            continue
        operands = [argument for argument in calculation.arguments if argument != name]
        result = (
            calculation.variable
            if calculation.variable in bound
            else _equal_to(calculation.variable, body.conditions, bound)
        )
        if result is None or not all(isinstance(argument, int) or argument in bound for argument in operands):
            continue
        if calculation.op == "-" and calculation.arguments[0] == name and operands:
            op, arguments = "+", (result, *operands)
        elif calculation.op == "-":
            op, arguments = "-", (*operands, result)
        else:
            op, arguments = "-", (result, *operands)
        families = ("integer",) * len(arguments)
        return Calculation(f"{name}~", op, arguments, families, "integer", is_inverse=True)
    return None


def _equal_to(name: str, conditions: Sequence[Condition], bound: Collection[str]) -> str | int | None:
    """Return a bound variable or code that conditions equate with a variable, or None."""
    for condition in conditions:
        if condition.op == "=" and name in (condition.variable, condition.operand):
            operand = condition.operand if condition.variable == name else condition.variable
            if isinstance(operand, int) or operand in bound:
                return operand
    return None
