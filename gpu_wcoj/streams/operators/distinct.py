"""Distinct: rows of positive weight as a set."""

from __future__ import annotations

from gpu_wcoj.streams.device_context import Place
from gpu_wcoj.streams.operator import Operator
from gpu_wcoj.zset.zset import ZSet


class Distinct(Operator):
    """``out(r) = 1 if in(r) > 0 else 0``. Not linear."""

    def evaluate(self, rows: ZSet) -> ZSet:
        """Return the rows of positive weight, each with weight 1."""
        return distinct(self.place, rows)


def distinct(place: Place, rows: ZSet) -> ZSet:
    """Return the rows of positive weight, each with weight 1."""
    return place.unit(place.select_rows(rows, rows.stored_weights > 0))
