"""What a tick decides about the rows of one relation of a loop, iteration by iteration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from gpu_wcoj.backend import Backend
from gpu_wcoj.circuit.recursion.asking import Asking
from gpu_wcoj.circuit.recursion.buffer import Buffer
from gpu_wcoj.circuit.recursion.ranked import RankedIndex, ranks_in
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.trace.arrangement import ArrangementKey, PhaseRows
from gpu_wcoj.trace.spine import MergePolicy, Spine
from gpu_wcoj.zset.arrays import numbers, positions
from gpu_wcoj.zset.index import IndexedZSet

POLICY = MergePolicy(ratio=4, most_batches=3)
"""For this tick's entries: probed at every iteration, and few."""

Signed = tuple[list[Int64Array], int]
"""Distinct rows in the relation's columns, and the weight of the entries that they get."""


class SetHistory:
    """A relation that is a set: a row is there from the first iteration on that derives it.

    Attributes
    ----------
    entries
        This tick's entries up to the last iteration, in every order that the relation keeps.
    buffer
        What has been derived for iterations to come.
    """

    def __init__(self, index: RankedIndex, asking: Asking) -> None:
        self.index = index
        self.asking = asking
        self.backend = index.backend
        self.buffer = Buffer(index.backend)
        self.entries: dict[ArrangementKey, Spine] = {key: Spine(policy=POLICY) for key in index.arrangements}
        self._due: dict[int, list[list[Int64Array]]] = {}

    def put(self, iterations: Int64Array, columns: Sequence[Int64Array], weights: Int64Array) -> None:
        """Let what has been derived wait, each row at its iteration."""
        self.buffer.put(iterations, columns, weights)

    @property
    def next(self) -> int | None:
        """The first iteration at which there is something to look at."""
        waiting = [one for one in (self.buffer.next, min(self._due, default=None)) if one is not None]
        return min(waiting, default=None)

    def emitted(self, iteration: int) -> PhaseRows | None:
        """The entries of one iteration, with their rank; None if there are none."""
        parts = [(columns, sign) for columns, sign in self._decided(iteration) if len(columns[0])]
        if not parts:
            return None
        xp = self.backend.xp
        columns = [xp.concatenate(own) for own in zip(*(rows for rows, _ in parts), strict=True)]
        weights = xp.concatenate([xp.full(len(rows[0]), sign, np.int64) for rows, sign in parts])
        order = self.backend.kernels.lexsort(columns)
        columns = [column[order] for column in columns]
        return PhaseRows([*columns, xp.full(len(order), iteration, np.int64)], weights[order])

    def take_in(self, emitted: Mapping[ArrangementKey, IndexedZSet]) -> None:
        """Let the entries of an iteration stand with those before them."""
        for key, batch in emitted.items():
            self.entries[key] = self.entries[key].insert(batch)

    def _decided(self, iteration: int) -> list[Signed]:
        found: list[Signed] = [(rows, -1) for rows in self._due.pop(iteration, [])]
        waited = self.buffer.take(iteration)
        return found if waited is None else [*found, *self._decide(iteration, *waited)]

    def _decide(self, iteration: int, columns: list[Int64Array], arrived: Int64Array) -> list[Signed]:
        """Of rows that derivations have arrived for, those that come at this iteration, and those that go."""
        backend = self.backend
        held, rank = self.index.holds(columns)
        entered, _ = ranks_in(self.entries[self.index.canonical].batches, columns, backend)
        absent = (held & (rank < iteration)) + entered == 0
        here = absent & held & (rank == iteration)
        elsewhere = absent & ~here
        comes, asked, wrong = positions(
            backend, elsewhere & (arrived > 0), here & (arrived < 0), elsewhere & (arrived < 0)
        )
        self.refuse(len(wrong), iteration)
        came = [column[comes] for column in columns]
        (replaced,) = positions(backend, (held & (rank > iteration))[comes])
        if len(replaced):
            for at, rows in dealt(rank[comes][replaced], [column[replaced] for column in came], backend):
                self._due.setdefault(at, []).append(rows)
        went = self._asked(iteration, [column[asked] for column in columns], arrived[asked])
        return [(came, 1), (went, -1)]

    def _asked(self, iteration: int, columns: list[Int64Array], arrived: Int64Array) -> list[Int64Array]:
        """Of rows that have lost derivations at their rank, those that have none left there."""
        n = len(arrived)
        if n == 0:
            return columns
        backend = self.backend
        xp = backend.xp
        (number,), iterations, counts = self.asking.derivations(columns, n)
        (now,) = positions(backend, iterations == iteration)
        left = arrived.copy()
        left[number[now]] += counts[now]
        wrong, gone = positions(backend, left < 0, left == 0)
        self.refuse(len(wrong), iteration)
        is_gone = xp.zeros(n, np.bool_)
        is_gone[gone] = True
        (later,) = positions(backend, is_gone[number] & (iterations > iteration))
        if len(later):
            rows = number[later]
            self.buffer.put(iterations[later], [column[rows] for column in columns], counts[later])
        return [column[gone] for column in columns]

    def refuse(self, n_wrong: int, iteration: int) -> None:
        """Stop where a row would have fewer than no derivations, which only an error of this package explains."""
        if n_wrong:
            raise AssertionError(f"'{self.index.name}' has fewer than no derivations at iteration {iteration}")


def dealt(
    iterations: Int64Array, columns: Sequence[Int64Array], backend: Backend
) -> list[tuple[int, list[Int64Array]]]:
    """Distinct rows, by iteration."""
    iterations, *columns = backend.kernels.distinct_rows([iterations, *columns])
    least, most = numbers(backend, iterations[0], iterations[-1])
    if least == most:
        return [(least, list(columns))]
    edges = backend.to_host(backend.xp.searchsorted(iterations, backend.xp.arange(least, most + 2))).tolist()
    bounds = zip(range(least, most + 1), edges, edges[1:], strict=False)
    return [(at, [column[begin:end] for column in columns]) for at, begin, end in bounds if begin < end]
