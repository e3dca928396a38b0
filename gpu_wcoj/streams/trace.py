"""Traces: the sum of a stream so far as a few sorted batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from gpu_wcoj.data.column import Column
from gpu_wcoj.errors import UsageError, WeightOverflowError
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.streams.device_context import NOTHING, Place, is_nothing
from gpu_wcoj.streams.layout import Layout, Sorting
from gpu_wcoj.trace.spine import Spine
from gpu_wcoj.zset.arrays import positions
from gpu_wcoj.zset.index import IndexedZSet
from gpu_wcoj.zset.zset import ZSet


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
    sorting: Sorting = Sorting()  # noqa: RUF009  # it is immutable
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

    def append(self, change: ZSet) -> Trace:
        """Return the trace with a change added. Amortised O(rows of the change), times a logarithm.

        Raises
        ------
        WeightOverflowError
            If the exact weight of a row leaves int64.
        """
        if is_nothing(change):
            return self
        layout = Layout.from_rows(change, self.sorting) if self.layout is None else self.layout.joined(change)
        if layout is self.layout and not len(change):
            return self
        if self.layout is not None and layout != self.layout:
            rows = self.consolidated()
            return Trace(self.place, self.sorting, layout)._with(rows)._with(change)
        return replace(self, layout=layout)._with(change)

    def _with(self, change: ZSet) -> Trace:
        if not len(change):
            return self
        batch = self._batch(change)
        if sum(held_batch.largest_weight for held_batch in self.spine.batches) + batch.largest_weight >= 1 << 63:
            self._refuse_overflow(change)
        return replace(self, spine=self.spine.insert(batch))

    def _batch(self, zset: ZSet) -> IndexedZSet:
        assert self.layout is not None
        backend = self.place.backend
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
        owners, tails, weights = [], [], []
        for batch in self.spine.batches:
            owner, tail, weight = batch.get_by_prefix(levels)
            if len(owner):
                owners.append(owner)
                tails.append([*(level[owner] for level in levels), *tail])
                weights.append(weight)
        if not owners:
            return None
        joined = [self.place.concatenated(parts) for parts in zip(*tails, strict=True)]
        owner, weight = self.place.concatenated(owners), self.place.concatenated(weights)
        return TraceLookup(owner if probed is None else probed[owner], self.layout.columns(joined, self.place), weight)

    def weights_of(self, rows: ZSet) -> Int64Array:
        """Return the weight of each of these rows in the trace, 0 if absent."""
        xp = self.place.xp
        total: Int64Array = xp.zeros(len(rows), np.int64)
        if self.layout is None or not len(rows) or not self.spine.batches:
            return total
        mask, levels = self.layout.probe([rows.columns[position] for position in self.layout.order], self.place, True)
        if not rows.columns:
            levels = [xp.zeros(len(rows), np.int64)]
        for batch in self.spine.batches:
            position = batch.locate(levels)
            present = position >= 0
            if batch.weights is None:
                total = total + present.astype(np.int64)
            else:
                total = total + xp.where(present, batch.weights[xp.maximum(position, 0)], 0)
        return total if mask is None else xp.where(mask, total, 0)
