"""Take some delta paths from one plan and the others from another plan of the same program."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gpu_wcoj.join.plan import AtomUse, DeltaPath, DeltaQuery
from gpu_wcoj.planner.ir import EMPTY_CATALOG, CatalogReader
from gpu_wcoj.planner.lower import ASKED, Place, Plan
from gpu_wcoj.planner.renaming import rename_path
from gpu_wcoj.trace.arrangement import ArrangementKey

if TYPE_CHECKING:
    from gpu_wcoj.circuit.recursion.plan import LoopPlan


def mix_plans(present: Plan, planned: Plan, places: Collection[Place], catalog: CatalogReader = EMPTY_CATALOG) -> Plan:
    """Return the present plan with the wanted paths of the other plan.

    Seeds come from the arrangements that the paths then need.

    The other plan's paths are renamed to the variables of the present plan: rules may share a join in only one of the
    two plans. Common prefixes are chosen again, by the statistics in `catalog`.

    Examples
    --------
    >>> from gpu_wcoj import Program
    >>> program = Program("h(a, b, c) :- s(a), r(a, b), t(a, c).")
    >>> present, planned = (program._planned() for _ in range(2))
    >>> found = mix_plans(present, planned, [("h", 0, 1)]).queries["h"][0].paths
    >>> found == present.queries["h"][0].paths
    True
    """
    queries: dict[str, tuple[DeltaQuery, ...]] = {}
    for name, rules in present.queries.items():
        queries[name] = tuple(
            _mixed(
                old, new, {path_index for head, rule_index, path_index in places if (head, rule_index) == (name, rule)}
            )
            for rule, (old, new) in enumerate(zip(rules, planned.queries[name], strict=True))
        )
    if places:
        queries = _share_prefixes(queries, {name for loop in present.loops for name in loop.widths}, catalog)
    loops = zip(present.loops, planned.loops, strict=True)
    mixed_loops = tuple(_mixed_loop(old, new, queries, places) for old, new in loops)
    return replace(present, queries=queries, loops=mixed_loops, estimates={}, asked={})


def _share_prefixes(
    queries: Mapping[str, Sequence[DeltaQuery]], recursive: Collection[str], catalog: CatalogReader
) -> dict[str, tuple[DeltaQuery, ...]]:
    """Return the rules with common prefixes chosen again."""
    from gpu_wcoj.planner.passes.share_prefixes import with_shared_prefixes  # not needed to import the package

    pairs = [(name, query) for name, rules in queries.items() for query in rules]
    shared = iter(with_shared_prefixes(pairs, queries.keys() - recursive, catalog))
    return {name: tuple(next(shared) for _ in rules) for name, rules in queries.items()}


def _mixed_loop(
    old: LoopPlan, new: LoopPlan, queries: Mapping[str, Sequence[DeltaQuery]], places: Collection[Place]
) -> LoopPlan:
    """Return a loop over these queries, with the wanted derivation paths of the other plan."""
    rules = []
    for present_rule, planned_rule in zip(old.rules, new.rules, strict=True):
        query = queries[present_rule.head][present_rule.index]
        asking = (
            planned_rule.inverse if (present_rule.head, present_rule.index, ASKED) in places else present_rule.inverse
        )
        is_same = query is present_rule.query and asking is present_rule.inverse
        rules.append(
            present_rule
            if is_same
            else type(present_rule).from_queries(present_rule.head, present_rule.index, query, asking, old.widths)
        )
    return replace(old, rules=tuple(rules))


def _mixed(old: DeltaQuery, new: DeltaQuery, path_indices: Collection[int]) -> DeltaQuery:
    if not path_indices:
        return old
    paths = [
        (rename_path(new.paths[path_index], old.paths) or path) if path_index in path_indices else path
        for path_index, path in enumerate(old.paths)
    ]
    needed = list(dict.fromkeys(key for path in paths for key in path.keys))
    return replace(old, paths=tuple(_seeded(path, needed) for path in paths))


def _seeded(path: DeltaPath, needed: Sequence[ArrangementKey]) -> DeltaPath:
    """Return the path with seeds from needed arrangements, and variants over these only."""
    seed = path.seed
    variable = dict(zip(seed.key.order, seed.variables, strict=True))
    keys = [key for key in needed if key.selection == seed.key.selection]
    before = [use.key for use in path.seeds]
    keys.sort(key=lambda key: before.index(key) if key in before else len(before))
    seeds = tuple(AtomUse(seed.atom, key, tuple(variable[column] for column in key.order)) for key in keys) or (seed,)
    variants = tuple(variant for variant in path.variants if all(key in needed for key in variant.keys))
    return replace(path, variants=variants).with_seeds(seeds)
