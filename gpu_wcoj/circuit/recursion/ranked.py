"""A relation of a loop as state: its rows with their ranks, and without them for whoever reads it from outside."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gpu_wcoj.backend import Backend
from gpu_wcoj.circuit.recursion.rules import with_rank, without_rank
from gpu_wcoj.join.index import RelationIndex
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.trace.arrangement import Arrangement, ArrangementKey, PhaseRows
from gpu_wcoj.trace.spine import MergePolicy, Spine
from gpu_wcoj.zset.arrays import BoolArray, positions, stacked
from gpu_wcoj.zset.index import IndexedZSet


def unranked(batch: IndexedZSet) -> IndexedZSet:
    """The rows without their last level, weights of equal ones added, those of weight 0 left out.

    Kept with the batch. It shares the batch's arrays where all weights are 1: a row has one rank only, so each stands
    once. Otherwise O(n).
    """
    kept = batch.__dict__.get("unranked")
    if kept is None:
        kept = batch.__dict__["unranked"] = _unranked(batch)
    found: IndexedZSet = kept
    return found


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
    """Before each row and behind the last, the sum of the weights, and of the weights times the ranks. Kept."""
    kept: tuple[Int64Array, Int64Array] | None = batch.__dict__.get("sums before")
    if kept is None:
        weights, sums = batch.weight_column(), batch.backend.kernels.exclusive_sum
        kept = batch.__dict__["sums before"] = sums(weights), sums(weights * batch.values[-1])
    return kept


def ranks_in(
    batches: Sequence[IndexedZSet], columns: Sequence[Int64Array], backend: Backend
) -> tuple[Int64Array, Int64Array]:
    """Per row, the sum of its weights over its ranks in all batches, and of its weights times its ranks.

    As a row of the state has one rank, the first is 1 or 0, and the second is the rank.

    Parameters
    ----------
    columns
        The rows, in the batches' order, ranks left out.
    """
    xp, width, n = backend.xp, len(columns), len(columns[0])
    weights, ranks = xp.zeros(n, np.int64), xp.zeros(n, np.int64)
    batches = [batch for batch in batches if len(batch)]
    if not batches:
        return weights, ranks
    records = [batch.records[:width] for batch in batches]
    located = backend.kernels.locate(records, [range(width)] * len(batches), stacked(backend, columns))
    for batch, position in zip(batches, located, strict=True):
        held, node = position >= 0, xp.maximum(position, 0)
        begin, end = batch.offsets[-1][node], batch.offsets[-1][node + 1]
        if batch.weights is None:
            weights += held
            ranks += xp.where(held, batch.values[-1][begin], 0)
        else:
            sums, products = _sums_before(batch)
            weights += xp.where(held, sums[end] - sums[begin], 0)
            ranks += xp.where(held, products[end] - products[begin], 0)
    return weights, ranks


@dataclass(frozen=True, eq=False)
class LoopChange:
    """This tick's change of a relation of a loop, without ranks.

    Attributes
    ----------
    rows
        In the relation's own columns, of weight 1 and -1.
    """

    rows: IndexedZSet

    @property
    def deleted(self) -> int:
        """How many rows go."""
        return self.rows.n_negative

    @property
    def inserted(self) -> int:
        """How many rows come."""
        return len(self.rows) - self.rows.n_negative

    @cached_property
    def phases(self) -> list[PhaseRows]:
        """The rows that go, and those that come."""
        columns, weights = self.rows.columns(), self.rows.weights
        if weights is None:
            return [PhaseRows([column[:0] for column in columns], -1), PhaseRows(columns, 1)]
        gone, come = positions(self.rows.backend, weights < 0, weights > 0)
        return [PhaseRows([column[rows] for column in columns], sign) for rows, sign in ((gone, -1), (come, 1))]

    @cached_property
    def as_bag(self) -> PhaseRows:
        """All of them with their weights."""
        return PhaseRows(self.rows.columns(), self.rows.weight_column())


class UnrankedArrangement(Arrangement):
    """An arrangement of a loop's relation without its ranks: a view of the one with ranks, which alone is state."""

    def __init__(self, of: Arrangement) -> None:
        self._of = of
        super().__init__(without_rank(of.key), of.backend)

    @property
    def spine(self) -> Spine:
        """The committed batches without ranks."""
        return Spine(tuple(batch for batch in map(unranked, self._of.spine.batches) if len(batch)))

    @spine.setter
    def spine(self, value: Spine) -> None:
        """It is not kept here; the state moves with the arrangement that this one is a view of."""

    def show(self, change: LoopChange, weighted: bool) -> None:
        """Take note of this tick's change: of a bag's in one phase, else in two."""
        if weighted:
            self.receive_delta([change.as_bag])
        elif change.rows.weights is not None:
            self.receive_delta(change.phases)
        else:
            nothing = IndexedZSet.empty(len(self.key.order), self.backend)
            entries = self._of.pending
            self.pending = (nothing, unranked(entries[0]) if entries else nothing)

    def commit(self, spine: Spine | None = None) -> None:  # noqa: ARG002  # see `spine`
        """Forget what was pending."""
        self.pending = ()


