"""The state of a relation: its arrangements, which change and commit together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TypeVar

import numpy as np

from gpu_wcoj.backend import Backend
from gpu_wcoj.join.prefixes import weights_of_rows
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.trace.arrangement import Arrangement, ArrangementKey, PhaseRows
from gpu_wcoj.trace.spine import MergePolicy, Spine
from gpu_wcoj.zset.arrays import stacked
from gpu_wcoj.zset.index import IndexedZSet

_T = TypeVar("_T")

THREADED_ROWS = 1 << 14
"""Rows of a change below which it is indexed and merged on one thread."""


class RelationIndex:
    """A composite index: one relation, whose children are its arrangements.

    Every child receives what the relation receives.

    Attributes
    ----------
    name
        The relation.
    width
        Number of stored columns.
    arrangements
        The children, by key.
    canonical
        The key of the child that holds all rows in full; the relation is read through it.

    Parameters
    ----------
    arrange
        Makes the children, if they are not the usual ones.
    """

    def __init__(
        self,
        name: str,
        width: int,
        keys: Iterable[ArrangementKey],
        backend: Backend,
        policy: MergePolicy | None = None,
        threads: int = 1,
        arrange: Callable[[ArrangementKey], Arrangement] | None = None,
    ) -> None:
        self.name = name
        self.threads = threads
        self.width = width
        self.backend = backend
        wanted = list(dict.fromkeys(keys))
        full = [key for key in wanted if len(key.order) == width and key.is_whole]
        self.canonical = full[0] if full else ArrangementKey(name, tuple(range(width)))
        children = list(dict.fromkeys([*wanted, self.canonical]))
        usual = policy or MergePolicy()
        self.arrangements = {
            key: Arrangement(key, backend, replace(usual, patience=2 + 2 * i / len(children)), merges_early=True)
            if arrange is None
            else arrange(key)
            for i, key in enumerate(children)
        }

    def __len__(self) -> int:
        return sum(len(batch) for batch in self.arrangements[self.canonical].accumulated())

    def read(self, key: ArrangementKey) -> Arrangement:
        """Return the arrangement for rules that are in no loop with the relation."""
        return self.arrangements[key]

    def read_by_loop(self, key: ArrangementKey) -> Arrangement:
        """Return the arrangement for loops that do not contain the relation."""
        return self.arrangements[key]

    def receive_delta(self, phases: Sequence[PhaseRows]) -> None:
        """Pass this tick's change to every child."""
        self.on_each(lambda arrangement: arrangement.receive_delta(phases), sum(map(len, phases)))

    def delta(self, phase: int) -> IndexedZSet | None:
        """Return this tick's change of one phase, in the canonical order."""
        return self.arrangements[self.canonical].delta(phase)

    def accumulated(self) -> tuple[IndexedZSet, ...]:
        """Return the committed state in the canonical order, as batches."""
        return self.arrangements[self.canonical].accumulated()

    def participates_in_level(self, column: int) -> bool:
        """Return whether the relation has that column, so that some child can extend by it."""
        return 0 <= column < self.width

    def spines(self) -> Mapping[ArrangementKey, Spine]:
        """Return the committed state, by child."""
        return {key: arrangement.spine for key, arrangement in self.arrangements.items()}

    def committed(self) -> Mapping[ArrangementKey, Spine]:
        """Return the state that `commit` would install, by child; changes nothing."""
        pending = sum(map(len, self.arrangements[self.canonical].pending))
        return dict(zip(self.arrangements, self.on_each(Arrangement.committed, pending), strict=True))

    def on_each(self, function: Callable[[Arrangement], _T], n_rows: int) -> list[_T]:
        """Apply a function to every child; on several threads if a change of `n_rows` is worth it.

        On a device one thread is used.
        """
        children = list(self.arrangements.values())
        if self.threads == 1 or self.backend.device is not None or len(children) == 1 or n_rows < THREADED_ROWS:
            return [function(child) for child in children]
        with ThreadPoolExecutor(self.threads) as pool:
            return list(pool.map(function, children))

    def commit(self, spines: Mapping[ArrangementKey, Spine] | None = None) -> None:
        """Commit every child."""
        prepared = self.committed() if spines is None else spines
        for key, arrangement in self.arrangements.items():
            arrangement.commit(prepared[key])

    def discard(self) -> None:
        """Drop this tick's change."""
        for arrangement in self.arrangements.values():
            arrangement.discard()

    def compact(self) -> None:
        """Merge every child into one batch at most, without cancelled rows."""
        for arrangement in self.arrangements.values():
            arrangement.spine = arrangement.spine.compact()

    def weights_of(self, columns: Sequence[Int64Array]) -> Int64Array:
        """Return the committed weight of each row, 0 if absent; `columns` in the relation's order."""
        batches = self.accumulated()
        if not batches:
            nothing: Int64Array = self.backend.xp.zeros(len(columns[0]), np.int64)
            return nothing
        return weights_of_rows(batches, self.canonical.order, stacked(self.backend, columns), self.backend)

    def rows(self) -> tuple[list[Int64Array], Int64Array]:
        """Return all committed rows, sorted by the relation's columns, with their weights.

        O(n), O(n log n) to reorder.
        """
        columns, weights = self.arrangements[self.canonical].columns()
        order = self.canonical.order
        if order == tuple(range(self.width)):
            return columns, weights
        restored = [columns[order.index(column)] for column in range(self.width)]
        if len(weights):
            rows = self.backend.kernels.lexsort(restored)
            restored, weights = [column[rows] for column in restored], weights[rows]
        return restored, weights

    def visible_rows(self) -> tuple[list[Int64Array], Int64Array]:
        """Return the rows as rules and users see them: those of `rows`."""
        return self.rows()

    def load(self, columns: Sequence[Int64Array], weights: Int64Array) -> None:
        """Make these sorted distinct rows the committed state."""
        whole = PhaseRows(columns, weights)
        self.receive_delta([whole if whole.sign is None else PhaseRows(columns, whole.sign)])
        self.commit()
