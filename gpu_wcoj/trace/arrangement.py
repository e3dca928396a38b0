"""An arrangement: one relation, possibly filtered, in one attribute order, shared by atoms."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from gpu_wcoj.backend import Backend
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.trace.spine import MergePolicy, Spine
from gpu_wcoj.zset.arrays import positions, stacked
from gpu_wcoj.zset.index import IndexedZSet

ComparedColumns = tuple[int, str, int | None, int | None]
"""A column, an operator, and another column or a code."""

COMPARE: dict[str, Callable[..., Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
"""Comparison operators by symbol."""


class ArrangementKey(NamedTuple):
    """The relation, attribute order and filter of an arrangement.

    Attributes
    ----------
    relation
        The relation.
    order
        The relation's columns, outermost level first.
    constants
        (column, code) pairs that rows must have.
    equal
        (column, column) pairs that must agree.
    compared
        (column, operator, column, None) or (column, operator, None, code) comparisons that must hold.
    """

    relation: str
    order: tuple[int, ...]
    constants: tuple[tuple[int, int], ...] = ()
    equal: tuple[tuple[int, int], ...] = ()
    compared: tuple[ComparedColumns, ...] = ()

    def __str__(self) -> str:
        where = [f"{column} = {code}" for column, code in self.constants]
        where += [f"{left} = {right}" for left, right in self.equal]
        where += [f"{left} {op} {code if right is None else f'#{right}'}" for left, op, right, code in self.compared]
        order = ", ".join(map(str, self.order))
        return f"{self.relation}[{order}" + (f" | {', '.join(where)}]" if where else "]")

    @property
    def is_whole(self) -> bool:
        """True if all rows of the relation are in the arrangement."""
        return not (self.constants or self.equal or self.compared)

    @property
    def columns(self) -> frozenset[int]:
        """The columns that the order and the filter read."""
        columns = {
            *self.order,
            *(column for column, _ in self.constants),
            *(place for pair in self.equal for place in pair),
        }
        for left, _, right, _ in self.compared:
            columns |= {left} if right is None else {left, right}
        return frozenset(columns)

    @property
    def selection(self) -> tuple[object, ...]:
        """The part of the key that determines the rows; equal for keys with the same rows."""
        return self.relation, self.constants, self.equal, self.compared, frozenset(self.order)

    def select(self, columns: Sequence[Int64Array], backend: Backend) -> Int64Array | None:
        """Return positions of the rows that pass the filter; None for all. Waits once for a device."""
        if self.is_whole:
            return None
        xp = backend.xp
        if backend.device is None and len(columns[0]) == 1:
            return None if self._holds([int(column[0]) for column in columns]) else np.empty(0, np.int64)
        mask = xp.ones(len(columns[0]), np.bool_)
        for column, code in self.constants:
            mask &= columns[column] == code
        for left, equal_column in self.equal:
            mask &= columns[left] == columns[equal_column]
        for left, op, right_column, right_code in self.compared:
            right = columns[right_column] if right_column is not None else right_code or 0
            mask &= COMPARE[op](columns[left], right)
        return positions(backend, mask)[0]

    def _holds(self, row: Sequence[int]) -> bool:
        """Return whether one row passes the filter."""
        return (
            all(row[column] == code for column, code in self.constants)
            and all(row[left] == row[right] for left, right in self.equal)
            and all(
                COMPARE[op](row[left], row[right] if right is not None else code)
                for left, op, right, code in self.compared
            )
        )


@dataclass(frozen=True, eq=False)
class PhaseRows:
    """One phase of a tick's change of a relation: sorted distinct rows, and their weights.

    Attributes
    ----------
    columns
        int64, one array a column of the relation.
    weights
        int64, none 0, or a single sign for all rows.
    is_consolidated
        False if rows are in any order and may repeat, all with positive weights; see `UnsortedArrangement`.
    is_owned
        True if nothing else keeps the arrays, or writes to them.
    """

    columns: Sequence[Int64Array]
    weights: Int64Array | int
    is_consolidated: bool = True
    is_owned: bool = False

    def __len__(self) -> int:
        return len(self.columns[0])

    def weight_column(self, xp: Any = np) -> Int64Array:
        """Return the weight of every row; `xp` is the array module of the columns."""
        if not isinstance(self.weights, int):
            return self.weights
        column: Int64Array = xp.empty(len(self), np.int64)
        column.fill(self.weights)
        return column

    @cached_property
    def groups(self) -> dict[object, Any]:
        """Groups of the rows that heads have numbered, by columns and selection."""
        return {}

    @cached_property
    def sign(self) -> int | None:
        """The weight of all rows if it is given as one or all are 1; computed once."""
        if isinstance(self.weights, int):
            return self.weights
        return 1 if bool((self.weights == 1).all()) else None


class Arrangement:
    """Committed batches in a `Spine`, and this tick's batches, one a phase.

    A set's tick has two phases, deletions and then insertions; a bag's has one. `before` and `after` are lists of
    batches that share all arrays with the state.

    The commit merges the tick's batches into the others. With `merges_early` this is done when a join first reads the
    state after the tick: lookups then search fewer batches, and the commit uses the result.
    """

    is_state = False
    """Whether the change is the state; see `StateAsChange`."""

    def __init__(
        self, key: ArrangementKey, backend: Backend, policy: MergePolicy | None = None, merges_early: bool = False
    ) -> None:
        self.key = key
        self._merges_early = merges_early and backend.device is None
        self._merged: tuple[Spine, tuple[IndexedZSet, ...], Spine] | None = None
        self.backend = backend
        self.spine = Spine(policy=policy or MergePolicy())
        self.pending: tuple[IndexedZSet, ...] = ()
        self._was_read = False
        self._tick_rows: int | None = None
        self._rearranged: dict[ArrangementKey, UnsortedArrangement] = {}
        self._keeps_order = key.order == tuple(range(len(key.order)))

    def __repr__(self) -> str:
        return f"Arrangement({self.key}, {len(self.spine)} rows in {len(self.spine.batches)} batches)"

    @cached_property
    def _nothing(self) -> IndexedZSet:
        return IndexedZSet.empty(len(self.key.order), self.backend)

    def index(self, rows: PhaseRows) -> IndexedZSet:
        """Return rows of the relation as a batch in this order. O(n log n)."""
        key = self.key
        if len(rows) == 0:
            return self._nothing
        backend = self.backend
        chosen = key.select(rows.columns, backend)
        columns = [rows.columns[column] for column in key.order]
        weights = rows.weights
        if chosen is not None:
            columns = [column[chosen] for column in columns]
            weights = weights if isinstance(weights, int) else weights[chosen]
        n = len(columns[0])
        kernels = backend.kernels
        in_order = n < 2 or (self._keeps_order and chosen is None)
        if backend.device is not None and not isinstance(weights, int) and rows.sign is not None:
            weights = rows.sign
        if isinstance(weights, int):
            if not in_order and weights == 1 and backend.device is None:
                return IndexedZSet.from_rows(columns, backend)
            if not in_order:
                columns = kernels.distinct_rows(columns) if backend.device is None else _in_order(columns, backend)
            return IndexedZSet.from_sorted(columns, weights, backend)
        if not in_order:
            order = kernels.lexsort(columns)
            columns, weights = [column[order] for column in columns], weights[order]
        if backend.device is None and bool((weights == 1).all()):
            return IndexedZSet.from_sorted(columns, 1, backend)
        return IndexedZSet.from_sorted(columns, weights, backend)

    def receive_delta(self, phases: Sequence[PhaseRows]) -> None:
        """Index this tick's change, phase by phase; the state does not change yet."""
        self._rearranged.clear()
        self.pending = tuple(self.index(rows) for rows in phases)

    def receive_small_ticks(self, batches: tuple[IndexedZSet, ...], tick_rows: int) -> None:
        """Take the batches, one a phase, of several small ticks, which have looked up the rows.

        They are taken by a tick of `tick_rows` rows; see `Spine.insert`.
        """
        self.pending, self._was_read, self._tick_rows = batches, True, tick_rows

    def delta(self, phase: int) -> IndexedZSet | None:
        """Return this tick's batch of one phase; None if it is empty."""
        if phase < len(self.pending) and self.pending[phase].n_rows:
            return self.pending[phase]
        return None

    def starting_rows(self, phase: int) -> IndexedZSet | RowBatch | None:
        """Return this tick's rows of one phase, to start a path with; None if there are none."""
        return self.delta(phase)

    def n_starting_rows(self, phase: int) -> int:
        """Return the number of `starting_rows`."""
        rows = self.starting_rows(phase)
        return 0 if rows is None else rows.n_rows

    def largest_starting_weight(self, phase: int) -> int:
        """Return an upper bound of the weights of `starting_rows`."""
        rows = self.starting_rows(phase)
        return 1 if rows is None else rows.largest_weight

    def sampled_rows(self, phase: int) -> IndexedZSet | RowBatch | None:
        """Return `starting_rows`, or a part of them to draw a sample from."""
        return self.starting_rows(phase)

    def rearranged(self, key: ArrangementKey, weighted: bool) -> UnsortedArrangement | None:
        """Return this tick's rows by another key of the relation, for the rest of the tick.

        They are indexed when they are first looked up. None if this arrangement lacks some of the rows or columns.

        Parameters
        ----------
        weighted
            Whether weights of equal rows add; otherwise rows are a set.
        """
        column_of = {column: level for level, column in enumerate(self.key.order)}
        if not (self.key.is_whole and column_of.keys() >= key.columns):
            return None
        if key not in self._rearranged:
            width, phases = max(column_of, default=-1) + 1, []
            for batch in self.pending:
                columns = [batch.matrix[column_of.get(column, 0)] for column in range(width)]
                weights = 1 if batch.weights is None else batch.weight_column()
                phases.append(PhaseRows(columns, weights, is_consolidated=False))
            self._rearranged[key] = UnsortedArrangement(key, self.backend, weighted)
            self._rearranged[key].receive_delta(phases)
        return self._rearranged[key]

    def before(self, phase: int) -> tuple[IndexedZSet, ...]:
        """Return the batches of the state before this phase."""
        self._was_read = True
        batches = self.spine.batches
        if phase == 0 or not self.pending:
            return batches
        if self._merges_early and phase >= len(self.pending):
            return self.committed().batches
        for batch in self.pending[:phase]:
            if batch.n_rows:
                batches = (*batches, batch)
        return batches

    def after(self, phase: int) -> tuple[IndexedZSet, ...]:
        """Return the batches of the state after this phase."""
        return self.before(phase + 1)

    def accumulated(self) -> tuple[IndexedZSet, ...]:
        """Return the batches of the committed state."""
        self._was_read = True
        return self.spine.batches

    def committed(self) -> Spine:
        """Return the spine that `commit` would install; changes nothing, even if it fails."""
        if self._merged is not None and self._merged[0] is self.spine and self._merged[1] is self.pending:
            return self._merged[2]
        spine = self._with_pending()
        self._merged = self.spine, self.pending, spine
        return spine

    def _with_pending(self) -> Spine:
        batches = [batch for batch in self.pending if batch.n_rows]
        if not batches:
            return self.spine
        change = batches[0]
        for batch in batches[1:]:
            change = change.merge(batch)
        return self.spine.insert(change, not self._was_read, self._tick_rows)

    def commit(self, spine: Spine | None = None) -> None:
        """End the tick: the pending change becomes state."""
        for batch in self.pending:
            batch.forget_rows()
        self.spine = self.committed() if spine is None else spine
        self._merged = None
        self.pending = ()
        self._rearranged.clear()
        self._was_read = False
        self._tick_rows = None

    def discard(self) -> None:
        """Drop the pending change."""
        self._merged = None
        self.pending = ()
        self._rearranged.clear()
        self._tick_rows = None

    def columns(self) -> tuple[list[Int64Array], Int64Array]:
        """Return the committed rows in this order, consolidated, and their weights. O(n)."""
        batches = self.spine.compact().batches
        if not batches:
            nothing: Int64Array = self.backend.xp.empty(0, np.int64)
            return [nothing for _ in self.key.order], nothing
        return batches[0].columns(), batches[0].weight_column()


