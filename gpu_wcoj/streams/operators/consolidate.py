"""Consolidation of a trace to a Z-set."""

from __future__ import annotations

from gpu_wcoj.streams.operator import Operator
from gpu_wcoj.streams.timed import TimedTrace
from gpu_wcoj.streams.trace import Trace
from gpu_wcoj.zset.zset import ZSet


class Consolidate(Operator):
    """``out(r) = sum of the weights of all entries of r`` over all times. Linear.

    O(rows of the trace).
    """

    def evaluate(self, trace: Trace | TimedTrace) -> ZSet:
        """Return all rows of the trace."""
        return trace.consolidated()
