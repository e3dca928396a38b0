"""A conjunction that is on its way to a rule: atoms and conditions, and what the columns in scope are in it.

A variable that stands once may be null. What has to hold of its value makes it one that is not null: a comparison, a
second place in an atom, a calculation. Columns that are joined so that null equals null are noted as `safe`, and get
a variable ``x?`` if they may be null in the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from gpu_wcoj.query.constant import called, holds
from gpu_wcoj.query.terms import (
    FALSE,
    MIRRORED,
    NEVER,
    NULL,
    TRUE,
    Atom,
    Call,
    Comparison,
    Constant,
    Expression,
    Variable,
    valued_variables,
    variables_of,
)

Values = tuple[Expression, ...]


@dataclass(frozen=True)
class Branch:
    """What holds, and the values of columns under it.

    Attributes
    ----------
    solid
        Variables that must not be null here.
    known
        Variables that cannot be null, whatever holds here.
    safe
        Variables that are joined null with null.
    fixed
        Variables of the query around, which are never replaced.
    values
        Per column in scope, by its number, what it is.
    """

    atoms: tuple[Atom, ...] = ()
    negated: tuple[Atom, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    solid: frozenset[Variable] = frozenset()
    non_null: frozenset[Variable] = frozenset()
    safe: frozenset[Variable] = frozenset()
    fixed: frozenset[Variable] = frozenset()
    values: Mapping[int, Expression] = field(default_factory=dict)

    def may_be_null(self, value: Expression) -> bool:
        """Return whether a value can be null here. What is calculated never is, but for null-aware calls."""
        if isinstance(value, Variable):
            return value not in self.solid and value not in self.non_null
        if isinstance(value, Call) and value.takes_nulls:
            return value.op not in ("istrue", "isnull")
        return value == NULL

    @property
    def variables(self) -> frozenset[Variable]:
        """All variables of the atoms and conditions."""
        terms = [term for atom in (*self.atoms, *self.negated) for term in atom.terms]
        for comparison in self.comparisons:
            terms += [comparison.left, comparison.right]
        return frozenset(variables_of(terms))

    def joined(self, right: Branch) -> Branch:
        """What holds in both."""
        return Branch(
            (*self.atoms, *right.atoms),
            (*self.negated, *right.negated),
            (*self.comparisons, *right.comparisons),
            self.solid | right.solid,
            self.non_null | right.non_null,
            self.safe | right.safe,
            self.fixed | right.fixed,
            {**self.values, **right.values},
        )

    def never(self) -> Branch:
        """The same, and what never holds."""
        return replace(self, comparisons=(*self.comparisons, NEVER))

    def with_values(self, values: Mapping[int, Expression]) -> Branch:
        """The same with more columns."""
        return replace(self, values={**self.values, **values})

    def replaced(self, names: Mapping[Variable, Expression]) -> Branch:
        """The same with terms in the place of variables."""
        return Branch(
            tuple(_in_atom(atom, names) for atom in self.atoms),
            tuple(_in_atom(atom, names) for atom in self.negated),
            tuple(
                replace(
                    comparison, left=substituted(comparison.left, names), right=substituted(comparison.right, names)
                )
                for comparison in self.comparisons
            ),
            _in_set(self.solid, names),
            _in_set(self.non_null, names),
            _in_set(self.safe, names),
            self.fixed,
            {key: substituted(value, names) for key, value in self.values.items()},
        )

    def not_null(self, value: Expression) -> Branch | None:
        """Where a value is not null."""
        if value == NULL:
            return None
        if isinstance(value, Call) and value.takes_nulls:
            return self._tested(value, FALSE)
        return self.required(variables_of([value]))

    def _tested(self, value: Call, is_null: Constant) -> Branch | None:
        """Where a null-aware call is null, or is not."""
        test = called("isnull", value)
        if isinstance(test, Constant):
            return self if test == is_null else None
        return replace(self, comparisons=(*self.comparisons, Comparison("=", test, is_null)))

    def required(self, variables: Iterable[Variable]) -> Branch:
        """Where variables are not null."""
        missing = frozenset(variables) - self.solid
        return replace(self, solid=self.solid | missing) if missing else self

    def null(self, value: Expression) -> Branch | None:
        """Where a value is null."""
        if not self.may_be_null(value):
            return None
        if isinstance(value, Variable):
            if value not in self.fixed:
                return self.replaced({value: NULL})
            return replace(self, comparisons=(*self.comparisons, Comparison("=", value, NULL)))
        if isinstance(value, Call):
            return self._tested(value, TRUE)
        return self

    def compared(self, op: str, left: Expression, right: Expression) -> Branch | None:
        """Where a comparison holds, as SQL has it: of nothing with null."""
        if NULL in (left, right):
            return None
        if isinstance(left, Constant) and isinstance(right, Constant):
            return self if holds(op, left, right) else None
        if isinstance(left, Constant):
            left, right, op = right, left, MIRRORED[op]
        fixed = self.fixed.intersection(valued_variables([left, right]))  # others that are null have been replaced
        if any(Comparison("=", variable, NULL) in self.comparisons for variable in fixed):
            return None
        required = self.required(valued_variables([left, right]))
        if left == right and isinstance(left, Variable):
            return required if op in ("=", "<=", ">=") else None
        if op == "=" and isinstance(left, Variable) and isinstance(right, Variable):
            if right not in self.fixed:
                return required.replaced({right: left})
            if left not in self.fixed:
                return required.replaced({left: right})
        comparison = Comparison(op, left, right)
        return (
            required
            if comparison in required.comparisons
            else replace(required, comparisons=(*required.comparisons, comparison))
        )

    def same(self, left: Expression, right: Expression) -> Iterable[Branch]:
        """Where two values are equal or both are null."""
        if not self.may_be_null(left) or not self.may_be_null(right):
            equal = self.compared("=", left, right)
            return () if equal is None else (equal,)
        pair = [value for value in (left, right) if isinstance(value, Variable)]
        if len(pair) == 2 and pair[0] == pair[1]:
            return (self,)
        if len(pair) == 2 and not all(variable in self.fixed for variable in pair):
            representative, gone = pair if pair[1] not in self.fixed else pair[::-1]
            return (replace(self, safe=self.safe | {representative}).replaced({gone: representative}),)
        branches = [self.compared("=", left, right)]
        both = self.null(left)
        branches.append(both and both.null(right if right != left else NULL))
        return tuple(branch for branch in branches if branch is not None)


def substituted(value: Expression, names: Mapping[Variable, Expression]) -> Expression:
    """An expression with terms in the place of variables."""
    if isinstance(value, Variable):
        return names.get(value, value)
    if isinstance(value, Call):
        arguments = tuple(substituted(argument, names) for argument in value.arguments)
        return called(value.op, *arguments) if value.takes_nulls else replace(value, arguments=arguments)
    return value


def _in_atom(atom: Atom, names: Mapping[Variable, Expression]) -> Atom:
    return replace(atom, terms=tuple(substituted(term, names) for term in atom.terms))


def _in_set(variables: frozenset[Variable], names: Mapping[Variable, Expression]) -> frozenset[Variable]:
    return frozenset(variables_of(substituted(variable, names) for variable in variables))
