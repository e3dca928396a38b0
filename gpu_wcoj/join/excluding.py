"""Excluded values of a last step, counted separately by inclusion and exclusion.

The count of all bindings less the count of those with the excluded value. The steps then do not read the excluded
value any more, and prefixes that differ only in it form one group: if two parts of a body share a few variables and
must differ in others, each part is counted once for every binding of what they share.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, replace

from gpu_wcoj.join.path import AtomUse, Condition, Step

_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "!=": "!=", "=": "="}


@dataclass(frozen=True)
class Split:
    """Steps whose last one excludes a value, as a difference of two counts.

    Attributes
    ----------
    whole
        The steps without the condition.
    condition
        The condition.
    known
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
        assert isinstance(self.condition.other, str)
        return self.condition.other

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
    >>> [str(one) for one in found.whole[-1].conditions], [step.name for step in found.known]
    (['d > c'], ['b@1', 'c', 'b@0'])
    >>> [str(one) for one in found.known[1].conditions]
    ['c < b']
    """
    last, inner = steps[-1], steps[:-1]
    if not inner or len(last.atoms) < 2 or last.is_lookup or last.checks:
        return None
    if any(one.textual for one in last.conditions) or any(step.is_lookup for step in inner):
        return None
    found = next((one for one in last.conditions if one.op == "!=" and str(one.other) in bound), None)
    if found is None or not isinstance(found.other, str):
        return None
    others = tuple(one for one in last.conditions if one is not found)
    own = {step.variable for step in inner}
    filters = tuple(replace(one, variable=found.other) for one in others if one.other not in own)
    ends = {atom: number for number, step in enumerate(inner) for atom in step.atoms}
    sought = [(ends.get(atom, -1), Step(found.other, (atom,), is_lookup=True)) for atom in last.atoms]
    known = [step for end, step in sought if end < 0]
    for number, step in enumerate(inner):
        turned = tuple(
            Condition(step.variable, _TURNED[one.op], found.other) for one in others if one.other == step.variable
        )
        known.append(replace(step, conditions=(*step.conditions, *turned)))
        known.extend(one for end, one in sought if end == number)
    return Split((*inner, replace(last, conditions=others)), found, tuple(known), filters)


def strip_exclusions(steps: tuple[Step, ...], bound: Container[str]) -> tuple[Step, ...]:
    """Return the steps without all conditions that `split` removes, one after the other."""
    while (found := split(steps, bound)) is not None:
        steps = found.unrestricted
    return steps
