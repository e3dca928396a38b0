"""Difference of two streams."""

from __future__ import annotations

from gpu_wcoj.streams.operator import Operator
from gpu_wcoj.zset.zset import ZSet


class Minus(Operator):
    """``out(r) = left(r) - right(r)``, with the names of `left`. Linear in both together."""

    def evaluate(self, left: ZSet, right: ZSet) -> ZSet:
        """Return the difference."""
        return self.place.minus(left, self.place.turned(left, right))
