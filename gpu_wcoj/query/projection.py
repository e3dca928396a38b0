"""Projection and selection pushdown: joins read narrower, filtered copies of relations.

A column that stands in one atom only has to exist. In a bag, a join is linear in each of its relations, and the weights
of rows add up under projection. So an atom over an input may read a helper with only the columns that the rule uses,
whose weights are the sums over all rows that agree in them. In a set, the helper has each such row once, and counts its
derivations, so that a tick joins a row that comes or goes, and not each of its derivations. Comparisons and constants
that concern only that atom move into the rule of the helper. Arrangements become narrower and fewer, and a change that
no query depends on ends at the helper.

A count or sum over the bindings of a join needs no list of them either: of a set, the numbers of derivations of its keys
and values are enough.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Sequence
from dataclasses import replace

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
    is_total,
    variables_of,
)
from gpu_wcoj.query.safety import inner_aggregates, rewritten
from gpu_wcoj.query.stratify import guarded, loops_of

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
    """Return an equivalent core program for sets whose counts and sums over joins list no bindings.

    A relation of bindings that only counts, sums and means read becomes one of their keys and values. Each binding is a
    derivation of its row there, and these are aggregated.

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
    heads = Counter(rule.head.relation for rule in rules.rules)
    read = {atom.relation for rule in rules.rules for atom in rule.read}.union(
        (helper.source for helper in (*rules.first_rows, *rules.computed_groups)), loops_of(rules), rules.inputs
    )
    narrowed: dict[str, int] = {}
    for rule in rules.rules:
        name, terms = rule.head.relation, rule.head.terms
        groupings = readers.get(name, ())
        if not groupings or heads[name] > 1 or name in read or name in complete:
            continue
        n_read = max(grouping.keys + (grouping.op != "count") for grouping in groupings)
        bound = {variable for atom in rule.atoms for variable in atom.variables}
        is_join = len(rule.atoms) + len(rule.negated) > 1  # else the source is another relation's rows
        if is_join and bound.issubset(terms) and all(grouping.op in _LINEAR for grouping in groupings):
            if len(terms) > max(n_read, 1):
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
