"""Counts of the last two steps if both have the same values: ordered or distinct pairs.

The pairs are counted by a formula and not listed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpu_wcoj.join.magnitudes import exact_dot, largest_magnitudes
from gpu_wcoj.join.plan import Step
from gpu_wcoj.join.prefixes import Prefixes

if TYPE_CHECKING:
    from gpu_wcoj.join.generic import GenericJoin


def compare_twins(first: Step, second: Step) -> str | None:
    """Return the comparison of two steps that have the same values otherwise; else None.

    Examples
    --------
    >>> from gpu_wcoj.join.plan import Condition
    >>> link = Condition("d", "<", "c")
    >>> compare_twins(Step("c", (0, 1)), Step("d", (2, 3), (link,)))
    '<'
    >>> compare_twins(Step("c", (0,), (Condition("c", "!=", "a"),)), Step("d", (1,), (link,))) is None
    True
    >>> compare_twins(Step("c", (0,)), Step("d", (0,), (link,))) is None
    True
    """
    if first.checks or second.checks or first.is_lookup or second.is_lookup or len(first.atoms) != len(second.atoms):
        return None
    if set(first.atoms).intersection(second.atoms):
        return None
    links = [condition for condition in second.conditions if condition.operand == first.variable]
    if len(links) != 1 or links[0].textual or links[0].op not in ("<", ">", "!="):
        return None
    first_conditions = {(condition.op, condition.operand, condition.textual) for condition in first.conditions}
    second_conditions = {
        (condition.op, condition.operand, condition.textual) for condition in second.conditions if condition != links[0]
    }
    return links[0].op if first_conditions == second_conditions and first.is_plain else None


def count_twin_pairs(join: GenericJoin, prefixes: Prefixes, first: Step, second: Step) -> int | None:
    """Return the sum over prefixes of weights times bindings of both steps, for sets.

    The result is None if the steps are not twins.
    """
    link = compare_twins(first, second)
    if link is None or _sources(join, prefixes, first) != _sources(join, prefixes, second):
        return None
    backend = join.backend
    values, _ = join.count_bounded(prefixes, (first,))
    max_values = largest_magnitudes(backend, values)[0]
    heaviest = 1 if prefixes.weights is None else max(1, largest_magnitudes(backend, prefixes.weights)[0])
    if max_values * max_values * heaviest * len(prefixes) >= 1 << 62:
        return None
    pairs = values * (values - 1)
    return exact_dot(pairs, prefixes.weights, backend) // (1 if link == "!=" else 2)


def _sources(join: GenericJoin, prefixes: Prefixes, step: Step) -> set[tuple[object, ...]]:
    """Return the sources of a step's values: arrangement, bound variables and batches an atom."""
    depth = dict(prefixes.layout)
    sources: set[tuple[object, ...]] = set()
    for atom in step.atoms:
        use, bound = join.uses[atom], depth.get(atom, 0)
        sources.add((use.key, use.variables[:bound], tuple(map(id, join.batches[atom]))))
    return sources
