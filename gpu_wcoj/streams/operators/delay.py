"""Delay: z⁻¹."""

from __future__ import annotations

from gpu_wcoj.streams.device_context import NOTHING
from gpu_wcoj.streams.operator import Operator
from gpu_wcoj.zset.zset import ZSet


class Delay(Operator):
    """``z⁻¹(s)[t] = s[t - 1]``, and 0 before the first tick or iteration. Linear."""

    state: tuple[ZSet, bool] = (NOTHING, True)

    def clock_start(self, scope: int) -> None:
        """Reset to 0 at the start of the operator's clock."""
        if scope == 0:
            self.state = NOTHING, True

    def evaluate(self, rows: ZSet) -> ZSet:
        """Return the previous value."""
        before = self.state[0]
        self.state = rows, self.place.equal(before, rows)
        return before

    @property
    def settled(self) -> bool:
        """True if the same value came again."""
        return self.state[1]