@dataclass(frozen=True, eq=False)
class RowBatch:
    """Rows of a change in any order; a row may be there several times.

    It starts paths as an `IndexedZSet` does, and nothing can be looked up in it.

    Attributes
    ----------
    key
        The arrangement: its selection is applied, and its order is that of the columns.
    rows
        Rows of the relation, all with positive weights.
    """

    key: ArrangementKey
    rows: PhaseRows
    backend: Backend

    def __len__(self) -> int:
        return self.n_rows

    @property
    def n_rows(self) -> int:
        """Number of rows before the selection."""
        return len(self.rows)

    def part(self, begin: int, end: int) -> RowBatch:
        """Return some of the rows; they share memory."""
        weights = self.rows.weights if isinstance(self.rows.weights, int) else self.rows.weights[begin:end]
        columns = [column[begin:end] for column in self.rows.columns]
        return RowBatch(self.key, PhaseRows(columns, weights, self.rows.is_consolidated), self.backend)

    @cached_property
    def _selected(self) -> PhaseRows:
        """The selected rows, with the columns in the arrangement's order."""
        chosen = self.key.select(self.rows.columns, self.backend)
        columns, weights = [self.rows.columns[column] for column in self.key.order], self.rows.weights
        if chosen is not None and len(chosen) < len(self.rows):
            columns = [column[chosen] for column in columns]
            weights = weights if isinstance(weights, int) else weights[chosen]
        return PhaseRows(columns, weights, is_consolidated=False)

    def columns(self) -> list[Int64Array]:
        """Return the selected rows, a column per level of the arrangement."""
        return list(self._selected.columns)

    @property
    def matrix(self) -> Int64Array:
        """The selected rows, int64 of shape (depth, n)."""
        return stacked(self.backend, self._selected.columns)

    def weight_column(self) -> Int64Array:
        """Return the weight of every selected row."""
        return self._selected.weight_column(self.backend.xp)

    @property
    def weights(self) -> Int64Array | None:
        """The weights of the selected rows; None if all are 1."""
        return None if isinstance(self._selected.weights, int) else self._selected.weights

    @cached_property
    def largest_weight(self) -> int:
        """Largest weight of a row; 1 if there is none."""
        weights = self.rows.weights
        return 1 if isinstance(weights, int) or len(weights) == 0 else int(weights.max())


