"""differentiate: D."""

from __future__ import annotations

from gpu_wcoj.streams.operator import Operator
from gpu_wcoj.streams.place import NOTHING
from gpu_wcoj.zset.zset import ZSet


class Differentiate(Operator):
    """``D(s) = s - z⁻¹(s)``: the changes of a stream. Linear; undoes `Integrate`."""

    state: tuple[ZSet, bool] = (NOTHING, True)

    def clock_start(self, scope: int) -> None:
        """A clock of its own begins with 0."""
        if scope == 0:
            self.state = NOTHING, True

    def evaluate(self, rows: ZSet) -> ZSet:
        """What has changed since the time before. O(rows)."""
        change = self.place.minus(rows, self.state[0])
        self.state = rows, not len(change)
        return change

    @property
    def settled(self) -> bool:
        """Whether nothing changed."""
        return self.state[1]
