"""Integration: I."""

from __future__ import annotations

from gpu_wcoj.streams.operators.append import Append
from gpu_wcoj.zset.zset import ZSet


class Integrate(Append):
    """``I(s)[t] = s[0] + ... + s[t]``: the sum along the stream's clock, as a Z-set. Linear.

    In a subcircuit it sums over the iterations of one tick. O(rows of the sum); a sum that is only looked at here and
    there is cheaper as a trace.
    """

    def evaluate(self, change: ZSet) -> ZSet:  # type: ignore[override]  # the rows of what it appends to
        """Return the sum so far."""
        return super().evaluate(change).consolidated()
