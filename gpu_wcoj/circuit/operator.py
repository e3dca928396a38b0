"""Operators of a circuit: relations that follow the changes of other relations."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from gpu_wcoj.backend import Backend
from gpu_wcoj.join.delta import IncrementalGenericJoin, Piece
from gpu_wcoj.join.relation import RelationIndex
from gpu_wcoj.join.settings import Execution
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.trace.arrangement import Arrangement, PhaseRows
from gpu_wcoj.zset.arrays import exact_sum, positions

PieceSink = Callable[[Piece], None]
"""Receives the rows of an answer piece by piece."""


class ChangeCount(NamedTuple):
    """Numbers of rows of an answer that a tick changes.

    Attributes
    ----------
    inserted, deleted
        Inserted and deleted rows; None in bag semantics, where weights cancel before they are counted.
    net
        Change of the answer's total weight.

    Examples
    --------
    >>> from gpu_wcoj import Program
    >>> Program("path(a, b, c) :- edge(a, b), edge(b, c).").step_counts({"edge": [(1, 2), (2, 3)]})["path"]
    ChangeCount(inserted=1, deleted=0, net=1)
    """

    inserted: int | None
    deleted: int | None
    net: int


def count_answer_rows(phases: Iterable[PhaseRows]) -> int:
    """Return the number of rows as an answer repeats them, deleted ones included."""
    return sum(len(phase) if isinstance(phase.weights, int) else _magnitude(phase.weights) for phase in phases)


def _magnitude(weights: Int64Array) -> int:
    """Return the sum of the magnitudes of weights, each of which may be 2^63."""
    if float(abs(weights.astype(np.float64)).sum()) < 1 << 62:
        return int(abs(weights).sum())
    return sum(map(abs, weights.tolist()))


def distinct_change(before: Int64Array, after: Int64Array) -> Int64Array:
    """Return 1 for each row that becomes present, -1 for each that ceases to be, else 0.

    A row is present if its weight is positive. `before` and `after` are the weights of the rows.
    """
    signs: Int64Array = (after > 0).astype(np.int64) - (before > 0).astype(np.int64)
    return signs


def as_phases(columns: Sequence[Int64Array], weights: Int64Array, backend: Backend) -> list[PhaseRows]:
    """Return the change of a set in two phases, deleted rows before inserted ones."""
    gone, come = positions(backend, weights < 0, weights > 0)
    return [PhaseRows([column[rows] for column in columns], sign) for rows, sign in ((gone, -1), (come, 1))]


class RelationOperator:
    """A derived relation: a tick evaluates it, then commits its state.

    Attributes
    ----------
    name
        The name of the relation.
    joins
        The joins that derive it.
    derivations
        State besides the rows, such as the number of derivations of each row; None without any.
    relation
        The stored rows; None if they are derived again on request.
    weight_bound, pending_bound
        Upper bound of the weights of a bag's answer that is not stored, before and after this tick.
    total, pending_total
        Sum of the weights of an answer that is not stored, before and after this tick; None if unknown.
    """

    name: str
    joins: Sequence[IncrementalGenericJoin] = ()
    derivations: RelationIndex | None = None
    relation: RelationIndex | None = None
    weight_bound: int = 0
    pending_bound: int = 0
    total: int | None = None
    pending_total: int | None = None

    def begin(self) -> None:
        """Discard the data of the previous tick."""

    def evaluate(self, collect: bool, sink: PieceSink | None = None) -> tuple[ChangeCount, list[PhaseRows] | None]:
        """Compute this tick's change from the pending changes of the relations that it reads.

        Parameters
        ----------
        collect
            Whether to return the rows.
        sink
            Receives the rows piece by piece instead, if nothing else needs them.
        """
        raise NotImplementedError

    @property
    def reads(self) -> Collection[str]:
        """Names of the relations that it reads."""
        raise NotImplementedError

    @property
    def state(self) -> tuple[RelationIndex, ...]:
        """Indices that the operator keeps between ticks."""
        return tuple(index for index in (self.derivations, self.relation) if index is not None)

    @property
    def may_fail(self) -> bool:
        """True if the operator must be evaluated for its errors even without a request."""
        return False

    def stored_total(self) -> int:
        """Return the sum of the weights of the stored rows."""
        assert self.relation is not None
        return exact_sum(self.relation.backend, self.relation.visible_rows()[1])


class GroupsOperator(RelationOperator):
    """An operator that follows the change of one arrangement, group by group.

    Attributes
    ----------
    width
        Number of stored columns.
    source
        The arrangement; the columns of a group come first.
    """

    width: int
    source: Arrangement
    relation: RelationIndex  # pyright: ignore[reportIncompatibleVariableOverride]
    execution: Execution

    @property
    def reads(self) -> Collection[str]:
        """Name of the relation that it reads."""
        return (self.source.key.relation,)

    @property
    def _backend(self) -> Backend:
        return self.execution.backend

    def _no_rows(self) -> list[Int64Array]:
        return [self._backend.xp.empty(0, np.int64)] * self.width

    def _emit(self, columns: Sequence[Int64Array], weights: Int64Array) -> tuple[ChangeCount, list[PhaseRows]]:
        """Pass a change of rows to the operator's arrangements; return its numbers and rows.

        Parameters
        ----------
        columns, weights
            The changed rows by stored column, consolidated if weights are kept, and their weights.
        """
        if self.execution.weighted:
            phases = [PhaseRows(columns, weights)]
            count = ChangeCount(None, None, int(weights.sum()))
            self.relation.receive_delta(phases)
            return count, phases
        return self._emit_set(*(phase.columns for phase in as_phases(columns, weights, self._backend)))

    def _emit_set(self, gone: Sequence[Int64Array], come: Sequence[Int64Array]) -> tuple[ChangeCount, list[PhaseRows]]:
        """Pass deleted and inserted rows of a set, in any order, to the operator's arrangements."""
        distinct_rows = self._backend.kernels.distinct_rows
        phases = [PhaseRows(distinct_rows(gone), -1), PhaseRows(distinct_rows(come), 1)]
        n_gone, n_come = map(len, phases)
        self.relation.receive_delta(phases)
        return ChangeCount(n_come, n_gone, n_come - n_gone), phases
