"""Circuits: relations and heads in evaluation order, and the tick.

A tick is `evaluate`, `prepare` and `install`. All joins see the state before the tick plus what is pending; `prepare`
builds the new state beside the old one. A snapshot can be installed again at any time, so a tick can be undone with the
snapshot from before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from gpu_wcoj.backend import Backend
from gpu_wcoj.circuit.head import AuxiliaryHead, Head, as_recomputation
from gpu_wcoj.circuit.operator import ChangeCount, PieceSink, RelationOperator, count_answer_rows
from gpu_wcoj.circuit.recount import Declined, Recounted, Recounting
from gpu_wcoj.circuit.source import bag_change, set_change, unsorted_change
from gpu_wcoj.errors import (
    AggregateOverflowError,
    CalculationError,
    IterationLimitError,
    MemoryBudgetError,
    NegativeWeightError,
    WeightOverflowError,
)
from gpu_wcoj.join.delta import CommonPrefixes, Piece, fetch_work
from gpu_wcoj.join.prefixes import JoinCounts, now
from gpu_wcoj.join.relation import RelationIndex
from gpu_wcoj.join.settings import Execution
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.trace.arrangement import Arrangement, ArrangementKey, PhaseRows
from gpu_wcoj.trace.spine import Spine
from gpu_wcoj.zset.arrays import exact_sum, joined_columns, positions, within_memory
from gpu_wcoj.zset.index import IndexedZSet


@dataclass(frozen=True, eq=False)
class CircuitState:
    """The state of a circuit between two ticks; immutable.

    Attributes
    ----------
    spines
        Per relation, in the order of `Circuit.indices`, the spine of each arrangement.
    weight_bounds
        Per head, in the circuit's order; see `Head.weight_bound`.
    totals
        Per head, in the circuit's order; see `Head.total`.
    """

    spines: Sequence[Mapping[ArrangementKey, Spine]]
    weight_bounds: Sequence[int]
    totals: Sequence[int | None]

    @property
    def merged_rows(self) -> int:
        """Rows read so far by merging the batches of these spines."""
        return sum(spine.merged_rows for spines in self.spines for spine in spines.values())


@dataclass(frozen=True, eq=False)
class InputChange:
    """The change of one input relation in a tick, in arrays of the host or of the device.

    Attributes
    ----------
    columns
        Stored columns.
    weights
        None if all are 1.
    is_ordered
        Whether the rows are operations in order, so that the last operation on a row wins.
    is_distinct
        Whether unordered rows are distinct.
    """

    columns: Sequence[Int64Array]
    weights: Int64Array | None
    is_ordered: bool
    is_distinct: bool = True


@dataclass(frozen=True)
class TickProfile:
    """Counts and times measured in one tick.

    Attributes
    ----------
    joins
        Per head, its joins; those of a loop are at its first head.
    seconds
        Per evaluated head, the seconds it took; a loop is evaluated at its first head.
    """

    joins: Mapping[str, tuple[JoinCounts, ...]]
    seconds: Mapping[str, float]


VALUE_ERRORS = (AggregateOverflowError, CalculationError, NegativeWeightError, WeightOverflowError)
"""Errors of a tick that are caused by the values of its rows."""

TickResult: TypeAlias = "tuple[dict[str, ChangeCount], dict[str, list[PhaseRows]], dict[str, int]]"
"""Result of `Circuit.evaluate`."""


@dataclass(eq=False)
class Circuit:
    """A compiled program.

    Attributes
    ----------
    sources
        The input relations, by name.
    heads
        The derived relations, each after the relations that its rules read; those of a loop are adjacent.
    outputs
        The heads whose changes may be requested; other heads are evaluated only if they have state.
    seconds
        Seconds that each head took in the last tick, if measured.
    beginnings
        Common prefixes of delta paths; None if no paths share a prefix.
    demands
        Heads whose rows are fed to an input before a recursion; see `find_demanded_keys`. Heads that depend on each
        other form one group, after the groups that they depend on.
    """

    sources: dict[str, RelationIndex]
    heads: dict[str, RelationOperator]
    execution: Execution
    outputs: frozenset[str]
    seconds: dict[str, float] = field(default_factory=dict)
    beginnings: CommonPrefixes | None = None
    demands: Sequence[Mapping[str, str]] = ()

    @property
    def backend(self) -> Backend:
        """The backend of the state."""
        return self.execution.backend

    def indices(self) -> list[RelationIndex]:
        """Return the indices of all state."""
        return [*self.sources.values(), *(index for head in self.heads.values() for index in head.state)]

    def evaluate(
        self,
        changes: Mapping[str, InputChange],
        collect: frozenset[str] | None,
        sink: Callable[[str, Piece], None] | None = None,
    ) -> TickResult:
        """Compute this tick's changes without changing the state.

        Parameters
        ----------
        changes
            Per input relation.
        collect
            The heads whose rows to return; None to evaluate no more than the state needs.
        sink
            Receives the rows of those heads piece by piece instead, if nothing else needs them.

        Returns
        -------
        counts : per head
        rows : per head of `collect` whose rows did not go to `sink`
        ignored : per input relation, the number of input rows that change nothing
        """
        with within_memory(self.backend, "evaluating a tick"):
            return self._evaluate(changes, collect, sink, self.heads)

    def find_demanded_keys(self, changes: Mapping[str, InputChange]) -> dict[str, InputChange]:
        """Compute the change of the keys at which recursive rules read aggregates.

        The state stays as it is.

        An aggregate in a recursive rule reads relations that are complete before the recursion, at keys that only the
        recursion derives. So the keys are an input before the recursion, and a head after it derives them. The heads
        that this head needs are evaluated in trial ticks, which are undone at the end: the first with `changes`, each
        further tick with the change of the keys by the previous one, until the keys do not change any more. Keys are
        only added in these ticks, as fewer keys make a recursion derive less. An aggregate has at most one value at a
        key, so the answer equals that of a single tick with all of these keys.

        Returns
        -------
        Per input of `demands`, the change of the keys, which a tick with `changes` needs in addition

        Raises
        ------
        IterationLimitError
            If the keys still change after as many ticks as a recursion may have iterations.
        """
        before = self.snapshot()
        key_changes: dict[str, InputChange] = {}
        for keys in self.demands:
            with within_memory(self.backend, "finding the keys of aggregates in a recursion"):
                try:
                    key_changes |= self._find_demanded_keys({**changes, **key_changes}, keys, {})
                except VALUE_ERRORS:
                    self.install(before)
                    rows_by_input = {
                        name: self.sources[name].rows() for name in keys.values() if len(self.sources[name])
                    }
                    if not rows_by_input:
                        raise
                    # An aggregate may lack a value at a key that is no longer demanded, so begin without any keys.
                    cleared = {name: rows for name, (rows, _) in rows_by_input.items()}
                    key_changes |= self._find_demanded_keys({**changes, **key_changes}, keys, cleared)
                finally:
                    self.install(before)
        return key_changes

    def _find_demanded_keys(
        self, changes: Mapping[str, InputChange], keys: Mapping[str, str], cleared: Mapping[str, Sequence[Int64Array]]
    ) -> dict[str, InputChange]:
        """Compute the change of one group of keys.

        The keys of `cleared` inputs are deleted in the first tick.
        """
        from gpu_wcoj.circuit.recursion.loop import LoopHead

        phases_by_input = {name: [PhaseRows(rows, -1)] for name, rows in cleared.items()}
        changes = {**changes, **{name: self._merge_phases(added) for name, added in phases_by_input.items()}}
        needed = self._required_heads(keys)
        restored = {name: [PhaseRows(rows, 1)] for name, rows in cleared.items()}
        n_ticks = 0
        while changes:
            if n_ticks > self.execution.iterations:
                loops = dict.fromkeys(head.loop.cycle for head in needed.values() if isinstance(head, LoopHead))
                raise IterationLimitError(f"the recursion ({', '.join(loops)})", self.execution.iterations)
            _, rows, _ = self._evaluate(changes, frozenset(keys), None, needed)
            self.install(self.prepare())
            changes = {}
            for head, name in keys.items():
                phases = [*rows[head], *restored.pop(name, ())]
                change = self._merge_phases(phases)
                if len(change.columns[0]):
                    changes[name] = change
                    phases_by_input.setdefault(name, []).extend(phases)
            n_ticks += 1
        return {name: self._merge_phases(added) for name, added in phases_by_input.items()}

    def _merge_phases(self, phases: Sequence[PhaseRows]) -> InputChange:
        """Merge phases into one change of an input."""
        xp = self.backend.xp
        *columns, weights = joined_columns([[*phase.columns, phase.weight_column(xp)] for phase in phases], xp)
        return InputChange(*self.backend.kernels.consolidate(columns, weights), False)

    def _required_heads(self, names: Iterable[str]) -> dict[str, RelationOperator]:
        """Return the named heads and all heads that they depend on, in the circuit's order."""
        needed: set[str] = set()
        waiting = list(names)
        while waiting:
            name = waiting.pop()
            if name in self.heads and name not in needed:
                needed.add(name)
                waiting += self.heads[name].reads
        return {name: head for name, head in self.heads.items() if name in needed}

    def _evaluate(
        self,
        changes: Mapping[str, InputChange],
        collect: frozenset[str] | None,
        sink: Callable[[str, Piece], None] | None,
        heads: Mapping[str, RelationOperator],
    ) -> TickResult:
        self.execution.begin()
        single_tick = self.execution.single_tick
        self.execution.may_repeat = single_tick and self.execution.weighted
        asarray = self.backend.asarray
        ignored = {}
        for name, change in changes.items():
            relation = self.sources[name]
            columns, weights = list(change.columns), change.weights
            if not single_tick:
                columns = self._to_memory(columns)
            if weights is not None and self.backend.device is None:
                weights = asarray(weights)
            unsorted = None
            if single_tick:
                unsorted = unsorted_change(relation, columns, weights, self.execution.weighted)
                self.execution.may_repeat &= unsorted is not None
                columns = columns if unsorted is not None else self._to_memory(columns)
            if unsorted is not None:
                phases, ignored[name] = unsorted, 0
            elif self.execution.weighted:
                phases, ignored[name] = bag_change(relation, columns, weights)
            else:
                phases, ignored[name] = set_change(relation, columns, weights, change.is_ordered, change.is_distinct)
            relation.receive_delta(phases)
        counts, rows = {}, {}
        budget = self.execution.budget
        for head in self.heads.values():
            head.begin()
        if self.beginnings is not None:
            self.beginnings.begin(collect)
        if self.seconds:
            self.seconds = {}
        for name, head in heads.items():
            if not (head.state or self._is_evaluated(name, head, collect)):
                continue
            to = None if sink is None else (lambda piece, name=name: sink(name, piece))
            evaluate = self._with_timing(name, head) if self.execution.measures else head.evaluate
            try:
                counts[name], head_rows = evaluate(collect is not None and name in collect, to)
            except MemoryBudgetError as error:
                raise error.deriving(name) from error.__cause__
            if budget is not None:
                budget.check_time()
            if head_rows is not None and collect is not None and name in collect:
                rows[name] = head_rows
                if budget is not None and budget.rows is not None:
                    budget.check_rows(name, count_answer_rows(head_rows))
        return counts, rows, ignored

    def _to_memory(self, columns: Sequence[Int64Array]) -> list[Int64Array]:
        """Return the columns in the memory of the backend, each stored in full."""
        moved = [self.backend.asarray(column) for column in columns]
        return [np.ascontiguousarray(column) for column in moved] if self.backend.device is None else moved

    def _is_evaluated(self, name: str, head: RelationOperator, collect: frozenset[str] | None) -> bool:
        """Return whether a head without state is evaluated."""
        if collect is None:
            return name in self.outputs and head.may_fail
        return name in self.outputs or name in collect

    def _with_timing(
        self, name: str, head: RelationOperator
    ) -> Callable[[bool, PieceSink | None], tuple[ChangeCount, list[PhaseRows] | None]]:
        """Return a function that evaluates the head and records the seconds it takes."""

        def evaluate(collect: bool, sink: PieceSink | None) -> tuple[ChangeCount, list[PhaseRows] | None]:
            start = now(self.backend)
            result = head.evaluate(collect, sink)
            self.seconds[name] = now(self.backend) - start
            return result

        return evaluate

    @property
    def work(self) -> dict[str, dict[int, dict[int, dict[str, Int64Array]]]]:
        """Kernel counts of the last tick per head, rule, path and variable. Waits once for a device."""
        if self.backend.device is not None:
            fetch_work(self.backend, (join for head in self.heads.values() for join in head.joins))
        return {name: {i: join.work for i, join in enumerate(head.joins)} for name, head in self.heads.items()}

    @property
    def recounted(self) -> dict[str, tuple[Recounted, ...]]:
        """Heads of the last tick whose change was counted by full recomputation, and its costs."""
        return {name: tuple(recounting.recounted) for name, recounting in self._recountings() if recounting.recounted}

    @property
    def declined(self) -> dict[str, tuple[Declined, ...]]:
        """Reasons per head for not using full recomputation in the last tick."""
        return {name: tuple(recounting.declined) for name, recounting in self._recountings() if recounting.declined}

    def _recountings(self) -> Iterator[tuple[str, Recounting]]:
        return ((name, head.recounting) for name, head in self.heads.items() if isinstance(head, Head))

    @property
    def profile(self) -> TickProfile | None:
        """Measurements of the last tick; None if `Execution.measures` is off. Waits for a device."""
        if not self.execution.measures:
            return None
        joins = {name: tuple(join.measured for join in head.joins) for name, head in self.heads.items()}
        return TickProfile(joins, dict(self.seconds))

    def snapshot(self) -> CircuitState:
        """Return the committed state."""
        bounds = [head.weight_bound for head in self.heads.values()]
        totals = [head.total for head in self.heads.values()]
        return CircuitState([index.spines() for index in self.indices()], bounds, totals)

    def prepare(self) -> CircuitState:
        """Build the state after this tick beside the present state."""
        bounds = [head.pending_bound for head in self.heads.values()]
        with within_memory(self.backend, "building the state after a tick"):
            totals = [head.pending_total for head in self.heads.values()]
            return CircuitState([index.committed() for index in self.indices()], bounds, totals)

    def install(self, state: CircuitState) -> None:
        """Replace the state and discard pending changes.

        It only sets attributes, so after an interrupt it can be called again with this state or the previous one.
        """
        for index, spines in zip(self.indices(), state.spines, strict=True):
            index.commit(spines)
        if self.beginnings is not None:
            self.beginnings.forget()
        for head, bound, total in zip(self.heads.values(), state.weight_bounds, state.totals, strict=True):
            head.weight_bound, head.total = bound, total

    def discard(self) -> None:
        """Discard the pending changes of the tick."""
        for index in self.indices():
            index.discard()

    def stores(self, name: str) -> bool:
        """Return whether a relation's rows are stored; otherwise they are recomputed on request."""
        return name in self.sources or bool(self.heads[name].state)

    def rows(self, name: str) -> tuple[list[Int64Array], Int64Array]:
        """Return all rows of a relation, sorted, with their weights.

        Recomputed if they are not stored.
        """
        with within_memory(self.backend, f"reading relation '{name}'"):
            columns, weights = self._rows(name)
            if self.execution.budget is not None and name in self.outputs:
                self.execution.budget.check_rows(name, count_answer_rows([PhaseRows(columns, weights)]))
            return columns, weights

    def _rows(self, name: str) -> tuple[list[Int64Array], Int64Array]:
        if name in self.sources:
            return self.sources[name].rows()
        head = self.heads[name]
        if head.relation is not None:
            return head.relation.visible_rows()
        if head.derivations is not None:
            columns, weights = head.derivations.rows()
            (positive,) = positions(self.backend, weights > 0)
            return [column[positive] for column in columns], self.backend.xp.ones(len(positive), np.int64)
        assert isinstance(head, Head)
        self.execution.begin()
        _, phases = as_recomputation(head).evaluate(collect=True)
        assert phases is not None
        rows = phases[-1]
        return list(rows.columns), rows.weight_column(self.backend.xp)

    def total(self, name: str) -> int:
        """Return the sum of a relation's weights.

        A head that is not stored is counted, not enumerated.
        """
        with within_memory(self.backend, f"counting relation '{name}'"):
            head = self.heads.get(name)
            if isinstance(head, Head) and not head.state:
                self.execution.begin()
                if self.execution.share is not None or not head.recounting.counts_state:
                    return as_recomputation(head).evaluate(collect=False)[0].net
                if head.total is None:
                    head.total = head.recounting.total()
                return head.total
            if head is not None and head.relation is not None:
                return head.stored_total()
            return exact_sum(self.backend, self._rows(name)[1])

    def compact(self) -> None:
        """Merge every arrangement into at most one batch without cancelled rows."""
        with within_memory(self.backend, "compacting the state"):
            for index in self.indices():
                index.compact()


