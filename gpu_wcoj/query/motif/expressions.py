"""Translation of conditions to comparisons and atoms of rules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from gpu_wcoj.query.constant_folding import equality_key, negated, simplified_call
from gpu_wcoj.query.ir import COMPARING, NULL, TRUE, Atom, Call, Comparison, Constant, Expression
from gpu_wcoj.query.motif.cases import Case, Untrue
from gpu_wcoj.query.motif.condition import All, Among, Any, Condition, Field, IsNull, Null, Operation, Test, Value
from gpu_wcoj.query.motif.pattern import MOTIF_FUNCTIONS

MAX_COMPARED = 4
"""Longest NOT IN list, in values, that becomes comparisons; longer lists become a relation."""

_FLOATS = ("float32", "float64")


class Literals(NamedTuple):
    """A conjunction as parts of a rule."""

    comparisons: tuple[Comparison, ...]
    atoms: tuple[Atom, ...]
    negated: tuple[Atom, ...]


@dataclass(frozen=True)
class ConditionWriter:
    """Translator of conditions to parts of rules.

    Attributes
    ----------
    term
        Returns the term of a field in the rule.
    kind
        Returns the family of a field's type (``integer``, ``float64``, ...), or None if unknown.
    listed
        Returns the relation that holds the values of a list.
    """

    term: Callable[[Field], Expression]
    kind: Callable[[Field], str | None]
    list_relation: Callable[[tuple[Constant, ...]], str]

    def literals(self, case: Case) -> Literals:
        """Translate a conjunction."""
        comparisons: list[Comparison] = []
        atoms: list[Atom] = []
        negated: list[Atom] = []
        for literal in case:
            if isinstance(literal, (All, Any, Untrue)):
                comparisons.append(Comparison("=", simplified_call("istrue", self.condition(literal)), TRUE))
            elif isinstance(literal, IsNull):
                op = "!=" if literal.is_negated else "="
                comparisons.append(Comparison(op, self.to_term(literal.value)[0], NULL))
            elif isinstance(literal, Test):
                left, right = self.unify_types(self.to_term(literal.left), self.to_term(literal.right))
                comparisons.append(Comparison(literal.op, left, right))
            elif not isinstance(literal, Among):
                raise AssertionError(f"'{literal}' was not simplified")
            elif len(literal.values) <= (MAX_COMPARED if literal.is_negated else 1):
                op = "!=" if literal.is_negated else "="
                value = self.to_term(literal.value)
                for value_ in literal.values:
                    left, right = self.unify_types(value, self.to_term(value_))
                    comparisons.append(Comparison(op, left, right))
            else:
                (negated if literal.is_negated else atoms).append(self.among(literal))
        return Literals(tuple(comparisons), tuple(atoms), tuple(negated))

    def condition(self, condition: Condition | Untrue) -> Expression:
        """Translate a condition to a null-aware call."""
        if isinstance(condition, Untrue):
            return negated(simplified_call("istrue", self.condition(condition.condition)))
        if isinstance(condition, (All, Any)):
            return simplified_call(
                "all" if isinstance(condition, All) else "any", *map(self.condition, condition.parts)
            )
        if isinstance(condition, IsNull):
            test = simplified_call("isnull", self.to_term(condition.value)[0])
            return negated(test) if condition.is_negated else test
        if isinstance(condition, Among):
            test = simplified_call("among", *self.value_and_list(condition))
            return negated(test) if condition.is_negated else test
        assert isinstance(condition, Test), f"'{condition}' was not simplified"
        left, right = self.unify_types(self.to_term(condition.left), self.to_term(condition.right))
        return simplified_call(next(name for name, op in COMPARING.items() if op == condition.op), left, right)

    def among(self, literal: Among) -> Atom:
        """Return an atom of the list's relation that tests membership."""
        value, *values = self.value_and_list(literal)
        return Atom(self.list_relation(tuple(value_ for value_ in values if isinstance(value_, Constant))), (value,))

    def value_and_list(self, literal: Among) -> tuple[Expression, ...]:
        """Return a value, and the values of its list converted to its type."""
        value, kind = self.to_term(literal.value)
        values = literal.values
        are_integers = [isinstance(constant.value, int) for constant in values]
        if kind in _FLOATS or (kind is None and not all(are_integers) and any(are_integers)):
            values = tuple(
                Constant(float(constant.value)) if type(constant.value) is int else constant for constant in values
            )
        elif kind == "integer" and not all(are_integers):
            value = Call("double", (value,))
            values = tuple(
                Constant(float(constant.value)) if type(constant.value) is int else constant for constant in values
            )
        distinct = {equality_key(constant, is_double=kind in _FLOATS): constant for constant in values}
        return (value, *distinct.values())

    def to_term(self, value: Value) -> tuple[Expression, str | None]:
        """Translate a value; return its term and the family of its type."""
        if isinstance(value, Field):
            return self.term(value), self.kind(value)
        if isinstance(value, Constant):
            return value, {int: "whole", float: "float64"}.get(type(value.value))
        assert not isinstance(value, Null), "null values are simplified before"
        return self.calculation(value)

    def calculation(self, value: Operation) -> tuple[Expression, str | None]:
        """Translate an operation; return its term and the family of its type."""
        operands = [self.to_term(operand) for operand in value.operands]
        if value.op in MOTIF_FUNCTIONS:
            kind = operands[0][1] if value.op == "abs" else None if value.op in ("lower", "upper") else "integer"
            return Call(MOTIF_FUNCTIONS[value.op], tuple(operand for operand, _ in operands)), kind
        if value.op == "like":
            return Call("like", tuple(operand for operand, _ in operands)), "bool"
        if value.op == "/":
            return Call("/", tuple(_double(operand, kind) for operand, kind in operands)), "float64"
        if len(operands) == 1:
            return Call("-", (operands[0][0],)), operands[0][1]
        left, right = self.unify_types(*operands)
        kinds = [kind for _, kind in operands]
        family = "float64" if set(kinds) & set(_FLOATS) else next((kind for kind in kinds if kind != "whole"), "whole")
        return Call(value.op, (left, right)), family

    def unify_types(
        self, left: tuple[Expression, str | None], right: tuple[Expression, str | None]
    ) -> tuple[Expression, Expression]:
        """Return two operands of one type; an integer beside a float becomes a float."""
        kinds = left[1], right[1]
        if set(kinds) & set(_FLOATS):
            first, second = (
                _double(operand, kind) if kind == "integer" else operand for operand, kind in (left, right)
            )
            return first, second
        return left[0], right[0]


def _double(value: Expression, kind: str | None) -> Expression:
    if isinstance(value, Constant):
        return Constant(float(value.value)) if isinstance(value.value, int) else value
    return value if kind in _FLOATS else Call("double", (value,))
