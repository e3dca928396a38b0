"""Heads: the union of the joins of a head's rules, made distinct in set semantics."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from gpu_wcoj.backend import Backend, cpu_backend
from gpu_wcoj.circuit.operator import (
    ChangeCount,
    PieceSink,
    RelationOperator,
    as_phases,
    count_answer_rows,
    distinct_change,
)
from gpu_wcoj.circuit.recount import (
    MAX_OVERRUN,
    MAX_SAMPLED_RATIO,
    MIN_LIMIT,
    ListingCosts,
    Recounted,
    Recounting,
)
from gpu_wcoj.circuit.source import refuse_overflow
from gpu_wcoj.costs import MERGED_ROW
from gpu_wcoj.data.column import floats_of
from gpu_wcoj.data.schema import MAX_DIGITS
from gpu_wcoj.errors import AuxiliaryError, CalculationError, WeightOverflowError
from gpu_wcoj.functions import Calculation, Formula, FormulaRun, evaluate_calculation
from gpu_wcoj.join.delta import IncrementalGenericJoin, Piece
from gpu_wcoj.join.eliminate import AllowanceError
from gpu_wcoj.join.full_join import (
    FULL_COUNT,
    Moment,
    count_change,
    list_change,
    sampled_cost_of_change,
    sampled_cost_of_load,
)
from gpu_wcoj.join.plan import Absent, AtomUse, Check, Condition, DeltaPath, DeltaQuery, check_variables
from gpu_wcoj.join.prefixes import bound_magnitudes, condition_mask, sum_of_weights, to_python, weights_of_rows
from gpu_wcoj.join.relation import RelationIndex
from gpu_wcoj.join.seeds import bind_seeds
from gpu_wcoj.join.settings import Execution
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.trace.arrangement import Arrangement, ArrangementKey, PhaseRows, StateAsChange
from gpu_wcoj.zset.arrays import BoolArray, exact_sum, joined_columns, numbers, positions, stacked
from gpu_wcoj.zset.index import IndexedZSet

# Join changes with weights as Python integers: slow, used only if int64 may overflow.


def exact_change(join: IncrementalGenericJoin, phase: int) -> dict[tuple[int, ...], int]:
    """Return the changed head rows of a phase and their exact weights as Python integers.

    All variables are bound, and each atom's weight is looked up again: sums over an atom's batches are weights of the
    state, which fit int64, so adding them modulo 2^64 is exact. The products are computed on the host.
    """
    backend = join.execution.backend
    total: dict[tuple[int, ...], int] = {}
    for path_index, path in enumerate(join.query.paths):
        generic = join.generic_join(path_index, phase)
        if generic is None:
            continue
        generic = replace(generic, needed=generic.needed.union(path.order), work={}, _extensions={})
        change = join.arrangements[path.seed.key].pending[phase]  # from now on the path starts with these, each once
        for piece in generic.pieces(bind_seeds(path, join.seeds_of(path_index, phase, generic), generic), path.steps):
            weight = _weights((change,), path.seed.variables, piece.values, backend)
            if path.is_negated:
                before = join.arrangements[path.seed.key].before(phase)
                old = _weights(before, path.seed.variables, piece.values, backend)
                weight = (old > 0).astype(object) * 1 - (old + weight > 0).astype(object) * 1
            for atom, use in generic.uses.items():
                weight = weight * _weights(generic.batches[atom], use.variables, piece.values, backend)
            columns = [
                backend.to_host(piece.values[term]).tolist() if isinstance(term, str) else [term] * len(piece)
                for term in join.query.head
            ]
            for row, exact in zip(zip(*columns, strict=True), weight.tolist(), strict=True):
                total[row] = total.get(row, 0) + exact
    return total


def _weights(
    batches: tuple[IndexedZSet, ...], variables: tuple[str, ...], values: dict[str, Int64Array], backend: Backend
) -> Int64Array:
    columns = [values[name] for name in variables]
    if not batches:
        return np.zeros(len(columns[0]), object)
    positions = stacked(backend, [batch.locate(columns) for batch in batches])
    return to_python(backend, sum_of_weights(batches, positions, backend))


# Joins for full recomputation: the whole state is pending, so a single delta path remains.


def recomputation_joins(
    joins: Iterable[IncrementalGenericJoin], execution: Execution, after: bool = False
) -> list[IncrementalGenericJoin]:
    """Return the joins over arrangements whose whole state is pending, for full recomputation.

    Parameters
    ----------
    after
        Whether to use the state with this tick's change rather than the committed state.
    """
    changes: dict[ArrangementKey, Arrangement] = {}
    rebuilt = []
    for join in joins:
        for key in join.query.keys:
            if key not in changes:
                changes[key] = StateAsChange(join.arrangements[key], execution.weighted, after)
        rebuilt.append(IncrementalGenericJoin(join.query, changes, execution, load_cost=join.load_cost))
    return rebuilt


CONSOLIDATE_ROWS = 1 << 22
"""Gathered rows after which the pieces of a projected or bag answer are consolidated."""

_T = TypeVar("_T")

_Weighted = tuple[Sequence[Int64Array], Int64Array]
"""Columns, and the weight of every row."""

MIN_ORDERED_ROWS = 1 << 15
"""Rows of a piece from which on it is worth a look whether pieces arrive in order."""


@dataclass(eq=False)
class OrderedPieces:
    """Rows in the order of their first column, consolidated as they arrive; on the host.

    Attributes
    ----------
    weighted
        Whether weights are added up; otherwise the distinct rows are gathered.
    parts
        Consolidated rows, each part after the one before.
    """

    backend: Backend
    weighted: bool
    parts: list[_Weighted] = field(default_factory=list)
    _open: list[_Weighted] = field(default_factory=list)
    _last: int | None = None

    def add(self, columns: Sequence[Int64Array], weights: Int64Array) -> bool:
        """Add rows; return False, and add nothing, if they do not follow those before."""
        if len(weights) < MIN_ORDERED_ROWS or len(columns) < 2 or weights.dtype == object:
            return False
        first = columns[0]
        begin, end = int(first[0]), int(first[-1])
        if begin > end or (self._last is not None and begin < self._last) or not (first[1:] >= first[:-1]).all():
            return False
        cut = int(np.searchsorted(first, end))
        if cut:
            self._open.append(([column[:cut] for column in columns], weights[:cut]))
            self._settle()
        self._open.append(([column[cut:] for column in columns], weights[cut:]))
        self._last = end
        return True

    def close(self) -> list[_Weighted]:
        """Return all parts; rows of later pieces may repeat them."""
        self._settle()
        return self.parts

    def _settle(self) -> None:
        if not self._open:
            return
        columns, weights = _joined(self._open, self.backend)
        if self.weighted:
            self.parts.append(self.backend.kernels.consolidate(columns, weights))
        else:
            distinct = self.backend.kernels.distinct_rows(columns)
            self.parts.append((distinct, weights[: len(distinct[0])]))
        self._open = []


def _joined(parts: Sequence[_Weighted], backend: Backend) -> _Weighted:
    """Return the rows of all parts, one part after the other."""
    *columns, weights = joined_columns([(*columns, weights) for columns, weights in parts], backend.xp)
    return columns, weights


class _NotComparedError(Exception):
    """The difference of all rows cannot be had, or costs too much."""


@dataclass(eq=False)
class Head(RelationOperator):
    """A relation that rules derive.

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
    joins: Sequence[IncrementalGenericJoin] = field()
    derivations: RelationIndex | None = field()
    relation: RelationIndex | None = field()
    execution: Execution
    is_output: bool = True
    """Whether the rows may be requested as an answer."""
    _magnitude: int = 0
    """Upper bound of the sum of the weight magnitudes of this tick's pieces."""
    _collects: bool = False
    """Whether this tick returns the rows as an answer."""
    _all_rows: Head | None = None
    """The head over all rows after this tick, if it was made."""

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
        self._collects = collect
        try:
            result = self._evaluate(collect, sink)
        finally:
            self._all_rows = None
        if self.calculates:
            refuse_failures(self.joins)
        if self.pending_total is None and (before := self._total_before()) is not None:
            self.pending_total = before + result[0].net
        return result

    @property
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
            if sink is not None and collect and self._derives_rows_once_now:
                return self._stream_bag(sink)
            return self._evaluate_bag(collect or self.relation is not None)
        if self.derivations is not None:
            return self._evaluate_distinct()
        if self._negates and any(join.negated_changes for join in self.joins):  # phases derive rows of both signs
            return self._pass_on(self._split_by_sign(self._change()))
        if collect or self.relation is not None:
            if sink is not None and self.relation is None:
                return self._stream(sink), None
            return self._pass_on(self._follow_or_compare(self._list_phases, self._split_by_sign))
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
                change = sum(count_change(join, phase) for join in self.joins)
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
                for piece in list_change(join, phase):
                    totals[phase] += len(piece)
                    self._check_gathered(0, sum(totals))
                    sink(piece)
        return ChangeCount(totals[1], totals[0], totals[1] - totals[0])

    def _pass_on(self, phases: list[PhaseRows]) -> tuple[ChangeCount, list[PhaseRows]]:
        if self.relation is not None:
            self.relation.receive_delta(phases)
        deleted, inserted = map(len, phases)
        return ChangeCount(inserted, deleted, inserted - deleted), phases

    def _list_phases(self) -> list[PhaseRows]:
        phases = []
        for phase, sign in enumerate(self.execution.phases):
            pieces = (self._derived_columns(piece) for join in self.joins for piece in list_change(join, phase))
            phases.append(PhaseRows(self._sort_distinct(pieces), sign))
        return phases

    def _derived_columns(self, piece: Piece) -> list[Int64Array]:
        """Return the rows of a piece that have a derivation.

        The last steps of a path are counted, and may have none.
        """
        if isinstance(piece.weights, int):
            return list(piece.columns)
        (derived,) = positions(self.execution.backend, self.execution.backend.asarray(piece.weights != 0))
        return list(piece.columns) if len(derived) == len(piece) else [column[derived] for column in piece.columns]

    def _split_by_sign(self, change: _Weighted) -> list[PhaseRows]:
        return as_phases(*change, self.execution.backend)

    def _sort_distinct(self, pieces: Iterator[list[Int64Array]]) -> list[Int64Array]:
        backend = self.execution.backend
        gathered: list[list[Int64Array]] = []
        ordered = OrderedPieces(backend, weighted=False) if backend.device is None else None
        n_rows = 0
        for columns in pieces:
            n_rows += len(columns[0])
            self._check_gathered(n_rows, n_rows if self._derives_once else 0)
            if ordered is not None:
                if len(columns) > 1 and ordered.add(columns, columns[0]):
                    continue
                gathered, ordered = [list(part) for part, _ in ordered.close()], None
            gathered.append(columns)
        is_distinct = ordered is not None
        if ordered is not None:
            gathered = [list(part) for part, _ in ordered.close()]
        if not gathered:
            return self._no_columns()
        columns = joined_columns(gathered, backend.xp)
        gathered.clear()
        return columns if is_distinct else backend.kernels.distinct_rows(columns)

    def _evaluate_distinct(self) -> tuple[ChangeCount, list[PhaseRows]]:
        assert self.derivations is not None
        columns, change = self._change()
        before = self.derivations.weights_of(columns)
        after = before + change
        backend = self.execution.backend
        signs = distinct_change(before, after)
        has_left = ((before ^ after) & (change ^ after)) < 0  # the sum is outside int64
        gone, come, beyond = positions(backend, signs < 0, signs > 0, has_left)
        if len(beyond):
            row, old, more = ([int(column[beyond[0]]) for column in source] for source in (columns, [before], [change]))
            raise WeightOverflowError(self.name, tuple(row), old[0] + more[0])
        self.derivations.receive_delta([PhaseRows(columns, change)])
        changed = ((gone, -1), (come, 1))
        return self._pass_on([PhaseRows([column[rows] for column in columns], sign) for rows, sign in changed])

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
        if self.execution.may_repeat and self.relation is not None and not self.is_output:
            rows = self._concatenated()
            if rows is not None:
                self.relation.receive_delta([rows])
                return ChangeCount(None, None, 0), None
        columns, weights = self._change()
        self._check_weight_bound()
        if self.relation is not None:
            refuse_overflow(self.name, columns, weights, self.relation, self.execution.backend)
            self.relation.receive_delta([PhaseRows(columns, weights)])
        net = 0 if self.execution.single_tick else exact_sum(self.execution.backend, weights)
        return ChangeCount(None, None, net), [PhaseRows(columns, weights)]

    @property
    def _derives_rows_once_now(self) -> bool:
        """True if the pieces of this tick have no row in common, though this is a bag.

        A binding of all variables is a row, and from the empty state one delta path lists each binding.
        """
        if self.relation is not None or self._negates or not self._derives_once:
            return False
        return not any(arrangement.spine.batches for join in self.joins for arrangement in join.positive)

    def _stream_bag(self, sink: PieceSink) -> tuple[ChangeCount, list[PhaseRows] | None]:
        """Pass the rows of a bag on while the join lists them, and return their number."""
        backend, net, n_rows = self.execution.backend, 0, 0
        self._magnitude = 0
        for piece in self._pieces():
            if self.joins[0].weight_bound >= 1 << 63:  # known before the first piece; products are modulo 2^64
                assert not n_rows
                change, rows = self._evaluate_bag(True)
                for phase in rows or ():
                    sink(Piece(phase.columns, phase.weights))
                return change, None
            n_rows += len(piece)
            self._check_gathered(0, n_rows)
            if isinstance(piece.weights, int):
                net += piece.weights * len(piece)
                self._magnitude += abs(piece.weights) * len(piece)
            else:
                net += exact_sum(backend, piece.weights)
                self._magnitude += bound_magnitudes(piece.weights, piece.bound, backend)
                (derived,) = positions(backend, piece.weights != 0)
                if len(derived) < len(piece):
                    piece = Piece([column[derived] for column in piece.columns], piece.weights[derived])
            sink(piece)
        if self._may_list_again:
            size = self.recounting.size(Moment(len(self.execution.phases)))
            self.costs.set_all_rows(self._cost_of_all_rows, size)
        self._check_weight_bound()
        return ChangeCount(None, None, net), None

    def _concatenated(self) -> PhaseRows | None:
        """Return the rows of a single tick as the joins yield them, none consolidated.

        Rows of weight 0 are left out. None if a sum of their weights may leave int64.
        """
        xp, pieces = self.execution.backend.xp, list(self._pieces())
        if any(join.weight_bound >= 1 << 63 for join in self.joins):
            return None
        if sum(self._magnitude_of(piece) for piece in pieces) >= 1 << 63:
            return None
        if not pieces:
            return PhaseRows(self._no_columns(), 1, is_consolidated=False)
        columns = joined_columns([piece.columns for piece in pieces], xp)
        signs = [piece.weights for piece in pieces]
        if all(isinstance(sign, int) for sign in signs):
            return PhaseRows(columns, 1, is_consolidated=False)
        weights = xp.concatenate([PhaseRows(piece.columns, piece.weights).weight_column(xp) for piece in pieces])
        (found,) = positions(self.execution.backend, weights != 0)  # a seed that joins with nothing has weight 0
        if len(found) < len(weights):
            columns, weights = [column[found] for column in columns], weights[found]
        return PhaseRows(columns, weights, is_consolidated=False)

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
        ordered = OrderedPieces(backend, weighted=True) if backend.device is None else None
        budget = self.execution.budget
        n_rows = n_consolidated = self._magnitude = n_gathered = n_answer_rows = 0
        for piece in self._pieces():
            weights = piece.weights
            n_gathered += len(piece)
            if self.execution.may_repeat and budget is not None and budget.rows is not None:
                n_answer_rows += count_answer_rows([PhaseRows(piece.columns, weights)])
            self._check_gathered(n_gathered, n_answer_rows)
            self._magnitude += self._magnitude_of(piece)
            if isinstance(weights, int):
                weights = backend.xp.full(len(piece), weights, np.int64)
            if self._magnitude >= 1 << 63:
                weights = to_python(backend, weights)
            if ordered is not None:
                if ordered.add(piece.columns, weights):
                    continue
                gathered, ordered = ordered.close(), None
                n_rows = n_consolidated = sum(len(part_weights) for _, part_weights in gathered)
            gathered.append((piece.columns, weights))
            n_rows += len(piece)
            if n_rows > CONSOLIDATE_ROWS + 2 * n_consolidated:
                gathered = [_consolidate(gathered, backend)]
                n_rows = n_consolidated = n_gathered = len(gathered[0][1])
        is_consolidated = ordered is not None
        gathered = gathered if ordered is None else ordered.close()
        if not gathered:
            return self._no_columns(), backend.xp.empty(0, np.int64)
        columns, sums = (_joined if is_consolidated else _consolidate)(gathered, backend)
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

    def _magnitude_of(self, piece: Piece) -> int:
        """Return an upper bound of the sum of a piece's weights, without signs."""
        if isinstance(piece.weights, int):
            return abs(piece.weights) * len(piece)
        return bound_magnitudes(piece.weights, piece.bound, self.execution.backend)

    def _refuse_out_of_range(self, columns: Sequence[Int64Array], sums: Int64Array) -> None:
        """Raise for the first Python integer outside int64."""
        for row, weight in enumerate(sums.tolist()):
            if not -(1 << 63) <= weight < 1 << 63:
                raise WeightOverflowError(self.name, tuple(int(column[row]) for column in columns), weight)

    def _change(self) -> _Weighted:
        """Return the consolidated change, along delta paths or as the difference of all rows."""
        return self._follow_or_compare(self._gather, lambda difference: difference)

    # All rows listed again.

    @cached_property
    def costs(self) -> ListingCosts:
        """Costs of listing all rows, and their changes."""
        return ListingCosts()

    @property
    def _may_list_again(self) -> bool:
        execution = self.execution
        return (
            execution.recounts and execution.uses("recounts") and execution.backend.device is None
            and not execution.single_tick and execution.share is None and bool(self.joins)
            and not any(join.makes_text for join in self.joins)
        )  # fmt: skip

    def _follow_or_compare(self, follow: Callable[[], _T], convert: Callable[[_Weighted], _T]) -> _T:
        """Return the change that `follow` lists along delta paths.

        Where it is cheaper to list all rows again, return what `convert` makes of their difference.
        """
        if not self._may_list_again:
            return follow()
        size = self.recounting.size(Moment(len(self.execution.phases)))
        if all(join.is_empty for join in self.joins):
            result = follow()
            self.costs.set_all_rows(self._cost_of_all_rows, size)
            return result
        n_seeds = self.n_seeds
        is_given_up = self.costs.is_sampled(n_seeds, size) and not self._is_sampled_cheaper(n_seeds, size)
        limit = 0.0 if is_given_up else self.costs.limit(n_seeds, size)
        while limit:
            before = self._cost
            try:
                result = self._list_within(limit, follow)
            except AllowanceError:
                is_known = self.costs.expected(size) is not None
                if not is_known:
                    self.costs.set_all_rows(self._sampled_cost(size, MAX_SAMPLED_RATIO * limit), size)
                cost = self.costs.expected(size) or 0.0
                limit = cost if not is_known and cost > 2 * limit else 0.0
                is_given_up = True
            else:
                self.costs.set_change(self._cost - before, n_seeds)
                return result
        if is_given_up:
            self.costs.set_given_up(n_seeds, size)
        # What is expected is from a state whose hubs may have joined with nothing.
        max_cost = max(MIN_LIMIT, MAX_OVERRUN * max(self.costs.expected(size) or 0.0, MERGED_ROW * size))
        while True:  # neither costs what was expected
            try:
                change = self._compare(size, max_cost)
                if is_given_up:  # all rows may have cost more than expected
                    self.costs.set_given_up(n_seeds, size)
                return convert(change)
            except AllowanceError:
                max_cost *= MAX_OVERRUN
            except _NotComparedError:
                return follow()
            with suppress(AllowanceError):
                return self._list_within(max_cost, follow)

    def _is_sampled_cheaper(self, n_seeds: int, size: int) -> bool:
        """Return whether a large change costs less than all rows, by samples; note the costs."""
        if self.costs.expected(size) is None:
            self.costs.set_all_rows(self._sampled_cost(size, MAX_SAMPLED_RATIO * self.costs.limit(n_seeds, size)), size)
        max_cost = self.costs.max_change(size)
        cost = self._sampled_cost_of_change(max_cost) if max_cost < float("inf") else 0.0
        self.costs.set_change(cost, n_seeds)
        return cost < max_cost

    @property
    def n_seeds(self) -> int:
        """Number of rows that start a path in this tick."""
        return sum(
            join.n_seeds(path_index, phase)
            for join in self.joins
            for phase in range(len(self.execution.phases))
            for path_index in range(len(join.query.paths))
            if join.is_live(path_index, phase)
        )

    @property
    def _cost(self) -> int:
        return sum(join.cost for join in self.joins)

    @property
    def _cost_of_all_rows(self) -> int:
        """Cost of listing all rows again as in this tick.

        Batches of the rows that start a path are merged for it, and paths that were given up are not tried again.
        """
        rows = sum(join.seeds for join in self.joins) + self._n_kept_rows
        return self._cost + MERGED_ROW * rows - sum(join.given_up_cost for join in self.joins)

    @property
    def _kept_rows(self) -> RelationIndex | None:
        """Rows before the tick, with their derivations."""
        return self.relation if self.derivations is None else self.derivations

    @property
    def _n_kept_rows(self) -> int:
        return 0 if self._kept_rows is None else len(self._kept_rows)

    def _list_within(self, limit: float, follow: Callable[[], _T]) -> _T:
        """Return what `follow` lists.

        Raises
        ------
        AllowanceError
            If the joins of a rule cost more than `limit`.
        """
        for join in self.joins:
            join.max_cost = join.cost + limit
        try:
            return follow()
        finally:
            for join in self.joins:
                join.max_cost = None

    def _sampled_cost_of_change(self, max_cost: float) -> float:
        """Return the cost of listing the change along all delta paths, or `max_cost` if it is more."""
        cost = 0.0
        for join in self.joins:
            for phase in range(len(self.execution.phases)):
                cost += sampled_cost_of_change(join, phase, max_cost - cost)
                if cost >= max_cost:
                    return max_cost
        return cost

    def _sampled_cost(self, size: int, max_cost: float) -> float:
        """Return the cost of listing all rows, before the tick too if they are not kept.

        Infinite if that of a rule is more than `max_cost`.
        """
        joins = self._over_all_rows().joins
        phase, expected = len(self.execution.phases) - 1, (self.costs.expected(size) or 0.0) / max(1, len(joins))
        cost = sum(sampled_cost_of_load(join, phase, max_cost, expected) for join in joins)
        for join, sampled in zip(self.joins, joins, strict=True):
            join.finished += sampled.finished
            join.meters += sampled.meters
        return (cost if self._kept_rows is not None else 2 * cost) + MERGED_ROW * self._n_kept_rows

    def _over_all_rows(self) -> Head:
        """Return the head over all rows after this tick, made once a tick."""
        if self._all_rows is None:
            self._all_rows = as_recomputation(self, after=True)
        return self._all_rows

    def _compare(self, size: int, max_cost: float) -> _Weighted:
        """Return the difference of all rows after and before the tick.

        Raises
        ------
        AllowanceError
            If it costs more than `max_cost`.
        _NotComparedError
            If a weight may leave int64.
        """
        kept, backend, cost = self._kept_rows, self.execution.backend, MERGED_ROW * self._n_kept_rows
        parts: list[_Weighted] = []
        joins: Sequence[IncrementalGenericJoin] = ()
        for after in (True,) if kept is not None else (False, True):
            head = self._over_all_rows() if after else as_recomputation(self)
            head.begin()
            joins = head.joins
            try:
                parts.append(head._list_within(max_cost, head._gather))
            finally:
                cost += head._cost_of_all_rows
                self.costs.set_all_rows(cost, size)
                for join, listed in zip(self.joins, joins, strict=True):
                    join.finished += [(FULL_COUNT, work) for _, work in listed.finished]
                    join.meters += [replace(meter, path_index=FULL_COUNT) for meter in listed.meters]
        if self.calculates:
            refuse_failures(joins)
        if kept is not None:
            parts.insert(0, kept.rows())
        if any(len(weights) and max(map(abs, numbers(backend, weights.min(), weights.max()))) >= 1 << 62
               for _, weights in parts):  # fmt: skip
            raise _NotComparedError
        (columns_before, before), (columns, weights) = parts
        change = _consolidate([(columns, weights), (columns_before, -before)], backend)
        self._magnitude = exact_sum(backend, abs(change[1]))
        paths = tuple(max((index for index, _ in join.finished if index != FULL_COUNT), default=0) for join in joins)
        instead = self.costs.per_seed * self.n_seeds
        self.recounting.recounted += [
            Recounted(phase, cost, instead, paths, lists=True) for phase in range(len(self.execution.phases))
        ]
        return change

    @cached_property
    def _derives_once(self) -> bool:
        """True if no row is listed twice: there is one rule, and its variables are all in the head."""
        if len(self.joins) != 1:
            return False
        query = self.joins[0].query
        return all({*path.order, *path.seed.variables} <= {*query.head} for path in query.paths)

    def _check_gathered(self, n_rows: int, n_answer_rows: int) -> None:
        """Raise if the gathered rows, or those of the answer that are certain, exceed the budget."""
        budget = self.execution.budget
        if budget is not None:
            budget.check_gathered(8 * (self.width + 1) * n_rows, "gathering", n_rows)
            if self._collects:
                budget.check_rows(self.name, n_answer_rows)

    def _pieces(self) -> Iterator[Piece]:
        for phase in range(len(self.execution.phases)):
            for join in self.joins:
                yield from list_change(join, phase)

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
        total: dict[tuple[int, ...], int] = {}
        for join in joins:
            for row, weight in self._exact_change(join):
                total[row] = total.get(row, 0) + weight
        for row, weight in total.items():
            if not -(1 << 63) <= weight < 1 << 63:
                raise WeightOverflowError(self.name, row, weight)
        return total

    def _exact_change(self, join: IncrementalGenericJoin) -> Iterable[tuple[tuple[int, ...], int]]:
        """Return changed rows and their exact weights; a row may repeat."""
        return exact_change(join, 0).items()

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
        """True if a calculation may fail a tick."""
        return any(join.query.calculations for join in self.joins)

    @property
    def may_fail(self) -> bool:
        """True if the head must be evaluated for its errors even without a request."""
        return self.execution.weighted or self.calculates


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
    return backend.kernels.consolidate(*_joined(parts, backend))


