"""Outer joins: left, right and full."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from gpu_wcoj.streams.device_context import NOTHING
from gpu_wcoj.streams.matching import JoinShape, pad_rows
from gpu_wcoj.streams.operator import Operator
from gpu_wcoj.streams.operators.antijoin import Antijoin, incremental_antijoin
from gpu_wcoj.streams.operators.incremental_join import incremental_join
from gpu_wcoj.streams.operators.join import Join
from gpu_wcoj.zset.zset import ZSet

if TYPE_CHECKING:
    from gpu_wcoj.streams.stream import Stream

Side = Literal["left", "right", "full"]


class Pad(Operator):
    """Rows of one side of an outer join, padded with nulls for the other side. Linear.

    Parameters
    ----------
    rows_are_left
        Of which side the rows are.
    """

    state: ZSet = NOTHING
    """The other side's columns, as far as they are known; no rows."""

    def __init__(self, shape: JoinShape, rows_are_left: bool) -> None:
        self.shape, self.rows_are_left = shape, rows_are_left

    def evaluate(self, rows: ZSet, other_side: ZSet) -> ZSet:
        """Return the padded rows."""
        if other_side.columns:
            self.state = self.place.plus(self.place.taken(other_side, slice(0)), self.state)
        return pad_rows(self.place, self.shape, rows, self.state, self.rows_are_left)


def outer_join(left: Stream, right: Stream, shape: JoinShape, keep: Side, incremental: bool) -> Stream:
    """Return the join plus unmatched rows of the left, the right or both sides. Not linear."""
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
