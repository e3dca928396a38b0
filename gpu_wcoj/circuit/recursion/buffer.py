"""What rules have derived for iterations that are still to come, and the entries that are due there."""

from __future__ import annotations

from collections.abc import Sequence

from gpu_wcoj.backend import Backend
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.zset.arrays import numbers

Weighted = tuple[list[Int64Array], Int64Array]
"""Columns, and the weight of every row."""

GATHERED = 1 << 20
"""Rows are consolidated whenever so many have gathered, and as many again as there are distinct ones."""


class Buffer:
    """Weighted rows of one relation that wait, each at an iteration."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._given: list[Weighted] = []
        self._n_given = self._n_distinct = 0
        self._waiting: dict[int, list[Weighted]] = {}

    def put(self, iterations: Int64Array, columns: Sequence[Int64Array], weights: Int64Array) -> None:
        """Let rows wait, each at its iteration."""
        self._given.append(([iterations, *columns], weights))
        self._n_given += len(weights)
        if self._n_given > GATHERED + 2 * self._n_distinct:
            self._given = [self._consolidated(self._given)]
            self._n_given = self._n_distinct = len(self._given[0][1])

    def put_at(self, iteration: int, columns: list[Int64Array], weights: Int64Array) -> None:
        """Let rows, sorted and distinct, wait at one iteration."""
        self._waiting.setdefault(iteration, []).append((columns, weights))

    @property
    def next(self) -> int | None:
        """The first iteration at which something waits."""
        self._sort()
        return min(self._waiting, default=None)

    def take(self, iteration: int) -> Weighted | None:
        """The rows that wait there, distinct, sorted, their weights added; None if there are none."""
        self._sort()
        parts = self._waiting.pop(iteration, None)
        if parts is None:
            return None
        rows = parts[0] if len(parts) == 1 else self._consolidated(parts)
        return rows if len(rows[1]) else None

    def _sort(self) -> None:
        """Deal what was put out to its iterations."""
        if not self._given:
            return
        (iterations, *columns), weights = self._consolidated(self._given)
        self._given, self._n_given, self._n_distinct = [], 0, 0
        n = len(weights)
        if n == 0:
            return
        least, most = numbers(self._backend, iterations[0], iterations[-1])
        if least == most:
            self.put_at(least, columns, weights)
            return
        xp = self._backend.xp
        edges = self._backend.to_host(xp.searchsorted(iterations, xp.arange(least, most + 2))).tolist()
        for iteration, begin, end in zip(range(least, most + 1), edges, edges[1:], strict=False):
            if begin < end:
                self.put_at(iteration, [column[begin:end] for column in columns], weights[begin:end])

    def _consolidated(self, parts: Sequence[Weighted]) -> Weighted:
        if len(parts) == 1:
            columns, weights = parts[0]
        else:
            concatenate = self._backend.xp.concatenate
            columns = [concatenate(own) for own in zip(*(columns for columns, _ in parts), strict=True)]
            weights = concatenate([weights for _, weights in parts])
        return self._backend.kernels.consolidate(columns, weights)
