"""Rows of a Z-set grouped by key columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpu_wcoj.data.column import Column
from gpu_wcoj.errors import NegativeWeightError
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.streams.device_context import Place
from gpu_wcoj.streams.layout import is_null
from gpu_wcoj.zset.arrays import positions
from gpu_wcoj.zset.zset import ZSet


@dataclass(frozen=True, eq=False)
class Groups:
    """The rows of a Z-set, group by group.

    Attributes
    ----------
    rows
        The Z-set, with its rows sorted by group.
    keys
        The positions of the key columns.
    starts
        Offset of each group.
    """

    place: Place
    rows: ZSet
    keys: tuple[int, ...]
    starts: Int64Array

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def weights(self) -> Int64Array:
        """The weight of every row."""
        return self.rows.stored_weights  # type: ignore[no-any-return]  # an array of the backend's module

    @property
    def group_of_rows(self) -> Int64Array:
        """The group index of every row."""
        xp = self.place.xp
        group: Int64Array = xp.searchsorted(self.starts, xp.arange(len(self.rows)), side="right") - 1
        return group

    def heads(self) -> list[Column]:
        """Return the key columns with one row per group."""
        return [self.place.taken_column(self.rows.columns[key], self.starts) for key in self.keys]


def levels_of(place: Place, columns: Sequence[Column]) -> list[Int64Array]:
    """Return the grouping levels of columns: null flags of nullable columns, and codes."""
    levels: list[Int64Array] = []
    for column in columns:
        if column.stored_valid is not None:
            levels.append(is_null(column, place))
        levels.append(place.xp.ascontiguousarray(column.stored))
    return levels


def grouped(place: Place, zset: ZSet, keys: Sequence[int]) -> Groups:
    """Group a Z-set with columns. O(n) if the key columns come first, else O(n log n)."""
    kernels, xp = place.backend.kernels, place.xp
    if not len(zset):
        return Groups(place, zset, tuple(keys), xp.zeros(0, np.int64))
    if not keys:
        return Groups(place, zset, (), xp.zeros(1, np.int64))
    levels = levels_of(place, [zset.columns[key] for key in keys])
    if tuple(keys) != tuple(range(len(keys))):
        order = kernels.lexsort(levels)
        zset = place.taken(zset, order)
        levels = [level[order] for level in levels]
    return Groups(place, zset, tuple(keys), kernels.run_starts(levels))


def keys_of(place: Place, zset: ZSet, keys: Sequence[int]) -> ZSet:
    """Return the distinct values of these columns."""
    groups = grouped(place, zset, keys)
    names = [zset.names[key] for key in keys]
    if not keys:
        return place.trusted((), (), np.ones(len(groups), np.int64))
    return place.made(names, groups.heads(), place.xp.ones(len(groups), np.int64))


def refuse_negative(place: Place, zset: ZSet, weights: Int64Array, doing: str) -> None:
    """Raise if one of these weights of the rows is negative."""
    (below,) = positions(place.backend, weights < 0)
    if len(below):
        row = place.taken(zset, below[:1]).rows()[0][0]
        weight = int(place.backend.to_host(weights[below[:1]])[0])
        raise NegativeWeightError(doing, row, weight, hint=", or put distinct before it")
