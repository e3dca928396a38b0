"""A relation of a loop that keeps the best value of each group: its history, iteration by iteration.

The history of a group is the values that have been its best, each with the iteration at which it became that. A worse
value is left standing inside the loop: as rules lose nothing when a value gets better, what the worse one derives is
never better than what the better one derives. So inside the loop the relation only grows, as a set does, and joins
read its history; the outside sees the last value.

In a tick, a group follows its history of before until something makes a difference to it: a better value arrives, or
the value that it had at an iteration has lost derivations there. From then on it is *apart*: the rules are asked for
all derivations that the group had from this iteration on, they wait where they belong beside those of this tick, and
the group is looked at wherever something waits or the history of before has a value.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpu_wcoj.circuit.extremes import extreme_values, rows_below
from gpu_wcoj.circuit.recursion.asking import Asking
from gpu_wcoj.circuit.recursion.history import SetHistory, Signed, dealt
from gpu_wcoj.circuit.recursion.ranked import RankedIndex
from gpu_wcoj.circuit.recursion.rules import Best
from gpu_wcoj.join.execution import Execution
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.trace.spine import Spine
from gpu_wcoj.zset.arrays import BoolArray, positions
from gpu_wcoj.zset.index import IndexedZSet

Values = tuple[BoolArray, Int64Array, Int64Array]
"""Of each of some groups, whether it has a value, the value, and the value's key."""


class Better:
    """Compares values: the better one has the smaller key."""

    def __init__(self, best: Best, execution: Execution) -> None:
        self.best = best
        self.backend = execution.backend
        self.execution = execution

    @property
    def rank(self) -> Int64Array | None:
        """Of texts, per code; asked for each time, as rules may make texts."""
        return self.execution.ranks(self.best.family) if self.best.family else None

    def keys(self, values: Int64Array) -> Int64Array:
        """Per value a key; better ones have smaller keys."""
        rank = self.rank
        keys = values if rank is None else rank[values]
        return ~keys if self.best.greatest else keys

    def last(
        self, batches: Sequence[IndexedZSet], groups: Sequence[Int64Array], n: int
    ) -> tuple[BoolArray, Int64Array]:
        """Which of `n` groups have a value, and the best one that they have."""
        return extreme_values(batches, groups, n, self.best.greatest, self.backend, self.rank)

    def firsts(self, owner: Int64Array, values: Int64Array, n: int) -> Values:
        """Of each of `n` owners the best of its values."""
        xp = self.backend.xp
        has: BoolArray = xp.zeros(n, np.bool_)
        best, key = xp.zeros(n, np.int64), xp.zeros(n, np.int64)
        if len(owner):
            keys = self.keys(values)
            order = self.backend.kernels.lexsort([owner, keys])
            owner, values, keys = owner[order], values[order], keys[order]
            first = self.backend.kernels.run_starts([owner])
            has[owner[first]] = True
            best[owner[first]] = values[first]
            key[owner[first]] = keys[first]
        return has, best, key


def is_better(left: Values, right: Values) -> BoolArray:
    """Which groups have a value on the left that is better than the one on the right, or than nothing there."""
    better: BoolArray = left[0] & (~right[0] | (left[2] < right[2]))
    return better


