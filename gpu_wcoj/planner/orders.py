"""Choose the order in which each delta path binds its variables, and the arrangements that follow from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gpu_wcoj.join.path import AtomUse, Condition, DeltaPath, DeltaQuery, Step
from gpu_wcoj.planner.body import Body, BodyAtom
from gpu_wcoj.trace.arrangement import ArrangementKey


def delta_query(body: Body, sizes: Mapping[str, int] | None = None) -> DeltaQuery:
    """Plan one delta path per atom.

    A path binds its seed's variables, then, one by one, the variable that most atoms already reach (the most
    constrained), of these one that the head keeps, of these one in the smallest relation, of these the first in the
    body. Every atom that holds a variable takes part in binding it.

    Parameters
    ----------
    body
        The rule.
    sizes
        Rows of each relation, where known.
    """
    rows = sizes or {}
    paths = [_path(body, number, rows) for number in range(len(body.atoms))]
    shared = _share_seeds(body, paths)
    held = {use.key for path in shared for use in (*path.seeds, *path.others)}
    return DeltaQuery(str(body.rule), body.head, tuple(_with_variants(body, path, rows, held) for path in shared))


def path_from(body: Body, seed: int, sizes: Mapping[str, int] | None = None) -> DeltaPath:
    """The one path that starts with the rows of atom `seed`, which may be a relation of its own."""
    return _path(body, seed, sizes or {})


def _with_variants(body: Body, path: DeltaPath, sizes: Mapping[str, int], held: set[ArrangementKey]) -> DeltaPath:
    """The path with its variants: other first variables that as many atoms reach, over arrangements that are there."""
    if len(path.steps) < 2 or any(step.variable not in body.head for step in path.steps):
        return path
    bound = set(path.seed.variables)

    def reached(name: str) -> int:
        holding = [use for use in path.others if name in use.variables]
        return sum(bool(bound & set(use.variables)) for use in holding)

    first = path.steps[0].variable
    variants = []
    for step in path.steps[1:]:
        if reached(step.variable) == reached(first) > 0:
            other = _path(body, path.seed.atom, sizes, step.variable)
            if all(use.key in held for use in other.others):
                variants.append(replace(other, seeds=path.seeds, sort_first=path.sort_first))
    return replace(path, variants=tuple(variants))


def _path(body: Body, seed: int, sizes: Mapping[str, int], begin_with: str | None = None) -> DeltaPath:
    order = list(body.atoms[seed].variables)
    rest = [name for name in body.variables if name not in order]
    others = [(number, atom) for number, atom in enumerate(body.atoms) if number != seed]
    if begin_with is not None:
        rest.remove(begin_with)
        order.append(begin_with)
    while rest:
        bound = set(order)

        def preference(name: str, bound: set[str] = bound, rest: list[str] = rest) -> tuple[int, bool, int, int]:
            holding = [atom for _, atom in others if name in atom.variables]
            reached = sum(bool(bound & set(atom.variables)) for atom in holding)
            smallest = min(sizes.get(atom.relation, 0) for atom in holding)
            return -reached, name not in body.head, smallest, rest.index(name)

        chosen = min(rest, key=preference)
        rest.remove(chosen)
        order.append(chosen)
    place = {name: i for i, name in enumerate(order)}
    uses = tuple(_use(number, atom, place) for number, atom in others)
    n_seed = len(body.atoms[seed].variables)
    steps = tuple(
        Step(
            name,
            tuple(number for number, atom in others if name in atom.variables),
            tuple(_facing(condition, name) for condition in body.conditions if _completes(condition, name, place)),
        )
        for name in order[n_seed:]
    )
    first = tuple(condition for condition in body.conditions if all(place[name] < n_seed for name in _names(condition)))
    seed_use = _use(seed, body.atoms[seed], place)
    return DeltaPath((seed_use,), uses, first, steps, _sort_first(seed_use.variables, uses, steps))


def _use(number: int, atom: BodyAtom, place: Mapping[str, int]) -> AtomUse:
    levels = sorted(range(len(atom.variables)), key=lambda i: place[atom.variables[i]])
    key = ArrangementKey(
        atom.relation, tuple(atom.columns[i] for i in levels), atom.constants, atom.equal, atom.compared
    )
    return AtomUse(number, key, tuple(atom.variables[i] for i in levels))


def _names(condition: Condition) -> list[str]:
    return [name for name in (condition.variable, condition.other) if isinstance(name, str)]


def _completes(condition: Condition, name: str, place: Mapping[str, int]) -> bool:
    return max(_names(condition), key=lambda other: place[other]) == name


def _facing(condition: Condition, name: str) -> Condition:
    """The condition with `name` on its left."""
    if condition.variable == name:
        return condition
    mirrored = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}[condition.op]
    return replace(condition, variable=name, op=mirrored, other=condition.variable)


def _sort_first(seed: tuple[str, ...], uses: tuple[AtomUse, ...], steps: tuple[Step, ...]) -> tuple[str, ...]:
    """The seed's variables by which later steps share ranges; deeper steps, which run more often, count more."""
    if len(seed) < 2:
        return ()
    by_number = {use.atom: use for use in uses}
    bound = set(seed)
    score = dict.fromkeys(seed, 0)
    for depth, step in enumerate(steps, 1):
        if len(step.atoms) > 1:
            for number in step.atoms:
                reached = bound & set(by_number[number].variables)
                if len(reached) == 1 and reached <= set(seed):
                    score[reached.pop()] += 4**depth
        bound.add(step.variable)
    best = max(score.values())
    return tuple(name for name in seed if score[name] == best) if best else ()


def _share_seeds(body: Body, paths: list[DeltaPath]) -> tuple[DeltaPath, ...]:
    """Let every path take its seeds from the arrangements that other paths need anyway."""
    held: dict[tuple[object, ...], list[ArrangementKey]] = {}
    for path in paths:
        for use in path.others:
            keys = held.setdefault(use.key.selection, [])
            if use.key not in keys:
                keys.append(use.key)
    shared = []
    for path in paths:
        own = path.seed.key
        keys = held.setdefault(own.selection, [own])
        atom = body.atoms[path.seed.atom]
        variable = dict(zip(atom.columns, atom.variables, strict=True))
        seeds = [AtomUse(path.seed.atom, key, tuple(variable[column] for column in key.order)) for key in keys]
        seeds.sort(key=lambda use: use.key.order != own.order)
        shared.append(replace(path, seeds=tuple(seeds)))
    return tuple(shared)
