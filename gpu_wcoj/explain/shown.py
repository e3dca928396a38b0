"""A program's plan, as its user asks for it."""

from __future__ import annotations

from dataclasses import dataclass
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
    """

    name_of: ColumnName
    backend: str
    is_bag: bool
    route: str | None

    def tree(self, plan: Plan) -> PlanTree:
        """A plan."""
        semantics: Literal["set", "bag"] = "bag" if self.is_bag else "set"
        return described(plan, self.name_of, self.backend, semantics, self.route)

    def analyzed(self, plan: Plan, report: TickReport) -> PlanTree:
        """The plan that the last tick went by, with what the tick did; `plan` if there was no such tick."""
        tree = self.tree(plan if report.plan is None else report.plan)
        notes = []
        if report.plan is None:
            notes.append("there has been no tick" if report.tick < 0 else "this tick changed nothing, or was restored")
        elif report.plan is not plan:
            notes.append("the next tick goes by another plan")
        return with_counts(tree, report, notes)
