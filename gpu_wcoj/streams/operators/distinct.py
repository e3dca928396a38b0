"""distinct: what is there."""

from __future__ import annotations

from gpu_wcoj.streams.operator import Operator
from gpu_wcoj.streams.place import Place
from gpu_wcoj.zset.zset import ZSet


class Distinct(Operator):
    """``out(r) = 1 if in(r) > 0 else 0``. Not linear."""

    def evaluate(self, rows: ZSet) -> ZSet:
        """The rows of positive weight, each with the weight 1."""
        return distinct(self.place, rows)


def distinct(place: Place, rows: ZSet) -> ZSet:
    """The rows of positive weight, each with the weight 1."""
    return place.unit(place.held(rows, rows.stored_weights > 0))
