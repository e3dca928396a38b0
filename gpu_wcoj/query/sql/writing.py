"""From a branch to a rule: variables get the names of columns, and what may be null is said."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from gpu_wcoj.query.rules import Rule
from gpu_wcoj.query.sql.branch import Branch, Values, substituted
from gpu_wcoj.query.terms import (
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

_RESERVED = {*AGGREGATES, *FUNCTIONS, "not", "true", "false", "null"}


def rule(head: str, values: Values, branch: Branch, columns: Sequence[str] = ()) -> Rule:
    """The rule that derives `head` of a branch; variables have the names of its `columns`, if they are given.

    Examples
    --------
    >>> x, y, z = Variable("a#1"), Variable("b#1"), Variable("b#2")
    >>> branch = Branch((Atom("r", (x, y)), Atom("s", (z,))), comparisons=(Comparison("=", y, Constant(3)),))
    >>> print(rule("h", (x, z), branch.required([z])))
    h(a, b) :- r(a, 3), s(b), b != null.
    """
    atoms, comparisons = _with_constants(branch, values)
    tested = frozenset(valued_variables(part for one in comparisons for part in (one.left, one.right)))
    calculated = frozenset(valued_variables(one for one in values if isinstance(one, Call)))
    standing = Counter(term for atom in atoms for term in atom.terms)
    negated = {term for atom in branch.negated for term in atom.terms}
    solid = branch.solid | branch.known
    for one in sorted(branch.solid - branch.known - tested - calculated, key=str):
        if standing[one] and (standing[one] == 1 and one not in negated):
            comparisons = (*comparisons, Comparison("!=", one, NULL))
    shown = {*variables_of([*values, *(part for one in comparisons for part in (one.left, one.right))]), *negated}
    wanted: dict[Variable, str] = {}
    for value, name in zip(values, columns, strict=False):
        if isinstance(value, Variable):
            _ = wanted.setdefault(value, name)
    names = _names(atoms, {one for one in standing if one in shown or standing[one] > 1}, wanted)
    for one in branch.safe - solid:
        if one in names and not one.is_wildcard:
            names[one] = Variable(f"{names[one].name}?")

    def renamed(atom: Atom) -> Atom:
        return replace(atom, terms=tuple(substituted(term, names) for term in atom.terms))

    return Rule(
        Atom(head, tuple(substituted(one, names) for one in values)),
        tuple(map(renamed, atoms)),
        tuple(
            replace(one, left=substituted(one.left, names), right=substituted(one.right, names)) for one in comparisons
        ),
        tuple(map(renamed, branch.negated)),
    )


def _with_constants(branch: Branch, values: Values) -> tuple[tuple[Atom, ...], tuple[Comparison, ...]]:
    """Atoms and comparisons, with constants in the place of variables that stand nowhere else."""
    places = Counter(term for atom in (*branch.atoms, *branch.negated) for term in atom.terms)
    for one in branch.comparisons:
        places.update(variables_of([one.left, one.right]))
    kept = frozenset(variables_of(values))
    found: dict[Variable, Constant] = {}
    comparisons = []
    for one in branch.comparisons:
        left, right = one.left, one.right
        is_alone = isinstance(left, Variable) and places[left] == 2 and left not in kept
        stands = is_alone and any(left in atom.terms for atom in branch.atoms)
        if one.op == "=" and stands and isinstance(left, Variable) and isinstance(right, Constant) and right != NULL:
            found[left] = right
            continue
        comparisons.append(one)
    atoms = tuple(
        replace(atom, terms=tuple(found.get(one, one) if isinstance(one, Variable) else one for one in atom.terms))
        for atom in branch.atoms
    )
    return atoms, tuple(comparisons)


def _names(
    atoms: tuple[Atom, ...], shown: Collection[Expression], wanted: Mapping[Variable, str]
) -> dict[Variable, Variable]:
    """Per variable a name that the text of a rule can have: its column's, with a number where it is taken."""
    found: dict[Variable, Variable] = {}
    taken: set[str] = set()
    n_wildcards = 0
    standing = variables_of(term for atom in atoms for term in atom.terms)
    for one in sorted(standing, key=lambda one: one not in wanted):
        if one not in shown:
            n_wildcards += 1
            found[one] = Variable(f"_#{n_wildcards}")
            continue
        base = re.sub(r"\W", "_", wanted.get(one) or one.name.split("#")[0])
        if not re.match(r"[^\W\d]", base) or base in _RESERVED:
            base = f"c{base}"
        number, name = 1, base
        while name in taken:
            number += 1
            name = f"{base}_{number}"
        taken.add(name)
        found[one] = Variable(name)
    return found
