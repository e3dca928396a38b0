"""Eager aggregation: minima and maxima are taken of one atom before it is joined.

The minimum of one atom's column, grouped by columns of other atoms, is that of the minima for each binding of the
variables that the atom shares with the others (Yan and Larson, "Eager aggregation and lazy aggregation", VLDB 1995). So
the join lists one value for each of these, not all.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, replace

from gpu_wcoj.query.ir import (
    NULL,
    Atom,
    Call,
    Comparison,
    Grouping,
    Rule,
    Rules,
    Variable,
    is_total,
)
from gpu_wcoj.query.stratify import EXTREMES, loops_of


def aggregate_early(rules: Rules, complete: Container[str], *, is_single: bool = False) -> Rules:
    """Return an equivalent core program whose minima and maxima over joins are taken before the joins.

    Parameters
    ----------
    complete
        Heads that stay as they are, such as the outputs.
    is_single
        Whether the program is answered once. Otherwise helpers keep all columns of a relation, and need no state.

    Examples
    --------
    >>> from gpu_wcoj.query.datalog import parse
    >>> from gpu_wcoj.query.desugar import desugar
    >>> print(aggregate_early(desugar(parse("m(a, max(c)) :- r(a, b), s(b, c), c > 2.")), ["m"]))
    rule#1#values(b, c) :- s(b, c), c > 2.
    rule#1(a, c) :- rule#1#max(b, c), r(a, b).
    m: max of rule#1 by its first column
    rule#1#max: max of rule#1#values by its first column
    """
    if not any(grouping.op in EXTREMES for grouping in rules.groupings):
        return rules
    uses = _Uses(rules)
    fixed = {*rules.inputs, *loops_of(rules)}
    changed: list[Rule] = []
    groupings = list(rules.groupings)
    for rule in rules.rules:
        name = rule.head.relation
        split = None
        if name not in complete and name not in fixed:
            split = next(filter(None, (_split(rule, column, uses) for column in range(len(rule.head.terms)))), None)
        if split is None:
            changed.append(rule)
            continue
        values, grouping, joined = split.parts(is_single)
        changed += [values, *joined]
        groupings.append(grouping)
    if len(groupings) == len(rules.groupings):
        return rules
    return replace(rules, rules=tuple(changed), groupings=tuple(groupings))


class _Uses:
    """The readers of each head of a program."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.derived: dict[str, list[Rule]] = {}
        self.read: dict[str, list[Rule]] = {}
        self.grouped: dict[str, list[Grouping]] = {}
        for rule in rules.rules:
            self.derived.setdefault(rule.head.relation, []).append(rule)
            for relation in {atom.relation for atom in rule.read}:
                self.read.setdefault(relation, []).append(rule)
        for grouping in rules.groupings:
            self.grouped.setdefault(grouping.source, []).append(grouping)
        self.others = {helper.source for helper in (*rules.first_rows, *rules.computed_groups)}

    def extreme_of(self, head: str, column: int) -> str | None:
        """Return the extreme that all readers of a head take of a column; None if another value may matter."""
        if len(self.derived.get(head, ())) != 1 or head in self.others or head in self.rules.outputs:
            return None
        ops: set[str | None] = set()
        for grouping in self.grouped.get(head, ()):
            ops.add(grouping.op if grouping.keys == column and grouping.op in EXTREMES else None)
        for rule in self.read.get(head, ()):
            if rule.negated or rule.computed or len(rule.atoms) > 1:
                return None
            term = rule.atoms[0].terms[column]
            places = [place for place, other in enumerate(rule.head.terms) if other == term]
            if term == NULL or (isinstance(term, Variable) and term.is_wildcard):
                continue
            is_compared = any(
                term in one.variables and (one.op, one.right) != ("!=", NULL) for one in rule.comparisons
            )
            is_repeated = rule.atoms[0].terms.count(term) > 1
            if not isinstance(term, Variable) or is_compared or is_repeated or len(places) != 1:
                return None
            ops.add(self.extreme_of(rule.head.relation, places[0]))
        return ops.pop() if len(ops) == 1 else None

    def asks_for_null(self, head: str, column: int) -> bool:
        """Return whether a rule reads rows of a head that have no value in a column."""
        for rule in self.read.get(head, ()):
            term = rule.atoms[0].terms[column]
            if not isinstance(term, Variable) or term.is_wildcard:
                return True
            if any(term in one.variables for one in rule.comparisons):  # which null does not meet
                continue
            if self.asks_for_null(rule.head.relation, rule.head.terms.index(term)):
                return True
        return False


