"""Aggregation of a Z-set by groups, shared by all aggregates."""

from __future__ import annotations

from collections.abc import Sequence

from gpu_wcoj.streams.aggregator import Aggregator
from gpu_wcoj.streams.device_context import NOTHING, Place, places_of
from gpu_wcoj.streams.grouped import grouped, refuse_negative
from gpu_wcoj.streams.layout import ColumnName
from gpu_wcoj.zset.zset import ZSet


def aggregate_rows(place: Place, rows: ZSet, keys: Sequence[ColumnName], aggregator: Aggregator) -> ZSet:
    """Return the aggregator's rows for all groups of rows that agree in the key columns.

    Raises
    ------
    NegativeWeightError
        If a row has a negative weight.
    """
    if not len(rows):
        return NOTHING
    refuse_negative(place, rows, rows.stored_weights, "aggregate")
    return aggregator.of(grouped(place, rows, places_of(rows.names, keys)))
