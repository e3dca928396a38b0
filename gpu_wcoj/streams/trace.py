"""Traces: the sum of a stream so far as a few sorted batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from gpu_wcoj.circuit.aggregate import entries_below
from gpu_wcoj.data.column import Column
from gpu_wcoj.data.schema import DataType
from gpu_wcoj.errors import NegativeWeightError, UsageError, WeightOverflowError
from gpu_wcoj.join.prefixes import weights_of_rows
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.streams.device_context import NOTHING, Place, common_type, is_nothing
from gpu_wcoj.trace.spine import Spine
from gpu_wcoj.zset.arrays import BoolArray, positions, stacked
from gpu_wcoj.zset.index import IndexedZSet
from gpu_wcoj.zset.zset import (
    ZSet,
    check_arity,
    code_keys,
    column_position,
    column_positions,
    select_columns,
    take_rows,
)

# Storage layout of traces: the order of columns and the levels of the tries.


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
        keys = list(range(len(data_names))) if sorting.keys is None else column_positions(data_names, sorting.keys)
        by = [(column_position(data_names, column), down) for column, down in sorting.by]
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
        """Return the rows of a Z-set in the types of the layout as levels."""
        levels: list[Int64Array] = [] if self.keys else [place.xp.zeros(len(zset), np.int64)]
        for position in self.order:
            column = zset.columns[position]
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
            codes, fits = place.codes_in(column, self.types[position], f"column '{self.names[position]}'")
            if fits is not None:
                masks.append(fits)
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


@dataclass(frozen=True, eq=False)
class TraceLookup:
    """Rows of a trace found by a lookup.

    Attributes
    ----------
    owner
        int64, the index of the looked-up row.
    columns
        In the order of the trace's names.
    weights
        int64. A row may occur several times, in different batches: its weights add.
    """

    owner: Int64Array
    columns: Sequence[Column]
    weights: Int64Array


@dataclass(frozen=True, eq=False)
class Trace:
    """The sum of a stream's changes.

    Immutable: `append` returns a trace that shares its batches.

    Attributes
    ----------
    place
        The backend and dictionaries.
    sorting
        Sort order of the rows; rows can be looked up by the key columns, or by all columns.
    layout
        Storage layout; None until columns have been seen.
    spine
        The batches.
    """

    place: Place
    sorting: Sorting = Sorting()  # it is immutable
    layout: Layout | None = None
    spine: Spine = Spine()  # noqa: RUF009  # it is immutable

    def __len__(self) -> int:
        return len(self.spine)

    def __repr__(self) -> str:
        return f"Trace({len(self)} rows in {len(self.spine.batches)} batches)"

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names; empty until columns have been seen."""
        return () if self.layout is None else self.layout.names

    def append(self, change: ZSet, is_exact: bool = True) -> Trace:
        """Return the trace with a change added. Amortised O(rows of the change), times a logarithm.

        Parameters
        ----------
        is_exact
            Whether weights are refused outside int64; otherwise they are added modulo 2^64.

        Raises
        ------
        WeightOverflowError
            If the exact weight of a row leaves int64.
        """
        return self if is_nothing(change) else self.fitted(change)._with(change, is_exact)

    def fitted(self, rows: ZSet) -> Trace:
        """Return the trace in a layout with the types and nulls of these rows too.

        O(n) if the layout changes, else O(1).
        """
        layout = Layout.from_rows(rows, self.sorting) if self.layout is None else self.layout.joined(rows)
        if layout is self.layout:
            return self
        fitted = Trace(self.place, self.sorting, layout)
        return fitted if self.layout is None else fitted._with(self.consolidated(), is_exact=False)

    def _with(self, change: ZSet, is_exact: bool = True) -> Trace:
        if not len(change):
            return self
        batch = self._batch(change)
        largest = [each.largest_weight for each in (*self.spine.batches, batch)] if is_exact else ()
        if sum(largest) >= 1 << 63:
            self._refuse_overflow(change)
        return replace(self, spine=self.spine.insert(batch))

    def _batch(self, zset: ZSet) -> IndexedZSet:
        assert self.layout is not None
        backend, zset = self.place.backend, self.place.fitted(zset, self.layout.types)
        levels = [backend.xp.ascontiguousarray(level) for level in self.layout.levels(zset, self.place)]
        weights = backend.asarray(zset.stored_weights)
        if not self.layout.keeps_order and len(weights) > 1:
            order = backend.kernels.lexsort(levels)
            levels, weights = [level[order] for level in levels], weights[order]
        ones = backend.device is None and bool((weights == 1).all())
        return IndexedZSet.from_sorted(levels, None if ones else weights, backend)

    def _refuse_overflow(self, change: ZSet) -> None:
        before = self.place.backend.to_host(self.weights_of(change)).tolist()
        for (row, weight), old in zip(change.rows(), before, strict=True):
            if not -(1 << 63) <= weight + old < 1 << 63:
                raise WeightOverflowError("<stream>", row, weight + old)

    def consolidated(self) -> ZSet:
        """Return all rows with their weights. O(n)."""
        return self._consolidated

    @cached_property
    def _consolidated(self) -> ZSet:
        if self.layout is None:
            return NOTHING
        batches = self.spine.compact().batches
        depth = self.layout.width(len(self.layout.order))
        merged = batches[0] if batches else IndexedZSet.empty(depth, self.place.backend)
        columns = self.layout.columns(merged.columns(), self.place)
        weights = merged.weight_column()
        if not columns:
            return self.place.made((), (), self.place.backend.to_host(weights))
        make = self.place.trusted if self.layout.keeps_order else self.place.made
        return make(self.layout.names, columns, weights)

    def below(self, keys: Sequence[Column], nulls: bool = False, count: int = 1) -> TraceLookup | None:
        """Return the rows whose key columns have these values; None if there are none.

        Parameters
        ----------
        keys
            One column per key column; without key columns, every row matches all rows.
        nulls
            Whether null matches null.
        count
            Number of looked-up rows, if there are no key columns.
        """
        if self.layout is None or not self.spine.batches:
            return None
        if len(keys) != self.layout.keys:
            raise UsageError.mismatch("the lookup", "has the wrong number of key columns", len(keys), self.layout.keys)
        backend = self.place.backend
        mask, levels = self.layout.probe(keys, self.place, nulls, count)
        probed = None
        if mask is not None:
            (probed,) = positions(backend, mask)
            levels = [level[probed] for level in levels]
        if not len(levels[0]):
            return None
        owner, below, weights = entries_below(self.spine.batches, levels, backend)
        if not len(owner):
            return None
        columns = self.layout.columns([*(level[owner] for level in levels), *below], self.place)
        return TraceLookup(owner if probed is None else probed[owner], columns, weights)

    def weights_of(self, rows: ZSet) -> Int64Array:
        """Return the weight of each of these rows in the trace, 0 if absent."""
        xp = self.place.xp
        total: Int64Array = xp.zeros(len(rows), np.int64)
        if self.layout is None or not len(rows) or not self.spine.batches:
            return total
        mask, levels = self.layout.probe([rows.columns[position] for position in self.layout.order], self.place, True)
        if not rows.columns:
            levels = [xp.zeros(len(rows), np.int64)]
        backend = self.place.backend
        total = weights_of_rows(self.spine.batches, range(len(levels)), stacked(backend, levels), backend)
        return total if mask is None else xp.where(mask, total, 0)


