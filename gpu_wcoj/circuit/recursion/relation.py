"""State of a relation of a loop: rows with ranks, and views of it without ranks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gpu_wcoj.backend import Backend
from gpu_wcoj.circuit.recursion.plan import with_rank, without_rank
from gpu_wcoj.join.relation import RelationIndex
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.trace.arrangement import Arrangement, ArrangementKey, PhaseRows
from gpu_wcoj.trace.spine import MergePolicy, Spine
from gpu_wcoj.zset.arrays import BoolArray, positions, stacked
from gpu_wcoj.zset.index import IndexedZSet


def unranked(batch: IndexedZSet) -> IndexedZSet:
    """Return the rows without their last level, consolidated.

    Cached with the batch. If all weights are 1, it shares the batch's arrays, as each row has a single rank. Otherwise
    O(n).
    """
    cached = batch.__dict__.get("unranked")
    if cached is None:
        cached = batch.__dict__["unranked"] = _unranked(batch)
    result: IndexedZSet = cached
    return result


def _unranked(batch: IndexedZSet) -> IndexedZSet:
    backend = batch.backend
    if batch.n_negative == 0:
        return IndexedZSet(batch.values[:-1], batch.offsets[:-1], None, backend)
    before, _ = _sums_before(batch)
    sums = before[batch.offsets[-1][1:]] - before[batch.offsets[-1][:-1]]
    columns, _ = batch.as_zset_view(batch.depth - 1)
    (there,) = positions(backend, sums != 0)
    return IndexedZSet.from_sorted([column[there] for column in columns], sums[there], backend)


def _sums_before(batch: IndexedZSet) -> tuple[Int64Array, Int64Array]:
    """Return the prefix sums (length n + 1) of the weights, and of weights times ranks.

    Cached with the batch.
    """
    cached: tuple[Int64Array, Int64Array] | None = batch.__dict__.get("sums before")
    if cached is None:
        weights, sums = batch.weight_column(), batch.backend.kernels.exclusive_sum
        cached = batch.__dict__["sums before"] = sums(weights), sums(weights * batch.values[-1])
    return cached


def ranks_in(
    batches: Sequence[IndexedZSet], columns: Sequence[Int64Array], backend: Backend
) -> tuple[Int64Array, Int64Array]:
    """Return per row the sums over all ranks of its weights, and of weights times ranks.

    As a row of the state has a single rank, the first is 1 or 0, and the second is the rank.

    Parameters
    ----------
    columns
        The rows, in the batches' order, without ranks.
    """
    xp, width, n = backend.xp, len(columns), len(columns[0])
    weights, ranks = xp.zeros(n, np.int64), xp.zeros(n, np.int64)
    batches = [batch for batch in batches if len(batch)]
    if not batches:
        return weights, ranks
    records = [batch.records[:width] for batch in batches]
    located = backend.kernels.locate(records, [range(width)] * len(batches), stacked(backend, columns))
    for batch, position in zip(batches, located, strict=True):
        present, node = position >= 0, xp.maximum(position, 0)
        begin, end = batch.offsets[-1][node], batch.offsets[-1][node + 1]
        if batch.weights is None:
            weights += present
            ranks += xp.where(present, batch.values[-1][begin], 0)
        else:
            sums, products = _sums_before(batch)
            weights += xp.where(present, sums[end] - sums[begin], 0)
            ranks += xp.where(present, products[end] - products[begin], 0)
    return weights, ranks


@dataclass(frozen=True, eq=False)
class LoopChange:
    """The change of a relation of a loop in a tick, without ranks.

    Attributes
    ----------
    rows
        In the relation's columns, with weights 1 and -1.
    """

    rows: IndexedZSet

    @property
    def deleted(self) -> int:
        """Number of deleted rows."""
        return self.rows.n_negative

    @property
    def inserted(self) -> int:
        """Number of inserted rows."""
        return len(self.rows) - self.rows.n_negative

    @cached_property
    def phases(self) -> list[PhaseRows]:
        """Deleted rows and inserted rows as two phases."""
        columns, weights = self.rows.columns(), self.rows.weights
        if weights is None:
            return [PhaseRows([column[:0] for column in columns], -1), PhaseRows(columns, 1)]
        gone, come = positions(self.rows.backend, weights < 0, weights > 0)
        return [PhaseRows([column[rows] for column in columns], sign) for rows, sign in ((gone, -1), (come, 1))]

    @cached_property
    def as_bag(self) -> PhaseRows:
        """All changed rows with their weights."""
        return PhaseRows(self.rows.columns(), self.rows.weight_column())


class UnrankedArrangement(Arrangement):
    """View of an arrangement of a loop's relation without ranks.

    Only the arrangement with ranks is state.
    """

    def __init__(self, ranked: Arrangement) -> None:
        self._ranked = ranked
        super().__init__(without_rank(ranked.key), ranked.backend)

    @property
    def spine(self) -> Spine:
        """The committed batches without ranks."""
        return Spine(tuple(batch for batch in map(unranked, self._ranked.spine.batches) if len(batch)))

    @spine.setter
    def spine(self, value: Spine) -> None:
        """Ignore the value: the state is in the arrangement with ranks."""

    def receive_change(self, change: LoopChange, weighted: bool) -> None:
        """Set this tick's change as pending: in one phase for a bag, else in two."""
        if weighted:
            self.receive_delta([change.as_bag])
        elif change.rows.weights is not None:
            self.receive_delta(change.phases)
        else:
            nothing = IndexedZSet.empty(len(self.key.order), self.backend)
            entries = self._ranked.pending
            self.pending = (nothing, unranked(entries[0]) if entries else nothing)

    def commit(self, spine: Spine | None = None) -> None:  # noqa: ARG002  # see `spine`
        """Discard the pending change."""
        self.pending = ()


