"""Passes of the planner, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable

from gpu_wcoj.planner.ir import Draft
from gpu_wcoj.planner.join_order import make_bushy, order_variables
from gpu_wcoj.planner.passes.arrange import (
    assign_arrangements,
    fuse_lookups,
    place_predicates,
    reuse_arrangements,
    sort_seeds,
)
from gpu_wcoj.planner.passes.share import materialize_joins, share_prefixes, split_joins, use_symmetry
from gpu_wcoj.planner.passes.simplify import (
    drop_redundant_atoms,
    normalise_rules,
    push_down_predicates,
    select_before_joining,
    sort_atoms,
    to_delta_queries,
)

Pass = Callable[[Draft], Draft]

PASSES: tuple[Pass, ...] = (
    normalise_rules,
    push_down_predicates,
    drop_redundant_atoms,
    select_before_joining,
    sort_atoms,
    materialize_joins,
    order_variables,
    split_joins,
    assign_arrangements,
    fuse_lookups,
    place_predicates,
    reuse_arrangements,
    make_bushy,
    sort_seeds,
    to_delta_queries,
    share_prefixes,
    use_symmetry,
)


FAST_PATHS: dict[Pass, str] = {
    materialize_joins: "auxiliary relations",
    split_joins: "joined pairs",
    make_bushy: "bushy plans",
    share_prefixes: "shared prefixes",
    use_symmetry: "symmetry",
}
"""Passes that may be turned off, and their names in `gpu_wcoj.join.settings.FAST_PATHS`."""


BETWEEN_PATHS = frozenset([share_prefixes, use_symmetry])
"""Passes that save work between the paths of a tick. A single tick runs one path of each rule."""


def run_passes(draft: Draft, passes: tuple[Pass, ...] = PASSES) -> Draft:
    """Return the draft after all passes that are not turned off and that its ticks can use."""
    for planner_pass in passes:
        if FAST_PATHS.get(planner_pass) in draft.setting.off:
            continue
        if not (draft.setting.single_tick and planner_pass in BETWEEN_PATHS):
            draft = planner_pass(draft)
    return draft
