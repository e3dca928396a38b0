"""A spine: the history of one arrangement as a few immutable batches, largest first.

Sizes are geometric with ratio `RATIO`: a new batch is merged into the previous one while it exceeds that batch's size
divided by the ratio. N rows are therefore in about log(N) / log(RATIO) batches, at most `MAX_BATCHES`, and on its way
into the largest batch a row is copied at most about RATIO times for every batch that it is merged into. Merging deep
tries takes longer, so the ratio decreases with the depth. Batches are never merged between a tick's evaluation and its
commit, and a batch that a reader holds is never changed.

A large arrangement in which no join of the tick has looked anything up may have more batches: until one does, sizes are
geometric with ratio `IDLE_RATIO`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt

import numpy as np

from gpu_wcoj.backend import Backend
from gpu_wcoj.zset.index import IndexedZSet

RATIO = 64
"""Ratio of the sizes of consecutive batches."""
MAX_BATCHES = 4
"""Number of batches of a spine at most."""
IDLE_RATIO, IDLE_ROWS = 2, 1 << 14
"""Ratio of batch sizes of an idle spine, and the least rows of its largest batch for that."""
DEAD_FLOOR = 256
"""Cancelled rows under one key below which they never force a merge."""


@dataclass(frozen=True)
class MergePolicy:
    """Conditions under which batches merge.

    Attributes
    ----------
    ratio
        A batch of two levels merges into the previous one once it has more than 1 / ratio of its rows; one of more
        levels once it has more than that for every level below the first.
    most_batches
        Number of batches at most.
    patience
        Divisor of the ratio of deep tries if the largest batch is large: they merge less often, and not those of all
        arrangements of a relation in one tick.
    """

    ratio: float = RATIO
    most_batches: int = MAX_BATCHES
    patience: float = 1


@dataclass(frozen=True, eq=False)
class Spine:
    """Batches whose sum is the state.

    Attributes
    ----------
    batches
        Largest first; none is empty.
    merged_rows
        Rows read by merges so far.
    """

    batches: tuple[IndexedZSet, ...] = ()
    policy: MergePolicy = MergePolicy()
    merged_rows: int = 0

    def __len__(self) -> int:
        return sum(map(len, self.batches))

    def insert(self, batch: IndexedZSet, is_idle: bool = False) -> Spine:
        """Return the spine with one more batch, after due merges. Amortised O(ratio) rows a tier.

        Parameters
        ----------
        is_idle
            Whether nothing was looked up in it recently.
        """
        if len(batch) == 0:
            return self
        batches = [*self.batches, batch]
        merged_rows = self.merged_rows
        is_due = _is_due_when_idle if is_idle and len(batches[0]) >= IDLE_ROWS else self._is_due
        while len(batches) > 1 and is_due(batches):
            right, left = batches.pop(), batches.pop()
            merged_rows += len(left) + len(right)
            merged = left.merge(right)
            if len(merged):
                batches.append(merged)
        return Spine(tuple(batches), self.policy, merged_rows)

    def on(self, backend: Backend) -> Spine:
        """Return the same batches on another backend of the same memory. O(1) a batch."""
        if all(batch.backend is backend for batch in self.batches):
            return self
        return Spine(tuple(batch.on(backend) for batch in self.batches), self.policy, self.merged_rows)

    def _is_due(self, batches: list[IndexedZSet]) -> bool:
        ratio, depth = self.policy.ratio, batches[-1].depth
        if depth > 2:
            ratio /= (depth - 1) * (self.policy.patience if len(batches[0]) >= IDLE_ROWS else 1)
        if len(batches[-1]) * ratio > len(batches[-2]) or len(batches) > self.policy.most_batches:
            return True
        return _dead_rows_pile_up(batches)

    def compact(self) -> Spine:
        """Return the spine with all rows in one batch, without cancelled rows. O(n)."""
        batches = list(self.batches)
        merged_rows = self.merged_rows
        while len(batches) > 1:
            right, left = batches.pop(), batches.pop()
            merged_rows += len(left) + len(right)
            batches.append(left.merge(right))
        return Spine(tuple(batch for batch in batches if len(batch)), self.policy, merged_rows)


def _is_due_when_idle(batches: list[IndexedZSet]) -> bool:
    if len(batches[-1]) * IDLE_RATIO > len(batches[-2]):
        return True
    return 4 * sum(batch.n_negative for batch in batches[1:]) > sum(map(len, batches))


def _dead_rows_pile_up(batches: list[IndexedZSet]) -> bool:
    """Return whether over half of all rows, or of the rows under a top-level key, are cancelled.

    A negative row outside the largest batch counts for itself and the row it cancels. A single key forces a merge only
    once its dead rows outweigh the square root of the state (and `DEAD_FLOOR`): until then probing them costs less than
    the merge, and every deleted row pays for at most that square root of copied rows.
    """
    total = sum(map(len, batches))
    newest = batches[-1]
    if newest.n_negative == 0:
        return False
    if 4 * sum(batch.n_negative for batch in batches[1:]) > total:
        return True
    if newest.depth < 2:
        return False
    floor = max(DEAD_FLOOR, isqrt(total))
    if sum(batch.n_negative for batch in batches[1:]) < floor:
        return False
    if sum(batch.n_negative_of_key for batch in batches[1:]) < floor:
        return False
    return _has_dead_key(batches, floor)


def _has_dead_key(batches: list[IndexedZSet], floor: int) -> bool:
    """Return whether over half of the rows under a key of the newest batch are cancelled.

    Keys of other batches were examined when these were inserted. O(rows of the newest batch * log n).
    """
    xp = batches[-1].backend.xp
    keys = batches[-1].values[0].astype(np.int64)
    negative, width = xp.zeros(len(keys), np.int64), xp.zeros(len(keys), np.int64)
    for index, batch in reversed(list(enumerate(batches))):
        if index == 0 and not bool((negative >= floor).any()):
            return False  # searching the largest batch costs most
        position = batch.locate([keys])
        is_present, node = position >= 0, xp.maximum(position, 0)
        begin, end = batch.rows_below(node)
        begin, end = xp.where(is_present, begin, 0), xp.where(is_present, end, 0)
        width += end - begin
        if index and batch.n_negative:
            negative += batch.negative_before[end] - batch.negative_before[begin]
    return bool(((negative >= floor) & (4 * negative > width)).any())
