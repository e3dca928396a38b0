"""How many prefixes each level of a plan has at most for one changed row, whatever the values are.

The bound of Atserias, Grohe and Marx from the sizes of relations, and where a state is at hand, from the most children
that a prefix has in it; see `gpu_wcoj.planner.bounds`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from gpu_wcoj.circuit.circuit import Circuit
from gpu_wcoj.explain.tree import HeadTree, LevelTree, PathTree, PlanTree
from gpu_wcoj.join.path import AtomUse, DeltaPath
from gpu_wcoj.planner.bounds import Size, bound
from gpu_wcoj.planner.known import Known
from gpu_wcoj.planner.lower import Plan
from gpu_wcoj.planner.statistics import measured


@dataclass(frozen=True)
class Most:
    """What an atom has at most in the order of its arrangement.

    Attributes
    ----------
    distinct
        Per level, prefixes that end there.
    children
        Per level but the last, of one prefix; empty if not known.
    """

    distinct: tuple[float, ...]
    children: tuple[float, ...] = ()

    def sizes(self, variables: tuple[str, ...]) -> list[Size]:
        """Of its first levels."""
        depth = len(variables)
        degrees = zip(range(1, depth), self.children, strict=False)
        below = [Size(variables[: level + 1], most, variables[:level]) for level, most in degrees]
        return [Size(variables, self.distinct[depth - 1]), *below]


SizesOf = Callable[[AtomUse], Most | None]
"""What is known of an atom; None if that is nothing."""


def with_bounds(tree: PlanTree, plan: Plan, sizes_of: SizesOf) -> PlanTree:
    """The tree of a plan with its bounds; levels of recursions, and those of relations that are not known, have none.

    Raises
    ------
    BackendUnavailableError
        If SciPy is not installed.
    """
    return replace(tree, heads=tuple(_head(head, plan, sizes_of) for head in tree.heads))


def sizes_of_state(circuit: Circuit) -> SizesOf:
    """Sizes and largest degrees of what a circuit holds, exactly."""
    held = dict(circuit.sources)
    held.update({name: head.relation for name, head in circuit.heads.items() if head.relation is not None})

    def most(use: AtomUse) -> Most | None:
        index = held.get(use.key.relation)
        arrangement = None if index is None else index.arrangements.get(use.key)
        if arrangement is None:
            return None
        found = measured(arrangement)
        return Most(tuple(map(float, found.distinct)), tuple(float(one.largest) for one in found.degrees))

    return most


def sizes_of_known(known: Known) -> SizesOf:
    """Sizes of whole relations by statistics."""

    def most(use: AtomUse) -> Most | None:
        rows = known.rows(use.key.relation)
        return None if rows is None else Most((rows,) * len(use.variables))

    return most


def _head(head: HeadTree, plan: Plan, sizes_of: SizesOf) -> HeadTree:
    if head.kind not in ("rules", "alias"):
        return head
    rules = (
        replace(rule, paths=tuple(map(_path, rule.paths, query.paths, [sizes_of] * len(rule.paths))))
        for rule, query in zip(head.rules, plan.queries[head.name], strict=True)
    )
    return replace(head, rules=tuple(rules))


def _path(tree: PathTree, path: DeltaPath, sizes_of: SizesOf) -> PathTree:
    variants = zip(tree.variants, path.variants, strict=True)
    return replace(
        tree,
        levels=_levels(tree.levels, path, sizes_of),
        variants=tuple(replace(own, levels=_levels(own.levels, variant, sizes_of)) for own, variant in variants),
    )


def _levels(levels: Sequence[LevelTree], path: DeltaPath, sizes_of: SizesOf) -> tuple[LevelTree, ...]:
    """The levels, each bounded by what its atoms and those before it have: prefixes are not in later ones yet."""
    uses = {use.atom: use for use in path.others}
    known = {number: most for number, use in uses.items() if (most := sizes_of(use)) is not None}
    if len(known) < len(uses):
        return tuple(levels)
    bound_names = list(path.seed.variables)
    depths = dict.fromkeys(uses, 0) | {number: depth for number, depth, _ in path.binding}
    found = []
    for level, step in zip(levels, path.steps, strict=True):
        for number in step.atoms:
            depths[number] += 1
        if not step.is_lookup:
            bound_names.append(step.variable)
        sizes = [Size(path.seed.variables, 1.0)]
        for number, depth in ((number, depth) for number, depth in depths.items() if depth):
            sizes += known[number].sizes(uses[number].variables[:depth])
        found.append(replace(level, at_most=bound(sizes, bound_names).rows))
    return tuple(found)