# Transfer the state of a circuit to one with another plan of the same rules.
#
# Batches are immutable, so both circuits share the arrangements that they have in common; the previous circuit is not
# changed. An arrangement that only the new circuit has is built from another arrangement of the same rows, in one pass
# of sorting; a new auxiliary relation is joined.


def adopt(circuit: Circuit, previous: Circuit) -> None:
    """Fill an empty circuit with the state of `previous`, which has the same relations.

    Its backend may have other kernels, for the same memory.

    Raises
    ------
    AuxiliaryError
        If an auxiliary relation that only the empty circuit has exceeds its size limit.
    """
    with within_memory(circuit.backend, "arranging the state anew"):
        for index, source in _paired_indices(circuit, previous):
            made: dict[ArrangementKey, IndexedZSet] = {}
            for key, arrangement in index.arrangements.items():
                if key in source.arrangements:
                    arrangement.spine = source.arrangements[key].spine.on(arrangement.backend)
                else:
                    batch = _arranged(arrangement, source, made)
                    if len(batch):
                        arrangement.spine = Spine((batch,), arrangement.spine.policy)
        for name, head in circuit.heads.items():
            if name not in previous.heads:
                assert isinstance(head, AuxiliaryHead)
                head.fill()
    for name, head in circuit.heads.items():
        leader = previous.heads.get(name, head)
        head.weight_bound, head.total = leader.weight_bound, leader.total


