"""Join of two streams, value by value."""

from __future__ import annotations

from gpu_wcoj.streams.device_context import NOTHING
from gpu_wcoj.streams.matching import JoinShape, keyed, match_rows
from gpu_wcoj.streams.operator import Operator
from gpu_wcoj.zset.zset import ZSet


class Join(Operator):
    """``out(l, r) = left(l) · right(r)`` for equal keys; null equals nothing. Bilinear.

    It pairs what the two streams hold at one time. O(rows of both, and of the result), times a logarithm.
    """

    def __init__(self, shape: JoinShape) -> None:
        self.shape = shape

    def evaluate(self, left: ZSet, right: ZSet) -> ZSet:
        """Return all pairs."""
        if not len(left) or not len(right):
            return NOTHING
        pairs = match_rows(self.place, self.shape, left, keyed(self.place, right, self.shape.right), True, None)
        return pairs[0][1] if pairs else NOTHING

    @property
    def label(self) -> str:
        """A short description of the operator."""
        return f"join on {self.shape}"
