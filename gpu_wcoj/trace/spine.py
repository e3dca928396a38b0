"""A spine: the history of one arrangement as a few immutable batches, largest first.

Sizes are geometric with ratio `RATIO`: a new batch is merged into the one before it while it is larger than that
one's share, so N rows stand in about log(N) / log(RATIO) batches, at most `MOST_BATCHES`, and a row pays for
about RATIO rows at most in every batch that it is merged into on its way into the largest. Deep tries take longer to
merge, so the ratio falls with the depth. Merging never happens between a tick's evaluation and its commit, and never
changes a batch that a reader holds.

A large one in which no join of the tick has looked anything up need not have few batches: until one does, sizes are
geometric with ratio `IDLE_RATIO`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt

import numpy as np

from gpu_wcoj.zset.index import IndexedZSet

RATIO = 64
MOST_BATCHES = 4
IDLE_RATIO, IDLE_ROWS = 2, 1 << 14
DEAD_FLOOR = 256
"""Fewer cancelled rows than this under one key never force a merge."""


@dataclass(frozen=True)
class MergePolicy:
    """When batches merge.

    Attributes
    ----------
    ratio
        A batch of two levels merges into the one before it once it has more than 1 / ratio of its rows; one of more
        levels once it has more than that for every level below the first.
    most_batches
        Batches kept at most.
    patience
        By how much the ratio of deep tries is less where the largest one is large: so it is merged less often, and not
        those of all arrangements of a relation in one tick.
    """

    ratio: float = RATIO
    most_batches: int = MOST_BATCHES
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
        """The spine with one more batch; merges that are due are done. Amortised O(ratio) rows a tier.

        Parameters
        ----------
        is_idle
            Whether nothing has been looked up in it of late.
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

    def _is_due(self, batches: list[IndexedZSet]) -> bool:
        ratio, depth = self.policy.ratio, batches[-1].depth
        if depth > 2:
            ratio /= (depth - 1) * (self.policy.patience if len(batches[0]) >= IDLE_ROWS else 1)
        if len(batches[-1]) * ratio > len(batches[-2]) or len(batches) > self.policy.most_batches:
            return True
        return _dead_rows_pile_up(batches)

    def compact(self) -> Spine:
        """All in one batch; nothing that has cancelled is left. O(n)."""
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
    """Whether more than half of the rows of all, or under one top-level key, have cancelled.

    A negative row outside the largest batch stands for itself and the row it cancels. A single key forces a merge
    only once its dead rows outweigh the square root of the state (and `DEAD_FLOOR`): until then probing them costs
    less than the merge, and every deleted row pays for at most that square root of copied rows.
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
    """Whether that is so for a key of the newest batch; the others were looked at when they came. O(its rows log n)."""
    xp = batches[-1].backend.xp
    keys = batches[-1].values[0].astype(np.int64)
    negative, width = xp.zeros(len(keys), np.int64), xp.zeros(len(keys), np.int64)
    for number, batch in reversed(list(enumerate(batches))):
        if number == 0 and not bool((negative >= floor).any()):
            return False  # the largest batch is where looking costs most
        position = batch.locate([keys])
        held, node = position >= 0, xp.maximum(position, 0)
        begin, end = batch.rows_below(node)
        begin, end = xp.where(held, begin, 0), xp.where(held, end, 0)
        width += end - begin
        if number and batch.n_negative:
            negative += batch.negative_before[end] - batch.negative_before[begin]
    return bool(((negative >= floor) & (4 * negative > width)).any())
