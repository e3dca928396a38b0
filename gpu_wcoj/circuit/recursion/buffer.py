"""Pending derivations and entries of later iterations."""

from __future__ import annotations

from collections.abc import Sequence

from gpu_wcoj.backend import Backend
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.zset.arrays import numbers

Weighted = tuple[list[Int64Array], Int64Array]
"""Columns, and the weight of every row."""

MAX_UNSORTED = 1 << 20
"""Gathered rows, beyond twice the distinct rows, at which they are consolidated."""


class Buffer:
    """Weighted rows of one relation, each pending at an iteration."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._unsorted: list[Weighted] = []
        self._n_unsorted = self._n_distinct = 0
        self._waiting: dict[int, list[Weighted]] = {}

    def put(self, iterations: Int64Array, columns: Sequence[Int64Array], weights: Int64Array) -> None:
        """Store rows, each at its iteration."""
        self._unsorted.append(([iterations, *columns], weights))
        self._n_unsorted += len(weights)
        if self._n_unsorted > MAX_UNSORTED + 2 * self._n_distinct:
            self._unsorted = [self._consolidated(self._unsorted)]
            self._n_unsorted = self._n_distinct = len(self._unsorted[0][1])

    def put_at(self, iteration: int, columns: list[Int64Array], weights: Int64Array) -> None:
        """Store sorted, distinct rows at one iteration."""
        self._waiting.setdefault(iteration, []).append((columns, weights))

    @property
    def next(self) -> int | None:
        """The first iteration with pending rows, or None."""
        self._sort()
        return min(self._waiting, default=None)

    def pop(self, iteration: int) -> Weighted | None:
        """Remove and return the rows of an iteration, sorted and consolidated.

        None if there are none.
        """
        self._sort()
        parts = self._waiting.pop(iteration, None)
        if parts is None:
            return None
        rows = parts[0] if len(parts) == 1 else self._consolidated(parts)
        return rows if len(rows[1]) else None

    def _sort(self) -> None:
        """Distribute the stored rows to their iterations."""
        if not self._unsorted:
            return
        (iterations, *columns), weights = self._consolidated(self._unsorted)
        self._unsorted, self._n_unsorted, self._n_distinct = [], 0, 0
        n = len(weights)
        if n == 0:
            return
        first, final = numbers(self._backend, iterations[0], iterations[-1])
        if first == final:
            self.put_at(first, columns, weights)
            return
        xp = self._backend.xp
        edges = self._backend.to_host(xp.searchsorted(iterations, xp.arange(first, final + 2))).tolist()
        for iteration, begin, end in zip(range(first, final + 1), edges, edges[1:], strict=False):
            if begin < end:
                self.put_at(iteration, [column[begin:end] for column in columns], weights[begin:end])

    def _consolidated(self, parts: Sequence[Weighted]) -> Weighted:
        if len(parts) == 1:
            columns, weights = parts[0]
        else:
            concatenate = self._backend.xp.concatenate
            columns = [concatenate(pieces) for pieces in zip(*(columns for columns, _ in parts), strict=True)]
            weights = concatenate([weights for _, weights in parts])
        return self._backend.kernels.consolidate(columns, weights)
