"""Passes of the planner, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable

from gpu_wcoj.planner.draft import Draft
from gpu_wcoj.planner.passes.arrangements import arranged
from gpu_wcoj.planner.passes.auxiliaries import with_auxiliaries
from gpu_wcoj.planner.passes.beginnings import begun_alike
from gpu_wcoj.planner.passes.branches import branched
from gpu_wcoj.planner.passes.checks import checked
from gpu_wcoj.planner.passes.common import joined_once
from gpu_wcoj.planner.passes.fuse import fused
from gpu_wcoj.planner.passes.normalise import normalised
from gpu_wcoj.planner.passes.orders import ordered
from gpu_wcoj.planner.passes.push_down import pushed_down
from gpu_wcoj.planner.passes.queries import executable
from gpu_wcoj.planner.passes.redundant import without_redundant
from gpu_wcoj.planner.passes.share import shared
from gpu_wcoj.planner.passes.sort import sorted_first
from gpu_wcoj.planner.passes.symmetries import symmetric

Pass = Callable[[Draft], Draft]

PASSES: tuple[Pass, ...] = (
    normalised,
    pushed_down,
    without_redundant,
    with_auxiliaries,
    ordered,
    arranged,
    fused,
    checked,
    shared,
    branched,
    sorted_first,
    executable,
    joined_once,
    begun_alike,
    symmetric,
)


def through_passes(draft: Draft, passes: tuple[Pass, ...] = PASSES) -> Draft:
    """Return the draft after all passes."""
    for planner_pass in passes:
        draft = planner_pass(draft)
    return draft
