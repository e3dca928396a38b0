"""View of a program's plan with its settings and last tick."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from gpu_wcoj.engine.state import TickReport
from gpu_wcoj.explain.bounded import SizesOf, with_bounds
from gpu_wcoj.explain.build import afresh_sentences, with_counts
from gpu_wcoj.explain.described import ColumnName, build_tree
from gpu_wcoj.explain.tree import PlanTree
from gpu_wcoj.planner.lower import Plan


@dataclass(frozen=True, eq=False)
class PlanView:
    """The parts of a program that `explain` shows.

    Attributes
    ----------
    name_of
        Names of stored columns.
    route
        Rule that assigns ticks to backends, if there are several.
    chosen
        Reason for which the plan was replaced, if it was.
    ticked
        The last tick, if the plan is that of its program.
    """

    name_of: ColumnName
    backend: str
    is_bag: bool
    route: str | None
    chosen: str | None = None
    ticked: TickReport = field(default_factory=TickReport)

    def tree(self, plan: Plan) -> PlanTree:
        """Return the tree of a plan."""
        semantics: Literal["set", "bag"] = "bag" if self.is_bag else "set"
        tree = build_tree(plan, self.name_of, self.backend, semantics, self.route)
        recounted, declined = self.ticked.recounted, self.ticked.declined
        sentences = {name: afresh_sentences(phases, declined.get(name, ())) for name, phases in recounted.items()}
        heads = tuple(replace(head, recounted=sentences.get(head.name, ())) for head in tree.heads)
        return replace(tree, chosen=self.chosen, heads=heads)

    def explained_tree(
        self, plan: Plan, analyzed: TickReport | None = None, sizes_of: SizesOf | None = None
    ) -> PlanTree:
        """Return the tree of a plan, with bounds and the last tick's work if given.

        Parameters
        ----------
        analyzed
            The last tick, if its work is shown, in the plan that it used.
        sizes_of
            Bounds of atoms, if bounds are shown.
        """
        by = analyzed.plan if analyzed is not None and analyzed.plan is not None else plan
        tree = self.tree(by)
        if sizes_of is not None:
            tree = with_bounds(tree, by, sizes_of)
        return tree if analyzed is None else with_counts(tree, analyzed, _of_tick(analyzed, plan))


def _of_tick(report: TickReport, plan: Plan) -> list[str]:
    """Return the notes on the last tick."""
    if report.plan is not None:
        return [] if report.plan.queries == plan.queries else ["the next tick goes by another plan"]
    why = "there has been no tick" if report.tick < 0 else "nothing changed in the last tick, or it was restored"
    return [f"{why}: what the next one does is measured"]
