"""A guarded conjunction: atoms and conditions of a future rule, and column values.

A variable that occurs once may be null. A condition on its value excludes null: a comparison, a second place in an
atom, a calculation. Columns that are joined so that null equals null are recorded as `safe`, and get a variable ``x?``
if they may be null in the final rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from gpu_wcoj.query.constant_folding import holds, simplified_call
from gpu_wcoj.query.ir import (
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
    """A conjunction of atoms and conditions, with the values of columns under it.

    Attributes
    ----------
    solid
        Variables that must not be null here.
    known
        Variables that cannot be null in any branch.
    safe
        Variables whose joins treat null as equal to null.
    fixed
        Variables of the outer query, which are never replaced.
    values
        The value of each column in scope, by the number of the column.
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
        """Return whether a value can be null here; of calls, only null-aware ones can."""
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
        """Return the conjunction of both branches."""
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
        """Return the branch with a condition that never holds."""
        return replace(self, comparisons=(*self.comparisons, NEVER))

    def with_values(self, values: Mapping[int, Expression]) -> Branch:
        """Return the branch with more columns."""
        return replace(self, values={**self.values, **values})

    def replaced(self, names: Mapping[Variable, Expression]) -> Branch:
        """Return the branch with variables replaced by terms."""
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
        """Return the branch restricted to a value that is not null, or None."""
        if value == NULL:
            return None
        if isinstance(value, Call) and value.takes_nulls:
            return self._tested(value, FALSE)
        return self.required(variables_of([value]))

    def _tested(self, value: Call, is_null: Constant) -> Branch | None:
        """Return the branch restricted to a null-aware call that is null, or is not null."""
        test = simplified_call("isnull", value)
        if isinstance(test, Constant):
            return self if test == is_null else None
        return replace(self, comparisons=(*self.comparisons, Comparison("=", test, is_null)))

    def required(self, variables: Iterable[Variable]) -> Branch:
        """Return the branch restricted to variables that are not null."""
        missing = frozenset(variables) - self.solid
        return replace(self, solid=self.solid | missing) if missing else self

    def null(self, value: Expression) -> Branch | None:
        """Return the branch restricted to a value that is null, or None."""
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
        """Return the branch restricted by a comparison, or None; null never compares."""
        if NULL in (left, right):
            return None
        if isinstance(left, Constant) and isinstance(right, Constant):
            return self if holds(op, left, right) else None
        if isinstance(left, Constant):
            left, right, op = right, left, MIRRORED[op]
        fixed = self.fixed.intersection(valued_variables([left, right]))  # null has replaced all other null variables
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
        """Return the branches in which two values are equal or both null."""
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
    """Return an expression with variables replaced by terms."""
    if isinstance(value, Variable):
        return names.get(value, value)
    if isinstance(value, Call):
        arguments = tuple(substituted(argument, names) for argument in value.arguments)
        return simplified_call(value.op, *arguments) if value.takes_nulls else replace(value, arguments=arguments)
    return value


def _in_atom(atom: Atom, names: Mapping[Variable, Expression]) -> Atom:
    return replace(atom, terms=tuple(substituted(term, names) for term in atom.terms))


def _in_set(variables: frozenset[Variable], names: Mapping[Variable, Expression]) -> frozenset[Variable]:
    return frozenset(variables_of(substituted(variable, names) for variable in variables))
