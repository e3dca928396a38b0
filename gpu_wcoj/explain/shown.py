"""A program's plan, as its user asks for it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from gpu_wcoj.explain.counted import with_counts
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
    """

    name_of: ColumnName
    backend: str
    is_bag: bool
    route: str | None
    chosen: str | None = None

    def tree(self, plan: Plan) -> PlanTree:
        """A plan."""
        semantics: Literal["set", "bag"] = "bag" if self.is_bag else "set"
        return replace(described(plan, self.name_of, self.backend, semantics, self.route), chosen=self.chosen)

    def analyzed(self, plan: Plan, report: TickReport) -> PlanTree:
        """The plan that the last tick went by, with what the tick did; `plan` if there was no such tick."""
        if report.plan is None:
            return with_counts(self.tree(plan), report, [f"{_why_none(report)}: what the next one does is measured"])
        notes = [] if report.plan is plan else ["the next tick goes by another plan"]
        return with_counts(self.tree(report.plan), report, notes)


def _why_none(report: TickReport) -> str:
    return "there has been no tick" if report.tick < 0 else "nothing changed in the last tick, or it was restored"
