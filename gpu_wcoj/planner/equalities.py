"""Substitutions of variables by the equalities of a rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from gpu_wcoj.query.ir import Expression, Term, Variable, plain
from gpu_wcoj.query.rules import Rule

Resolve = Callable[[Expression], Term]
"""Return the term that replaces a term."""


def resolver(rule: Rule) -> Resolve | None:
    """Return the substitution by equalities; None if two different constants would be equal.

    A calculated variable keeps its name and is compared with variables of atoms. Null tests do not substitute.

    Examples
    --------
    >>> from gpu_wcoj.query.datalog import parse
    >>> resolve = resolver(parse("h(x) :- r(x, y), z = y, s(z), x = 5.").rules[0])
    >>> [str(resolve(Variable(name))) for name in "xyz"]
    ['5', 'y', 'y']
    """
    value = _substitution(rule)
    if not value:
        return None if value is None else plain
    return lambda term: _resolved(term, value)


def standing_for(names: Sequence[str], rule: Rule) -> list[str]:
    """Return the variables that replace these after substitution, each once.

    Examples
    --------
    >>> from gpu_wcoj.query.datalog import parse
    >>> standing_for(["z", "x", "y"], parse("h(x) :- r(x, y), z = y, s(z).").rules[0])
    ['y', 'x']
    """
    value = _substitution(rule) if names else None
    if not value:
        return list(dict.fromkeys(names))
    terms = [_resolved(Variable(name), value) for name in names]
    return list(dict.fromkeys(term.name for term in terms if isinstance(term, Variable)))


def _substitution(rule: Rule) -> dict[Variable, Term] | None:
    value: dict[Variable, Term] = {}
    equalities = [comparison for comparison in rule.comparisons if comparison.op == "=" and not comparison.is_null_test]
    if not equalities:
        return value
    calculated = {computed.variable for computed in rule.computed}
    bound = {variable for atom in rule.atoms for variable in atom.variables}
    for comparison in equalities:
        left, right = _resolved(comparison.left, value), _resolved(comparison.right, value)
        if left == right:
            continue
        if right in calculated:
            left, right = right, left
        if left in calculated:
            if isinstance(right, Variable) and right not in calculated and right not in bound:
                value[right] = left
        elif isinstance(left, Variable):
            value[left] = right
            if left in bound and isinstance(right, Variable):
                bound.add(right)
        elif isinstance(right, Variable):
            value[right] = left
        elif left.value != right.value:
            return None
    return value


def _resolved(term: Expression, value: Mapping[Variable, Term]) -> Term:
    while isinstance(term, Variable) and term in value:
        term = value[term]
    return plain(term)
