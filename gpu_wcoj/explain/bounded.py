"""Upper bounds of the prefixes at each level of a plan, per changed row.

The bound of Atserias, Grohe and Marx from the sizes of relations and, if there is a state, from its largest degrees;
see `gpu_wcoj.planner.bounds`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from gpu_wcoj.circuit.circuit import Circuit
from gpu_wcoj.explain.tree import HeadTree, LevelTree, PathTree, PlanTree
from gpu_wcoj.join.plan import AtomUse, DeltaPath
from gpu_wcoj.planner.bounds import Size, bound
from gpu_wcoj.planner.catalog import Catalog
from gpu_wcoj.planner.lower import Plan
from gpu_wcoj.planner.statistics import measure


@dataclass(frozen=True)
class AtomBounds:
    """Upper bounds of an atom in the order of its arrangement.

    Attributes
    ----------
    distinct
        Prefixes per level.
    children
        Maximum degree per level except the last; empty if unknown.
    """

    distinct: tuple[float, ...]
    children: tuple[float, ...] = ()

    def sizes(self, variables: tuple[str, ...]) -> list[Size]:
        """Return the sizes of the first levels."""
        depth = len(variables)
        degrees = zip(range(1, depth), self.children, strict=False)
        below = [Size(variables[: level + 1], degree, variables[:level]) for level, degree in degrees]
        return [Size(variables, self.distinct[depth - 1]), *below]


SizesOf = Callable[[AtomUse], AtomBounds | None]
"""Function from an atom to its bounds; None if unknown."""


def with_bounds(tree: PlanTree, plan: Plan, sizes_of: SizesOf) -> PlanTree:
    """Return the tree of a plan with bounds.

    Levels of recursions and unknown relations get none.

    Raises
    ------
    BackendUnavailableError
        If SciPy is not installed.
    """
    return replace(tree, heads=tuple(_head(head, plan, sizes_of) for head in tree.heads))


def sizes_of_state(circuit: Circuit) -> SizesOf:
    """Return the exact sizes and largest degrees of a circuit's state."""
    indices = dict(circuit.sources)
    indices.update({name: head.relation for name, head in circuit.heads.items() if head.relation is not None})

    def bounds_of_atom(use: AtomUse) -> AtomBounds | None:
        index = indices.get(use.key.relation)
        arrangement = None if index is None else index.arrangements.get(use.key)
        if arrangement is None:
            return None
        statistics = measure(arrangement)
        return AtomBounds(
            tuple(map(float, statistics.distinct)),
            tuple(float(level_degrees.largest) for level_degrees in statistics.degrees),
        )

    return bounds_of_atom


def sizes_of_catalog(catalog: Catalog) -> SizesOf:
    """Return the sizes of relations by statistics."""

    def bounds_of_atom(use: AtomUse) -> AtomBounds | None:
        rows = catalog.rows(use.key.relation)
        return None if rows is None else AtomBounds((rows,) * len(use.variables))

    return bounds_of_atom


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
        variants=tuple(
            replace(variant_tree, levels=_levels(variant_tree.levels, variant, sizes_of))
            for variant_tree, variant in variants
        ),
    )


def _levels(levels: Sequence[LevelTree], path: DeltaPath, sizes_of: SizesOf) -> tuple[LevelTree, ...]:
    """Return the levels, each bounded by the atoms of this and earlier levels."""
    uses = {use.atom: use for use in path.other_atoms}
    limits = {atom: atom_limits for atom, use in uses.items() if (atom_limits := sizes_of(use)) is not None}
    if len(limits) < len(uses):
        return tuple(levels)
    bound_names = list(path.seed.variables)
    depths = dict.fromkeys(uses, 0) | {atom: depth for atom, depth, _ in path.binding}
    bounded = []
    for level, step in zip(levels, path.steps, strict=True):
        for atom_number in step.atoms:
            depths[atom_number] += 1
        if not step.is_lookup:
            bound_names.append(step.variable)
        sizes = [Size(path.seed.variables, 1.0)]
        for atom_number, depth in ((atom_number, depth) for atom_number, depth in depths.items() if depth):
            sizes += limits[atom_number].sizes(uses[atom_number].variables[:depth])
        bounded.append(replace(level, at_most=bound(sizes, bound_names).rows))
    return tuple(bounded)
