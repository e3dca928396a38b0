"""Join of changes with a trace."""

from __future__ import annotations

from gpu_wcoj.streams.later import Later
from gpu_wcoj.streams.matching import JoinShape, match_rows
from gpu_wcoj.streams.operator import Operator
from gpu_wcoj.streams.timed import TimedTrace
from gpu_wcoj.streams.trace import Trace
from gpu_wcoj.zset.zset import ZSet


class JoinTrace(Operator):
    """``out(l, r) = change(l) · trace(r)`` for equal keys; null equals nothing. Bilinear.

    With a trace that keeps times, in a subcircuit, a pair belongs to the later of both iterations, and waits for it.
    O(rows of the change, and of the result), times a logarithm of the trace.

    Parameters
    ----------
    change_is_left
        Whether the change is on the left of the join.
    """

    state: Later = Later()

    def __init__(self, shape: JoinShape, change_is_left: bool = True) -> None:
        self.shape, self.change_is_left = shape, change_is_left

    def clock_start(self, scope: int) -> None:
        """Clear the pending results at the start of a tick."""
        if scope == 0:
            self.state = Later()

    def evaluate(self, change: ZSet, trace: Trace | TimedTrace) -> ZSet:
        """Return all pairs of this time."""
        is_timed = isinstance(trace, TimedTrace) and self.scope.depth > 0
        now = self.time.iteration if is_timed else 0
        out, later = self.state.without(now)
        for iteration, rows in match_rows(
            self.place, self.shape, change, trace, self.change_is_left, now if is_timed else None
        ):
            if iteration == now:
                out = self.place.plus(out, rows)
            else:
                later = later.with_rows(self.place, iteration, rows)
        self.state = later
        return out

    @property
    def settled(self) -> bool:
        """True if nothing is pending."""
        return not self.state

    @property
    def label(self) -> str:
        """A short description of the operator."""
        return f"join with a trace on {self.shape}"
