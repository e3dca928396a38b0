"""Distinct of a trace under nested time."""

from __future__ import annotations

from gpu_wcoj.streams.nested import Due, nested_change
from gpu_wcoj.streams.operator import Operator
from gpu_wcoj.streams.operators.distinct import distinct
from gpu_wcoj.streams.timed import TimedTrace
from gpu_wcoj.zset.zset import ZSet


class NestedDistinct(Operator):
    """The change of the set of rows of positive weight, by tick and iteration. Not linear.

    The trace holds this iteration's change, and its key columns are all columns. A row that changes at one iteration
    is looked at again at every later one at which it has changed in an earlier tick.
    """

    state: Due = Due()

    def clock_start(self, scope: int) -> None:
        """Clear the due rows at the start of a tick."""
        if scope == 0:
            self.state = Due()

    def evaluate(self, change: ZSet, trace: TimedTrace) -> ZSet:
        """Return inserted and deleted rows at this iteration against that of the previous tick."""
        if not len(change) and not self.state:
            return change
        place = self.place
        keys = range(len(trace.names))
        out, self.state = nested_change(
            change, trace, keys, self.state, self.time.iteration, lambda rows: distinct(place, rows)
        )
        return out if out.columns or len(out) else change if not len(change) else place.taken(change, slice(0))

    @property
    def settled(self) -> bool:
        """True if no row is due later."""
        return not self.state