# The positive part of a bag as a set, which loops read.


@dataclass(eq=False)
class PositiveHead(RelationOperator):
    """The positive part of a bag: rows of weight 1, which change in two phases as a set does.

    Attributes
    ----------
    source
        The relation that is a bag.
    relation
        The state; it has the name and the columns of the source.
    """

    name: str
    source: RelationIndex
    relation: RelationIndex = field()  # pyright: ignore[reportIncompatibleVariableOverride]

    def evaluate(
        self,
        collect: bool,
        sink: PieceSink | None = None,  # noqa: ARG002  # only loops read it
    ) -> tuple[ChangeCount, list[PhaseRows] | None]:
        """Compute this tick's change from the pending change of the source."""
        backend, width = self.source.backend, self.source.width
        changed = self.source.delta(0)
        if changed is None:
            self.relation.discard()
            nothing = [backend.xp.empty(0, "int64")] * width
            return ChangeCount(0, 0, 0), [PhaseRows(nothing, -1), PhaseRows(nothing, 1)] if collect else None
        order = self.source.canonical.order
        rows = changed.columns()
        columns = [rows[order.index(column)] for column in range(width)]
        before = self.source.weights_of(columns)
        after = before + changed.weight_column()
        phases = as_phases(columns, distinct_change(before, after), backend)
        if order != tuple(range(width)):
            phases = [PhaseRows(backend.kernels.distinct_rows(phase.columns), phase.weights) for phase in phases]
        self.relation.receive_delta(phases)
        gone, come = map(len, phases)
        return ChangeCount(come, gone, come - gone), phases if collect else None

    @property
    def reads(self) -> tuple[str, ...]:
        """Name of the source relation."""
        return (self.source.name,)


