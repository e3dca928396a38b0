"""What a planned delta path is expected to do, whatever planned it, as far as its relations are known.

Values are taken to be independent of each other, and the values that fewer rows have to be among those that more have;
see `gpu_wcoj.planner.costs`, which says the same of orders that are still to be chosen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpu_wcoj.join.path import AtomUse, Condition, DeltaPath
from gpu_wcoj.planner.body import BodyAtom
from gpu_wcoj.planner.costs import LOOKUP, PREFIX, PROBE, PROPOSAL, RANGE, WIDTH
from gpu_wcoj.planner.draft import KnownRelations
from gpu_wcoj.planner.expected import Expected, Levels


@dataclass(frozen=True)
class Foreseen:
    """One path, for one changed row.

    Attributes
    ----------
    levels
        Of the seeds, and then of each step.
    cost
        Of all of them, as the planner counts it.
    """

    levels: tuple[Expected, ...]
    cost: float

    @property
    def proposed(self) -> float:
        """Values that are looked at, at all steps."""
        return sum(level.proposed for level in self.levels[1:])


def foreseen(path: DeltaPath, known: KnownRelations) -> Foreseen | None:
    """What is expected of a path; None if nothing is known of one of its relations.

    Examples
    --------
    One new edge among 10,000, at vertices that have 100 of them each: 100 candidates, all of which close a triangle.

    >>> from gpu_wcoj import Program
    >>> from gpu_wcoj.planner.known import Known
    >>> program = Program("t(a, b, c) :- e(a, b), e(b, c), e(a, c).")
    >>> path = program._planned().queries["t"][0].paths[0]
    >>> found = foreseen(path, Known.from_sizes({"e": 10_000}))
    >>> [(one.variable, one.proposed, one.rows) for one in found.levels]
    [('', 1.0, 1.0), ('c', 100.0, 100.0)]
    """
    atoms = {use.atom: _atom(use) for use in (path.seed, *path.others)}
    values: dict[str, float] = {}
    for atom in atoms.values():
        for name in atom.variables:
            values[name] = max(values.get(name, 1.0), known.values(atom, name) or 1.0)
    tries: dict[int, Levels] = {}
    for use in path.others:
        found = known.levels(atoms[use.atom], use.variables)
        if found is None:
            return None
        tries[use.atom] = found
    bound = set(path.seed.variables)
    rows = _kept(path.seed_conditions, values)
    for levels in tries.values():
        depth = _depth(levels, bound)
        chance = levels.distinct[depth - 1] if depth else 1.0
        for name in levels.variables[:depth]:
            chance /= values[name]
        rows *= min(chance, 1.0)
    depths = {number: _depth(levels, bound) for number, levels in tries.items()}
    expected, cost = [Expected("", 1.0, rows)], 1.0
    for step in path.steps:
        degrees = sorted(tries[number].degree(depths[number]) for number in step.atoms)
        for number in step.atoms:
            depths[number] += 1
        conditions = (*step.conditions, *(check for check in step.checks if isinstance(check, Condition)))
        if step.is_lookup:
            cost += rows * (PREFIX + LOOKUP)
            proposed, left = 0.0, rows
        else:
            proposed = left = rows * degrees.pop(0)
            cost += rows * (PREFIX + WIDTH * len(step.atoms)) + proposed * (PROPOSAL + PROBE * len(degrees))
        for degree in degrees:
            left *= min(degree / values[step.variable], 1.0)
        rows = left * _kept(conditions, values)
        expected.append(Expected(step.variable, proposed, rows))
    return Foreseen(tuple(expected), cost)


def _atom(use: AtomUse) -> BodyAtom:
    key = use.key
    return BodyAtom(key.relation, key.order, use.variables, key.constants, key.equal, key.compared)


def _depth(levels: Levels, bound: set[str]) -> int:
    """How many of its variables are bound."""
    return next((i for i, name in enumerate(levels.variables) if name not in bound), len(levels.variables))


def _kept(conditions: Sequence[Condition], values: Mapping[str, float]) -> float:
    """The share of rows that conditions leave."""
    share = 1.0
    for one in conditions:
        if one.op == "=":
            share /= values.get(one.variable, 1.0)
        elif one.op != "!=":
            share *= RANGE
    return share
