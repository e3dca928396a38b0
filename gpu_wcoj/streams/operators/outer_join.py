"""Outer joins: left, right and full."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from gpu_wcoj.streams.matching import JoinShape, padded
from gpu_wcoj.streams.operator import Operator
from gpu_wcoj.streams.operators.antijoin import Antijoin, incremental_antijoin
from gpu_wcoj.streams.operators.incremental_join import incremental_join
from gpu_wcoj.streams.operators.join import Join
from gpu_wcoj.streams.place import NOTHING
from gpu_wcoj.zset.zset import ZSet

if TYPE_CHECKING:
    from gpu_wcoj.streams.stream import Stream

Side = Literal["left", "right", "full"]


class Pad(Operator):
    """Rows of one side of an outer join, null where the columns of the other side stand. Linear.

    Parameters
    ----------
    rows_are_left
        Of which side the rows are.
    """

    state: ZSet = NOTHING
    """The other side's columns, as far as they are known; no rows."""

    def __init__(self, shape: JoinShape, rows_are_left: bool) -> None:
        self.shape, self.rows_are_left = shape, rows_are_left

    def evaluate(self, rows: ZSet, other: ZSet) -> ZSet:
        """The rows, wider."""
        if other.columns:
            self.state = self.place.plus(self.place.taken(other, slice(0)), self.state)
        return padded(self.place, self.shape, rows, self.state, self.rows_are_left)


def outer_join(left: Stream, right: Stream, shape: JoinShape, keep: Side, incremental: bool) -> Stream:
    """The join, and the rows of the left, of the right, or of both, that have no match. Not linear."""
    scope, mirrored = left.scope, JoinShape(shape.right, shape.left)
    result = incremental_join(left, right, shape) if incremental else scope.add(Join(shape), left, right)
    if keep in ("left", "full"):
        unmatched = incremental_antijoin(left, right, shape) if incremental else scope.add(Antijoin(shape), left, right)
        result += scope.add(Pad(shape, rows_are_left=True), unmatched, right)
    if keep in ("right", "full"):
        unmatched = (
            incremental_antijoin(right, left, mirrored) if incremental else scope.add(Antijoin(mirrored), right, left)
        )
        result += scope.add(Pad(shape, rows_are_left=False), unmatched, left)
    return result