class BestHistory(SetHistory):
    """See the module's text. Rows are kept in the order group, value."""

    def __init__(self, index: RankedIndex, asking: Asking, better: Better) -> None:
        super().__init__(index, asking)
        self.better = better
        self._groups = tuple(column for column in range(index.columns) if column != better.best.value)
        self._apart = Spine()
        self._all_apart = False

    def put(self, iterations: Int64Array, columns: Sequence[Int64Array], weights: Int64Array) -> None:
        """Let what has been derived wait, each row at its iteration."""
        self.buffer.put(iterations, [columns[at] for at in (*self._groups, self.better.best.value)], weights)

    def _decided(self, iteration: int) -> list[Signed]:
        xp, backend = self.backend.xp, self.backend
        waited = self.buffer.take(iteration)
        visits = self._due.pop(iteration, [])
        if waited is None and not visits:
            return []
        nothing: Int64Array = xp.empty(0, np.int64)
        (*own, value), arrived = waited or ([nothing] * (len(self._groups) + 1), nothing)
        groups, n, owner = self._touched(own, visits, len(value))
        state = self.index.accumulated()
        had, (old, rank), weights = self._rows(state, groups)
        (there,) = positions(backend, weights > 0)
        had, old, rank = had[there], old[there], rank[there]
        mine, new, since = had, old, rank
        entries = self.entries[self.index.canonical].batches
        if entries:
            mine, (new, since), weights = self._rows((*state, *entries), groups)
            (there,) = positions(backend, weights > 0)
            mine, new, since = mine[there], new[there], since[there]
        before, now = positions(backend, since < iteration, rank == iteration)
        best = self.better.firsts(mine[before], new[before], n)
        was = self.better.firsts(had[now], old[now], n)
        apart = self._is_apart(groups, n)
        asked = self._to_ask(owner, value, arrived, apart, best, was)
        if len(asked):
            is_asked = xp.zeros(n, np.bool_)
            is_asked[asked] = True
            (later,) = positions(backend, is_asked[had] & (rank > iteration)) if len(had) else (nothing,)
            self._visit(rank[later], had[later], groups)
            number, values, counts = self._ask(iteration, [column[asked] for column in groups], len(asked))
            owner = xp.concatenate([owner, asked[number]])
            value, arrived = xp.concatenate([value, values]), xp.concatenate([arrived, counts])
            apart = apart | is_asked
        (owner, value), left = backend.kernels.consolidate([owner, value], arrived)
        candidates, wrong = positions(backend, (left > 0) & apart[owner], (left < 0) & apart[owner])
        self.refuse(len(wrong), iteration)
        found = self.better.firsts(owner[candidates], value[candidates], n)
        comes = apart & is_better(found, best)
        same = comes & was[0] & (was[1] == found[1])
        coming, going = positions(backend, comes & ~same, apart & was[0] & ~same)
        return [(self._columns(groups, coming, found[1]), 1), (self._columns(groups, going, was[1]), -1)]

    def _touched(
        self, own: Sequence[Int64Array], visits: Sequence[list[Int64Array]], n_rows: int
    ) -> tuple[list[Int64Array], int, Int64Array]:
        """The distinct groups to look at, how many they are, and the place among them of each row's group."""
        xp = self.backend.xp
        if not self._groups:
            return [], 1, xp.zeros(n_rows, np.int64)
        groups = list(own)
        if visits:
            groups = [xp.concatenate(parts) for parts in zip(own, *visits, strict=True)]
        groups = self.backend.kernels.distinct_rows(groups)
        place: Int64Array = xp.zeros(0, np.int64)
        if n_rows:
            place = IndexedZSet.from_sorted(groups, 1, self.backend).locate(own)
        return groups, len(groups[0]), place

    def _rows(
        self, batches: Sequence[IndexedZSet], groups: Sequence[Int64Array]
    ) -> tuple[Int64Array, list[Int64Array], Int64Array]:
        """The history of these groups: owner, value and rank, weight."""
        owner, rest, weights = rows_below([batch for batch in batches if len(batch)], groups, self.backend)
        return owner, rest if len(rest) == 2 else [rest[0], rest[0]], weights

    def _is_apart(self, groups: Sequence[Int64Array], n: int) -> BoolArray:
        xp = self.backend.xp
        found: BoolArray = xp.zeros(n, np.bool_)
        if not self._groups:
            found |= self._all_apart
        for batch in self._apart.batches:
            found |= batch.locate(groups) >= 0
        return found

    def _to_ask(
        self,
        owner: Int64Array,
        value: Int64Array,
        arrived: Int64Array,
        apart: BoolArray,
        best: Values,
        was: Values,
    ) -> Int64Array:
        """The groups that part from their history: their value loses derivations here, or a better one arrives."""
        backend = self.backend
        here = was[0][owner] & (value == was[1][owner])
        gained, lost = positions(backend, arrived > 0, here & (arrived < 0))
        found = self.better.firsts(owner[gained], value[gained], len(apart))
        parts = is_better(found, best) & is_better(found, was)
        parts[owner[lost]] = True
        (asked,) = positions(backend, parts & ~apart)
        return asked

    def _ask(self, iteration: int, groups: list[Int64Array], n: int) -> tuple[Int64Array, Int64Array, Int64Array]:
        """These groups are apart from now on: what they had derived here (number, value, count); the rest waits."""
        backend = self.backend
        if self._groups:
            self._apart = self._apart.insert(IndexedZSet.from_sorted(groups, 1, backend))
        else:
            self._all_apart = True
        (number, value), iterations, counts = self.asking.derivations(groups, n)
        now, later = positions(backend, iterations == iteration, iterations > iteration)
        if len(later):
            columns = [*(column[number[later]] for column in groups), value[later]]
            self.buffer.put(iterations[later], columns, counts[later])
        return number[now], value[now], counts[now]

    def _visit(self, ranks: Int64Array, owners: Int64Array, groups: Sequence[Int64Array]) -> None:
        """Look at these groups again at these iterations, at which they had values."""
        if len(ranks):
            for at, rows in dealt(ranks, [column[owners] for column in groups], self.backend):
                self._due.setdefault(at, []).append(rows)

    def _columns(self, groups: Sequence[Int64Array], owners: Int64Array, values: Int64Array) -> list[Int64Array]:
        """Rows in the relation's columns."""
        columns = dict(zip(self._groups, (column[owners] for column in groups), strict=True))
        columns[self.better.best.value] = values[owners]
        return [columns[at] for at in range(len(columns))]


def change_of_best(
    better: Better, state: Sequence[IndexedZSet], entries: IndexedZSet
) -> tuple[list[Int64Array], Int64Array]:
    """The best values that go and those that come, as columns group, value, with the weights -1 and 1."""
    xp, depth = better.backend.xp, entries.depth - 2
    groups = entries.as_zset_view(depth)[0] if depth else []
    n = len(groups[0]) if depth else 1
    had, old = better.last(state, groups, n)
    has, new = better.last((*state, entries), groups, n)
    same = had & has & (old == new)
    gone, come = positions(better.backend, had & ~same, has & ~same)
    rows = xp.concatenate([gone, come])
    values = xp.concatenate([old[gone], new[come]])
    weights = xp.concatenate([xp.full(len(gone), -1, np.int64), xp.full(len(come), 1, np.int64)])
    return [*(column[rows] for column in groups), values], weights
