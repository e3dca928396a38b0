"""A program's plan, as its user asks for it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from gpu_wcoj.explain.bounded import SizesOf, with_bounds
from gpu_wcoj.explain.counted import afresh_sentences, with_counts
from gpu_wcoj.explain.described import ColumnName, described
from gpu_wcoj.explain.tree import PlanTree
from gpu_wcoj.planner.lower import Plan
from gpu_wcoj.tick import TickReport


@dataclass(frozen=True, eq=False)
class Shown:
    """What of a program is shown.

    Attributes
    ----------
    name_of
        What stored columns are called.
    route
        Which ticks run where, if there is a choice.
    chosen
        Why the plan is another one than at first, if anything is to be said of that.
    ticked
        The last tick, if what is shown is the plan of its program.
    """

    name_of: ColumnName
    backend: str
    is_bag: bool
    route: str | None
    chosen: str | None = None
    ticked: TickReport = field(default_factory=TickReport)

    def tree(self, plan: Plan) -> PlanTree:
        """A plan."""
        semantics: Literal["set", "bag"] = "bag" if self.is_bag else "set"
        tree = described(plan, self.name_of, self.backend, semantics, self.route)
        recounted, declined = self.ticked.recounted, self.ticked.declined
        said = {name: afresh_sentences(own, declined.get(name, ())) for name, own in recounted.items()}
        heads = tuple(replace(head, recounted=said.get(head.name, ())) for head in tree.heads)
        return replace(tree, chosen=self.chosen, heads=heads)

    def of(self, plan: Plan, analyzed: TickReport | None = None, sizes_of: SizesOf | None = None) -> PlanTree:
        """What is shown of a plan.

        Parameters
        ----------
        analyzed
            The last tick, if what it did is to be shown: by the plan that it went by.
        sizes_of
            What is known of relations, if bounds are to be shown.
        """
        by = analyzed.plan if analyzed is not None and analyzed.plan is not None else plan
        tree = self.tree(by)
        if sizes_of is not None:
            tree = with_bounds(tree, by, sizes_of)
        return tree if analyzed is None else with_counts(tree, analyzed, _of_tick(analyzed, plan))


def _of_tick(report: TickReport, plan: Plan) -> list[str]:
    """What is to be said of the last tick, whatever was measured."""
    if report.plan is not None:
        return [] if report.plan.queries == plan.queries else ["the next tick goes by another plan"]
    why = "there has been no tick" if report.tick < 0 else "nothing changed in the last tick, or it was restored"
    return [f"{why}: what the next one does is measured"]
