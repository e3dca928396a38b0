"""Atoms of a body that seem to be each other's images: to count from one of them costs what it costs from another.

They are told apart by colour refinement of the variables: two have the same colour while the atoms that they stand in
cannot be told apart. An automorphism of the body keeps colours, the reverse need not hold, so this is for costs only.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeVar

from gpu_wcoj.join.path import AtomUse, DeltaPath, DeltaQuery

_T = TypeVar("_T", bound=Hashable)


def unlike(query: DeltaQuery) -> tuple[int, ...]:
    """The numbers of the paths of positive atoms, of those that seem to be images of each other the first.

    Two are, if their seeds are and they take the same numbers of atoms in their steps. What the head keeps does not
    matter. O(variables * columns of the body) for the colours, at most.

    Examples
    --------
    >>> from gpu_wcoj.join.path import Step
    >>> from gpu_wcoj.trace.arrangement import ArrangementKey
    >>> names = ["ab", "bc", "ca", "ad"]  # a triangle with a tail at a
    >>> uses = [AtomUse(at, ArrangementKey("e", (0, 1)), tuple(pair)) for at, pair in enumerate(names)]
    >>> def paths(uses, steps):
    ...     rest = [uses[:at] + uses[at + 1 :] for at in range(len(uses))]
    ...     return tuple(DeltaPath((use,), tuple(own), (), steps) for use, own in zip(uses, rest, strict=True))
    >>> unlike(DeltaQuery("", ("a", "b", "c"), paths(uses[:3], (Step("c", (1, 2)),))))
    (0,)
    >>> unlike(DeltaQuery("", ("a", "b", "c"), paths(uses, (Step("c", (1, 2)), Step("d", (3,))))))
    (0, 1, 2, 3)
    """
    numbers = [number for number, path in enumerate(query.paths) if not path.is_negated]
    if len(numbers) < 2:
        return tuple(numbers)
    colours = _colours(query.paths[numbers[0]])
    first: dict[Hashable, int] = {}
    for number in numbers:
        path = query.paths[number]
        steps = tuple((len(step.atoms), step.is_lookup, len(step.conditions)) for step in path.steps)
        first.setdefault((_seen(path.seed, colours), steps), number)
    return tuple(first.values())


def _colours(path: DeltaPath) -> dict[str, int]:
    """The variables' colours, once no round tells more of them apart."""
    uses = (path.seed, *path.others, *(check.use for check in path.absent))
    compared = [
        name
        for condition in (*path.seed_conditions, *(one for step in path.steps for one in step.conditions))
        for name in (condition.variable, condition.other)
    ]
    names = dict.fromkeys(name for use in uses for name in use.variables)
    colours = _numbered({name: compared.count(name) for name in names})
    while True:
        places: dict[str, list[tuple[int, int]]] = {name: [] for name in names}
        atoms = _numbered({number: _seen(use, colours) for number, use in enumerate(uses)})
        for number, use in enumerate(uses):
            for column, name in zip(use.key.order, use.variables, strict=True):
                places[name].append((atoms[number], column))
        finer = _numbered({name: (colours[name], tuple(sorted(held))) for name, held in places.items()})
        if len(set(finer.values())) == len(set(colours.values())):
            return colours
        colours = finer


def _seen(use: AtomUse, colours: dict[str, int]) -> Hashable:
    """What tells an atom from others: its rows, and the colours in its columns."""
    key = use.key
    columns = sorted(zip(key.order, (colours[name] for name in use.variables), strict=True))
    return key.relation, key.constants, key.equal, key.compared, use.atom < 0, tuple(columns)


def _numbered(found: dict[_T, Hashable]) -> dict[_T, int]:
    """The same, the values by number."""
    numbers: dict[Hashable, int] = {}
    return {name: numbers.setdefault(value, len(numbers)) for name, value in found.items()}