class RankedIndex(RelationIndex):
    """A relation of a loop. Its arrangements have the rank as their last level; `visible` ones have not.

    What it receives, holds and gives as rows has the rank as one more column; what `visible` arrangements show has not.

    Attributes
    ----------
    visible
        By key, what rules outside the loop read.
    visible_to_loops
        By key, what other loops read: sets, which change in two phases, whatever the program is over.
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
        own = ArrangementKey(name, (*(range(width) if order is None else order), width))
        shown, to_loops = dict.fromkeys(visible), dict.fromkeys(visible_to_loops)
        wanted = [own, *keys, *(with_rank(key, {name: width}) for key in (*shown, *to_loops))]
        super().__init__(name, width + 1, wanted, backend, policy, threads)
        self.visible = {key: self.view(key) for key in shown}
        self.visible_to_loops = {key: self.view(key) for key in to_loops}

    @property
    def columns(self) -> int:
        """Stored columns, the rank not counted."""
        return self.width - 1

    def read(self, key: ArrangementKey) -> Arrangement:
        """One of `visible`."""
        return self.visible[key]

    def read_by_loop(self, key: ArrangementKey) -> Arrangement:
        """One of `visible_to_loops`."""
        return self.visible_to_loops[key]

    def view(self, key: ArrangementKey) -> UnrankedArrangement:
        """An arrangement without ranks."""
        return UnrankedArrangement(self.arrangements[with_rank(key, {self.name: self.columns})])

    def show(self, change: LoopChange, weighted: bool) -> None:
        """Pass this tick's change, without ranks, to the visible arrangements; the entries are pending already."""
        for arrangement in self.visible.values():
            arrangement.show(change, weighted)
        for arrangement in self.visible_to_loops.values():
            arrangement.show(change, False)

    @property
    def _views(self) -> list[UnrankedArrangement]:
        return [*self.visible.values(), *self.visible_to_loops.values()]

    def commit(self, spines: Mapping[ArrangementKey, Spine] | None = None) -> None:
        """Commit every child, and forget what was shown."""
        super().commit(spines)
        for arrangement in self._views:
            arrangement.commit()

    def discard(self) -> None:
        """Forget this tick's change."""
        super().discard()
        for arrangement in self._views:
            arrangement.discard()

    def holds(self, columns: Sequence[Int64Array]) -> tuple[BoolArray, Int64Array]:
        """Which of these rows, ranks left out, the committed state has, and the ranks that they have there."""
        weights, ranks = ranks_in(self.accumulated(), columns, self.backend)
        return weights > 0, ranks

    def visible_rows(self) -> tuple[list[Int64Array], Int64Array]:
        """All committed rows without their ranks, sorted, with their weights. O(n)."""
        columns, weights = self.rows()
        return columns[:-1], weights


def rows_held(index: RelationIndex) -> int:
    """How many rows the committed state of a set has: each batch has one for every row that comes or goes."""
    return sum(len(batch) - 2 * batch.n_negative for batch in index.accumulated())
