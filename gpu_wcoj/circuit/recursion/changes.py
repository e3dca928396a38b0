"""Bring a filled loop up to date: entries of this tick, iteration by iteration, until nothing waits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from gpu_wcoj.circuit.recursion.asking import Asking
from gpu_wcoj.circuit.recursion.buffer import Buffer
from gpu_wcoj.circuit.recursion.derived import derived
from gpu_wcoj.circuit.recursion.ranked import RankedIndex, ranks_in
from gpu_wcoj.circuit.recursion.rules import LoopRule
from gpu_wcoj.join.delta import Execution, IncrementalGenericJoin
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.trace.arrangement import Arrangement, ArrangementKey, PhaseRows
from gpu_wcoj.trace.spine import MergePolicy, Spine
from gpu_wcoj.zset.arrays import numbers, positions
from gpu_wcoj.zset.index import IndexedZSet

POLICY = MergePolicy(ratio=4, most_batches=3)
"""For this tick's entries: probed at every iteration, and few."""


class Changes:
    """One tick of a loop that holds something.

    Parameters
    ----------
    heads
        The loop's relations.
    outside
        The arrangements of other relations, with this tick's change pending.
    execution
        With weights.
    """

    def __init__(
        self,
        heads: Mapping[str, RankedIndex],
        rules: Sequence[LoopRule],
        outside: Mapping[ArrangementKey, Arrangement],
        execution: Execution,
    ) -> None:
        self._heads = heads
        self._outside = outside
        self._backend = execution.backend
        self._buffers = {name: Buffer(self._backend) for name in heads}
        self._due: dict[str, dict[int, list[list[Int64Array]]]] = {name: {} for name in heads}
        self._entries: dict[ArrangementKey, Spine] = {}
        self._views: dict[ArrangementKey, Arrangement] = {}
        before: dict[ArrangementKey, Arrangement] = {}
        for key, arrangement in outside.items():
            view = self._views[key] = Arrangement(key, self._backend)
            view.spine = arrangement.spine
            view.pending = _as_one(arrangement.pending)
            before[key] = self._fixed(arrangement)
        for index in heads.values():
            for key, arrangement in index.arrangements.items():
                view = self._views[key] = Arrangement(key, self._backend)
                view.spine = arrangement.spine
                self._entries[key] = Spine(policy=POLICY)
                before[key] = self._fixed(arrangement)
        self._rules = [(rule, IncrementalGenericJoin(rule.ranked, self._views, execution)) for rule in rules]
        self._asking = {
            name: Asking([rule for rule in rules if rule.head == name], before, execution) for name in heads
        }

    @property
    def joins(self) -> list[IncrementalGenericJoin]:
        """The joins in use, to be asked for their work."""
        return [*(join for _, join in self._rules), *(join for own in self._asking.values() for join in own.joins)]

    def iterations(self) -> Iterator[int]:
        """Run; yield the number of every iteration at which something was looked at."""
        self._derive(-1)
        for key, arrangement in self._outside.items():
            view = self._views[key]
            view.spine, view.pending = Spine(arrangement.after(len(arrangement.pending) - 1)), ()
        while (iteration := self._next()) is not None:
            yield iteration
            emitted = {name: self._emitted(name, iteration) for name in self._heads}
            if not any(emitted.values()):
                continue
            for name, rows in emitted.items():
                if rows is not None:
                    for key in self._heads[name].arrangements:
                        view = self._views[key]
                        view.pending = (view.index(rows),)
            self._derive(iteration)
            for name, rows in emitted.items():
                if rows is not None:
                    for key, arrangement in self._heads[name].arrangements.items():
                        view = self._views[key]
                        self._entries[key] = self._entries[key].insert(view.pending[0])
                        view.spine = Spine((*arrangement.spine.batches, *self._entries[key].batches))
                        view.pending = ()

    def result(self) -> dict[str, dict[ArrangementKey, IndexedZSet]]:
        """Per relation, this tick's entries in every order that its index keeps."""
        found: dict[str, dict[ArrangementKey, IndexedZSet]] = {}
        for name, index in self._heads.items():
            for key in index.arrangements:
                whole = self._entries[key].compact().batches
                if whole:
                    found.setdefault(name, {})[key] = whole[0]
        return found

    def _fixed(self, arrangement: Arrangement) -> Arrangement:
        """The arrangement as it was before the tick."""
        view = Arrangement(arrangement.key, self._backend)
        view.spine = arrangement.spine
        return view

    def _derive(self, step: int) -> None:
        """Let what this step's changes derive wait at its iterations."""
        for rule, join in self._rules:
            buffer, width = self._buffers[rule.head], self._heads[rule.head].columns
            for columns, iterations, weights in derived(join, width, step):
                buffer.put(iterations, columns, weights)

    def _next(self) -> int | None:
        waiting = [buffer.next for buffer in self._buffers.values()]
        waiting += [min(due, default=None) for due in self._due.values()]
        return min((one for one in waiting if one is not None), default=None)

    def _emitted(self, name: str, iteration: int) -> PhaseRows | None:
        """The entries of one relation at one iteration; None if there are none."""
        parts: list[tuple[list[Int64Array], int]] = [(rows, -1) for rows in self._due[name].pop(iteration, [])]
        waited = self._buffers[name].take(iteration)
        if waited is not None:
            came, went = self._decide(name, iteration, *waited)
            parts += [(rows, sign) for rows, sign in ((came, 1), (went, -1)) if len(rows[0])]
        if not parts:
            return None
        xp = self._backend.xp
        columns = [xp.concatenate(own) for own in zip(*(rows for rows, _ in parts), strict=True)]
        weights = xp.concatenate([xp.full(len(rows[0]), sign, np.int64) for rows, sign in parts])
        order = self._backend.kernels.lexsort(columns)
        columns = [column[order] for column in columns]
        return PhaseRows([*columns, xp.full(len(order), iteration, np.int64)], weights[order])

    def _decide(
        self, name: str, iteration: int, columns: list[Int64Array], arrived: Int64Array
    ) -> tuple[list[Int64Array], list[Int64Array]]:
        """Of rows that derivations have arrived for, those that come at this iteration, and those that go."""
        index, backend = self._heads[name], self._backend
        held, rank = index.holds(columns)
        entered, _ = ranks_in(self._entries[index.canonical].batches, columns, backend)
        absent = (held & (rank < iteration)) + entered == 0
        here = absent & held & (rank == iteration)
        elsewhere = absent & ~here
        comes, asked, wrong = positions(
            backend, elsewhere & (arrived > 0), here & (arrived < 0), elsewhere & (arrived < 0)
        )
        if len(wrong):
            raise AssertionError(f"'{name}' has fewer than no derivations at iteration {iteration}")
        came = [column[comes] for column in columns]
        later = (held & (rank > iteration))[comes]
        (replaced,) = positions(backend, later)
        if len(replaced):
            self._put_due(name, rank[comes][replaced], [column[replaced] for column in came])
        went = self._asked(name, iteration, [column[asked] for column in columns], arrived[asked])
        return came, went

    def _put_due(self, name: str, ranks: Int64Array, columns: list[Int64Array]) -> None:
        """Let the entries that take rows away from the ranks that they had before be due there."""
        ranks, *columns = self._backend.kernels.distinct_rows([ranks, *columns])
        least, most = numbers(self._backend, ranks[0], ranks[-1])
        xp = self._backend.xp
        edges = self._backend.to_host(xp.searchsorted(ranks, xp.arange(least, most + 2))).tolist()
        for rank, begin, end in zip(range(least, most + 1), edges, edges[1:], strict=False):
            if begin < end:
                self._due[name].setdefault(rank, []).append([column[begin:end] for column in columns])

    def _asked(self, name: str, iteration: int, columns: list[Int64Array], arrived: Int64Array) -> list[Int64Array]:
        """Of rows that have lost derivations at their rank, those that have none left there."""
        n = len(arrived)
        if n == 0:
            return columns
        backend = self._backend
        xp = backend.xp
        number, iterations, counts = self._asking[name].derivations(columns)
        (now,) = positions(backend, iterations == iteration)
        left = arrived.copy()
        left[number[now]] += counts[now]
        wrong, gone = positions(backend, left < 0, left == 0)
        if len(wrong):
            raise AssertionError(f"'{name}' has fewer than no derivations at iteration {iteration}")
        is_gone = xp.zeros(n, np.bool_)
        is_gone[gone] = True
        (later,) = positions(backend, is_gone[number] & (iterations > iteration))
        if len(later):
            rows = number[later]
            self._buffers[name].put(iterations[later], [column[rows] for column in columns], counts[later])
        return [column[gone] for column in columns]


def _as_one(pending: Sequence[IndexedZSet]) -> tuple[IndexedZSet, ...]:
    """The phases of a tick's change as one."""
    batches = [batch for batch in pending if batch.n_rows]
    if not batches:
        return ()
    whole = batches[0]
    for batch in batches[1:]:
        whole = whole.merge(batch)
    return (whole,)
