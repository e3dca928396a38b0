"""Heads that hold the same rows up to the names and order of columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence

from gpu_wcoj.planner.body import Alias
from gpu_wcoj.query.rules import Rule
from gpu_wcoj.query.strata import components
from gpu_wcoj.query.terms import Call, Expression, Variable


def same_rows(by_head: Mapping[str, Sequence[Rule]]) -> dict[str, Alias]:
    """Return aliases of heads whose only rule equals an earlier head's only rule.

    Rules that read such a head read the earlier head, so that its rows are stored once. Heads of loops are unchanged.

    Examples
    --------
    >>> from gpu_wcoj.query.datalog import parse
    >>> rules = parse("h(x, z) :- r(x, y), s(y, z). g(c, a) :- r(a, b), s(b, c). f(a, b) :- r(a, b), s(b, c).").rules
    >>> same_rows({rule.head.relation: [rule] for rule in rules})
    {'g': Alias(relation='h', columns=(1, 0), compared=())}
    """
    sizes = Counter(len(rules[0].atoms) for rules in by_head.values() if len(rules) == 1)
    if max(sizes.values(), default=0) < 2:
        return {}
    reads = {name: {atom.relation for rule in rules for atom in rule.read} for name, rules in by_head.items()}
    looped = {name for members in components(reads) for name in members if len(members) > 1 or name in reads[name]}
    first: dict[Hashable, tuple[str, dict[int, int]]] = {}
    found = {}
    for name, rules in by_head.items():
        kept = rules[0].head.terms
        if len(rules) != 1 or name in looped or not rules[0].atoms or sizes[len(rules[0].atoms)] < 2:
            continue
        if len(set(kept)) < len(kept) or not all(isinstance(term, Variable) for term in kept):
            continue
        numbers = _numbers(rules[0])
        other, place = first.setdefault(
            (_signature(rules[0], numbers), frozenset(numbers[term] for term in kept)),
            (name, {numbers[term]: column for column, term in enumerate(kept)}),
        )
        if other != name:
            found[name] = Alias(other, tuple(place[numbers[term]] for term in kept))
    return found


def _numbers(rule: Rule) -> dict[Expression, int]:
    """Return the variables of a body, numbered by first occurrence."""
    terms = [term for atom in (*rule.atoms, *rule.negated) for term in atom.terms]
    terms += [term for one in rule.comparisons for term in (one.left, one.right)]
    terms += [term for one in rule.computed for term in (one.variable, *one.call.variables)]
    return {term: at for at, term in enumerate(dict.fromkeys(one for one in terms if isinstance(one, Variable)))}


def _signature(rule: Rule, numbers: Mapping[Expression, int]) -> Hashable:
    """Return a key of the body that does not depend on variable names."""

    def told(terms: Sequence[Expression]) -> tuple[Hashable, ...]:
        return tuple(map(_told, terms))

    def _told(term: Expression) -> Hashable:
        if isinstance(term, Call):
            return term.op, told(term.arguments)
        return (numbers[term], term.name.endswith("?")) if isinstance(term, Variable) else term

    return (
        tuple((atom.relation, told(atom.terms)) for atom in rule.atoms),
        tuple((atom.relation, told(atom.terms)) for atom in rule.negated),
        frozenset((one.op, told((one.left, one.right))) for one in rule.comparisons),
        tuple((numbers[one.variable], one.call.op, told(one.call.arguments)) for one in rule.computed),
    )
