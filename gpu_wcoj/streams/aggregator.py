"""Base class of aggregators, which make rows from the rows of groups."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpu_wcoj.data.column import Column
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.streams.device_context import Place
from gpu_wcoj.streams.grouped import Groups
from gpu_wcoj.zset.zset import ZSet

ColumnName = str | int
"""A column by name or position."""


class Aggregator:
    """Base of aggregators, which make one or more rows of every group; must be deterministic.

    Attributes
    ----------
    counts_once
        Whether `totals` count each row of positive weight once instead of with its weight.
    """

    counts_once = False

    def of(self, groups: Groups) -> ZSet:
        """Return the rows made of all groups: key columns, then results. All weights are positive."""
        raise NotImplementedError

    def totals(self, rows: ZSet, place: Place) -> list[Int64Array] | None:
        """Return what each row adds to the totals of its group, the row count first; None if unused.

        Aggregates that are functions of sums are maintained without reading a group again.

        Aggregates that are functions of sums are kept up to date without looking at a group again.
        """
        del rows, place
        return None

    def finished(self, totals: Sequence[Int64Array], like: ZSet, place: Place) -> tuple[list[str], list[Column]]:
        """Return the result columns from group totals.

        `like` has the columns of the aggregated rows.
        """
        raise NotImplementedError

    def first(self, rows: ZSet) -> tuple[int, tuple[tuple[int, bool], ...]] | None:
        """Return the number of deciding rows and the columns that sort them first.

        None if unsortable.
        """
        del rows
        return None

    @property
    def sorts_by(self) -> tuple[tuple[ColumnName, bool], ...]:
        """Columns by which a trace is sorted for `first`, True for a descending column."""
        return ()


def per_group(groups: Groups, names: Sequence[str], columns: Sequence[Column]) -> ZSet:
    """Return one row per group: its key columns, then `columns`."""
    keys = [groups.rows.names[key] for key in groups.keys]
    ones = groups.place.xp.ones(len(groups), np.int64)
    return groups.place.made([*keys, *names], [*groups.heads(), *columns], ones)
