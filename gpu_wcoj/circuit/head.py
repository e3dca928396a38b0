"""Heads: the union of the joins of a head's rules, made distinct in set semantics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gpu_wcoj.backend import Backend, cpu_backend
from gpu_wcoj.circuit.afresh import recomputation_joins
from gpu_wcoj.circuit.recount import Recounting
from gpu_wcoj.circuit.source import refuse_overflow
from gpu_wcoj.errors import WeightOverflowError
from gpu_wcoj.join.delta import IncrementalGenericJoin
from gpu_wcoj.join.execution import Execution
from gpu_wcoj.join.magnitudes import bound_magnitudes, to_python
from gpu_wcoj.join.piece import Piece
from gpu_wcoj.join.relation import RelationIndex
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.trace.arrangement import PhaseRows
from gpu_wcoj.zset.arrays import exact_sum, numbers, positions

CONSOLIDATE_ROWS = 1 << 22
"""Gathered rows after which the pieces of a projected or bag answer are consolidated."""

PieceSink = Callable[[Piece], None]

_Weighted = tuple[Sequence[Int64Array], Int64Array]
"""Columns, and the weight of every row."""


@dataclass(frozen=True)
class ChangeCount:
    """Numbers of rows of an answer that a tick changes.

    Attributes
    ----------
    inserted, deleted
        Inserted and deleted rows; None in bag semantics, where weights cancel before they are counted.
    net
        Change of the answer's total weight.
    """

    inserted: int | None
    deleted: int | None
    net: int


@dataclass(eq=False)
class Head:
    """A derived relation.

    Attributes
    ----------
    joins
        One per rule.
    derivations
        Number of derivations of each row; None if no row can be derived twice.
    relation
        The stored rows of the head, if another rule reads them or the program keeps them; else None.
    """

    name: str
    width: int
    joins: Sequence[IncrementalGenericJoin]
    derivations: RelationIndex | None
    relation: RelationIndex | None
    execution: Execution
    weight_bound: int = 0
    """Upper bound of the weights of a bag's answer that is not stored, to detect overflow."""
    pending_bound: int = 0
    total: int | None = None
    """Sum of the weights of an answer that is not stored; None if unknown."""
    pending_total: int | None = None
    """The value of `total` after this tick."""
    _magnitude: int = 0
    """Upper bound of the sum of the weight magnitudes of this tick's pieces."""

    def evaluate(self, collect: bool, sink: PieceSink | None = None) -> tuple[ChangeCount, list[PhaseRows] | None]:
        """Compute this tick's change from the pending changes of the relations that the rules read.

        Parameters
        ----------
        collect
            Whether to return the rows; otherwise they are counted, and enumerated only as far as `distinct` needs.
        sink
            Receives the rows piece by piece instead, if nothing else needs them.

        Raises
        ------
        CalculationError
            If a calculation of a rule has no value for a binding.
        WeightOverflowError
            If the exact weight of a row leaves int64.
        """
        result = self._evaluate(collect, sink)
        if self.calculates:
            from gpu_wcoj.circuit.failures import refuse_failures  # which few programs need

            refuse_failures(self.joins)
        if self.pending_total is None and (before := self._total_before()) is not None:
            self.pending_total = before + result[0].net
        return result

    @cached_property
    def reads(self) -> frozenset[str]:
        """Names of the relations that the rules read."""
        return frozenset(key.relation for join in self.joins for key in join.arrangements)

    def _total_before(self) -> int | None:
        """Return the sum of weights before the tick, or None if unknown.

        0 if each rule has an empty atom.
        """
        if self.total is not None:
            return self.total
        for join in self.joins:
            if not join.is_empty:
                return None
        return 0

    def _evaluate(self, collect: bool, sink: PieceSink | None) -> tuple[ChangeCount, list[PhaseRows] | None]:
        if self.execution.weighted:
            return self._evaluate_bag(collect or self.relation is not None)
        if self.derivations is not None:
            return self._evaluate_distinct()
        if self._negates and any(join.negated_changes for join in self.joins):
            return self._evaluate_signed()
        if collect or self.relation is not None:
            if sink is not None and self.relation is None:
                return self._stream(sink), None
            return self._evaluate_set()
        deleted, inserted = self._counts()
        return ChangeCount(inserted, -deleted, inserted + deleted), None

    def _counts(self) -> list[int]:
        """Return the change of the sum of weights per phase.

        It is counted along delta paths, or by full recomputation if that is cheaper.
        """
        total = self._total_before()
        changes = []
        for phase in range(len(self.execution.phases)):
            recounted = self.recounting.change(phase, total)
            if recounted is None:
                change = sum(join.count(phase) for join in self.joins)
                total = None if total is None else total + change
            else:
                change, total = recounted
            changes.append(change)
        self.pending_total = total
        return changes

    def _stream(self, sink: PieceSink) -> ChangeCount:
        totals = [0, 0]
        for phase in (0, 1):
            for join in self.joins:
                for piece in join.join(phase):
                    totals[phase] += len(piece)
                    sink(piece)
        return ChangeCount(totals[1], totals[0], totals[1] - totals[0])

    def _evaluate_set(self) -> tuple[ChangeCount, list[PhaseRows]]:
        phases = []
        for phase, sign in enumerate(self.execution.phases):
            pieces = [list(piece.columns) for join in self.joins for piece in join.join(phase)]
            phases.append(PhaseRows(self._sort_distinct(pieces), sign))
        if self.relation is not None:
            self.relation.receive_delta(phases)
        deleted, inserted = map(len, phases)
        return ChangeCount(inserted, deleted, inserted - deleted), phases

    def _evaluate_signed(self) -> tuple[ChangeCount, list[PhaseRows]]:
        """Evaluate the change of a negated atom, whose phases derive rows of both signs."""
        columns, weights = self._gather()
        gone, come = positions(self.execution.backend, weights < 0, weights > 0)
        phases = [PhaseRows([column[rows] for column in columns], sign) for rows, sign in ((gone, -1), (come, 1))]
        if self.relation is not None:
            self.relation.receive_delta(phases)
        return ChangeCount(len(come), len(gone), len(come) - len(gone)), phases

    def _sort_distinct(self, pieces: list[list[Int64Array]]) -> list[Int64Array]:
        if not pieces:
            return self._no_columns()
        backend = self.execution.backend
        columns = pieces[0]
        if len(pieces) > 1:
            columns = [backend.xp.concatenate(parts) for parts in zip(*pieces, strict=True)]
        pieces.clear()
        return backend.kernels.distinct_rows(columns)

    def _evaluate_distinct(self) -> tuple[ChangeCount, list[PhaseRows]]:
        assert self.derivations is not None
        columns, change = self._gather()
        before = self.derivations.weights_of(columns)
        after = before + change
        backend = self.execution.backend
        gone, come, beyond = positions(
            backend,
            (before > 0) & (after <= 0),
            (before <= 0) & (after > 0),
            ((before ^ after) & (change ^ after)) < 0,  # the sum has left int64
        )
        if len(beyond):
            row, old, more = ([int(column[beyond[0]]) for column in source] for source in (columns, [before], [change]))
            raise WeightOverflowError(self.name, tuple(row), old[0] + more[0])
        phases = [
            PhaseRows([column[gone] for column in columns], -1),
            PhaseRows([column[come] for column in columns], 1),
        ]
        self.derivations.receive_delta([PhaseRows(columns, change)])
        if self.relation is not None:
            self.relation.receive_delta(phases)
        return ChangeCount(len(come), len(gone), len(come) - len(gone)), phases

    def _evaluate_bag(self, collect: bool) -> tuple[ChangeCount, list[PhaseRows] | None]:
        if not collect:
            (net,) = self._counts()
            if self.recounting.recounted:
                self.pending_bound = self.recounting.bound()
                return ChangeCount(None, None, net), None
            self._magnitude = sum(
                max(join.weight_bound * max(1, join.survivors), join.magnitude) for join in self.joins
            )
            if self._magnitude >= 1 << 63:
                net = exact_sum(self.execution.backend, self._gather()[1])
                self.pending_total = None
            self._check_weight_bound()
            return ChangeCount(None, None, net), None
        columns, weights = self._gather()
        self._check_weight_bound()
        if self.relation is not None:
            refuse_overflow(self.name, columns, weights, self.relation, self.execution.backend)
            self.relation.receive_delta([PhaseRows(columns, weights)])
        net = exact_sum(self.execution.backend, weights)
        return ChangeCount(None, None, net), [PhaseRows(columns, weights)]

    def derivation_changes(self) -> tuple[list[Int64Array], Int64Array]:
        """Return this tick's change of the number of derivations of each row."""
        return self._gather()

    def _gather(self) -> tuple[list[Int64Array], Int64Array]:
        """Return the change over all rules and phases, gathered and consolidated piece by piece.

        If the sum of all magnitudes may leave int64, weights are added as Python integers on the host.

        Raises
        ------
        WeightOverflowError
            If the exact weight of a row leaves int64.
        """
        backend = self.execution.backend
        gathered: list[_Weighted] = []
        n_rows = n_consolidated = self._magnitude = 0
        for piece in self._pieces():
            weights = piece.weights
            if isinstance(weights, int):
                self._magnitude += abs(weights) * len(piece)
                weights = backend.xp.full(len(piece), weights, np.int64)
            else:
                self._magnitude += bound_magnitudes(weights, piece.bound, backend)
            if self._magnitude >= 1 << 63:
                weights = to_python(backend, weights)
            gathered.append((piece.columns, weights))
            n_rows += len(piece)
            if n_rows > CONSOLIDATE_ROWS + 2 * n_consolidated:
                gathered = [_consolidate(gathered, backend)]
                n_rows = n_consolidated = len(gathered[0][1])
        if not gathered:
            return self._no_columns(), backend.xp.empty(0, np.int64)
        columns, sums = _consolidate(gathered, backend)
        if any(join.weight_bound >= 1 << 63 for join in self.joins):  # products of weights are modulo 2^64
            self._sum_exactly(self.joins)
            if sums.dtype == object:
                sums = ((sums + (1 << 63)) % (1 << 64)) - (1 << 63)
                nonzero = np.flatnonzero(sums != 0)
                columns, sums = [column[nonzero] for column in columns], sums[nonzero]
        elif sums.dtype == object:
            self._refuse_out_of_range(columns, sums)
        if sums.dtype == object:
            return [backend.asarray(column) for column in columns], backend.asarray(sums.astype(np.int64))
        return list(columns), sums

    def _refuse_out_of_range(self, columns: Sequence[Int64Array], sums: Int64Array) -> None:
        """Raise for the first Python integer outside int64."""
        for row, weight in enumerate(sums.tolist()):
            if not -(1 << 63) <= weight < 1 << 63:
                raise WeightOverflowError(self.name, tuple(int(column[row]) for column in columns), weight)

    def _pieces(self) -> Iterator[Piece]:
        for phase in range(len(self.execution.phases)):
            for join in self.joins:
                yield from join.join(phase)

    def _no_columns(self) -> list[Int64Array]:
        return [self.execution.backend.xp.empty(0, np.int64) for _ in range(self.width)]

    def _check_weight_bound(self) -> None:
        """Raise if a weight of an answer that is not stored leaves int64.

        Recompute only if a bound fails.
        """
        if self.relation is not None:
            return
        self.pending_bound = self.weight_bound + self._magnitude
        if self.pending_bound >= 1 << 63:
            backend = self.execution.backend
            sums = as_recomputation(self, after=True)._gather()[1]
            self.pending_bound = max(map(abs, numbers(backend, sums.max(), sums.min()))) if len(sums) else 0

    def _sum_exactly(self, joins: Sequence[IncrementalGenericJoin]) -> dict[tuple[int, ...], int]:
        """Return the joins' change with exact weights; raise for a weight outside int64."""
        from gpu_wcoj.circuit.exact import exact_change  # which few ticks need

        total: dict[tuple[int, ...], int] = {}
        for join in joins:
            for row, weight in exact_change(join, 0).items():
                total[row] = total.get(row, 0) + weight
        for row, weight in total.items():
            if not -(1 << 63) <= weight < 1 << 63:
                raise WeightOverflowError(self.name, row, weight)
        return total

    def begin(self) -> None:
        """Discard the counts of the previous tick."""
        for join in self.joins:
            join.begin()
        self.recounting.begin()
        self.pending_bound = self.weight_bound
        self.pending_total = None

    @cached_property
    def recounting(self) -> Recounting:
        """Full recomputation of counts instead of counting changes."""
        return Recounting(self.joins, self.execution)

    @cached_property
    def _negates(self) -> bool:
        return any(join.query.has_negation for join in self.joins)

    @cached_property
    def calculates(self) -> bool:
        """True if a calculation may fail a tick, so the head is always evaluated."""
        return any(join.query.calculations for join in self.joins)

    @property
    def state(self) -> tuple[RelationIndex, ...]:
        """Indices that the head keeps between ticks."""
        return tuple(index for index in (self.derivations, self.relation) if index is not None)


def as_recomputation(head: Head, after: bool = False) -> Head:
    """Return the head over arrangements whose whole state is pending, for full recomputation.

    Parameters
    ----------
    after
        Whether to use the state with this tick's change rather than the committed state.
    """
    return Head(
        head.name, head.width, recomputation_joins(head.joins, head.execution, after), None, None, head.execution
    )


def _consolidate(parts: Sequence[_Weighted], backend: Backend) -> _Weighted:
    """Consolidate all parts into one.

    If weights are Python integers, the rows are moved to the host.
    """
    if backend.device is not None and any(weights.dtype == object for _, weights in parts):
        parts = [
            ([backend.to_host(column) for column in columns], to_python(backend, weights)) for columns, weights in parts
        ]
        backend = cpu_backend()
    if len(parts) == 1:
        return backend.kernels.consolidate(*parts[0])
    columns = [backend.xp.concatenate(columns) for columns in zip(*(columns for columns, _ in parts), strict=True)]
    return backend.kernels.consolidate(columns, backend.xp.concatenate([weights for _, weights in parts]))
