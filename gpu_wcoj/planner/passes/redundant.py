"""Remove atoms that other atoms imply, under set semantics."""

from __future__ import annotations

from dataclasses import replace

from gpu_wcoj.join.plan import check_variables
from gpu_wcoj.planner.body import Body, BodyAtom
from gpu_wcoj.planner.ir import Draft


def drop_redundant_atoms(draft: Draft) -> Draft:
    """Drop atoms that another atom implies.

    An atom is implied if the variables that occur nowhere else can be replaced to give the other atom (Chandra and
    Merlin, "Optimal implementation of conjunctive queries in relational data bases", 1977, doi:10.1145/800105.803397,
    for one atom at a time). In bag semantics every atom counts.

    Examples
    --------
    >>> from tests.planner.examples import draft_program
    >>> from gpu_wcoj.planner.passes.normalise import normalise_rules
    >>> before = draft_program("h(x) :- r(x, y), r(x, u), s(y, 3), s(y, z), r(x, y).", [normalise_rules])
    >>> print(before)
    h: h(x) :- r(x, y), r(x, u), s(y, 3), s(y, z), r(x, y).
      0: r(x, y)
      1: r(x, u)
      2: s(y) where #1 = 3
      3: s(y, z)
      4: r(x, y)
    >>> print(drop_redundant_atoms(before))
    h: h(x) :- r(x, y), r(x, u), s(y, 3), s(y, z), r(x, y).
      0: r(x, y)
      1: s(y) where #1 = 3
    """
    if draft.setting.bag:
        return draft
    return draft.over(lambda one: replace(one, body=_drop_atoms(one.normalised)))


def _drop_atoms(body: Body) -> Body:
    atoms = list(body.atoms)
    for atom_index in range(len(atoms) - 1, -1, -1):
        other_atoms = [atom for i, atom in enumerate(atoms) if i != atom_index]
        private = _private_variables(atoms[atom_index], other_atoms, body)
        if any(_implies(atom, atoms[atom_index], private) for atom in other_atoms):
            del atoms[atom_index]
    return body if len(atoms) == len(body.atoms) else replace(body, atoms=tuple(atoms))


def _private_variables(atom: BodyAtom, other_atoms: list[BodyAtom], body: Body) -> set[str]:
    """Return the variables of an atom that occur nowhere else."""
    read = {name for atom_read in (*other_atoms, *body.negated) for name in atom_read.variables}
    read.update(
        name for checks in (body.conditions, body.calculations) for check in checks for name in check_variables(check)
    )
    read.update(calculation.variable for calculation in body.calculations)
    return set(atom.variables).difference(read, (term for term in body.head if isinstance(term, str)))


def _implies(candidate: BodyAtom, atom: BodyAtom, private: set[str]) -> bool:
    """Return True if rows of `candidate` are rows of `atom` for any values of private variables."""
    if candidate.relation != atom.relation or not set(atom.constants) <= set(candidate.constants):
        return False
    if not set(atom.equal) <= set(candidate.equal) or not set(atom.compared) <= set(candidate.compared):
        return False
    variable_of = dict(zip(candidate.columns, candidate.variables, strict=True))
    return all(
        name in private or variable_of.get(column) == name
        for name, column in zip(atom.variables, atom.columns, strict=True)
    )