# Auxiliary relations: joins materialised for other rules as long as they stay small.


PER_ROW = 4
"""Maximum rows of an auxiliary relation, or of its change in a tick, per row of the joined relations (a ratio)."""

SPARE_ROWS = 1 << 16
"""Rows that an auxiliary relation or its change may have, whatever the size of the joined relations."""


def max_auxiliary_rows(n_joined: float) -> float:
    """Return the rows that an auxiliary relation may have, by the rows that it joins."""
    return SPARE_ROWS + PER_ROW * n_joined


@dataclass(eq=False)
class AuxiliaryHead(Head):
    """A head that is materialised for other rules and is not part of the program's answer.

    Attributes
    ----------
    inputs
        The joined relations.
    """

    inputs: Sequence[RelationIndex] = ()

    def evaluate(self, collect: bool, sink: PieceSink | None = None) -> tuple[ChangeCount, list[PhaseRows] | None]:
        """Evaluate this tick as `Head.evaluate` does.

        Raises
        ------
        AuxiliaryError
            If the relation or its change exceeds the limit of rows, or a weight leaves int64.
        """
        with self._as_auxiliary_error():
            result = super().evaluate(collect, sink)
        assert self.relation is not None
        if _count_rows(self.relation) > self._max_rows:
            raise AuxiliaryError(self.name, f"has more than {self._max_rows:,} rows")
        return result

    @property
    def _may_list_again(self) -> bool:
        return False

    def fill(self) -> None:
        """Join the committed state of the inputs and store the result.

        Raises
        ------
        AuxiliaryError
            As `evaluate` does.
        """
        assert self.relation is not None
        self.execution.begin()
        joins = recomputation_joins(self.joins, self.execution)
        with self._as_auxiliary_error():
            columns, weights = replace(self, joins=joins, relation=None).derivation_changes()
        if len(weights):
            self.relation.load(columns, weights)

    @contextmanager
    def _as_auxiliary_error(self) -> Generator[None]:
        try:
            yield
        except WeightOverflowError as error:
            raise AuxiliaryError(self.name, "has a weight outside int64") from error

    @property
    def _max_rows(self) -> int:
        return int(max_auxiliary_rows(sum(map(_count_rows, self.inputs))))

    def _pieces(self) -> Iterator[Piece]:
        n_rows = 0
        for piece in super()._pieces():
            n_rows += len(piece)
            self._check_change(n_rows)
            yield piece

    def _check_gathered(self, n_rows: int, n_answer_rows: int) -> None:
        super()._check_gathered(n_rows, n_answer_rows)
        self._check_change(n_rows)

    def _check_change(self, n_rows: int) -> None:
        if n_rows > self._max_rows:
            raise AuxiliaryError(self.name, f"changes by more than {self._max_rows:,} rows")


