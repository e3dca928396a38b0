"""Projection and selection pushdown: joins read narrower, filtered copies of relations.

A column that stands in one atom only has to exist. In a bag, a join is linear in each of its relations, and the weights
of rows add up under projection. So an atom over an input may read a helper with only the columns that the rule uses,
whose weights are the sums over all rows that agree in them. In a set, the helper has each such row once, and counts its
derivations, so that a tick joins a row that comes or goes, and not each of its derivations. Comparisons and constants
that concern only that atom move into the rule of the helper. Arrangements become narrower and fewer, and a change that
no query depends on ends at the helper.

A count or sum over the bindings of a join needs no list of them either: of a set, the numbers of derivations of its
keys and values are enough.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, replace

from gpu_wcoj.query.desugar import ZERO
from gpu_wcoj.query.ir import (
    NULL,
    Atom,
    Call,
    Comparison,
    Expression,
    Grouping,
    Rule,
    Rules,
    Variable,
    body_signature,
    is_total,
    numbered_variables,
    variables_of,
)
from gpu_wcoj.query.safety import inner_aggregates, rewritten
from gpu_wcoj.query.stratify import EXTREMES, guarded, loops_of

_LINEAR = ("count", "sum", "mean")
"""Aggregates that follow from the numbers of equal values."""


def narrow_inputs(rules: Rules) -> Rules:
    """Return an equivalent program for bags, with joins over narrowed inputs.

    Examples
    --------
    >>> from gpu_wcoj.query.datalog import parse
    >>> print(narrow_inputs(parse('h(x, v) :- r(x, y, _, "a"), s(y, v, d), d < "2000-01-01".')))
    r#cut1(c0, c1) :- r(c0, c1, _, "a").
    s#cut2(c0, c1) :- s(c0, c1, c2), c2 < "2000-01-01".
    h(x, v) :- r#cut1(x, y), s#cut2(y, v).
    """
    rules = guarded(rules)  # needs the original atoms, before helpers replace some
    inputs = set(rules.inputs).difference(rules.heads)
    narrowing = _Narrowing("cut")
    return narrowing.applied(rules, [narrowing.narrow_rule(rule, inputs) for rule in rules.rules])


def project_sets(rules: Rules) -> Rules:
    """Return an equivalent core program for sets; no join reads a column that only has to exist.

    Atoms over the recursion of their rule stay as they are.

    Examples
    --------
    >>> from gpu_wcoj.query.datalog import parse
    >>> print(project_sets(parse("h(x, v) :- r(x, y, _), s(y, d), t(x, v), d > 2, !u(v).")))
    r#some1(c0, c1) :- r(c0, c1, _).
    s#some2(c0) :- s(c0, c1), c1 > 2.
    h(x, v) :- r#some1(x, y), s#some2(y), t(x, v), !u(v).
    """
    loops = loops_of(rules)
    relations = {*rules.inputs, *rules.heads}
    narrowing = _Narrowing("some", keeps_selections=True)
    changed = [
        rule
        if rule.head.relation in rules.derivation_sources
        else narrowing.narrow_rule(rule, relations.difference(loops.get(rule.head.relation, ())))
        for rule in rules.rules
    ]
    return narrowing.applied(rules, changed)


def group_derivations(rules: Rules, complete: Container[str]) -> Rules:
    """Return an equivalent core program for sets; counts and sums list no bindings.

    A relation of bindings that only counts, sums and means read becomes one of their keys and values. Each binding is a
    derivation of its row there, and these are aggregated. Bindings of a body that several rules have stay as they are:
    they are listed once for all of these.

    Parameters
    ----------
    complete
        Heads that stay as they are, such as the outputs.

    Examples
    --------
    >>> from gpu_wcoj.query.datalog import parse
    >>> from gpu_wcoj.query.desugar import desugar
    >>> print(group_derivations(desugar(parse("n(a, sum(c)) :- r(a, b), s(b, c).")), ["n"]))
    rule#1#groups(a, c) :- r(a, b), s(b, c).
    n: sum of the derivations of rule#1#groups by its first column
    """
    readers: dict[str, list[Grouping]] = {}
    for grouping in rules.groupings:
        readers.setdefault(grouping.source, []).append(grouping)
    if not readers:
        return rules
    heads = Counter(rule.head.relation for rule in rules.rules)
    read = {atom.relation for rule in rules.rules for atom in rule.read}.union(
        _sources_of_other_helpers(rules), loops_of(rules), rules.inputs
    )
    narrowed: dict[str, int] = {}
    bodies = [body_signature(rule, numbered_variables(rule)) for rule in rules.rules]
    n_rules = Counter(bodies)
    for rule, body in zip(rules.rules, bodies, strict=True):
        name, terms = rule.head.relation, rule.head.terms
        groupings = readers.get(name, ())
        if not groupings or heads[name] > 1 or name in read or name in complete:
            continue
        if n_rules[body] > 1:
            continue
        n_read = max(grouping.keys + (grouping.op != "count") for grouping in groupings)
        bound = {variable for atom in rule.atoms for variable in atom.variables}
        is_join = len(rule.atoms) + len(rule.negated) > 1  # else the source is another relation's rows
        is_linear = all(grouping.op in _LINEAR for grouping in groupings)
        if is_join and is_linear and bound.issubset(terms) and len(terms) > max(n_read, 1):
            narrowed[name] = n_read
    if not narrowed:
        return rules

    def narrow(rule: Rule) -> Rule:
        name, terms = rule.head.relation, rule.head.terms
        if name not in narrowed:
            return rule
        return replace(rule, head=Atom(f"{name}#groups", terms[: narrowed[name]] or (ZERO,)))

    def count(grouping: Grouping) -> Grouping:
        if grouping.source not in narrowed:
            return grouping
        return replace(grouping, source=f"{grouping.source}#groups", is_weighted=True, of_derivations=True)

    return replace(rules, rules=tuple(map(narrow, rules.rules)), groupings=tuple(map(count, rules.groupings)))


class _Narrowing:
    """Narrowed copies of relations, by the atom, columns and comparisons that define them.

    Parameters
    ----------
    suffix
        Part of the names of the copies.
    keeps_selections
        Whether comparisons of variables that are used elsewhere stay in the rule, and an atom that has no other
        variables stays as it is.
    """

    def __init__(self, suffix: str, keeps_selections: bool = False) -> None:
        self.suffix, self.keeps_selections = suffix, keeps_selections
        self.helpers: dict[tuple[Atom, tuple[Expression, ...], tuple[Comparison, ...]], Rule] = {}

    def applied(self, rules: Rules, changed: Sequence[Rule]) -> Rules:
        """Return a program with the changed rules and the helpers, if there are any."""
        return replace(rules, rules=(*self.helpers.values(), *changed)) if self.helpers else rules

    def narrow_rule(self, rule: Rule, relations: Container[str]) -> Rule:
        """Return the rule over helpers of these relations; a rule without a join stays as it is."""
        if len(rule.atoms) + len(rule.negated) < 2 or inner_aggregates(rule):
            return rule
        comparisons = list(rule.comparisons)
        atoms = list(rule.atoms)
        for position, atom in enumerate(rule.atoms):
            if (
                atom.relation not in relations
                or NULL in atom.terms
                or any(isinstance(term, Call) for term in atom.terms)
            ):
                continue
            other_atoms = [*atoms[:position], *atoms[position + 1 :]]
            local_comparisons = [comparison for comparison in comparisons if _is_about(comparison, atom)]
            if self.keeps_selections:
                elsewhere = set(_used(rule, other_atoms, ()))
                local_comparisons = [one for one in local_comparisons if not elsewhere.issuperset(one.variables)]
            comparisons = [comparison for comparison in comparisons if comparison not in local_comparisons]
            used = set(_used(rule, other_atoms, comparisons))
            used_variables = [term for term in dict.fromkeys(atom.terms) if isinstance(term, Variable) and term in used]
            is_narrower = len(used_variables) < len(set(atom.variables) if self.keeps_selections else atom.terms)
            if is_narrower or (local_comparisons and not self.keeps_selections):
                atoms[position] = self._helper(atom, used_variables, local_comparisons)
            else:
                comparisons += local_comparisons
        return replace(rule, atoms=tuple(atoms), comparisons=tuple(comparisons))

    def _helper(self, atom: Atom, variables: Sequence[Variable], comparisons: Sequence[Comparison]) -> Atom:
        """Return an atom over the helper that holds `variables` of an atom."""
        names: dict[Expression, Variable] = {}
        for column, term in enumerate(atom.terms):
            if isinstance(term, Variable):
                is_left_out = (
                    term not in variables and atom.terms.count(term) == 1 and not _stands_in(term, comparisons)
                )
                name = f"_#{column}" if is_left_out else f"c{column}{'?' * term.is_null_safe}"
                names.setdefault(term, Variable(name))
        terms = tuple(names.get(term, term) for term in atom.terms)
        compared = tuple(
            rewritten(comparison, lambda variable: names.get(variable, variable)) for comparison in comparisons
        )
        head = tuple(names[variable] for variable in variables) or (ZERO,)
        key = replace(atom, terms=terms), head, compared
        if key not in self.helpers:
            name = f"{atom.relation}#{self.suffix}{len(self.helpers) + 1}"
            self.helpers[key] = Rule(Atom(name, head), (key[0],), compared)
        return replace(atom, relation=self.helpers[key].head.relation, terms=tuple(variables) or (ZERO,))


def _is_about(comparison: Comparison, atom: Atom) -> bool:
    """Return whether a comparison is total and has variables of one atom only."""
    sides = (comparison.left, comparison.right)
    variables = variables_of(sides)
    return bool(variables) and all(variable in atom.terms for variable in variables) and all(map(is_total, sides))


def _stands_in(term: Variable, comparisons: Sequence[Comparison]) -> bool:
    return any(term in comparison.variables for comparison in comparisons)


def _used(rule: Rule, other_atoms: Sequence[Atom], comparisons: Sequence[Comparison]) -> Iterator[Variable]:
    """Yield the variables that occur in a rule outside of one atom."""
    yield from rule.head.variables
    for atom in (*other_atoms, *rule.negated):
        yield from atom.variables
    for comparison in comparisons:
        yield from comparison.variables
    for computed in rule.computed:
        yield computed.variable
        yield from computed.call.variables


# Eager aggregation: minima and maxima are taken of one atom before it is joined.
#
# The minimum of one atom's column, grouped by columns of other atoms, is that of the minima for each binding of the
# variables that the atom shares with the others (Yan and Larson, "Eager aggregation and lazy aggregation", VLDB 1995).
# So the join lists one value for each of these, not all.


def aggregate_early(rules: Rules, complete: Container[str], *, is_single: bool = False) -> Rules:
    """Return an equivalent core program with minima and maxima taken before joins.

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
        self.other_sources = _sources_of_other_helpers(rules)

    def extreme_of(self, head: str, column: int) -> str | None:
        """Return the extreme that readers take of a head's column; None if other values matter."""
        if len(self.derived.get(head, ())) != 1 or head in self.other_sources or head in self.rules.outputs:
            return None
        ops: set[str | None] = set()
        for grouping in self.grouped.get(head, ()):
            ops.add(grouping.op if grouping.keys == column and grouping.op in EXTREMES else None)
        for rule in self.read.get(head, ()):
            if rule.negated or rule.computed or len(rule.atoms) != 1:
                return None
            term = rule.atoms[0].terms[column]
            places = [place for place, other in enumerate(rule.head.terms) if other == term]
            if term == NULL or (isinstance(term, Variable) and term.is_wildcard):
                continue
            is_compared = any(term in one.variables and (one.op, one.right) != ("!=", NULL) for one in rule.comparisons)
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
    """Return how a rule's column is aggregated early; None if it cannot be, or saves nothing."""
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
    local = tuple(one for one in rule.comparisons if _is_about(one, atom))
    outside = [one for one in rule.comparisons if one not in local]
    if any(value in one.variables for one in outside):
        return None
    op = uses.extreme_of(rule.head.relation, column)
    if op is None:
        return None
    elsewhere = {*keys, *_variables(others), *_variables(rule.negated)}
    for comparison in outside:
        elsewhere.update(comparison.variables)
    for computed in rule.computed:
        elsewhere.update(computed.call.variables)
    shared = [term for term in dict.fromkeys(atom.terms) if isinstance(term, Variable) and term in elsewhere]
    has_nulls = uses.asks_for_null(rule.head.relation, column)
    return _Split(rule, value, column, op, holding[0], tuple(shared), local, has_nulls)


def _variables(atoms: Sequence[Atom]) -> list[Variable]:
    return [variable for atom in atoms for variable in atom.variables if not variable.is_wildcard]


def _sources_of_other_helpers(rules: Rules) -> set[str]:
    """Return the relations that helpers other than groupings read."""
    return {helper.source for helper in rules.helpers if not isinstance(helper, Grouping)}
