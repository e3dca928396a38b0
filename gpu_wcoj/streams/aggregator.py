"""Aggregators: what makes rows of the rows of groups."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpu_wcoj.column import Column
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.streams.grouped import Groups
from gpu_wcoj.streams.place import Place
from gpu_wcoj.zset.zset import ZSet

ColumnName = str | int
"""A column by its name or its place."""


class Aggregator:
    """Makes a row, or some rows, of every group; pure: the same rows give the same.

    Attributes
    ----------
    counts_once
        Whether `totals` are of rows of positive weight, each once, and not as often as its weight says.
    """

    counts_once = False

    def of(self, groups: Groups) -> ZSet:
        """The rows made of all groups: their key columns and the results, each once. No weight is below 1."""
        raise NotImplementedError

    def totals(self, rows: ZSet, place: Place) -> list[Int64Array] | None:
        """Per row, what it adds to each total of its group, the number of rows first; None if there are no totals.

        Aggregates that are functions of sums are kept up to date without looking at a group again.
        """
        del rows, place
        return None

    def finished(self, totals: Sequence[Int64Array], like: ZSet, place: Place) -> tuple[list[str], list[Column]]:
        """The result columns from the totals of some groups; `like` has the columns of what is aggregated."""
        raise NotImplementedError

    def first(self, rows: ZSet) -> tuple[int, tuple[tuple[int, bool], ...]] | None:
        """How many rows decide, and the columns whose order of codes puts these first; None if codes do not tell."""
        del rows
        return None

    @property
    def sorts_by(self) -> tuple[tuple[ColumnName, bool], ...]:
        """The columns by which a trace is sorted for `first`, True for a descending one."""
        return ()


def per_group(groups: Groups, names: Sequence[str], columns: Sequence[Column]) -> ZSet:
    """A row a group: its key columns, then these."""
    keys = [groups.rows.names[key] for key in groups.keys]
    ones = groups.place.xp.ones(len(groups), np.int64)
    return groups.place.made([*keys, *names], [*groups.heads(), *columns], ones)
