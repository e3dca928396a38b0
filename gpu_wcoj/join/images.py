"""Atoms of a body that seem automorphic: counting from one costs as much as from another.

Colour refinement of the variables distinguishes them: two variables have the same colour while the atoms that hold
them have equal signatures. An automorphism of the body preserves colours; the converse need not hold, so this is for
costs only.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeVar

from gpu_wcoj.join.plan import AtomUse, DeltaPath, DeltaQuery

_Key = TypeVar("_T", bound=Hashable)


def distinct_paths(query: DeltaQuery) -> tuple[int, ...]:
    """Return the indices of positive atoms' paths, the first of each class of similar paths.

    Two paths are similar if their seeds are and each of their steps descends similar atoms, bound in the same columns,
    by the same one: the planner need not order automorphic atoms in the same way. The head's variables do not matter.
    At most O(variables * columns of the body) for the colours.

    Examples
    --------
    >>> from gpu_wcoj.join.plan import Step
    >>> from gpu_wcoj.trace.arrangement import ArrangementKey
    >>> def use(atom, order, names):
    ...     return AtomUse(atom, ArrangementKey("e", order), tuple(names))
    >>> ab, bc, ca = (use(atom, (0, 1), names) for atom, names in enumerate(["ab", "bc", "ca"]))
    >>> ba, cb, ac = (use(atom, (1, 0), names) for atom, names in enumerate(["ba", "cb", "ac"]))
    >>> first = DeltaPath((ab,), (bc, ac), (), (Step("c", (1, 2)),))
    >>> second = DeltaPath((bc,), (ba, ca), (), (Step("a", (0, 2)),))
    >>> third = DeltaPath((ca,), (ab, cb), (), (Step("b", (0, 1)),))
    >>> distinct_paths(DeltaQuery("h(a) :- e(a, b), e(b, c), e(c, a).", ("a",), (first, second, third)))
    (0,)
    """
    numbers = [path_index for path_index, path in enumerate(query.paths) if not path.is_negated]
    if len(numbers) < 2:
        return tuple(numbers)
    path = query.paths[numbers[0]]
    colours = _colours(path)
    uses = (path.seed, *path.other_atoms, *(check.use for check in path.absent))
    atoms = _number_values({use.atom: _atom_signature(use, colours) for use in uses})
    first: dict[Hashable, int] = {}
    for candidate in numbers:
        first.setdefault(_path_signature(query.paths[candidate], atoms), candidate)
    return tuple(first.values())


def _path_signature(path: DeltaPath, atoms: dict[int, int]) -> Hashable:
    """Return a signature of a path's cost, from the colours of the atoms."""
    orders = {use.atom: use.key.order for use in path.other_atoms}
    depth = {atom: bound for atom, bound, _ in path.binding}
    steps: list[Hashable] = []
    for step in path.steps:
        taken = []
        for atom in step.atoms:
            bound = depth.get(atom, 0)
            taken.append((atoms[atom], tuple(sorted(orders[atom][:bound])), orders[atom][bound]))
            depth[atom] = bound + 1
        checks = tuple(type(check).__name__ for check in step.checks)
        steps.append((tuple(sorted(taken)), step.is_lookup, len(step.conditions), checks))
    reached = sorted((atoms[atom], tuple(sorted(orders[atom][:bound]))) for atom, bound, _ in path.binding)
    return atoms[path.seed.atom], tuple(reached), tuple(steps)


def _colours(path: DeltaPath) -> dict[str, int]:
    """Return the variables' colours, once no round refines them further."""
    uses = (path.seed, *path.other_atoms, *(check.use for check in path.absent))
    compared = [
        name
        for condition in (*path.seed_conditions, *(condition for step in path.steps for condition in step.conditions))
        for name in (condition.variable, condition.operand)
    ]
    names = dict.fromkeys(name for use in uses for name in use.variables)
    colours = _number_values({name: compared.count(name) for name in names})
    while True:
        places: dict[str, list[tuple[int, int]]] = {name: [] for name in names}
        atoms = _number_values({index: _atom_signature(use, colours) for index, use in enumerate(uses)})
        for use_index, use in enumerate(uses):
            for column, name in zip(use.key.order, use.variables, strict=True):
                places[name].append((atoms[use_index], column))
        finer = _number_values({name: (colours[name], tuple(sorted(positions))) for name, positions in places.items()})
        if len(set(finer.values())) == len(set(colours.values())):
            return colours
        colours = finer


def _atom_signature(use: AtomUse, colours: dict[str, int]) -> Hashable:
    """Return an atom's signature: its rows, and the colours in its columns."""
    key = use.key
    columns = sorted(zip(key.order, (colours[name] for name in use.variables), strict=True))
    return key.relation, key.constants, key.equal, key.compared, use.atom < 0, tuple(columns)


def _number_values(values: dict[_Key, Hashable]) -> dict[_Key, int]:
    """Replace equal values by equal integers."""
    numbers: dict[Hashable, int] = {}
    return {name: numbers.setdefault(value, len(numbers)) for name, value in values.items()}