def rows_to_build(circuit: Circuit, previous: Circuit) -> int:
    """Return the number of rows that `adopt` would sort."""
    return sum(
        len(source.arrangements[_source_key(key, source)].spine)
        for index, source in _paired_indices(circuit, previous)
        for key in index.arrangements
        if key not in source.arrangements
    )


def _paired_indices(circuit: Circuit, previous: Circuit) -> Iterator[tuple[RelationIndex, RelationIndex]]:
    """Yield the pairs of indices of the relations and heads that both circuits have."""
    for name, index in circuit.sources.items():
        yield index, previous.sources[name]
    for name, head in circuit.heads.items():
        if name in previous.heads:
            yield from zip(head.state, previous.heads[name].state, strict=True)


def _source_key(key: ArrangementKey, index: RelationIndex) -> ArrangementKey:
    """Return the key of the arrangement from which to build `key`.

    It has the same selection if possible, else all rows.
    """
    return next(
        (candidate for candidate in index.arrangements if candidate.selection == key.selection), index.canonical
    )


def _arranged(arrangement: Arrangement, index: RelationIndex, made: dict[ArrangementKey, IndexedZSet]) -> IndexedZSet:
    """Build the batch of an arrangement from `index`; `made` caches merged arrangements."""
    key, backend = arrangement.key, arrangement.backend
    source = _source_key(key, index)
    if source not in made:
        batches = index.arrangements[source].spine.compact().batches
        made[source] = batches[0] if batches else IndexedZSet.empty(len(source.order), backend)
    rows = made[source]
    if source.selection == key.selection and rows.weights is None:
        return IndexedZSet.rearranged([rows], [source.order.index(column) for column in key.order], backend)
    if source.selection != key.selection:
        return arrangement.index(PhaseRows(*index.rows()))
    columns, weights = rows.columns(), rows.weight_column()
    places = [source.order.index(column) for column in key.order]
    order = backend.kernels.lexsort([columns[place] for place in places])
    return IndexedZSet.from_sorted([columns[place][order] for place in places], weights[order], backend)
