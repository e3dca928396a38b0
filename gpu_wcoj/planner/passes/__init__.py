"""Passes of the planner, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable

from gpu_wcoj.planner.ir import Draft
from gpu_wcoj.planner.passes.arrange import place_predicates
from gpu_wcoj.planner.passes.arrangements import assign_arrangements
from gpu_wcoj.planner.passes.branches import make_bushy
from gpu_wcoj.planner.passes.common import share_joins
from gpu_wcoj.planner.passes.fuse import fuse_lookups
from gpu_wcoj.planner.passes.normalise import normalise_rules
from gpu_wcoj.planner.passes.orders import order_variables
from gpu_wcoj.planner.passes.queries import to_delta_queries
from gpu_wcoj.planner.passes.redundant import drop_redundant_atoms
from gpu_wcoj.planner.passes.share import reuse_arrangements
from gpu_wcoj.planner.passes.share_joins import materialize_joins
from gpu_wcoj.planner.passes.share_prefixes import share_prefixes
from gpu_wcoj.planner.passes.simplify import push_down_predicates
from gpu_wcoj.planner.passes.sort import sort_seeds
from gpu_wcoj.planner.passes.symmetries import use_symmetry

Pass = Callable[[Draft], Draft]

PASSES: tuple[Pass, ...] = (
    normalise_rules,
    push_down_predicates,
    drop_redundant_atoms,
    materialize_joins,
    order_variables,
    assign_arrangements,
    fuse_lookups,
    place_predicates,
    reuse_arrangements,
    make_bushy,
    sort_seeds,
    to_delta_queries,
    share_joins,
    share_prefixes,
    use_symmetry,
)


def run_passes(draft: Draft, passes: tuple[Pass, ...] = PASSES) -> Draft:
    """Return the draft after all passes."""
    for planner_pass in passes:
        draft = planner_pass(draft)
    return draft
