"""Semijoin: the rows of one stream that have a match in another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpu_wcoj.streams.matching import JoinShape, has_match
from gpu_wcoj.streams.operator import Operator
from gpu_wcoj.streams.operators.incremental_join import incremental_join
from gpu_wcoj.zset.zset import ZSet

if TYPE_CHECKING:
    from gpu_wcoj.streams.stream import Stream


class Semijoin(Operator):
    """``out(l) = left(l) · d(sum of right(r) with l's key)``.

    Linear in the left, not in the right.
    """

    def __init__(self, shape: JoinShape) -> None:
        self.shape = shape

    def evaluate(self, left: ZSet, right: ZSet) -> ZSet:
        """Return the rows that have a match."""
        return self.place.taken(left, has_match(self.place, self.shape, left, right)) if len(left) else left


def incremental_semijoin(left: Stream, right: Stream, shape: JoinShape) -> Stream:
    """Return the change of a semijoin: an incremental join with the distinct keys of the right."""
    keys = right.map(shape.right).incremental_distinct()
    return incremental_join(left, keys, JoinShape(shape.left, tuple(range(len(shape.right)))))
