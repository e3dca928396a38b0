"""Cost of a path with branches (a bushy plan); see `gpu_wcoj.join.bushy`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from gpu_wcoj.join.plan import Branch, Step

CHANGES = 100.0
"""Assumed number of changed rows in one batch; their prefixes may share branches."""

BEGUN, GROUPED, JOINED = 2000.0, 1.5, 1.5
"""Costs in probes: to start a branch, to group one prefix, and to join one prefix with one row of a branch."""


@dataclass(eq=False)
class Bracketing:
    """Track how many prefixes each step of a path with branches is taken for.

    The rows of a branch are assumed to be distributed over the prefixes at random: if prefixes have m rows on average,
    the share exp(-m) of them has none.

    Attributes
    ----------
    spoken
        Per step, the mask of the variables that it reads.
    distinct
        Map (mask, number of prefixes) to the number of distinct bindings of the mask's variables.
    extra
        Accumulated cost in probes of grouping and joining back.

    Examples
    --------
    Ten prefixes, of two kinds for the branch; each kind has three rows, so each prefix has.

    >>> steps = Step("c", (0,)), Step("d", (1,))
    >>> one = Bracketing(steps, (Branch(0, 2),), [0, 0], lambda mask, rows: 2.0)
    >>> one.before(0, 10.0, {0: 1, 1: 1}, 1), round(one.after(2, 6.0)), round(one.extra, 1)
    (2.0, 30, 80.0)
    """

    steps: Sequence[Step]
    branches: Sequence[Branch]
    spoken: Sequence[int]
    distinct: Callable[[int, float], float]
    extra: float = 0.0
    _alive: float = 0.0
    _begun: float = 0.0
    _waiting: list[float] = field(default_factory=list)

    def before(self, step_index: int, rows: float, bound_by_atom: Mapping[int, int], bound: int) -> float:
        """Return the number of prefixes that enter a step.

        `bound_by_atom` are the variables that each atom has bound.
        """
        for branch in self.branches:
            if branch.begin == step_index:
                seen = 0
                for place in range(branch.begin, branch.end):
                    seen |= self.spoken[place] & bound
                    for atom_index in self.steps[place].atoms:
                        seen |= bound_by_atom[atom_index]
                if not self._waiting:
                    self._alive = rows
                self.extra += self._alive * GROUPED + BEGUN / CHANGES
                self._begun = min(self._alive, self.distinct(seen, self._alive))
                return self._begun
        return rows

    def after(self, step_index: int, rows: float) -> float:
        """Return the number of prefixes before a step, after finished branches are joined back."""
        if not any(branch.end == step_index for branch in self.branches):
            return rows
        each = rows / max(self._begun, 1e-300)
        share = -math.expm1(-each)
        self._alive *= share
        self._waiting.append(each / share if share else 1.0)
        if any(branch.begin == step_index for branch in self.branches):
            return rows  # the next branch starts from the same prefixes
        rows = self._alive
        for factor in self._waiting:
            rows *= factor
            self.extra += rows * JOINED
        self._waiting.clear()
        return rows
