"""Rename the variables of delta paths to those of another plan of the same rule."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from gpu_wcoj.join.plan import Absent, AtomUse, Calculation, Check, Condition, DeltaPath


def rename_path(path: DeltaPath, target_paths: Iterable[DeltaPath]) -> DeltaPath | None:
    """Return the path in the variables of other paths of the same rule, or None.

    The result is None if the path calculates something that none of the others calculates.

    A variable of atoms is identified by a column that it occurs in, a calculated variable by its calculation.

    Examples
    --------
    >>> from gpu_wcoj.planner.passes import PASSES, share_joins
    >>> from tests.planner.examples import draft_program
    >>> text = "h(a, c) :- r(a, b), s(b, c), a < c. h(x, z) :- r(x, y), s(y, z), x < z."
    >>> one, other = (rule.paths for rule in draft_program(text, PASSES[: PASSES.index(share_joins)]).rules)
    >>> rename_path(other[0], one) == one[0] != other[0]
    True
    """
    targets = list(target_paths)
    stands = {
        (use.atom, column): name
        for target in targets
        for use in _uses(target)
        for column, name in zip(use.key.order, use.variables, strict=True)
    }
    names: dict[str, str] = {}
    for use in _uses(path):
        for column, name in zip(use.key.order, use.variables, strict=True):
            if (use.atom, column) not in stands:
                return None
            names[name] = stands[use.atom, column]
    calculations = [check for target in targets for check in _checks(target) if isinstance(check, Calculation)]
    for check in (check for variant in (path, *path.variants) for check in _checks(variant)):
        if isinstance(check, Calculation) and check.variable not in names:
            target_name = _calculated(check, names, calculations)
            if target_name is None:
                return None
            names[check.variable] = target_name
    return path if all(name == called for name, called in names.items()) else _renamed(path, names)


def _uses(path: DeltaPath) -> Iterator[AtomUse]:
    """Yield the atoms, the changed one first."""
    yield from (path.seed, *path.other_atoms)


def _checks(path: DeltaPath) -> Iterator[Check]:
    """Yield all checks and calculations, in order."""
    yield from (*path.seed_conditions, *path.seed_checks)
    for step in path.steps:
        yield from (*step.conditions, *step.checks)


def _calculated(calculation: Calculation, names: Mapping[str, str], candidates: Iterable[Calculation]) -> str | None:
    """Return the other paths' name of a calculated variable, or None."""
    arguments = tuple(names.get(term, term) if isinstance(term, str) else term for term in calculation.arguments)
    renamed_calculation = replace(calculation, arguments=arguments)
    taken = set(names.values())
    for candidate in candidates:
        if candidate.variable not in taken and replace(renamed_calculation, variable=candidate.variable) == candidate:
            return candidate.variable
    return None


def _renamed(path: DeltaPath, names: Mapping[str, str]) -> DeltaPath:
    def term(value: str | int) -> str | int:
        return names.get(value, value) if isinstance(value, str) else value

    def use(atom_use: AtomUse) -> AtomUse:
        return atom_use._replace(variables=tuple(names.get(name, name) for name in atom_use.variables))

    def condition(original: Condition) -> Condition:
        return replace(original, variable=names[original.variable], operand=term(original.operand))

    def check(original: Check) -> Check:
        if isinstance(original, Condition):
            return condition(original)
        if isinstance(original, Absent):
            return replace(original, use=use(original.use), terms=tuple(map(term, original.terms)))
        return replace(original, variable=names[original.variable], arguments=tuple(map(term, original.arguments)))

    return replace(
        path,
        seeds=tuple(map(use, path.seeds)),
        other_atoms=tuple(map(use, path.other_atoms)),
        seed_conditions=tuple(map(condition, path.seed_conditions)),
        steps=tuple(
            replace(
                step,
                variable=names[step.variable],
                conditions=tuple(map(condition, step.conditions)),
                checks=tuple(map(check, step.checks)),
            )
            for step in path.steps
        ),
        sort_first=tuple(names[name] for name in path.sort_first),
        variants=tuple(_renamed(variant, names) for variant in path.variants),
        seed_checks=tuple(map(check, path.seed_checks)),
    )
