"""Heads that hold the same rows up to the names and order of columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence

from gpu_wcoj.planner.body import Alias
from gpu_wcoj.query.ir import Call, Expression, Variable
from gpu_wcoj.query.rules import Rule
from gpu_wcoj.query.strata import components


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
    result = {}
    for name, rules in by_head.items():
        head_terms = rules[0].head.terms
        if len(rules) != 1 or name in looped or not rules[0].atoms or sizes[len(rules[0].atoms)] < 2:
            continue
        if len(set(head_terms)) < len(head_terms) or not all(isinstance(term, Variable) for term in head_terms):
            continue
        numbers = _numbers(rules[0])
        leader, place = first.setdefault(
            (_signature(rules[0], numbers), frozenset(numbers[term] for term in head_terms)),
            (name, {numbers[term]: column for column, term in enumerate(head_terms)}),
        )
        if leader != name:
            result[name] = Alias(leader, tuple(place[numbers[term]] for term in head_terms))
    return result


def _numbers(rule: Rule) -> dict[Expression, int]:
    """Return the variables of a body, numbered by first occurrence."""
    terms = [term for atom in (*rule.atoms, *rule.negated) for term in atom.terms]
    terms += [term for comparison in rule.comparisons for term in (comparison.left, comparison.right)]
    terms += [term for computed in rule.computed for term in (computed.variable, *computed.call.variables)]
    return {
        term: index for index, term in enumerate(dict.fromkeys(term for term in terms if isinstance(term, Variable)))
    }


def _signature(rule: Rule, numbers: Mapping[Expression, int]) -> Hashable:
    """Return a key of the body that does not depend on variable names."""

    def numbered_terms(terms: Sequence[Expression]) -> tuple[Hashable, ...]:
        return tuple(map(_numbered_term, terms))

    def _numbered_term(term: Expression) -> Hashable:
        if isinstance(term, Call):
            return term.op, numbered_terms(term.arguments)
        return (numbers[term], term.name.endswith("?")) if isinstance(term, Variable) else term

    return (
        tuple((atom.relation, numbered_terms(atom.terms)) for atom in rule.atoms),
        tuple((atom.relation, numbered_terms(atom.terms)) for atom in rule.negated),
        frozenset(
            (comparison.op, numbered_terms((comparison.left, comparison.right))) for comparison in rule.comparisons
        ),
        tuple(
            (numbers[computed.variable], computed.call.op, numbered_terms(computed.call.arguments))
            for computed in rule.computed
        ),
    )
