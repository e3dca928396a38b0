"""Negation of weights."""

from __future__ import annotations

from gpu_wcoj.streams.operator import Operator
from gpu_wcoj.streams.timed import TimedTrace
from gpu_wcoj.streams.trace import Trace
from gpu_wcoj.zset.zset import ZSet


class Negate(Operator):
    """``out(r) = -in(r)``, at the same time. Linear."""

    def evaluate(self, rows: ZSet | Trace | TimedTrace) -> ZSet | Trace | TimedTrace:
        """Return the rows with negated weights; entries of a trace keep their times."""
        if isinstance(rows, TimedTrace):
            return TimedTrace(self._negated(rows.earlier), self._negated(rows.present))
        return self._negated(rows) if isinstance(rows, Trace) else self.place.negated(rows)

    def _negated(self, trace: Trace) -> Trace:
        return Trace(trace.place, trace.sorting).append(self.place.negated(trace.consolidated()))
