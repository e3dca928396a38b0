"""Delay of a trace: z⁻¹."""

from __future__ import annotations

from gpu_wcoj.streams.operator import Operator
from gpu_wcoj.streams.timed import TimedTrace
from gpu_wcoj.streams.trace import Trace


class DelayTrace(Operator):
    """The trace before this tick's, or this iteration's, change. Linear.

    A trace that sums along one clock begins with 0 whenever that clock starts. One that keeps times goes over all
    ticks, and so does its delay: at iteration 0 it is what the tick before left.

    Attributes
    ----------
    timed
        Whether the trace keeps times.
    """

    state: tuple[Trace | TimedTrace, bool]

    def __init__(self, timed: bool) -> None:
        self.timed = timed

    def clock_start(self, scope: int) -> None:
        """Reset to an empty trace at the start of the trace's clock."""
        if scope == (self.scope.depth if self.timed else 0):
            self.state = TimedTrace.empty(self.place) if self.timed else Trace(self.place), True

    def evaluate(self, trace: Trace | TimedTrace) -> Trace | TimedTrace:
        """Return the trace of the previous call."""
        before = self.state[0]
        self.state = trace, before is trace
        return before

    @property
    def settled(self) -> bool:
        """True if the same trace came again."""
        return self.state[1]