class RankedIndex(RelationIndex):
    """Index of a relation of a loop, whose arrangements have the rank as last level.

    Rows that it receives and returns have the rank as an additional last column; `visible` arrangements have no ranks.

    Attributes
    ----------
    visible
        Arrangements by key that rules outside the loop read.
    visible_to_loops
        Arrangements by key that other loops read: sets, which change in two phases in programs over sets and bags.
    """

    def __init__(
        self,
        name: str,
        width: int,
        keys: Iterable[ArrangementKey],
        visible: Iterable[ArrangementKey],
        visible_to_loops: Iterable[ArrangementKey],
        backend: Backend,
        policy: MergePolicy | None = None,
        threads: int = 1,
        order: Sequence[int] | None = None,
    ) -> None:
        canonical = ArrangementKey(name, (*(range(width) if order is None else order), width))
        visible_keys, to_loops = dict.fromkeys(visible), dict.fromkeys(visible_to_loops)
        all_keys = [canonical, *keys, *(with_rank(key, {name: width}) for key in (*visible_keys, *to_loops))]
        super().__init__(name, width + 1, all_keys, backend, policy, threads)
        self.visible = {key: self.view(key) for key in visible_keys}
        self.visible_to_loops = {key: self.view(key) for key in to_loops}

    @property
    def columns(self) -> int:
        """Number of stored columns without the rank."""
        return self.width - 1

    def read(self, key: ArrangementKey) -> Arrangement:
        """Return an arrangement of `visible`."""
        return self.visible[key]

    def read_by_loop(self, key: ArrangementKey) -> Arrangement:
        """Return an arrangement of `visible_to_loops`."""
        return self.visible_to_loops[key]

    def view(self, key: ArrangementKey) -> UnrankedArrangement:
        """Return a view of an arrangement without ranks."""
        return UnrankedArrangement(self.arrangements[with_rank(key, {self.name: self.columns})])

    def receive_change(self, change: LoopChange, weighted: bool) -> None:
        """Pass this tick's change, without ranks, to the visible arrangements.

        The entries are pending already.
        """
        for arrangement in self.visible.values():
            arrangement.receive_change(change, weighted)
        for arrangement in self.visible_to_loops.values():
            arrangement.receive_change(change, False)

    @property
    def _views(self) -> list[UnrankedArrangement]:
        return [*self.visible.values(), *self.visible_to_loops.values()]

    def commit(self, spines: Mapping[ArrangementKey, Spine] | None = None) -> None:
        """Commit all arrangements and discard the changes of the views."""
        super().commit(spines)
        for arrangement in self._views:
            arrangement.commit()

    def discard(self) -> None:
        """Discard this tick's change."""
        super().discard()
        for arrangement in self._views:
            arrangement.discard()

    def find(self, columns: Sequence[Int64Array]) -> tuple[BoolArray, Int64Array]:
        """Return a mask of the rows, without ranks, that the committed state has, and their ranks."""
        weights, ranks = ranks_in(self.accumulated(), columns, self.backend)
        return weights > 0, ranks

    def visible_rows(self) -> tuple[list[Int64Array], Int64Array]:
        """Return all committed rows without ranks, sorted, with their weights. O(n)."""
        columns, weights = self.rows()
        return columns[:-1], weights


def count_rows(index: RelationIndex) -> int:
    """Return the number of rows of the committed set.

    Each batch has an entry per inserted or deleted row.
    """
    return sum(len(batch) - 2 * batch.n_negative for batch in index.accumulated())
