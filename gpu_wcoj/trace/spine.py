"""A spine: the history of one arrangement as a few immutable batches, largest first.

Sizes are geometric with ratio `RATIO`: a new batch is merged into the previous one while it exceeds that batch's size
divided by the ratio. N rows are therefore in about log(N) / log(RATIO) tiers, at most `MAX_BATCHES`, and on its way
into the largest batch a row is copied at most about RATIO times for every tier. Merging deep tries takes longer, so the
ratio decreases with the depth. Batches are never merged between a tick's evaluation and its commit, and a batch that a
reader holds is never changed.

No insertion merges many more rows than it brings. A small merge is done at once. A larger one is a `RunningMerge`: its
tier stays the two batches that are merged, which readers see, while the following insertions pay for it in instalments.
Every inserted row pays for `MergePolicy.fuel` times the ratio, so the merge is complete, and one batch takes the place
of the two, before the next one into this tier is due. Work can be done ahead of the insertion that pays for it: small
ticks, whose rows are inserted together some ticks later, each do a part (`Spine.work_ahead`). What has been paid for is
part of the state. How far the work has come is not, so states with the same running merge, as those before and after a
failed tick, share it. (Overmars and van Leeuwen, "Worst-case optimal insertion and deletion methods for decomposable
searching problems", 1981, doi:10.1016/0020-0190(81)90093-4; merging with fuel as in differential dataflow.)

A large arrangement in which no join of the tick has looked anything up may have more tiers: until one does, sizes are
geometric with ratio `IDLE_RATIO`. Tiers in excess are then merged in instalments as well.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf, isqrt

import numpy as np

from gpu_wcoj.backend import Backend
from gpu_wcoj.zset.index import IndexedZSet, TrieMerge

RATIO = 64
"""Ratio of the sizes of consecutive batches."""
MAX_BATCHES = 4
"""Number of tiers of a spine at most: of batches, where two that are being merged count as one."""
IDLE_RATIO, IDLE_ROWS = 2, 1 << 14
"""Ratio of batch sizes of an idle spine, and the least rows of its largest batch for that."""
DEAD_FLOOR = 256
"""Cancelled rows under one key below which they never force a merge."""
FUEL = 2
"""Rows that a running merge reads per inserted row, divided by the ratio. With 2, a merge is complete when half as many
rows have been inserted as make the next one due; until then readers search one more batch. 4 takes as long over 1,500
ticks, and its largest tick takes a quarter longer."""
INSTALMENT = 1 << 14
"""Rows that a running merge reads per insertion in any case; a merge of no more rows is done at once."""
AHEAD = 1 << 12
"""Rows that a running merge reads ahead of an insertion at least; a call for fewer costs more than its rows."""
LOADED_FROM = 1 << 18
"""Rows of a first batch, or of a tick, from which on the machine code for small ticks and merges is loaded with it."""


@dataclass(frozen=True)
class MergePolicy:
    """Conditions under which batches merge.

    Attributes
    ----------
    ratio
        A batch of two levels merges into the previous one once it has more than 1 / ratio of its rows; one of more
        levels once it has more than that for every level below the first.
    most_batches
        Number of tiers at most.
    patience
        Divisor of the ratio of deep tries if the largest batch is large: they merge less often, and not those of all
        arrangements of a relation in one tick.
    instalment
        Rows that a running merge reads per insertion at least; infinite if all merges are done at once.
    fuel
        Rows that a running merge reads per inserted row, divided by the ratio.
    ahead
        Rows that a running merge reads ahead of an insertion at least.
    """

    ratio: float = RATIO
    most_batches: int = MAX_BATCHES
    patience: float = 1
    instalment: float = INSTALMENT
    fuel: float = FUEL
    ahead: int = AHEAD


@dataclass(frozen=True, eq=False)
class RunningMerge:
    """A tier whose two batches are being merged.

    Attributes
    ----------
    merge
        The merge, which other states may share.
    n_read
        Rows whose merging this state has paid for; the merge itself may be further.
    rate
        Rows to merge per inserted row.
    """

    merge: TrieMerge
    n_read: int = 0
    rate: float = 0

    def __len__(self) -> int:
        return self.merge.n_rows

    @property
    def batches(self) -> tuple[IndexedZSet, IndexedZSet]:
        """The two batches."""
        return self.merge.left, self.merge.right

    @property
    def work_done(self) -> int:
        """Rows that are merged or paid for; other states may have done the work."""
        return max(self.n_read, self.merge.n_read)

    @property
    def is_complete(self) -> bool:
        """True if all rows are merged, paid for or not."""
        return self.merge.n_read == len(self)

    @property
    def n_negative(self) -> int:
        """Negative rows of the two batches."""
        return self.merge.left.n_negative + self.merge.right.n_negative


Tier = IndexedZSet | RunningMerge
"""A batch, or two that are being merged."""


@dataclass(frozen=True, eq=False)
class Spine:
    """Batches whose sum is the state.

    Attributes
    ----------
    batches
        Largest first; none is empty. Two batches of a running merge are adjacent.
    merged_rows
        Rows read by merges so far.
    running
        The merges that are not complete, in the order of their batches.
    """

    batches: tuple[IndexedZSet, ...] = ()
    policy: MergePolicy = MergePolicy()
    merged_rows: int = 0
    running: tuple[RunningMerge, ...] = ()

    def __len__(self) -> int:
        return sum(map(len, self.batches))

    @cached_property
    def tiers(self) -> tuple[Tier, ...]:
        """The batches, those of a running merge as one tier."""
        if not self.running:
            return self.batches
        by_left = {id(running.merge.left): running for running in self.running}
        rights = {id(running.merge.right) for running in self.running}
        return tuple(by_left.get(id(batch), batch) for batch in self.batches if id(batch) not in rights)

    def insert(self, batch: IndexedZSet, is_idle: bool = False, tick_rows: int | None = None) -> Spine:
        """Return the spine with one more batch, after due merges and instalments of them.

        Amortised O(ratio) rows a tier and inserted row, and as many plus a constant in every single insertion.
        Cancelled rows that pile up under one key are merged faster: O(square root of all rows) rows per inserted row.

        Parameters
        ----------
        is_idle
            Whether nothing was looked up in it recently.
        tick_rows
            Rows of the present tick if the batch comes from a memtable: earlier ticks have brought the others, and have
            worked ahead. Only small merges are done at once then; the next ticks do the others, each a part.
        """
        if len(batch) == 0:
            return self
        insertion = _Insertion(self, batch, is_idle, tick_rows)
        if not self.batches and len(batch) >= LOADED_FROM and batch.backend.kernels.begin_merge is not None:
            _load_merges(batch.backend)
        insertion.pay_instalments()
        insertion.begin_merges()
        return insertion.spine()

    def work_ahead(self, n_rows: int, tick_rows: int, capacity: int) -> None:
        """Do work on running merges that the next insertion will pay for.

        Nothing if that is little. All ticks until then do equal parts. The spine stays as it is.

        Parameters
        ----------
        n_rows
            Rows that wait for the insertion.
        tick_rows
            Rows of the present tick.
        capacity
            Rows from which on they are inserted.
        """
        n_ticks = max(1.0, (capacity - n_rows) / max(1, tick_rows))
        for running in self.running:
            n_read, n_left = running.work_done, len(running) - running.work_done
            due = min(len(running), running.n_read + running.rate * max(n_rows, capacity))
            part = max(self.policy.ahead, (due - n_read) / n_ticks)
            end = min(n_read + part, running.n_read + running.rate * n_rows, len(running))
            if end - n_read >= min(self.policy.ahead, n_left) > 0:
                running.merge.advance(int(end))

    def with_complete_merges(self) -> Spine:
        """Return the spine with one batch in place of the two of each merge that is complete."""
        complete = [tier for tier in self.running if tier.is_complete]
        if not complete:
            return self
        merged_rows = self.merged_rows + sum(len(tier) - tier.n_read for tier in complete)
        tiers = (tier.merge.result() if tier in complete else tier for tier in self.tiers)
        return _spine_of([tier for tier in tiers if len(tier)], self.policy, merged_rows)

    def on(self, backend: Backend) -> Spine:
        """Return the same rows on another backend of the same memory.

        O(1) a batch, after what is left of running merges.
        """
        if all(batch.backend is backend for batch in self.batches):
            return self
        batches = (tier.merge.result() if isinstance(tier, RunningMerge) else tier for tier in self.tiers)
        return Spine(tuple(batch.on(backend) for batch in batches if len(batch)), self.policy, self.merged_rows)

    def compact(self) -> Spine:
        """Return the spine with all rows in one batch, without cancelled rows. O(n)."""
        tiers = list(self.tiers)
        merged_rows = self.merged_rows
        for index, tier in enumerate(tiers):
            if isinstance(tier, RunningMerge):
                merged_rows += len(tier) - tier.n_read
                tiers[index] = tier.merge.result()
        batches = [tier for tier in tiers if isinstance(tier, IndexedZSet)]
        while len(batches) > 1:
            right, left = batches.pop(), batches.pop()
            merged_rows += len(left) + len(right)
            batches.append(left.merge(right))
        return Spine(tuple(batch for batch in batches if len(batch)), self.policy, merged_rows)


class _Insertion:
    """The insertion of a batch into a spine."""

    def __init__(self, spine: Spine, batch: IndexedZSet, is_idle: bool, tick_rows: int | None) -> None:
        self.policy = spine.policy
        self.tiers: list[Tier] = [*spine.tiers, batch]
        self.merged_rows = spine.merged_rows
        self.n_rows = len(batch)
        self.is_idle = is_idle and len(spine.batches) > 0 and len(spine.batches[0]) >= IDLE_ROWS
        self.instalment = inf if batch.backend.kernels.begin_merge is None else spine.policy.instalment
        self.works_ahead = tick_rows is not None and tick_rows < self.n_rows
        self.max_tiers = max(spine.policy.most_batches, len(spine.tiers))
        self.examined: list[IndexedZSet] = [batch]
        """Batches that are new, in whose keys cancelled rows may have piled up."""

    def spine(self) -> Spine:
        """Return the spine after the insertion."""
        return _spine_of(self.tiers, self.policy, self.merged_rows)

    def pay_instalments(self) -> None:
        """Continue all running merges."""
        for index in range(len(self.tiers) - 1, -1, -1):
            if isinstance(self.tiers[index], RunningMerge):
                self._pay(index)

    def _pay(self, index: int, is_last: bool = False) -> None:
        """Continue a running merge, by its instalment or to its end; the result replaces it."""
        running = self.tiers[index]
        assert isinstance(running, RunningMerge)
        instalment = inf if is_last else max(self.instalment, running.rate * self.n_rows)
        n_read = int(min(len(running), running.n_read + instalment))
        self.merged_rows += n_read - running.n_read
        if n_read == len(running):
            self._replace(index, index + 1, running.merge.result())
        else:
            running.merge.advance(n_read)
            self.tiers[index] = replace(running, n_read=n_read)

    def _replace(self, begin: int, end: int, merged: IndexedZSet) -> None:
        """Replace tiers by a merged batch, which may be empty."""
        self.tiers[begin:end] = [merged] if len(merged) else []
        if len(merged):
            self.examined.append(merged)

    def begin_merges(self) -> None:
        """Begin due merges, from the smallest tiers up, and do those that an instalment pays for."""
        self._begin_due_merges()
        while len(self.tiers) > self.max_tiers and not self.is_idle:
            running = [index for index, tier in enumerate(self.tiers) if isinstance(tier, RunningMerge)]
            if not running:
                return
            self._pay(running[-1], is_last=True)
            self._begin_due_merges()

    def _begin_due_merges(self) -> None:
        index = len(self.tiers) - 1
        while index > 0:
            left, right = self.tiers[index - 1 : index + 1]
            if isinstance(left, IndexedZSet) and isinstance(right, IndexedZSet):
                is_due = self._is_due(index)
                is_dead = not is_due and self._dead_rows_pile_up()
                if is_due or is_dead:
                    rate = self.policy.fuel * (self.policy.ratio if self.is_idle else self._ratio(right))
                    self._merge(index, left, right, max(rate, isqrt(len(self))) if is_dead else rate)
            index = min(index, len(self.tiers)) - 1

    def _is_due(self, index: int) -> bool:
        """Return whether a tier is to be merged into the one before it because of their sizes."""
        left, right = self.tiers[index - 1 : index + 1]
        if not (isinstance(left, IndexedZSet) and isinstance(right, IndexedZSet)):
            return False
        return len(right) * self._ratio(right) > len(left) or self._is_too_many(index)

    def __len__(self) -> int:
        return sum(map(len, self.tiers))

    def _ratio(self, batch: IndexedZSet) -> float:
        """Return the ratio of the sizes of consecutive tiers."""
        if self.is_idle:
            return IDLE_RATIO
        if batch.depth <= 2:
            return self.policy.ratio
        patience = self.policy.patience if len(self.tiers[0]) >= IDLE_ROWS else 1
        return self.policy.ratio / ((batch.depth - 1) * patience)

    def _is_too_many(self, index: int) -> bool:
        """Return whether a tier is the last one, and too many."""
        return not self.is_idle and index == len(self.tiers) - 1 and len(self.tiers) > self.policy.most_batches

    def _merge(self, index: int, left: IndexedZSet, right: IndexedZSet, rate: float) -> None:
        """Merge a tier into the one before it, at once or in instalments."""
        n_rows = len(left) + len(right)
        ahead = self.works_ahead and self.instalment < inf
        if n_rows <= (self.policy.ahead if ahead else max(self.instalment, rate * self.n_rows)):
            self.merged_rows += n_rows
            self._replace(index - 1, index + 1, left.merge(right))
        elif index == 1 or not self._is_due(index - 1):  # otherwise the tier before is merged away first
            self.tiers[index - 1 : index + 1] = [RunningMerge(left.begin_merge(right), rate=rate)]

    def _dead_rows_pile_up(self) -> bool:
        """Return whether over half of all rows, or of the rows under a top-level key, are cancelled.

        A negative row outside the first tier counts for itself and the row it cancels. A single key forces a merge only
        once its dead rows outweigh the square root of the state (and `DEAD_FLOOR`): until then probing them costs less
        than the merge, and every deleted row pays for at most that square root of copied rows. While they are being
        merged into the first tier, about as many again may pile up.
        """
        small_tiers = [tier for tier in self.tiers[1:] if tier.n_negative]
        examined = [batch for batch in self.examined if batch.n_negative and any(batch is tier for tier in small_tiers)]
        if not examined:
            return False
        n_negative = sum(tier.n_negative for tier in small_tiers)
        if 4 * n_negative > len(self):
            return True
        if self.is_idle or examined[0].depth < 2:
            return False
        floor = max(DEAD_FLOOR, isqrt(len(self)))
        if n_negative < floor or sum(_n_negative_of_key(tier) for tier in small_tiers) < floor:
            return False
        return any(_has_dead_key(self.tiers, batch, floor) for batch in examined)


@functools.cache
def _load_merges(backend: Backend) -> None:
    """Merge a few rows, so that no small insertion has to load the machine code for it."""
    n = 1 << 12
    row = np.arange(n)
    left, right = (IndexedZSet.from_sorted([row // n, row + start], 1, backend) for start in (0, n))
    left.merge(right)
    backend.kernels.prepare(left.levels, [0], [True, True], [False], [], [])
    left.begin_merge(right).result()


def _spine_of(tiers: Sequence[Tier], policy: MergePolicy, merged_rows: int) -> Spine:
    """Return the spine of tiers, largest first."""
    batches: list[IndexedZSet] = []
    for tier in tiers:
        batches += _batches(tier)
    return Spine(tuple(batches), policy, merged_rows, tuple(tier for tier in tiers if isinstance(tier, RunningMerge)))


def _batches(tier: Tier) -> tuple[IndexedZSet, ...]:
    return tier.batches if isinstance(tier, RunningMerge) else (tier,)


def _n_negative_of_key(tier: Tier) -> int:
    """Return the maximum number of negative rows below one top-level value, or more."""
    return sum(batch.n_negative_of_key for batch in _batches(tier))


def _has_dead_key(tiers: Sequence[Tier], newest: IndexedZSet, floor: int) -> bool:
    """Return whether over half of the rows under a key of the newest batch are cancelled.

    Keys of other batches were examined when these were inserted. O(rows of the newest batch * log n).
    """
    xp = newest.backend.xp
    keys = newest.values[0].astype(np.int64)
    negative, width = xp.zeros(len(keys), np.int64), xp.zeros(len(keys), np.int64)
    for index, tier in reversed(list(enumerate(tiers))):
        if index == 0 and not bool((negative >= floor).any()):
            return False  # searching the largest batch costs most
        for batch in _batches(tier):
            position = batch.locate([keys])
            is_present, node = position >= 0, xp.maximum(position, 0)
            begin, end = batch.rows_below(node)
            begin, end = xp.where(is_present, begin, 0), xp.where(is_present, end, 0)
            width += end - begin
            if index and batch.n_negative:
                negative += batch.negative_before[end] - batch.negative_before[begin]
    return bool(((negative >= floor) & (4 * negative > width)).any())
