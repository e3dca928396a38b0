"""Excluded values of a last step, counted separately by inclusion and exclusion.

The count of all bindings less the count of those with the excluded value. The steps then do not read the excluded
value any more, and prefixes that differ only in it form one group: if two parts of a body share a few variables and
must differ in others, each part is counted once for every binding of what they share.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, replace

from gpu_wcoj.join.plan import AtomUse, Condition, Step

_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "!=": "!=", "=": "="}


@dataclass(frozen=True)
class Split:
    """Steps whose last one excludes a value, as a difference of two counts.

    Attributes
    ----------
    unrestricted
        The steps without the condition.
    condition
        The condition.
    pinned
        The steps with the last variable equal to the excluded value.
    filters
        Conditions that the excluded value has to satisfy beforehand.
    """

    unrestricted: tuple[Step, ...]
    condition: Condition
    pinned: tuple[Step, ...]
    filters: tuple[Condition, ...]

    @property
    def value(self) -> str:
        """The variable whose value is excluded."""
        assert isinstance(self.condition.operand, str)
        return self.condition.operand

    def uses(self, uses: Mapping[int, AtomUse]) -> dict[int, AtomUse]:
        """Return the atoms with the excluded variable in place of the last one."""
        renamed = {self.condition.variable: self.value}
        return {
            atom: use._replace(variables=tuple(renamed.get(name, name) for name in use.variables))
            for atom, use in uses.items()
        }


def split(steps: tuple[Step, ...], bound: Container[str]) -> Split | None:
    """Split off a value that the last step excludes, if several atoms hold that step's variable.

    Examples
    --------
    >>> steps = Step("c", (0,)), Step("d", (0, 1), (Condition("d", "!=", "b"), Condition("d", ">", "c")))
    >>> found = split(steps, "ab")
    >>> [str(one) for one in found.unrestricted[-1].conditions], [step.name for step in found.pinned]
    (['d > c'], ['b@1', 'c', 'b@0'])
    >>> [str(one) for one in found.pinned[1].conditions]
    ['c < b']
    """
    last_step, inner = steps[-1], steps[:-1]
    if not inner or len(last_step.atoms) < 2 or last_step.is_lookup or last_step.checks:
        return None
    if any(condition.textual for condition in last_step.conditions) or any(step.is_lookup for step in inner):
        return None
    excluded = next(
        (condition for condition in last_step.conditions if condition.op == "!=" and str(condition.operand) in bound),
        None,
    )
    if excluded is None or not isinstance(excluded.operand, str):
        return None
    remaining = tuple(condition for condition in last_step.conditions if condition is not excluded)
    inner_variables = {step.variable for step in inner}
    filters = tuple(
        replace(condition, variable=excluded.operand)
        for condition in remaining
        if condition.operand not in inner_variables
    )
    ends = {atom: index for index, step in enumerate(inner) for atom in step.atoms}
    sought = [(ends.get(atom, -1), Step(excluded.operand, (atom,), is_lookup=True)) for atom in last_step.atoms]
    pinned = [step for end, step in sought if end < 0]
    for step_index, step in enumerate(inner):
        turned = tuple(
            Condition(step.variable, _TURNED[condition.op], excluded.operand)
            for condition in remaining
            if condition.operand == step.variable
        )
        pinned.append(replace(step, conditions=(*step.conditions, *turned)))
        pinned.extend(lookup for end, lookup in sought if end == step_index)
    return Split((*inner, replace(last_step, conditions=remaining)), excluded, tuple(pinned), filters)


def strip_exclusions(steps: tuple[Step, ...], bound: Container[str]) -> tuple[Step, ...]:
    """Return the steps without all conditions that `split` removes, one after the other."""
    while (parts := split(steps, bound)) is not None:
        steps = parts.unrestricted
    return steps
