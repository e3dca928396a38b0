"""Storage layout of traces: the order of columns and the levels of the tries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpu_wcoj.data.column import Column
from gpu_wcoj.data.schema import DataType
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.streams.device_context import Place, check_arity, common_type, place_of, places_of
from gpu_wcoj.zset.arrays import BoolArray
from gpu_wcoj.zset.zset import ZSet

ColumnName = str | int
"""A column's name or position."""

ITERATION = "#iteration"
"""The reserved name of the last column, the iteration, in traces with times."""


@dataclass(frozen=True)
class Sorting:
    """The sort order of rows: key columns, then `by` (True: descending), then all others.

    Attributes
    ----------
    keys
        None for all columns.
    """

    keys: tuple[ColumnName, ...] | None = ()
    by: tuple[tuple[ColumnName, bool], ...] = ()


@dataclass(frozen=True)
class Layout:
    """Columns as levels.

    A column with nulls takes two levels: 1 where it is null, and the code. So nulls are last. Codes of a descending
    column are stored with all bits flipped. Without key columns there is a constant first level 0, so that all rows are
    one group.

    Attributes
    ----------
    names, types, nullable
        Column by column.
    order
        The columns in the order of the levels.
    keys
        Number of key columns, the first of these.
    descending
        The columns in descending order.
    """

    names: tuple[str, ...]
    types: tuple[DataType, ...]
    nullable: tuple[bool, ...]
    order: tuple[int, ...]
    keys: int
    descending: frozenset[int]

    @staticmethod
    def from_rows(zset: ZSet, sorting: Sorting) -> Layout:
        """Return the layout of a trace whose first rows are `zset`."""
        names = zset.names
        data_names = names[:-1] if names[-1:] == (ITERATION,) else names
        keys = list(range(len(data_names))) if sorting.keys is None else places_of(data_names, sorting.keys)
        by = [(place_of(data_names, column), down) for column, down in sorting.by]
        order = list(dict.fromkeys([*keys, *(column for column, _ in by), *range(len(names))]))
        return Layout(
            names,
            tuple(column.type for column in zset.columns),
            tuple(column.stored_valid is not None for column in zset.columns),
            tuple(order),
            len(keys),
            frozenset(column for column, down in by if down),
        )

    def joined(self, zset: ZSet) -> Layout:
        """Return the layout extended to the types and nulls of these rows."""
        check_arity(self.names, zset.names)
        types = tuple(
            kind if kind == column.type else common_type([kind, column.type], f"column '{name}'")
            for name, kind, column in zip(self.names, self.types, zset.columns, strict=True)
        )
        nullable = tuple(
            flag or column.stored_valid is not None for flag, column in zip(self.nullable, zset.columns, strict=True)
        )
        if types == self.types and nullable == self.nullable:
            return self
        return replace(self, types=types, nullable=nullable)

    @property
    def keeps_order(self) -> bool:
        """True if rows in the order of a Z-set are sorted in this layout too."""
        return self.order == tuple(range(len(self.order))) and not any(self.nullable) and not self.descending

    def width(self, columns: int) -> int:
        """Return the number of levels of the first `columns` columns of the order."""
        return (not self.keys) + sum(1 + self.nullable[column] for column in self.order[:columns])

    def levels(self, zset: ZSet, place: Place) -> list[Int64Array]:
        """Return the rows of a Z-set as levels."""
        levels: list[Int64Array] = [] if self.keys else [place.xp.zeros(len(zset), np.int64)]
        for position in self.order:
            column = place.converted(zset.columns[position], self.types[position])
            if self.nullable[position]:
                levels.append(is_null(column, place))
            levels.append(~column.stored if position in self.descending else column.stored)
        return levels

    def probe(
        self, columns: Sequence[Column], place: Place, nulls: bool, count: int = 1
    ) -> tuple[BoolArray | None, list[Int64Array]]:
        """Return a mask of rows that can match, or None for all, and columns of the order as levels.

        Parameters
        ----------
        nulls
            Whether null matches null, which it does not in joins.
        count
            Number of rows, if there are no columns.
        """
        xp = place.xp
        count = len(columns[0]) if columns else count
        levels: list[Int64Array] = [] if self.keys else [xp.zeros(count, np.int64)]
        masks: list[BoolArray] = []
        for position, column in zip(self.order, columns, strict=False):
            kind, codes = self.types[position], column.stored
            common_type([kind, column.type], f"column '{self.names[position]}'")
            up, down = column.type.factor_to(kind), kind.factor_to(column.type)
            if up > 1:
                limit = (2**63 - 1) // up
                fits = (codes <= limit) & (codes >= -limit)
                masks.append(fits)
                codes = xp.where(fits, codes, 0) * up
            elif down > 1:
                masks.append(codes % down == 0)
                codes = codes // down
            if column.stored_valid is not None and not (nulls and self.nullable[position]):
                masks.append(column.stored_valid)
            if self.nullable[position]:
                levels.append(is_null(column, place))
            levels.append(~codes if position in self.descending else codes)
        mask = None
        for row_mask in masks:
            mask = row_mask if mask is None else mask & row_mask
        return mask, levels

    def columns(self, levels: Sequence[Int64Array], place: Place) -> list[Column]:
        """Return the columns of rows given as levels, in the order of the names."""
        parts = iter(levels)
        if not self.keys:
            next(parts)
        by_position: dict[int, Column] = {}
        for position in self.order:
            valid = next(parts) == 0 if self.nullable[position] else None
            if valid is not None and bool(valid.all()):
                valid = None
            codes = next(parts)
            kind = self.types[position]
            by_position[position] = Column(
                kind, ~codes if position in self.descending else codes, valid, place.dictionary(kind)
            )
            if valid is not None and position in self.descending:
                by_position[position] = Column(kind, place.xp.where(valid, ~codes, 0), valid, place.dictionary(kind))
        return [by_position[index] for index in range(len(by_position))]


def is_null(column: Column, place: Place) -> Int64Array:
    """Return 1 where the column is null, else 0."""
    if column.stored_valid is None:
        return place.xp.zeros(len(column), np.int64)  # type: ignore[no-any-return]  # an array of the backend's module
    return 1 - column.stored_valid.astype(np.int64)  # type: ignore[no-any-return]
