"""Branches to rules: names of variables, and tests for null."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from gpu_wcoj.query.ir import (
    AGGREGATES,
    FUNCTIONS,
    NULL,
    Atom,
    Call,
    Comparison,
    Constant,
    Expression,
    Variable,
    valued_variables,
    variables_of,
)
from gpu_wcoj.query.rules import Rule
from gpu_wcoj.query.sql.branch import Branch, Values, substituted

_RESERVED = {*AGGREGATES, *FUNCTIONS, "not", "true", "false", "null"}


def rule(head: str, values: Values, branch: Branch, columns: Sequence[str] = ()) -> Rule:
    """Return the rule that derives `head` from a branch.

    Variables are named after `columns`, if there are any.

    Examples
    --------
    >>> x, y, z = Variable("a#1"), Variable("b#1"), Variable("b#2")
    >>> branch = Branch((Atom("r", (x, y)), Atom("s", (z,))), comparisons=(Comparison("=", y, Constant(3)),))
    >>> print(rule("h", (x, z), branch.required([z])))
    h(a, b) :- r(a, 3), s(b), b != null.
    """
    atoms, comparisons = _with_constants(branch, values)
    tested = frozenset(
        valued_variables(part for comparison in comparisons for part in (comparison.left, comparison.right))
    )
    calculated = frozenset(valued_variables(value for value in values if isinstance(value, Call)))
    standing = Counter(term for atom in atoms for term in atom.terms)
    negated = {term for atom in branch.negated for term in atom.terms}
    solid = branch.solid | branch.non_null
    for variable in sorted(branch.solid - branch.non_null - tested - calculated, key=str):
        if standing[variable] and (standing[variable] == 1 and variable not in negated):
            comparisons = (*comparisons, Comparison("!=", variable, NULL))
    used = {
        *variables_of([*values, *(part for comparison in comparisons for part in (comparison.left, comparison.right))]),
        *negated,
    }
    preferred_names: dict[Variable, str] = {}
    for value, name in zip(values, columns, strict=False):
        if isinstance(value, Variable):
            _ = preferred_names.setdefault(value, name)
    names = _names(
        atoms, {variable for variable in standing if variable in used or standing[variable] > 1}, preferred_names
    )
    for variable in branch.safe - solid:
        if variable in names and not variable.is_wildcard:
            names[variable] = Variable(f"{names[variable].name}?")

    def renamed(atom: Atom) -> Atom:
        return replace(atom, terms=tuple(substituted(term, names) for term in atom.terms))

    return Rule(
        Atom(head, tuple(substituted(value, names) for value in values)),
        tuple(map(renamed, atoms)),
        tuple(
            replace(comparison, left=substituted(comparison.left, names), right=substituted(comparison.right, names))
            for comparison in comparisons
        ),
        tuple(map(renamed, branch.negated)),
    )


def _with_constants(branch: Branch, values: Values) -> tuple[tuple[Atom, ...], tuple[Comparison, ...]]:
    """Return atoms and comparisons with single-use variables replaced by constants."""
    places = Counter(term for atom in (*branch.atoms, *branch.negated) for term in atom.terms)
    for comparison in branch.comparisons:
        places.update(variables_of([comparison.left, comparison.right]))
    value_variables = frozenset(variables_of(values))
    constants: dict[Variable, Constant] = {}
    comparisons = []
    for comparison in branch.comparisons:
        left, right = comparison.left, comparison.right
        is_alone = isinstance(left, Variable) and places[left] == 2 and left not in value_variables
        stands = is_alone and any(left in atom.terms for atom in branch.atoms)
        if (
            comparison.op == "="
            and stands
            and isinstance(left, Variable)
            and isinstance(right, Constant)
            and right != NULL
        ):
            constants[left] = right
            continue
        comparisons.append(comparison)
    atoms = tuple(
        replace(
            atom, terms=tuple(constants.get(term, term) if isinstance(term, Variable) else term for term in atom.terms)
        )
        for atom in branch.atoms
    )
    return atoms, tuple(comparisons)


def _names(
    atoms: tuple[Atom, ...], used: Collection[Expression], preferred_names: Mapping[Variable, str]
) -> dict[Variable, Variable]:
    """Return for each variable a legal and unused name, preferably of its column."""
    names: dict[Variable, Variable] = {}
    taken: set[str] = set()
    n_wildcards = 0
    standing = variables_of(term for atom in atoms for term in atom.terms)
    for variable in sorted(standing, key=lambda variable: variable not in preferred_names):
        if variable not in used:
            n_wildcards += 1
            names[variable] = Variable(f"_#{n_wildcards}")
            continue
        base = re.sub(r"\W", "_", preferred_names.get(variable) or variable.name.split("#")[0])
        if not re.match(r"[^\W\d]", base) or base in _RESERVED:
            base = f"c{base}"
        suffix, name = 1, base
        while name in taken:
            suffix += 1
            name = f"{base}_{suffix}"
        taken.add(name)
        names[variable] = Variable(name)
    return names
