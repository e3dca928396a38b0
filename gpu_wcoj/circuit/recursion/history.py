"""History of a set-valued relation of a loop in a tick, iteration by iteration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from gpu_wcoj.backend import Backend
from gpu_wcoj.circuit.recursion.asking import DerivationQuery
from gpu_wcoj.circuit.recursion.buffer import Buffer
from gpu_wcoj.circuit.recursion.relation import RankedIndex, ranks_in
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.trace.arrangement import ArrangementKey, PhaseRows
from gpu_wcoj.trace.spine import MergePolicy, Spine
from gpu_wcoj.zset.arrays import numbers, positions
from gpu_wcoj.zset.index import IndexedZSet

POLICY = MergePolicy(ratio=4, most_batches=3)
"""Merge policy of this tick's entries, which are few and probed at every iteration."""

Signed = tuple[list[Int64Array], int]
"""Distinct rows in the relation's columns, and the weight of their entries."""


class SetHistory:
    """History of a relation that is a set: a row is present from its first derivation on.

    Attributes
    ----------
    entries
        This tick's entries up to the last iteration, in every order of the relation's index.
    buffer
        Derivations of later iterations.
    """

    def __init__(self, index: RankedIndex, asking: DerivationQuery) -> None:
        self.index = index
        self.derivation_query = asking
        self.backend = index.backend
        self.buffer = Buffer(index.backend)
        self.entries: dict[ArrangementKey, Spine] = {key: Spine(policy=POLICY) for key in index.arrangements}
        self._due: dict[int, list[list[Int64Array]]] = {}

    def put(self, iterations: Int64Array, columns: Sequence[Int64Array], weights: Int64Array) -> None:
        """Store derivations to come, each at its iteration."""
        self.buffer.put(iterations, columns, weights)

    @property
    def next(self) -> int | None:
        """The first iteration with anything pending, or None."""
        waiting = [iteration for iteration in (self.buffer.next, min(self._due, default=None)) if iteration is not None]
        return min(waiting, default=None)

    def emit(self, iteration: int) -> PhaseRows | None:
        """Return the entries of one iteration, with their rank; None if there are none."""
        parts = [(columns, sign) for columns, sign in self._decide_iteration(iteration) if len(columns[0])]
        if not parts:
            return None
        xp = self.backend.xp
        columns = [xp.concatenate(pieces) for pieces in zip(*(rows for rows, _ in parts), strict=True)]
        weights = xp.concatenate([xp.full(len(rows[0]), sign, np.int64) for rows, sign in parts])
        order = self.backend.kernels.lexsort(columns)
        columns = [column[order] for column in columns]
        return PhaseRows([*columns, xp.full(len(order), iteration, np.int64)], weights[order])

    def absorb(self, emitted: Mapping[ArrangementKey, IndexedZSet]) -> None:
        """Add the entries of an iteration to those before."""
        for key, batch in emitted.items():
            self.entries[key] = self.entries[key].insert(batch)

    def _decide_iteration(self, iteration: int) -> list[Signed]:
        due: list[Signed] = [(rows, -1) for rows in self._due.pop(iteration, [])]
        waited = self.buffer.pop(iteration)
        return due if waited is None else [*due, *self._decide_rows(iteration, *waited)]

    def _decide_rows(self, iteration: int, columns: list[Int64Array], arrived: Int64Array) -> list[Signed]:
        """Return the rows that enter and leave at this iteration, given arrived derivations."""
        backend = self.backend
        is_present, rank = self.index.find(columns)
        entered, _ = ranks_in(self.entries[self.index.canonical].batches, columns, backend)
        absent = (is_present & (rank < iteration)) + entered == 0
        here = absent & is_present & (rank == iteration)
        elsewhere = absent & ~here
        comes, queried, wrong = positions(
            backend, elsewhere & (arrived > 0), here & (arrived < 0), elsewhere & (arrived < 0)
        )
        self.refuse(len(wrong), iteration)
        came = [column[comes] for column in columns]
        (replaced,) = positions(backend, (is_present & (rank > iteration))[comes])
        if len(replaced):
            for due_iteration, rows in group_by_iteration(
                rank[comes][replaced], [column[replaced] for column in came], backend
            ):
                self._due.setdefault(due_iteration, []).append(rows)
        went = self._without_derivations(iteration, [column[queried] for column in columns], arrived[queried])
        return [(came, 1), (went, -1)]

    def _without_derivations(self, iteration: int, columns: list[Int64Array], arrived: Int64Array) -> list[Int64Array]:
        """Return the rows that have no derivations left at their rank, among those that lost some."""
        n = len(arrived)
        if n == 0:
            return columns
        backend = self.backend
        xp = backend.xp
        (position,), iterations, counts = self.derivation_query.derivations(columns, n)
        (now,) = positions(backend, iterations == iteration)
        left = arrived.copy()
        left[position[now]] += counts[now]
        wrong, gone = positions(backend, left < 0, left == 0)
        self.refuse(len(wrong), iteration)
        is_gone = xp.zeros(n, np.bool_)
        is_gone[gone] = True
        (later,) = positions(backend, is_gone[position] & (iterations > iteration))
        if len(later):
            rows = position[later]
            self.buffer.put(iterations[later], [column[rows] for column in columns], counts[later])
        return [column[gone] for column in columns]

    def refuse(self, n_wrong: int, iteration: int) -> None:
        """Raise an AssertionError if a row has a negative number of derivations, an internal error."""
        if n_wrong:
            raise AssertionError(f"'{self.index.name}' has fewer than no derivations at iteration {iteration}")


def group_by_iteration(
    iterations: Int64Array, columns: Sequence[Int64Array], backend: Backend
) -> list[tuple[int, list[Int64Array]]]:
    """Return the distinct rows by iteration."""
    iterations, *columns = backend.kernels.distinct_rows([iterations, *columns])
    first, final = numbers(backend, iterations[0], iterations[-1])
    if first == final:
        return [(first, list(columns))]
    edges = backend.to_host(backend.xp.searchsorted(iterations, backend.xp.arange(first, final + 2))).tolist()
    bounds = zip(range(first, final + 1), edges, edges[1:], strict=False)
    return [(iteration, [column[begin:end] for column in columns]) for iteration, begin, end in bounds if begin < end]