def _count_rows(index: RelationIndex) -> int:
    return len(index) + sum(batch.n_rows for batch in index.arrangements[index.canonical].pending)


# Undefined values: bindings for which a calculation of a rule has no value.
#
# A tick fails if and only if, in the state after it, a rule has a binding with an undefined value that no other part of
# the rule rejects: all its positive atoms contain it, and no negated atom and no comparison drops it. Atoms and
# comparisons that need the undefined value drop nothing. So a comparison such as ``y != 0`` guards a division by y
# wherever it is written in the rule, and under every plan. A sum, difference or product outside int64 equals no value,
# so ``y = x + 1`` is false in that case if y is a variable of an atom.
#
# Joins calculate as early as possible, also for bindings that are dropped later or are in no state, and drop bindings
# with an undefined value: a loop must not continue with one, which might be taken for the best value. Only if a join
# dropped any, the bindings that the tick may have added are enumerated, and each is looked up in the state.


def refuse_failures(joins: Sequence[IncrementalGenericJoin]) -> None:
    """Raise if a binding of the state after this tick has an undefined value.

    See the module docstring.

    Raises
    ------
    CalculationError
        For the first failing calculation of the rule, with the smallest values for which it fails.
    """
    for join in joins:
        if join.may_have_failed:
            refuse_failure(join)


