"""integrate: I."""

from __future__ import annotations

from gpu_wcoj.streams.operator import Operator
from gpu_wcoj.streams.place import NOTHING
from gpu_wcoj.zset.zset import ZSet


class Integrate(Operator):
    """``I(s)[t] = s[0] + ... + s[t]``: the sum of a stream as a Z-set, along its own clock. Linear.

    In a subcircuit it sums over the iterations of one tick. A sum that is only to be looked at row by row is cheaper
    as a trace.
    """

    state: tuple[ZSet, bool] = (NOTHING, True)

    def clock_start(self, scope: int) -> None:
        """A clock of its own begins with 0."""
        if scope == 0:
            self.state = NOTHING, True

    def evaluate(self, rows: ZSet) -> ZSet:
        """The sum so far. O(rows of the sum)."""
        before = self.state[0]
        whole = before if not len(rows) and before.columns else self.place.plus(before, rows)
        self.state = whole, not len(rows)
        return whole

    @property
    def settled(self) -> bool:
        """Whether the sum stayed as it was."""
        return self.state[1]
