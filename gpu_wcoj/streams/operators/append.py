"""Append to a trace, with and without time."""

from __future__ import annotations

from gpu_wcoj.streams.layout import Sorting
from gpu_wcoj.streams.operator import Operator
from gpu_wcoj.streams.timed import TimedTrace
from gpu_wcoj.streams.trace import Trace
from gpu_wcoj.zset.zset import ZSet


class Append(Operator):
    """``out[t] = out[t - 1] + in[t]`` as a trace: the sum along the stream's clock. Linear.

    A tick costs what its change holds, and the logarithm of the whole.
    """

    state: tuple[Trace, bool]

    def __init__(self, sorting: Sorting = Sorting()) -> None:  # noqa: B008  # it is immutable
        self.sorting = sorting

    def clock_start(self, scope: int) -> None:
        """Reset to an empty trace at the start of the operator's clock."""
        if scope == 0:
            self.state = Trace(self.place, self.sorting), True

    def evaluate(self, change: ZSet) -> Trace:
        """Return the trace with the change."""
        trace = self.state[0].append(change)
        self.state = trace, not len(change)
        return trace

    @property
    def settled(self) -> bool:
        """True if there was no change."""
        return self.state[1]


class TimedAppend(Operator):
    """``out = out + in`` as a trace whose entries keep their times, over all ticks. Linear.

    In a subcircuit, an entry keeps its iteration, and this tick's stand apart from those of earlier ticks. Outside,
    an entry keeps its tick.
    """

    state: tuple[TimedTrace, bool]

    def __init__(self, sorting: Sorting = Sorting()) -> None:  # noqa: B008  # it is immutable
        self.sorting = sorting

    def clock_start(self, scope: int) -> None:
        """Start with an empty trace on the outermost clock.

        At each tick, the present becomes earlier.
        """
        if scope == self.scope.depth:
            self.state = TimedTrace.empty(self.place, self.sorting), True
        elif scope == 0:
            self.state = self.state[0].next_tick(), True

    def evaluate(self, change: ZSet) -> TimedTrace:
        """Return the trace with the change at this time."""
        time = self.time
        trace = self.state[0].append(change, time.iteration if self.scope.depth else time.tick)
        self.state = trace, not len(change)
        return trace

    @property
    def settled(self) -> bool:
        """True if there was no change."""
        return self.state[1]
