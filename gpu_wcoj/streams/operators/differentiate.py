"""Differentiation: D."""

from __future__ import annotations

from gpu_wcoj.streams.device_context import NOTHING
from gpu_wcoj.streams.operator import Operator
from gpu_wcoj.zset.zset import ZSet


class Differentiate(Operator):
    """``D(s) = s - z⁻¹(s)``: the changes of a stream. Linear; undoes `Integrate`."""

    state: tuple[ZSet, bool] = (NOTHING, True)

    def clock_start(self, scope: int) -> None:
        """Reset to 0 at the start of the operator's clock."""
        if scope == 0:
            self.state = NOTHING, True

    def evaluate(self, rows: ZSet) -> ZSet:
        """Return the change since the previous value. O(rows)."""
        change = self.place.minus(rows, self.state[0])
        self.state = rows, not len(change)
        return change

    @property
    def settled(self) -> bool:
        """True if nothing changed."""
        return self.state[1]
