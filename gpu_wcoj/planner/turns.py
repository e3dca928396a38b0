"""Steps of orders in which one atom proposes values and the others are looked up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from gpu_wcoj.join.plan import Check, Condition, Step


@lru_cache(maxsize=1 << 12)
def step_of(
    variable: str,
    atoms: tuple[int, ...],
    conditions: tuple[Condition, ...] = (),
    checks: tuple[Check, ...] = (),
    is_lookup: bool = False,
) -> Step:
    """Return a cached step; many orders have the same steps."""
    return Step(variable, atoms, conditions, checks, is_lookup)


def in_turn(steps: Sequence[Step], via: Mapping[str, int | None]) -> tuple[Step, ...]:
    """Return the steps with lookups of the other atoms after the atom that proposes a variable.

    An atom is looked up once all of its variables are bound, or right before it proposes a variable itself.

    Examples
    --------
    >>> steps = Step("b", (0, 1)), Step("c", (1, 2))
    >>> [one.name for one in in_turn(steps, {"b": 0, "c": 2})]
    ['b', 'c', 'b@1', 'c@1']
    >>> [one.name for one in in_turn(steps, {"b": 0, "c": None})]
    ['b', 'b@1', 'c']
    """
    if set(via.values()) <= {None}:
        return tuple(steps)
    last_step = {atom_index: i for i, step in enumerate(steps) for atom_index in step.atoms}
    result: list[Step] = []
    late: dict[int, list[Step]] = {}
    for index, step in enumerate(steps):
        proposer = via.get(step.variable)
        if proposer is None or step.is_lookup or len(step.atoms) == 1:
            for due_atom in step.atoms if late else ():
                result += late.pop(due_atom, [])
            result.append(step)
            continue
        result += late.pop(proposer, [])
        result.append(step_of(step.variable, (proposer,), step.conditions, step.checks))
        for due_atom in step.atoms:
            if due_atom != proposer:
                late.setdefault(due_atom, []).append(step_of(step.variable, (due_atom,), is_lookup=True))
                if last_step[due_atom] == index:
                    result += late.pop(due_atom)
    return tuple(result)
