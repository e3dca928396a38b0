"""How the rows of a trace are stored: which columns stand in which order, and what the levels of its tries hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpu_wcoj.column import Column
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.schema import DataType
from gpu_wcoj.streams.place import Place, check_arity, common_type, place_of, places_of
from gpu_wcoj.zset.arrays import BoolArray
from gpu_wcoj.zset.zset import ZSet

ColumnName = str | int
"""A column's name or position."""

ITERATION = "#iteration"
"""The name of the column with the time in traces that keep it, always the last; no other column may have it."""


@dataclass(frozen=True)
class Sorting:
    """What rows are sorted by: key columns first, then these columns, True for a descending one, then all others.

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

    A column that has had a null takes two levels: 1 where it is null, and the code. So nulls stand last. Codes of a
    descending column are stored with all bits flipped. Without key columns there is a first level that is 0
    throughout, so that all rows are one group.

    Attributes
    ----------
    names, types, nullable
        Column by column.
    order
        The columns as they follow each other in the levels.
    keys
        How many of these are key columns.
    descending
        The columns whose order is turned round.
    """

    names: tuple[str, ...]
    types: tuple[DataType, ...]
    nullable: tuple[bool, ...]
    order: tuple[int, ...]
    keys: int
    descending: frozenset[int]

    @staticmethod
    def of(zset: ZSet, sorting: Sorting) -> Layout:
        """The layout of a trace whose first rows are these."""
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
        """The layout that holds these rows too."""
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
        """Whether rows that are sorted as a Z-set's are sorted here."""
        return self.order == tuple(range(len(self.order))) and not any(self.nullable) and not self.descending

    def width(self, columns: int) -> int:
        """How many levels the first so many columns of the order take."""
        return (not self.keys) + sum(1 + self.nullable[column] for column in self.order[:columns])

    def levels(self, zset: ZSet, place: Place) -> list[Int64Array]:
        """The rows of a Z-set, a column a level."""
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
        """Values of the first columns of the order as levels, and which rows can be found; None for all of them.

        Parameters
        ----------
        nulls
            Whether a null is found where a null is stored. In joins it is not.
        count
            How many rows there are, if there are no columns.
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
        """The columns behind the levels of some rows, in the columns' own order."""
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
            by_position[position] = Column(kind, ~codes if position in self.descending else codes, valid, place.dictionary(kind))
            if valid is not None and position in self.descending:
                by_position[position] = Column(kind, place.xp.where(valid, ~codes, 0), valid, place.dictionary(kind))
        return [by_position[index] for index in range(len(by_position))]


def is_null(column: Column, place: Place) -> Int64Array:
    """1 where the column is null, else 0."""
    if column.stored_valid is None:
        return place.xp.zeros(len(column), np.int64)  # type: ignore[no-any-return]  # an array of the backend's module
    return 1 - column.stored_valid.astype(np.int64)  # type: ignore[no-any-return]
