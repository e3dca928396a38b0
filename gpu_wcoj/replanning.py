"""Replanning of a running program from the statistics of its state."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from gpu_wcoj.circuit.adopting import rows_to_build
from gpu_wcoj.engine.compile import Compiler
from gpu_wcoj.errors import AuxiliaryError
from gpu_wcoj.planner.catalog import Catalog
from gpu_wcoj.planner.cost import foreseen
from gpu_wcoj.planner.lower import Place, Plan
from gpu_wcoj.planner.mixing import mix_plans
from gpu_wcoj.planner.replan import CLEARLY, SORTING, Feedback
from gpu_wcoj.routing.journal import Journal
from gpu_wcoj.routing.sides import Replicas


def replan(sides: Replicas, lowering: Compiler, feedback: Feedback, tick: int, keeps: bool = True) -> Replicas:
    """Return the sides under a clearly better plan, or under the present one if there is none.

    The statistics are those of the state, and every path is weighted by its work so far: the work of a new path is
    the work of the present path times the ratio of their estimated costs. Paths that would not be clearly cheaper
    stay. The rearrangement of rows for the new paths must cost less than they would have saved by now. The arguments
    stay unchanged.

    Parameters
    ----------
    tick
        The number of the next tick.
    keeps
        True if auxiliary relations are allowed. If they differ from the present ones, the new plan is used unchanged.
    """
    lowered = sides.ahead.lowered
    present, catalog = lowered.plan, Catalog.of_circuit(sides.ahead.circuit)
    planned = lowering.plan(lowered.types, lowered.shapes, catalog, present.auxiliaries if keeps else None)
    if planned.auxiliaries != present.auxiliaries:
        replanned_sides = sides.planned_as(
            lowering, planned, f"chosen anew before tick {tick}, as {_auxiliaries_text(planned)}"
        )
        feedback.begin_anew(tick, SORTING * sides.ahead.relation_rows)
        return replanned_sides
    there = set(present.places())  # earlier plans may have done some of the work: before recompilation or since a mark
    cheaper = _cheaper(planned, present, catalog, [place for place in feedback.done if place in there])
    would_be = feedback.proposed - sum(feedback.done[place] * (1 - share) for place, share in cheaper.items())
    if would_be * CLEARLY > feedback.proposed:
        feedback.begin_anew(tick)
        return sides.noting(present.expecting(catalog), lowered.chosen)
    planned = mix_plans(present, planned, cheaper, catalog)
    circuit = lowering.circuit(planned, sides.ahead.circuit.execution)
    spent = SORTING * rows_to_build(circuit, sides.ahead.circuit) * len(list(sides))
    saved = feedback.proposed - would_be
    if saved < spent:
        feedback.wait_for(spent / saved)
        return sides
    why = f"chosen anew before tick {tick}, as {feedback.why()}"
    replanned_sides = sides.planned_as(lowering, planned.expecting(catalog), why)
    feedback.begin_anew(tick, spent)
    return replanned_sides


def replan_after_load(sides: Replicas, lowering: Compiler) -> Replicas:
    """Return the sides under a plan for their content, after a load planned by sizes only."""
    lowered = sides.primary.lowered
    present, catalog = lowered.plan, Catalog.of_circuit(sides.primary.circuit)
    planned = lowering.plan(lowered.types, lowered.shapes, catalog, present.auxiliaries)
    try:
        if planned.auxiliaries != present.auxiliaries:
            return sides.planned_as(lowering, planned, "")
    except (MemoryError, AuxiliaryError):
        planned = lowering.plan(lowered.types, lowered.shapes, catalog)
    cheaper = _cheaper(planned, present, catalog, present.places())
    plan = mix_plans(present, planned, cheaper, catalog).expecting(catalog)
    try:
        return sides.planned_as(lowering, plan, "") if cheaper else sides.noting(plan, "")
    except MemoryError:  # the load succeeded, and a better arrangement is not worth a failure
        return sides


def carry_over_journal(journal: Journal | None, before: Replicas, after: Replicas) -> Journal | None:
    """Return a checkpoint's journal for another circuit.

    Its changes stay valid if both circuits order rows alike.
    """
    old, new = before.primary.circuit, after.primary.circuit
    if journal is None or old is new or journal.circuit is not old:
        return journal
    canonical = [[index.canonical for index in circuit.indices()] for circuit in (old, new)]
    return replace(journal, circuit=new, changes=journal.changes if canonical[0] == canonical[1] else None)


def _auxiliaries_text(plan: Plan) -> str:
    """Describe the auxiliary relations of a plan for people."""
    names = " and ".join(f"'{auxiliary.name}'" for auxiliary in plan.auxiliaries)
    return f"it pays to keep {names}" if names else "nothing is kept for the rules any more"


def _cheaper(planned: Plan, present: Plan, catalog: Catalog, places: Iterable[Place]) -> dict[Place, float]:
    """Return the clearly cheaper paths of another plan, with the ratio of their costs."""
    cheaper: dict[Place, float] = {}
    for place in places:
        old, new = (foreseen(plan.path(place), catalog) for plan in (present, planned))
        if old is not None and new is not None and new.cost * CLEARLY < old.cost:
            cheaper[place] = new.cost / old.cost
    return cheaper