# Traces whose entries keep their times: the state of operators under nested time.


@dataclass(frozen=True, eq=False)
class TimedTrace:
    """The changes of a stream with the iteration of each as an additional last column.

    Under nested time, only the iterations of earlier ticks are stored: their changes add up to one history per row,
    which suffices for later ticks. The changes of this tick are separate. Outside a subcircuit the tick of each change
    is stored.

    Attributes
    ----------
    earlier
        The changes of earlier ticks.
    present
        The changes of this tick.
    """

    earlier: Trace
    present: Trace

    @staticmethod
    def empty(place: Place, sorting: Sorting = Sorting()) -> TimedTrace:  # it is immutable
        """Return the empty trace."""
        return TimedTrace(Trace(place, sorting), Trace(place, sorting))

    def __len__(self) -> int:
        return len(self.earlier) + len(self.present)

    def __repr__(self) -> str:
        return f"TimedTrace({len(self.earlier)} rows of earlier ticks, {len(self.present)} of this one)"

    @property
    def place(self) -> Place:
        """The execution context."""
        return self.present.place

    def append(self, change: ZSet, at: int) -> TimedTrace:
        """Return the trace with a change of this tick and iteration `at` added."""
        if is_nothing(change):
            return self
        present = self.present.append(with_iteration(self.place, change, at))
        return self if present is self.present else replace(self, present=present)

    def next_tick(self) -> TimedTrace:
        """Return the trace at the end of this tick. O(rows of this tick)."""
        if not len(self.present):
            return self
        return TimedTrace(self.earlier.append(self.present.consolidated()), Trace(self.place, self.present.sorting))

    def below(self, keys: Sequence[Column], nulls: bool = False, count: int = 1) -> TraceLookup | None:
        """Return the entries whose key columns have these values, iterations last.

        See `Trace.below`.
        """
        parts = [
            entries
            for trace in (self.earlier, self.present)
            if (entries := trace.below(keys, nulls, count)) is not None
        ]
        if len(parts) < 2:
            return parts[0] if parts else None
        xp, columns = self.place.xp, list(zip(parts[0].columns, parts[1].columns, strict=True))
        return TraceLookup(
            xp.concatenate([part.owner for part in parts]),
            [self.place.stacked(*pair) for pair in columns],
            xp.concatenate([part.weights for part in parts]),
        )

    def consolidated(self) -> ZSet:
        """Return all rows with their weights, without times. O(n)."""
        rows = self.place.plus(self.earlier.consolidated(), self.present.consolidated())
        return rows if is_nothing(rows) else select_columns(rows, range(len(rows.columns) - 1))

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names without the iteration; empty until columns have been seen."""
        return (self.present.names or self.earlier.names)[:-1]


def with_iteration(place: Place, zset: ZSet, iteration: int) -> ZSet:
    """Return the rows with the iteration as an additional column."""
    column = Column.of_integers(place.xp.full(len(zset), iteration, np.int64))
    weights = zset.stored_weights if zset.columns else place.backend.asarray(zset.stored_weights)
    return place.trusted((*zset.names, ITERATION), (*zset.columns, column), weights)


def upto(place: Place, entries: TraceLookup, names: Sequence[str], iteration: Int64Array | int) -> ZSet:
    """Return the sum of the entries up to this iteration, as rows without the iteration."""
    times = entries.columns[-1].stored
    chosen = place.xp.flatnonzero(times <= iteration)
    columns = [column.gather(chosen) for column in entries.columns[:-1]]
    weights = entries.weights[chosen]
    return place.made(names, columns, weights if columns else place.backend.to_host(weights))


# Rows of a Z-set grouped by key columns.


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
        return [self.rows.columns[key].gather(self.starts) for key in self.keys]


def grouped(place: Place, zset: ZSet, keys: Sequence[int]) -> Groups:
    """Group a Z-set with columns; groups are in the order of Z-sets.

    O(n) if the key columns come first, else O(n log n).
    """
    kernels, xp = place.backend.kernels, place.xp
    if not len(zset):
        return Groups(place, zset, tuple(keys), xp.zeros(0, np.int64))
    if not keys:
        return Groups(place, zset, (), xp.zeros(1, np.int64))
    levels = code_keys([zset.columns[key] for key in keys], xp)
    if tuple(keys) != tuple(range(len(keys))):
        order = kernels.lexsort(levels)
        zset = take_rows(zset, order)
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
        row = take_rows(zset, below[:1]).rows()[0][0]
        weight = int(place.backend.to_host(weights[below[:1]])[0])
        raise NegativeWeightError(doing, row, weight, hint=", or put distinct before it")
