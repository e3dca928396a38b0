"""What rules mean that ask for null and join by it, from scratch. Slow, and meant to be obvious.

It takes rules as they are written, each head behind those that it reads; a head that reads itself is a set.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from gpu_wcoj.query.ir import NULL, Aggregate, Atom, Call, Comparison, Constant, Expression, Rule, Rules, Variable
from tests.reference.changes import Row, ZSet

OPERATORS = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
Relations = Mapping[str, Mapping[Row, int]]
Binding = dict[str, Any]
Weighed = tuple[Binding, int]


def evaluate(rules: Rules, relations: Relations, bag: bool) -> dict[str, ZSet]:
    """Every head over the input `relations`, as {head: {row: weight}}."""
    known: dict[str, Mapping[Row, int]] = {name: relations.get(name, {}) for name in rules.inputs}
    for head in rules.heads:
        own = [rule for rule in rules.rules if rule.head.relation == head]
        known[head] = {}
        if any(atom.relation == head for rule in own for atom in rule.read):
            assert not bag, "a recursion is judged over sets"
            while (found := _head(own, known, bag)) != known[head]:
                known[head] = found
        else:
            known[head] = _head(own, known, bag)
    return {head: dict(known[head]) for head in rules.heads}


def _head(rules: list[Rule], known: Relations, bag: bool) -> ZSet:
    total: Counter[Row] = Counter()
    if any(isinstance(term, Call) for term in rules[0].head.terms):
        return _grouped(rules, known, bag)
    for rule in rules:
        for binding, weight in _solutions(rule, known, bag):
            total[tuple(_value(term, binding) for term in rule.head.terms)] += weight
    if bag:
        return {row: weight for row, weight in total.items() if weight}
    return {row: 1 for row, weight in total.items() if weight > 0}


def _grouped(rules: list[Rule], known: Relations, bag: bool) -> ZSet:
    """A head with one aggregate: a count of ways, or the least of the values that there are."""
    groups: dict[Row, list[tuple[Any, int]]] = {}
    ((at, op),) = ((i, term.op) for i, term in enumerate(rules[0].head.terms) if isinstance(term, Call))
    for rule in rules:
        call = rule.head.terms[at]
        assert isinstance(call, Call)
        for binding, weight in _solutions(rule, known, bag):
            keys = [_value(term, binding) for i, term in enumerate(rule.head.terms) if i != at]
            value = None if op == "count" else _value(call.arguments[0], binding)
            if op == "count" or value is not None:
                groups.setdefault(tuple(keys), []).append((value, weight))
    found: ZSet = {}
    for key, members in groups.items():
        result = sum(weight for _, weight in members) if op == "count" else min(value for value, _ in members)
        found[(*key[:at], result, *key[at:])] = 1
    return found


def _solutions(rule: Rule, known: Relations, bag: bool) -> Iterator[Weighed]:
    """The ways to satisfy a rule's body, each way once, with its weight in a bag."""
    yield from _ways(rule, known, bag, {}, _valued(rule))


def _ways(body: Rule | Aggregate, known: Relations, bag: bool, given: Binding, valued: set[str]) -> Iterator[Weighed]:
    waiting: list[Weighed] = [(given, 1)]
    for atom in body.atoms:
        waiting = [
            (extended, weight * (own if bag else 1))
            for binding, weight in waiting
            for row, own in known[atom.relation].items()
            if (extended := _matched(atom, row, binding, valued)) is not None
        ]
    for binding, weight in waiting:
        for comparison in body.comparisons:
            if not _holds(comparison, binding, known, bag, valued):
                break
        else:
            if not any(_is_there(atom, known, binding, valued) for atom in body.negated):
                yield binding, weight


def _holds(comparison: Comparison, binding: Binding, known: Relations, bag: bool, valued: set[str]) -> bool:
    left, right = comparison.left, comparison.right
    if isinstance(right, Aggregate):
        assert isinstance(left, Variable)
        assert comparison.op == "="
        ways = list(_ways(right, known, bag, dict(binding), valued))
        if right.op == "count":
            binding[left.name] = sum(weight for _, weight in ways)
            return True
        assert right.op == "min"
        assert right.value is not None
        values = [value for way, _ in ways if (value := _value(right.value, way)) is not None]
        binding[left.name] = min(values, default=None)
        return bool(values)
    sides = [_value(left, binding), _value(right, binding)]
    if NULL in (left, right):
        return (sides[0] is None and sides[1] is None) == (comparison.op == "=")
    return None not in sides and OPERATORS[comparison.op](*sides)


def _is_there(atom: Atom, known: Relations, binding: Binding, valued: set[str]) -> bool:
    rows = known[atom.relation].items()
    return any(weight > 0 and _matched(atom, row, binding, valued) is not None for row, weight in rows)


def _matched(atom: Atom, row: Row, binding: Binding, valued: set[str]) -> Binding | None:
    """`binding` with what `row` says, or None where the two disagree."""
    found = dict(binding)
    for term, value in zip(atom.terms, row, strict=True):
        if isinstance(term, Constant):
            if value != term.value:
                return None
            continue
        assert isinstance(term, Variable)
        if term.is_wildcard:
            continue
        if value is None and term.name in valued:
            return None
        if found.setdefault(term.name, value) != value:
            return None
    return found


def _valued(rule: Rule) -> set[str]:
    """The variables that take no null: plain ones that stand twice, a test for null aside, and in braces too."""
    count = Counter(term.name for term in _standing(rule) if isinstance(term, Variable) and not term.is_null_safe)
    return {name for name, uses in count.items() if uses > 1}


def _standing(body: Rule | Aggregate) -> Iterator[Expression]:
    for atom in (*body.atoms, *body.negated):
        yield from atom.terms
    for comparison in body.comparisons:
        for side in (comparison.left, comparison.right):
            if isinstance(side, Aggregate):
                yield from _standing(side)
                yield from () if side.value is None else (side.value,)
            elif not comparison.is_null_test:
                yield side


def _value(term: Expression, binding: Binding) -> Any:
    if isinstance(term, Constant):
        return term.value
    assert isinstance(term, Variable)
    return binding[term.name]