class StateAsChange(Arrangement):
    """The state of an arrangement as the only change of a tick from nothing.

    Its batches are merged when a path starts with the rows; lookups read them as they are.

    Parameters
    ----------
    after
        Whether to use the state with this tick's change rather than the committed state.
    weighted
        Whether the tick has one phase, that of a bag; otherwise the rows are those of the second.
    """

    is_state = True

    def __init__(self, source: Arrangement, weighted: bool, after: bool) -> None:
        super().__init__(source.key, source.backend)
        self._state = source.committed() if after else source.spine
        self._phase = 0 if weighted else 1

    @cached_property
    def _compact(self) -> tuple[IndexedZSet, ...]:
        batches = self._state.compact().batches
        return (*[self._nothing] * self._phase, batches[0].lent() if batches else self._nothing)

    @property
    def pending(self) -> tuple[IndexedZSet, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The state in one batch; the first look merges it."""
        return self._compact

    @pending.setter
    def pending(self, batches: tuple[IndexedZSet, ...]) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        if batches:
            raise AssertionError("the change is the state")

    def n_starting_rows(self, phase: int) -> int:
        """Return the number of rows, those that cancel included."""
        return sum(map(len, self.after(phase))) if phase == self._phase else 0

    def largest_starting_weight(self, phase: int) -> int:
        """Return an upper bound of the weights."""
        return sum(batch.largest_weight for batch in self.after(phase))

    def sampled_rows(self, phase: int) -> IndexedZSet | RowBatch | None:
        """Return the largest batch."""
        return max(self.after(phase), key=len, default=None) if phase == self._phase else None

    def before(self, phase: int) -> tuple[IndexedZSet, ...]:
        """Return the batches of the state before this phase: none, or all."""
        return self._state.batches if phase > self._phase else ()

    def after(self, phase: int) -> tuple[IndexedZSet, ...]:
        """Return the batches of the state after this phase: none, or all."""
        return self.before(phase + 1)


class UnsortedArrangement(Arrangement):
    """An arrangement for a single tick: rows are indexed when they are first looked up.

    Paths that start with the rows, and groups, read them as they came.

    Parameters
    ----------
    weighted
        Whether weights of equal rows add; otherwise rows are a set.

    Attributes
    ----------
    starts_distinct
        Whether the rows that start a path are those of a batch, each once.
    """

    starts_distinct = False

    def __init__(self, key: ArrangementKey, backend: Backend, weighted: bool) -> None:
        self._phases: tuple[PhaseRows, ...] = ()
        self._indexed: tuple[IndexedZSet, ...] | None = None
        self._weighted = weighted
        super().__init__(key, backend)

    @property
    def pending(self) -> tuple[IndexedZSet, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """This tick's batches; the first look indexes them."""
        if self._indexed is None:
            self._indexed = tuple(map(self.index, self._phases))
        return self._indexed

    @pending.setter
    def pending(self, batches: tuple[IndexedZSet, ...]) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        self._indexed, self._phases = batches, ()

    @property
    def phases(self) -> tuple[PhaseRows, ...]:
        """The rows of this tick, as they came."""
        return self._phases

    def receive_delta(self, phases: Sequence[PhaseRows]) -> None:
        """Take this tick's change."""
        self._phases, self._indexed = tuple(phases), None

    def starting_rows(self, phase: int) -> IndexedZSet | RowBatch | None:
        """Return this tick's rows of one phase, as they came if nothing has looked them up."""
        if self._indexed is not None or self.starts_distinct:
            return self.delta(phase)
        if phase >= len(self._phases) or len(self._phases[phase]) == 0:
            return None
        return RowBatch(self.key, self._phases[phase], self.backend)

    def index(self, rows: PhaseRows) -> IndexedZSet:
        """Return rows of the relation as a batch in this order. O(n log n)."""
        key = self.key
        is_projected = len(key.order) + len(key.constants) + len(key.equal) < len(rows.columns)
        if (rows.is_consolidated and not is_projected) or len(rows) == 0:
            return super().index(rows)
        batch = RowBatch(self.key, rows, self.backend)
        columns, weights = batch.columns(), batch.weights
        if weights is None or not self._weighted:
            indexed = IndexedZSet.from_rows(columns, self.backend)
            if not self._weighted or indexed.n_rows == len(columns[0]):
                return indexed
        return IndexedZSet.from_columns(columns, weights, self.backend)


def _in_order(columns: Sequence[Int64Array], backend: Backend) -> list[Int64Array]:
    """Sort distinct rows.

    Unlike `distinct_rows` this does not count them, so it does not wait for a device.
    """
    order = backend.kernels.lexsort(columns)
    return [column[order] for column in columns]
