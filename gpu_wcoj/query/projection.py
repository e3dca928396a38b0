"""Projection and selection pushdown: joins read narrower, filtered copies of their relations.

In a bag, a join is linear in each of its relations, and the weights of rows add up under projection. So an atom over an
input may read a helper with only the columns that the rule uses, whose weights are the sums over all rows that agree in
them. Comparisons and constants that concern only that atom move into the rule of the helper. Arrangements become
narrower and fewer, and a change that no query depends on ends at the helper. This is for programs over tables of many
columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from gpu_wcoj.query.ir import (
    NULL,
    Atom,
    Call,
    Comparison,
    Expression,
    Rule,
    Rules,
    Variable,
    is_total,
    variables_of,
)
from gpu_wcoj.query.safety import inner_aggregates
from gpu_wcoj.query.stratify import guarded


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
    narrowing = _Narrowing(set(rules.inputs).difference(rules.heads))
    changed = [narrowing.narrow_rule(rule) for rule in rules.rules]
    return replace(rules, rules=(*narrowing.helpers.values(), *changed)) if narrowing.helpers else rules


class _Narrowing:
    """Narrowed copies of inputs, by the atom, columns and comparisons that define them."""

    def __init__(self, inputs: set[str]) -> None:
        self.inputs = inputs
        self.helpers: dict[tuple[Atom, tuple[Expression, ...], tuple[Comparison, ...]], Rule] = {}

    def narrow_rule(self, rule: Rule) -> Rule:
        """Return the rule over helpers; a rule without a join is returned as it is."""
        if len(rule.atoms) + len(rule.negated) < 2 or inner_aggregates(rule):
            return rule
        comparisons = list(rule.comparisons)
        atoms = list(rule.atoms)
        for position, atom in enumerate(rule.atoms):
            if (
                atom.relation not in self.inputs
                or NULL in atom.terms
                or any(isinstance(term, Call) for term in atom.terms)
            ):
                continue
            local_comparisons = [comparison for comparison in comparisons if _is_about(comparison, atom)]
            comparisons = [comparison for comparison in comparisons if comparison not in local_comparisons]
            other_atoms = [*atoms[:position], *atoms[position + 1 :]]
            used = set(_used(rule, other_atoms, comparisons))
            used_variables = [term for term in dict.fromkeys(atom.terms) if isinstance(term, Variable) and term in used]
            if used_variables and (local_comparisons or len(used_variables) < len(atom.terms)):
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
            replace(comparison, left=_renamed(comparison.left, names), right=_renamed(comparison.right, names))
            for comparison in comparisons
        )
        head = tuple(names[variable] for variable in variables)
        key = replace(atom, terms=terms), head, compared
        if key not in self.helpers:
            name = f"{atom.relation}#cut{len(self.helpers) + 1}"
            self.helpers[key] = Rule(Atom(name, head), (key[0],), compared)
        return replace(atom, relation=self.helpers[key].head.relation, terms=tuple(variables))


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


def _renamed(expression: Expression, names: dict[Expression, Variable]) -> Expression:
    if isinstance(expression, Call):
        return replace(expression, arguments=tuple(_renamed(argument, names) for argument in expression.arguments))
    return names.get(expression, expression)
