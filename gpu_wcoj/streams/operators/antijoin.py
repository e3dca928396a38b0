"""Antijoin: the rows of one stream that have no match in another."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gpu_wcoj.streams.matching import JoinShape, has_match
from gpu_wcoj.streams.operator import Operator
from gpu_wcoj.streams.operators.semijoin import incremental_semijoin
from gpu_wcoj.zset.zset import ZSet

if TYPE_CHECKING:
    from gpu_wcoj.streams.stream import Stream


class Antijoin(Operator):
    """``out = left - semijoin(left, right)``; a null key has no match. Linear in the left only."""

    def __init__(self, shape: JoinShape) -> None:
        self.shape = shape

    def evaluate(self, left: ZSet, right: ZSet) -> ZSet:
        """Return the rows that have no match."""
        if not len(left):
            return left
        without = self.place.xp.ones(len(left), np.bool_)
        without[has_match(self.place, self.shape, left, right)] = False
        return self.place.select_rows(left, without)


def incremental_antijoin(left: Stream, right: Stream, shape: JoinShape) -> Stream:
    """Return the change of an antijoin."""
    return left - incremental_semijoin(left, right, shape)
