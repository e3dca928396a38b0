"""Plan a running program anew, by what its state holds now, and change over where that pays."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from gpu_wcoj.circuit.adopting import rows_to_build
from gpu_wcoj.errors import AuxiliaryError
from gpu_wcoj.lowering import Lowering
from gpu_wcoj.planner.costs import foreseen
from gpu_wcoj.planner.feedback import CLEARLY, SORTING, Feedback
from gpu_wcoj.planner.known import Known
from gpu_wcoj.planner.lower import Place, Plan
from gpu_wcoj.planner.mixing import mixed
from gpu_wcoj.routing.journal import Journal
from gpu_wcoj.routing.sides import Sides


def replanned(sides: Sides, lowering: Lowering, feedback: Feedback, tick: int, keeps: bool = True) -> Sides:
    """The sides under the plan that is best by now; under the present one if no other is clearly better.

    The statistics are those of the state, and every path counts by what it has done so far: another one is taken to do
    so many times as much as it is expected to cost of what the present one is. Paths that would not be clearly cheaper
    stay. To arrange rows for the others has to cost less than they would have saved by now. The sides that are given
    are left as they are.

    Parameters
    ----------
    tick
        The number of the one that is about to begin.
    keeps
        Whether relations may be kept for the rules. Where they are others than now, the new plan is taken as it is.
    """
    lowered = sides.ahead.lowered
    present, catalog = lowered.plan, Known.of_circuit(sides.ahead.circuit)
    planned = lowering.plan(lowered.types, lowered.shapes, catalog, present.auxiliaries if keeps else None)
    if planned.auxiliaries != present.auxiliaries:
        replanned_sides = sides.planned_as(lowering, planned, f"chosen anew before tick {tick}, as {_auxiliaries_text(planned)}")
        feedback.begin_anew(tick, SORTING * sides.ahead.relation_rows)
        return replanned_sides
    there = set(present.places())  # other plans may have brought what was done: of another lowering, or since a mark
    cheaper = _cheaper(planned, present, catalog, [place for place in feedback.done if place in there])
    would_be = feedback.proposed - sum(feedback.done[place] * (1 - share) for place, share in cheaper.items())
    if would_be * CLEARLY > feedback.proposed:
        feedback.begin_anew(tick)
        return sides.noting(present.expecting(catalog), lowered.chosen)
    planned = mixed(present, planned, cheaper, catalog)
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


def suited(sides: Sides, lowering: Lowering) -> Sides:
    """The sides under a plan for what they hold: after it has been loaded, when sizes were all that was known."""
    lowered = sides.primary.lowered
    present, catalog = lowered.plan, Known.of_circuit(sides.primary.circuit)
    planned = lowering.plan(lowered.types, lowered.shapes, catalog, present.auxiliaries)
    try:
        if planned.auxiliaries != present.auxiliaries:
            return sides.planned_as(lowering, planned, "")
    except (MemoryError, AuxiliaryError):
        planned = lowering.plan(lowered.types, lowered.shapes, catalog)
    cheaper = _cheaper(planned, present, catalog, present.places())
    plan = mixed(present, planned, cheaper, catalog).expecting(catalog)
    try:
        return sides.planned_as(lowering, plan, "") if cheaper else sides.noting(plan, "")
    except MemoryError:  # what has been loaded is there, and arranging it otherwise is not worth failing
        return sides


def carry_over_journal(journal: Journal | None, before: Sides, after: Sides) -> Journal | None:
    """What a checkpoint has still to write, told of another circuit; its changes stay where both show rows alike."""
    old, new = before.primary.circuit, after.primary.circuit
    if journal is None or old is new or journal.circuit is not old:
        return journal
    canonical = [[index.canonical for index in circuit.indices()] for circuit in (old, new)]
    return replace(journal, circuit=new, changes=journal.changes if canonical[0] == canonical[1] else None)


def _auxiliaries_text(plan: Plan) -> str:
    """What is kept for the rules, for people."""
    names = " and ".join(f"'{auxiliary.name}'" for auxiliary in plan.auxiliaries)
    return f"it pays to keep {names}" if names else "nothing is kept for the rules any more"


def _cheaper(planned: Plan, present: Plan, catalog: Known, places: Iterable[Place]) -> dict[Place, float]:
    """The paths of another plan that are clearly cheaper than the present ones, and what share of these they cost."""
    cheaper: dict[Place, float] = {}
    for place in places:
        old, new = (foreseen(plan.path(place), catalog) for plan in (present, planned))
        if old is not None and new is not None and new.cost * CLEARLY < old.cost:
            cheaper[place] = new.cost / old.cost
    return cheaper