def refuse_failure(join: IncrementalGenericJoin) -> None:
    """Raise if a binding of a rule has an undefined value after this pending tick."""
    _FailureSearch(join).refuse()


class _FailureSearch:
    """Search for the bindings of one rule that have an undefined value."""

    def __init__(self, join: IncrementalGenericJoin) -> None:
        self.join = join
        self.query = join.query
        self.names = {calculation.variable for path in self.query.paths for calculation in path.calculations}
        path = next(path for path in self.query.paths if not path.is_negated)
        self.atoms = (path.seed, *path.other_atoms)
        checks = (*path.seed_conditions, *path.seed_checks)
        checks += tuple(check for step in path.steps for check in (*step.conditions, *step.checks))
        helping = self.names.difference(calculation.variable for calculation in self.query.calculations)
        kept_checks = [check for check in checks if not isinstance(check, Calculation)]
        self.checks = [check for check in kept_checks if not helping.intersection(check_variables(check))]

    def refuse(self) -> None:
        """Raise for the smallest failing binding."""
        execution = self.join.execution
        smallest: tuple[tuple[int, ...], Calculation, list[int | None]] | None = None
        for values in self._bindings():
            failure = self._failing(values, execution.backend)
            if failure is not None and (smallest is None or failure[0] < smallest[0]):
                smallest = failure
        if smallest is not None:
            _, calculation, codes = smallest
            is_written = "#" not in self.query.rule.partition("(")[0]
            where = f"in the rule '{self.query.rule}', " * is_written  # helpers are not in the text
            if calculation.function is not None:
                error = calculation.function.error_of(where, calculation.kinds, codes)
                raise error from error.__cause__
            arguments = [0 if code is None else code for code in codes]  # only functions of users take nulls
            described = f"{where}{_describe(calculation, arguments, execution)}"
            raise CalculationError(described, _failure_reason(calculation, arguments))

    def _bindings(self) -> Iterator[dict[str, Int64Array]]:
        """Yield a superset of the bindings added by the tick, without calculated variables."""
        base = _without_calculations(self.query, self.names)
        join = self.join
        if self._is_uncovered():
            (join,) = recomputation_joins([join], join.execution, after=True)
        join = IncrementalGenericJoin(base, join.arrangements, join.execution)
        for phase in range(len(join.execution.phases)):
            for piece in join.join(phase):
                yield {str(name): column for name, column in zip(base.head, piece.columns, strict=True)}

    def _is_uncovered(self) -> bool:
        """Return whether a negated atom with calculated variables changes.

        Then there are new bindings that the delta paths of the other atoms do not derive.
        """
        seeds = [path.seed for path in self.query.paths if path.is_negated and self.names & set(path.seed.variables)]
        return any(batch.n_rows for use in seeds for batch in self.join.arrangements[use.key].pending)

    def _failing(
        self, values: dict[str, Int64Array], backend: Backend
    ) -> tuple[tuple[int, ...], Calculation, list[int | None]] | None:
        """Return the smallest failing binding, its calculation, and the arguments.

        They are codes, None where null.
        """
        xp, execution = backend.xp, self.join.execution
        n = len(next(iter(values.values())))
        names = sorted(values)
        alive: BoolArray = xp.ones(n, np.bool_)
        for use in self.atoms:
            alive &= self._weights(use, [values[name] for name in use.variables]) != 0
        undefined: dict[str, BoolArray] = {}
        ranks = execution.ranks if execution.host_ranks else None

        def lacks(read: Sequence[str]) -> BoolArray:
            mask: BoolArray = xp.zeros(n, np.bool_)
            for name in read:
                mask |= undefined.get(name, False)
            return mask

        for calculation in self.query.calculations:
            arguments_now = [self._column(term, values, n) for term in calculation.arguments]
            values[calculation.variable], failed = evaluate_calculation(
                calculation, arguments_now, alive, backend, execution.dictionary, ranks
            )
            undefined_input = undefined[calculation.variable] = lacks(check_variables(calculation))
            if failed is not None and calculation.drops:
                alive &= undefined_input | ~failed
            elif failed is not None:
                undefined[calculation.variable] = undefined_input | failed
        for check in self.checks:
            alive &= lacks(check_variables(check)) | self._holds(check, values, n)
        (rows,) = positions(backend, alive & lacks(list(undefined)))
        if len(rows) == 0:
            return None
        first = backend.kernels.lexsort([values[name][rows] for name in names])[:1]

        def first_value(column: Any) -> int:
            return int(backend.to_host(column[rows[first]])[0])

        failed_calculation = next(
            failed_calculation
            for failed_calculation in self.query.calculations
            if first_value(undefined[failed_calculation.variable])
        )
        arguments = [first_value(self._column(term, values, n)) for term in failed_calculation.arguments]
        codes: list[int | None] = [*arguments]
        if failed_calculation.formula is not None:
            failed_calculation, codes = self._find_failed_step(failed_calculation.formula, arguments)
        return tuple(first_value(values[name]) for name in names), failed_calculation, codes

    def _find_failed_step(self, formula: Formula, arguments: Sequence[int]) -> tuple[Calculation, list[int | None]]:
        """Return the first undefined step of a formula for one row, and its arguments.

        They are codes, None where null.
        """
        backend, execution = self.join.execution.backend, self.join.execution
        columns = [backend.asarray(np.array([code], np.int64)) for code in arguments]
        ranks = execution.ranks if execution.host_ranks else None
        run = FormulaRun(columns, backend, execution.dictionary, ranks)
        _ = run.evaluate(formula, backend.xp.ones(1, np.bool_))
        calculation, inputs_of_step = next(
            (step, inputs) for step, inputs, lost in run.lost if bool(backend.to_host(lost)[0])
        )
        codes: list[int | None] = []
        for value in inputs_of_step:
            is_null = value.null is not None and bool(backend.to_host(value.null)[0])
            codes.append(None if is_null else int(backend.to_host(value.codes)[0]))
        return calculation, codes

    def _holds(self, check: Check, values: dict[str, Int64Array], n: int) -> BoolArray:
        if isinstance(check, Absent):
            absent: BoolArray = self._weights(check.use, [self._column(term, values, n) for term in check.terms]) <= 0
            return absent
        assert isinstance(check, Condition)
        execution = self.join.execution
        return condition_mask([check], values, execution.ranks if execution.host_ranks else None, execution.backend.xp)

    def _weights(self, use: AtomUse, columns: Sequence[Int64Array]) -> Int64Array:
        """Return the weights of rows of an atom after the tick."""
        backend = self.join.execution.backend
        batches = self.join.arrangements[use.key].after(len(self.join.execution.phases) - 1)
        if not batches:
            nothing: Int64Array = backend.xp.zeros(len(columns[0]), np.int64)
            return nothing
        return weights_of_rows(batches, range(len(columns)), stacked(backend, columns), backend)

    def _column(self, term: str | int, values: dict[str, Int64Array], n: int) -> Int64Array:
        xp = self.join.execution.backend.xp
        column: Int64Array = values[term] if isinstance(term, str) else xp.full(n, term, np.int64)
        return column


