"""What a program means: its heads from scratch, by trying every row of every atom. Slow, and meant to be obvious."""

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Iterator, Mapping

from gpu_wcoj.query.ir import Atom, Comparison, Constant, Rule, Rules, Term, Variable
from tests.reference.changes import Row, ZSet

OPERATORS = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
Binding = dict[Variable, object]


def evaluate(rules: Rules, relations: Mapping[str, Mapping[Row, int]], bag: bool) -> dict[str, ZSet]:
    """Every head of `rules` over the input `relations`, as {head: {row: weight}}.

    In a bag, the weights of the joined rows multiply, and the weights of all ways to derive one row add. In a set,
    every weight is 1. NULL (None) joins with nothing and satisfies no comparison; a variable that stands once in the
    body and in no comparison carries it to the head.
    """
    known: dict[str, Mapping[Row, int]] = {name: relations.get(name, {}) for name in rules.inputs}
    while len(known) < len(rules.inputs) + len(rules.heads):
        for head in rules.heads:
            own = [rule for rule in rules.rules if rule.head.relation == head]
            if head not in known and all(atom.relation in known for rule in own for atom in rule.atoms):
                known[head] = _union(own, known, bag)
    return {head: dict(known[head]) for head in rules.heads}


def _union(rules: list[Rule], known: Mapping[str, Mapping[Row, int]], bag: bool) -> ZSet:
    total: ZSet = defaultdict(int)
    for rule in rules:
        for row, weight in _derived(rule, known):
            total[row] += weight
    if bag:
        return {row: weight for row, weight in total.items() if weight}
    return {row: 1 for row, weight in total.items() if weight > 0}


def _derived(rule: Rule, known: Mapping[str, Mapping[Row, int]]) -> Iterator[tuple[Row, int]]:
    """(head row, weight) for every way to satisfy the body."""
    joined = _joined(rule)

    def extend(number: int, binding: Binding, weight: int) -> Iterator[tuple[Row, int]]:
        if number == len(rule.atoms):
            full = _completed(rule.comparisons, binding)
            if full is not None:
                yield tuple(_value(term, full) for term in rule.head.terms), weight
            return
        for row, own in indexes[number](binding):
            extended = _matched(rule.atoms[number], row, binding, joined)
            if extended is not None:
                yield from extend(number + 1, extended, weight * own)

    bound: set[Variable] = set()
    indexes = []
    for atom in rule.atoms:
        indexes.append(_Lookup(atom, known[atom.relation], bound))
        bound |= set(atom.variables)
    yield from extend(0, {}, 1)


def _joined(rule: Rule) -> set[Variable]:
    """The variables that NULL may not bind: those that stand twice in the body, comparisons included."""
    places = [term for atom in rule.atoms for term in atom.terms]
    places += [term for comparison in rule.comparisons for term in (comparison.left, comparison.right)]
    return {term for term in places if isinstance(term, Variable) and places.count(term) > 1}


class _Lookup:
    """The rows of one atom's relation, by the values in the columns that are known when its turn comes."""

    def __init__(self, atom: Atom, rows: Mapping[Row, int], bound: set[Variable]) -> None:
        self.terms = atom.terms
        self.keys = [i for i, term in enumerate(atom.terms) if isinstance(term, Constant) or term in bound]
        self.rows: dict[Row, list[tuple[Row, int]]] = defaultdict(list)
        for row, weight in rows.items():
            self.rows[tuple(row[i] for i in self.keys)].append((row, weight))

    def __call__(self, binding: Binding) -> list[tuple[Row, int]]:
        return self.rows.get(tuple(_value(self.terms[i], binding) for i in self.keys), [])


def _matched(atom: Atom, row: Row, binding: Binding, joined: set[Variable]) -> Binding | None:
    """`binding` with what `row` says, or None where the two disagree."""
    found = dict(binding)
    for term, value in zip(atom.terms, row, strict=True):
        if value is None and (isinstance(term, Constant) or term in joined):
            return None
        if value != (term.value if isinstance(term, Constant) else found.setdefault(term, value)):
            return None
    return found


def _completed(comparisons: tuple[Comparison, ...], binding: Binding) -> Binding | None:
    """`binding` with what equalities bind, or None where a comparison does not hold."""
    found = dict(binding)
    waiting = list(comparisons)
    while waiting:
        for comparison in waiting:
            left, right = _value(comparison.left, found), _value(comparison.right, found)
            if left is not UNBOUND and right is not UNBOUND:
                if left is None or right is None or not OPERATORS[comparison.op](left, right):
                    return None
            elif comparison.op == "=" and left is not UNBOUND and isinstance(comparison.right, Variable):
                found[comparison.right] = left
            elif comparison.op == "=" and right is not UNBOUND and isinstance(comparison.left, Variable):
                found[comparison.left] = right
            else:
                continue
            waiting.remove(comparison)
            break
    return found


UNBOUND = object()


def _value(term: Term, binding: Binding) -> object:
    return term.value if isinstance(term, Constant) else binding.get(term, UNBOUND)
