"""Conditions on matches as comparisons and atoms of rules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from gpu_wcoj.query.constant import called, equality_key, negated
from gpu_wcoj.query.motif.cases import Case, Untrue
from gpu_wcoj.query.motif.condition import All, Among, Any, Condition, Field, IsNull, Null, Operation, Test, Value
from gpu_wcoj.query.terms import COMPARING, NULL, TRUE, Atom, Call, Comparison, Constant, Expression

FUNCTIONS = {"lower": "lower", "upper": "upper", "length": "strlen", "abs": "abs", "year": "year", "month": "month",
             "day": "day"}  # fmt: skip
"""Functions of conditions, and what they are called in rules."""

FEW = 4
"""Of so many values, each is compared; more are a relation."""

_FLOATS = ("float32", "float64")


class Literals(NamedTuple):
    """A conjunction as parts of a rule."""

    comparisons: tuple[Comparison, ...]
    atoms: tuple[Atom, ...]
    negated: tuple[Atom, ...]


@dataclass(frozen=True)
class Writer:
    """Writes conditions down.

    Attributes
    ----------
    term
        What a field is in the rule.
    kind
        The family of its type (``integer``, ``float64`` and so on); None if that is not known.
    listed
        The relation that holds the values of a list.
    """

    term: Callable[[Field], Expression]
    kind: Callable[[Field], str | None]
    listed: Callable[[tuple[Constant, ...]], str]

    def literals(self, case: Case) -> Literals:
        """A conjunction."""
        comparisons: list[Comparison] = []
        atoms: list[Atom] = []
        negated: list[Atom] = []
        for literal in case:
            if isinstance(literal, (All, Any, Untrue)):
                comparisons.append(Comparison("=", called("istrue", self.condition(literal)), TRUE))
            elif isinstance(literal, IsNull):
                op = "!=" if literal.is_negated else "="
                comparisons.append(Comparison(op, self.written(literal.value)[0], NULL))
            elif isinstance(literal, Test):
                left, right = self.alike(self.written(literal.left), self.written(literal.right))
                comparisons.append(Comparison(literal.op, left, right))
            elif not isinstance(literal, Among):
                raise AssertionError(f"'{literal}' was to be decided before")
            elif len(literal.among) <= (FEW if literal.is_negated else 1):
                op = "!=" if literal.is_negated else "="
                value = self.written(literal.value)
                for one in literal.among:
                    left, right = self.alike(value, self.written(one))
                    comparisons.append(Comparison(op, left, right))
            else:
                (negated if literal.is_negated else atoms).append(self.among(literal))
        return Literals(tuple(comparisons), tuple(atoms), tuple(negated))

    def condition(self, one: Condition | Untrue) -> Expression:
        """A condition as a null-aware call."""
        if isinstance(one, Untrue):
            return negated(called("istrue", self.condition(one.condition)))
        if isinstance(one, (All, Any)):
            return called("all" if isinstance(one, All) else "any", *map(self.condition, one.parts))
        if isinstance(one, IsNull):
            test = called("isnull", self.written(one.value)[0])
            return negated(test) if one.is_negated else test
        if isinstance(one, Among):
            found = called("among", *self.value_and_list(one))
            return negated(found) if one.is_negated else found
        assert isinstance(one, Test), f"'{one}' was to be decided before"
        left, right = self.alike(self.written(one.left), self.written(one.right))
        return called(next(name for name, op in COMPARING.items() if op == one.op), left, right)

    def among(self, literal: Among) -> Atom:
        """That a value is one of a list."""
        value, *values = self.value_and_list(literal)
        return Atom(self.listed(tuple(one for one in values if isinstance(one, Constant))), (value,))

    def value_and_list(self, literal: Among) -> tuple[Expression, ...]:
        """A value, and the list that it is in, whose values are of its type."""
        value, kind = self.written(literal.value)
        values = literal.among
        are_whole = [isinstance(one.value, int) for one in values]
        if kind in _FLOATS or (kind is None and not all(are_whole) and any(are_whole)):
            values = tuple(Constant(float(one.value)) if type(one.value) is int else one for one in values)
        elif kind == "integer" and not all(are_whole):
            value = Call("double", (value,))
            values = tuple(Constant(float(one.value)) if type(one.value) is int else one for one in values)
        distinct = {equality_key(one, is_double=kind in _FLOATS): one for one in values}
        return (value, *distinct.values())

    def written(self, value: Value) -> tuple[Expression, str | None]:
        """A value, and the family of its type."""
        if isinstance(value, Field):
            return self.term(value), self.kind(value)
        if isinstance(value, Constant):
            return value, {int: "whole", float: "float64"}.get(type(value.value))
        assert not isinstance(value, Null), "what is null is decided before"
        return self.calculated(value)

    def calculated(self, value: Operation) -> tuple[Expression, str | None]:
        """A calculation, and the family of its type."""
        operands = [self.written(one) for one in value.operands]
        if value.op in FUNCTIONS:
            kind = operands[0][1] if value.op == "abs" else None if value.op in ("lower", "upper") else "integer"
            return Call(FUNCTIONS[value.op], tuple(one for one, _ in operands)), kind
        if value.op == "like":
            return Call("like", tuple(one for one, _ in operands)), "bool"
        if value.op == "/":
            return Call("/", tuple(_double(one, kind) for one, kind in operands)), "float64"
        if len(operands) == 1:
            return Call("-", (operands[0][0],)), operands[0][1]
        left, right = self.alike(*operands)
        kinds = [kind for _, kind in operands]
        found = "float64" if set(kinds) & set(_FLOATS) else next((kind for kind in kinds if kind != "whole"), "whole")
        return Call(value.op, (left, right)), found

    def alike(
        self, left: tuple[Expression, str | None], right: tuple[Expression, str | None]
    ) -> tuple[Expression, Expression]:
        """Two values that meet: an integer beside a float becomes one, as in SQL."""
        kinds = left[1], right[1]
        if set(kinds) & set(_FLOATS):
            first, second = (_double(one, kind) if kind == "integer" else one for one, kind in (left, right))
            return first, second
        return left[0], right[0]


def _double(value: Expression, kind: str | None) -> Expression:
    if isinstance(value, Constant):
        return Constant(float(value.value)) if isinstance(value.value, int) else value
    return value if kind in _FLOATS else Call("double", (value,))