def _without_calculations(query: DeltaQuery, names: set[str]) -> DeltaQuery:
    """Return the query without calculations and checks that use them.

    Its head has all variables of positive atoms.
    """

    def is_kept(check: Check) -> bool:
        return not isinstance(check, Calculation) and not names.intersection(check_variables(check))

    def strip(path: DeltaPath) -> DeltaPath:
        steps = []
        for step in path.steps:
            conditions = tuple(filter(is_kept, step.conditions))
            steps.append(replace(step, conditions=conditions, checks=tuple(filter(is_kept, step.checks))))
        return replace(path, steps=tuple(steps), variants=(), seed_checks=tuple(filter(is_kept, path.seed_checks)))

    paths = [strip(path) for path in query.paths if not (path.is_negated and names & set(path.seed.variables))]
    head = tuple(sorted(next(path for path in paths if not path.is_negated).order))
    return DeltaQuery(query.rule, head, tuple(paths))


_UNNAMED = re.compile(r"#\d* = ")
"""The name of a calculation that has none in the text."""


def _describe(calculation: Calculation, arguments: Sequence[int], execution: Execution) -> str:
    texts = list(map(str, arguments))
    for i, family in enumerate(calculation.families):
        if family == "string":
            assert execution.dictionary is not None
            texts[i] = repr(execution.dictionary.value_of(arguments[i]))
        elif family.startswith("float"):
            texts[i] = str(float(floats_of(np.array([arguments[i]]), 4 if family == "float32" else 8)[0]))
        elif family == "decimal":
            texts[i] = str(Decimal(arguments[i]).scaleb(-calculation.scales[i]))
    text = str(replace(calculation, arguments=tuple(texts)))
    return _UNNAMED.sub("", text)


def _failure_reason(calculation: Calculation, arguments: Sequence[int]) -> str:
    if calculation.op == "substr":
        return "has no value: a begin or a length is negative"
    divides = calculation.op in ("/", "%", "quotient", "rest")
    if divides and (arguments[1] == 0 or calculation.family.startswith("float")):  # floats fail by either zero alone
        return "has no value: it divides by zero"
    if calculation.op == "like":
        return "has no value: the escape is not one character, or ends the pattern"
    if calculation.op == "match":
        return "has no value: RE2 does not read the pattern"
    if calculation.family == "decimal":
        return f"has more than {MAX_DIGITS} digits"
    return "is outside int64, -2^63 to 2^63-1"