@dataclass(frozen=True)
class _Split:
    """A rule whose value is aggregated before its atom is joined.

    Attributes
    ----------
    value, column
        The variable, and its column in the head.
    position
        The place of its atom.
    shared
        The atom's variables that stand elsewhere, too.
    local
        The comparisons that move to the atom.
    has_nulls
        Whether rows without a value are asked for.
    """

    rule: Rule
    value: Variable
    column: int
    op: str
    position: int
    shared: tuple[Variable, ...]
    local: tuple[Comparison, ...]
    has_nulls: bool

    def parts(self, is_single: bool) -> tuple[Rule, Grouping, list[Rule]]:
        """Return the rule of the values, their extremes, and the rules that join these."""
        rule, atom, name = self.rule, self.rule.atoms[self.position], self.rule.head.relation
        columns: list[Variable] = [*self.shared, self.value]
        if not is_single:
            terms = tuple(
                Variable(f"any#{place}") if isinstance(term, Variable) and term.is_wildcard else term
                for place, term in enumerate(atom.terms)
            )
            columns += [term for term in dict.fromkeys(terms) if isinstance(term, Variable) and term not in columns]
            atom = replace(atom, terms=terms)
        values = Rule(Atom(f"{name}#values", tuple(columns)), (atom,), self.local)
        grouping = Grouping(f"{name}#{self.op}", f"{name}#values", len(self.shared), self.op)
        others = (*rule.atoms[: self.position], *rule.atoms[self.position + 1 :])
        comparisons = tuple(one for one in rule.comparisons if one not in self.local)
        best = Atom(grouping.relation, (*self.shared, self.value))
        joined = [replace(rule, atoms=(best, *others), comparisons=comparisons)]
        if self.has_nulls and not any(self.value in one.variables for one in self.local):
            empty = [
                replace(part, terms=tuple(NULL if term == self.value else term for term in part.terms))
                for part in (rule.head, rule.atoms[self.position])
            ]
            joined.append(replace(rule, head=empty[0], atoms=(empty[1], *others)))
        return values, grouping, joined


def _split(rule: Rule, column: int, uses: _Uses) -> _Split | None:
    """Return how a rule's column is aggregated early; None if it cannot be, or if that saves nothing."""
    value = rule.head.terms[column]
    if not isinstance(value, Variable) or value.is_null_safe or rule.head.terms.count(value) > 1:
        return None
    holding = [position for position, atom in enumerate(rule.atoms) if value in atom.terms]
    if len(rule.atoms) < 2 or len(holding) != 1 or any(value in computed.call.variables for computed in rule.computed):
        return None
    atom = rule.atoms[holding[0]]
    others = [other for position, other in enumerate(rule.atoms) if position != holding[0]]
    keys = [term for place, term in enumerate(rule.head.terms) if place != column]
    if all(term in atom.terms for term in keys if isinstance(term, Variable)):
        return None  # the other atoms only have to exist
    if atom.terms.count(value) > 1 or any(isinstance(term, Call) or term == NULL for term in atom.terms):
        return None
    if any(value in other.terms for other in rule.negated):
        return None
    local = tuple(one for one in rule.comparisons if _is_within(one, atom))
    outside = [one for one in rule.comparisons if one not in local]
    if any(value in one.variables for one in outside):
        return None
    op = uses.extreme_of(rule.head.relation, column)
    if op is None:
        return None
    elsewhere = {*keys, *_variables(others), *_variables(rule.negated)}
    for part in (*outside, *(computed.call for computed in rule.computed)):
        elsewhere.update(part.variables)
    shared = [term for term in dict.fromkeys(atom.terms) if isinstance(term, Variable) and term in elsewhere]
    has_nulls = uses.asks_for_null(rule.head.relation, column)
    return _Split(rule, value, column, op, holding[0], tuple(shared), local, has_nulls)


def _variables(atoms: Sequence[Atom]) -> list[Variable]:
    return [variable for atom in atoms for variable in atom.variables if not variable.is_wildcard]


def _is_within(comparison: Comparison, atom: Atom) -> bool:
    """Return whether a comparison is total and reads variables of an atom only."""
    sides = (comparison.left, comparison.right)
    return bool(comparison.variables) and set(comparison.variables).issubset(atom.terms) and all(map(is_total, sides))
