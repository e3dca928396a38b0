"""Acyclicity of a query, by removing ears from its atoms."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Reduction:
    """Atoms of a query after all ears are removed.

    Attributes
    ----------
    ears
        (ear, atom that holds the variables that the ear shares with other atoms, None if it shares none), in the order
        of removal: a join forest, children before their parents.
    core
        The atoms that are left, none if the query is acyclic.
    """

    ears: tuple[tuple[int, int | None], ...]
    core: tuple[int, ...]


def reduce(atoms: Sequence[Collection[str]]) -> Reduction:
    """Remove ears, the first in the body first.

    An atom is an ear if one other atom holds every variable that it shares with any other (Graham 1979; Yu and
    Ozsoyoglu 1979). O(atoms cubed x variables).

    Parameters
    ----------
    atoms
        Per atom its variables.

    Examples
    --------
    >>> reduce(["ab", "bc", "cd"])
    Reduction(ears=((0, 1), (1, 2), (2, None)), core=())
    >>> reduce(["ab", "bc", "ca", "cd"])
    Reduction(ears=((3, 1),), core=(0, 1, 2))
    """
    sets = [frozenset(atom) for atom in atoms]
    left = dict.fromkeys(range(len(sets)))
    ears: list[tuple[int, int | None]] = []
    while left:
        for ear in left:
            other_atoms = [atom for atom in left if atom != ear]
            shared = sets[ear] & frozenset[str]().union(*(sets[atom] for atom in other_atoms))
            holder = next((atom for atom in other_atoms if shared <= sets[atom]), None)
            if not shared or holder is not None:
                ears.append((ear, holder if shared else None))
                del left[ear]
                break
        else:
            break
    return Reduction(tuple(ears), tuple(left))


def is_acyclic(atoms: Sequence[Collection[str]]) -> bool:
    """Return True if the query has a join forest.

    Examples
    --------
    >>> is_acyclic(["ab", "bc", "cd"]), is_acyclic(["ab", "bc", "ca"]), is_acyclic(["ab", "bc", "ca", "abc"])
    (True, False, True)
    """
    return not reduce(atoms).core
