"""Incremental distinct: the change of the set of rows of positive weight."""

from __future__ import annotations

import numpy as np

from gpu_wcoj.streams.operator import Operator
from gpu_wcoj.streams.trace import Trace
from gpu_wcoj.zset.arrays import positions
from gpu_wcoj.zset.zset import ZSet


class IncrementalDistinct(Operator):
    """``out = d(trace + change) - d(trace)``, d(w) = 1 if w > 0 else 0, per row. Not linear.

    The trace is that of the changes before. O(rows of the change), times a logarithm.
    """

    def evaluate(self, change: ZSet, before: Trace) -> ZSet:
        """Return the inserted and deleted rows."""
        if not len(change):
            return change
        place = self.place
        old = before.weights_of(change)
        new = old + place.backend.asarray(change.stored_weights)
        signs = (new > 0).astype(np.int64) - (old > 0).astype(np.int64)
        (rows,) = positions(place.backend, signs != 0)
        if not change.columns:
            return place.made((), (), place.backend.to_host(signs))
        columns = [place.taken_column(column, rows) for column in change.columns]
        return place.trusted(change.names, columns, signs[rows])
