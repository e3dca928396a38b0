"""A circuit: relations and heads in the order in which a tick evaluates them, and the tick itself.

A tick is `evaluate`, `prepare` and `install`. All joins see the state before the tick plus what is pending; `prepare`
builds the new state beside the old one. What a circuit holds can be installed again at any time, so whoever keeps the
state before a tick can go back to it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from gpu_wcoj.backend import Backend
from gpu_wcoj.circuit.head import ChangeCount, Head, PieceSink, afresh
from gpu_wcoj.circuit.recount import Declined, Recounted, Recounting
from gpu_wcoj.circuit.source import bag_change, set_change
from gpu_wcoj.errors import (
    AggregateOverflowError,
    CalculationError,
    IterationLimitError,
    NegativeWeightError,
    WeightOverflowError,
)
from gpu_wcoj.join.execution import Execution
from gpu_wcoj.join.index import RelationIndex
from gpu_wcoj.join.piece import Piece
from gpu_wcoj.join.running import fetch_work
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.trace.arrangement import ArrangementKey, PhaseRows
from gpu_wcoj.trace.spine import Spine
from gpu_wcoj.zset.arrays import exact_sum, positions, within_memory

if TYPE_CHECKING:
    from gpu_wcoj.circuit.grouping import GroupingHead
    from gpu_wcoj.circuit.positive import PositiveHead
    from gpu_wcoj.circuit.recursion.loop import LoopHead
    from gpu_wcoj.join.begun import Beginnings
    from gpu_wcoj.join.common import CommonJoin
    from gpu_wcoj.join.meter import JoinCounts


@dataclass(frozen=True, eq=False)
class Held:
    """All that a circuit holds between two ticks; immutable.

    Attributes
    ----------
    spines
        Per relation, in the order of `Circuit.indices`, the spine of each arrangement.
    weight_bounds
        Per head, in the circuit's order; see `Head.weight_bound`.
    totals
        Likewise; see `Head.total`.
    """

    spines: Sequence[Mapping[ArrangementKey, Spine]]
    weight_bounds: Sequence[int]
    totals: Sequence[int | None]

    @property
    def merged_rows(self) -> int:
        """Rows that merging these spines' batches has read so far."""
        return sum(spine.merged_rows for spines in self.spines for spine in spines.values())


@dataclass(frozen=True, eq=False)
class InputChange:
    """What one input relation gets in a tick: stored columns, weights (None: all 1), whether the rows are in order.

    Arrays of the host or of the device. Rows in no order are distinct, unless `is_distinct` says that they may not be.
    """

    columns: Sequence[Int64Array]
    weights: Int64Array | None
    is_ordered: bool
    is_distinct: bool = True


@dataclass(frozen=True)
class Measured:
    """What one tick measured.

    Attributes
    ----------
    joins
        Per head, its joins; those of a loop are at its first head.
    seconds
        Per head that was evaluated, how long that took; a loop is evaluated at its first head.
    """

    joins: Mapping[str, tuple[JoinCounts, ...]]
    seconds: Mapping[str, float]


VALUE_ERRORS = (AggregateOverflowError, CalculationError, NegativeWeightError, WeightOverflowError)
"""The errors of a tick that the values of its rows are the reason of."""

Evaluated: TypeAlias = "tuple[dict[str, ChangeCount], dict[str, list[PhaseRows]], dict[str, int]]"
"""What `Circuit.evaluate` gives."""

Derived: TypeAlias = "Head | LoopHead | GroupingHead | PositiveHead"
"""What a circuit derives: a relation, or what a loop reads of one."""


@dataclass(eq=False)
class Circuit:
    """A lowered program.

    Attributes
    ----------
    sources
        The input relations, by name.
    heads
        The derived relations, each behind those that its rules read; those of a loop stand together.
    outputs
        The heads whose changes may be asked for; others are evaluated only where they have state.
    seconds
        Of the last tick, how long each head took, if that was measured.
    common
        Joins that several rules share.
    beginnings
        What several delta paths begin with; None if there are no such paths.
    demands
        Heads whose rows an input holds, which lies before a recursion; see `demanded`. Those that depend on each other
        stand together, behind those that they depend on.
    """

    sources: dict[str, RelationIndex]
    heads: dict[str, Derived]
    execution: Execution
    outputs: frozenset[str]
    seconds: dict[str, float] = field(default_factory=dict)
    common: tuple[CommonJoin, ...] = ()
    beginnings: Beginnings | None = None
    demands: Sequence[Mapping[str, str]] = ()

    @property
    def backend(self) -> Backend:
        """Where the state lives."""
        return self.execution.backend

    def indices(self) -> list[RelationIndex]:
        """All state."""
        return [*self.sources.values(), *(index for head in self.heads.values() for index in head.state)]

    def evaluate(
        self,
        changes: Mapping[str, InputChange],
        collect: frozenset[str] | None,
        sink: Callable[[str, Piece], None] | None = None,
    ) -> Evaluated:
        """Find this tick's changes; the state does not move.

        Parameters
        ----------
        changes
            Per input relation.
        collect
            The heads whose rows are wanted; None to evaluate no more than the state needs.
        sink
            Where rows of those heads go piece by piece instead, where nothing else needs them.

        Returns
        -------
        counts : per head
        rows : per head of `collect` whose rows did not go to `sink`
        ignored : per input relation, the given rows that change nothing
        """
        with within_memory(self.backend, "evaluating a tick"):
            return self._evaluate(changes, collect, sink, self.heads)

    def demanded(self, changes: Mapping[str, InputChange]) -> dict[str, InputChange]:
        """Find what a tick with these changes adds to the keys at which recursions ask for aggregates; nothing moves.

        An aggregate in a recursive rule reads relations that are settled before the recursion, at keys that only the
        recursion finds. So these keys are an input, which lies before it, and a head behind it says which they are.
        Ticks of the heads that this one needs are taken, and undone at the end: the first with `changes`, each other
        one with the change of the keys by the one before it, until they change no more. Keys only come then, as fewer
        of them make less of a recursion. An aggregate has no more than one value at a key, so the answer is the one
        that a single tick with all of these keys has.

        Returns
        -------
        Per input of `demands` the change of the keys, which a tick with `changes` needs beside them

        Raises
        ------
        IterationLimitError
            If the keys still change after as many ticks as a recursion may have iterations.
        """
        before = self.held()
        found: dict[str, InputChange] = {}
        for keys in self.demands:
            with within_memory(self.backend, "finding the keys of aggregates in a recursion"):
                try:
                    found |= self._demanded({**changes, **found}, keys, {})
                except VALUE_ERRORS:
                    self.install(before)
                    held = {name: self.sources[name].rows() for name in keys.values() if len(self.sources[name])}
                    if not held:
                        raise
                    # An aggregate may lack a value at a key that is no longer asked for, so begin without any keys.
                    cleared = {name: rows for name, (rows, _) in held.items()}
                    found |= self._demanded({**changes, **found}, keys, cleared)
                finally:
                    self.install(before)
        return found

    def _demanded(
        self, changes: Mapping[str, InputChange], keys: Mapping[str, str], cleared: Mapping[str, Sequence[Int64Array]]
    ) -> dict[str, InputChange]:
        """The change of some keys, those of the inputs that are `cleared` being taken away in the first tick."""
        from gpu_wcoj.circuit.recursion.loop import LoopHead

        found = {name: [PhaseRows(rows, -1)] for name, rows in cleared.items()}
        changes = {**changes, **{name: self._as_change(own) for name, own in found.items()}}
        needed = self._needed(keys)
        back = {name: [PhaseRows(rows, 1)] for name, rows in cleared.items()}
        taken = 0
        while changes:
            if taken > self.execution.iterations:
                loops = dict.fromkeys(head.loop.cycle for head in needed.values() if isinstance(head, LoopHead))
                raise IterationLimitError("the recursion " + ", ".join(loops), self.execution.iterations)
            _, rows, _ = self._evaluate(changes, frozenset(keys), None, needed)
            self.install(self.prepare())
            changes = {}
            for head, name in keys.items():
                phases = [*rows[head], *back.pop(name, ())]
                change = self._as_change(phases)
                if len(change.columns[0]):
                    changes[name] = change
                    found.setdefault(name, []).extend(phases)
            taken += 1
        return {name: self._as_change(own) for name, own in found.items()}

    def _as_change(self, phases: Sequence[PhaseRows]) -> InputChange:
        """The change of an input that all of these make together."""
        xp = self.backend.xp
        columns = [xp.concatenate(own) for own in zip(*(phase.columns for phase in phases), strict=True)]
        weights = xp.concatenate([phase.weight_column(xp) for phase in phases])
        return InputChange(*self.backend.kernels.consolidate(columns, weights), False)

    def _needed(self, names: Iterable[str]) -> dict[str, Derived]:
        """The heads that these follow from, and these."""
        found: set[str] = set()
        waiting = list(names)
        while waiting:
            name = waiting.pop()
            if name in self.heads and name not in found:
                found.add(name)
                waiting += self.heads[name].reads
        return {name: head for name, head in self.heads.items() if name in found}

    def _evaluate(
        self,
        changes: Mapping[str, InputChange],
        collect: frozenset[str] | None,
        sink: Callable[[str, Piece], None] | None,
        heads: Mapping[str, Derived],
    ) -> Evaluated:
        self.execution.begin()
        asarray = self.backend.asarray
        ignored = {}
        for name, change in changes.items():
            relation = self.sources[name]
            columns, weights = [asarray(column) for column in change.columns], change.weights
            if weights is not None and self.backend.device is None:
                weights = asarray(weights)
            if self.execution.weighted:
                phases, ignored[name] = bag_change(relation, columns, weights)
            else:
                phases, ignored[name] = set_change(relation, columns, weights, change.is_ordered, change.is_distinct)
            relation.receive_delta(phases)
        counts, rows = {}, {}
        for head in self.heads.values():
            head.begin()
        if self.common:
            self._announce(collect if sink is None else frozenset(), heads)
        if self.beginnings is not None:
            self.beginnings.begin(collect)
        if self.seconds:
            self.seconds = {}
        for name, head in heads.items():
            if not (head.state or self._is_asked(name, head, collect)):
                continue
            to = None if sink is None else (lambda piece, name=name: sink(name, piece))
            evaluate = self._timed(name, head) if self.execution.measures else head.evaluate
            counts[name], found = evaluate(collect is not None and name in collect, to)
            if found is not None and collect is not None and name in collect:
                rows[name] = found
        return counts, rows, ignored

    def _is_asked(self, name: str, head: Derived, collect: frozenset[str] | None) -> bool:
        """Return whether a head without state is evaluated."""
        if collect is None:
            return name in self.outputs and self._may_fail(head)
        return name in self.outputs or name in collect

    def _announce(self, collect: frozenset[str] | None, heads: Collection[str]) -> None:
        """Tell joins that rules share which of these `heads` are going to list their rows."""
        from gpu_wcoj.join.common import SharedJoin

        for name, head in self.heads.items():
            asks = name in heads and (bool(head.state) or (collect is not None and name in collect))
            for join in head.joins:
                if isinstance(join, SharedJoin):
                    join.asks = asks
        for one in self.common:
            one.begin()

    def _timed(
        self, name: str, head: Derived
    ) -> Callable[[bool, PieceSink | None], tuple[ChangeCount, list[PhaseRows] | None]]:
        """Evaluate the head and note how long that takes."""
        from gpu_wcoj.join.meter import now

        def evaluate(collect: bool, sink: PieceSink | None) -> tuple[ChangeCount, list[PhaseRows] | None]:
            start = now(self.backend)
            found = head.evaluate(collect, sink)
            self.seconds[name] = now(self.backend) - start
            return found

        return evaluate

    def _may_fail(self, head: Derived) -> bool:
        """Whether a tick has to be looked at for its errors, also where nobody asks for its answer."""
        return self.execution.weighted or (isinstance(head, Head) and head.calculates)

    @property
    def work(self) -> dict[str, dict[int, dict[int, dict[str, Int64Array]]]]:
        """Of the last tick, per head, rule, path and variable, what the kernels counted. Waits once for a device."""
        if self.backend.device is not None:
            fetch_work(self.backend, (join for head in self.heads.values() for join in head.joins))
        return {name: {i: join.work for i, join in enumerate(head.joins)} for name, head in self.heads.items()}

    @property
    def recounted(self) -> dict[str, tuple[Recounted, ...]]:
        """Of the last tick, the heads whose change was counted as the difference of whole counts."""
        return {name: tuple(one.last) for name, one in self._recountings() if one.last}

    @property
    def declined(self) -> dict[str, tuple[Declined, ...]]:
        """Of the last tick, why the changes of heads were followed though whole counts were thought of."""
        return {name: tuple(one.declined) for name, one in self._recountings() if one.declined}

    def _recountings(self) -> Iterator[tuple[str, Recounting]]:
        return ((name, head.recounting) for name, head in self.heads.items() if isinstance(head, Head))

    @property
    def measured(self) -> Measured | None:
        """Of the last tick, what was measured; None where `Execution.measures` is off. Waits for a device."""
        if not self.execution.measures:
            return None
        joins = {name: tuple(join.measured for join in head.joins) for name, head in self.heads.items()}
        return Measured(joins, dict(self.seconds))

    def held(self) -> Held:
        """The committed state."""
        bounds = [head.weight_bound for head in self.heads.values()]
        totals = [head.total if isinstance(head, Head) else None for head in self.heads.values()]
        return Held([index.spines() for index in self.indices()], bounds, totals)

    def prepare(self) -> Held:
        """The state after this tick, built beside the present one."""
        bounds = [head.pending_bound for head in self.heads.values()]
        with within_memory(self.backend, "building the state after a tick"):
            totals = [head.pending_total if isinstance(head, Head) else None for head in self.heads.values()]
            return Held([index.committed() for index in self.indices()], bounds, totals)

    def install(self, held: Held) -> None:
        """Make this the state, and forget what is pending.

        It only sets attributes. Cut short by an interrupt, it can be called again with this state or the one before.
        """
        for index, spines in zip(self.indices(), held.spines, strict=True):
            index.commit(spines)
        for one in self.common:
            one.forget()
        if self.beginnings is not None:
            self.beginnings.forget()
        for head, bound, total in zip(self.heads.values(), held.weight_bounds, held.totals, strict=True):
            head.weight_bound = bound
            if isinstance(head, Head):
                head.total = total

    def discard(self) -> None:
        """Forget the tick."""
        for index in self.indices():
            index.discard()

    def stores(self, name: str) -> bool:
        """Whether a relation's rows are kept, or else are joined afresh when they are asked for."""
        return name in self.sources or bool(self.heads[name].state)

    def whole(self, name: str) -> tuple[list[Int64Array], Int64Array]:
        """All rows of a relation, sorted, with their weights; a head that is not kept is joined afresh."""
        with within_memory(self.backend, f"reading relation '{name}'"):
            return self._whole(name)

    def _whole(self, name: str) -> tuple[list[Int64Array], Int64Array]:
        if name in self.sources:
            return self.sources[name].rows()
        head = self.heads[name]
        if head.relation is not None:
            return head.relation.visible_rows()
        if head.derivations is not None:
            columns, weights = head.derivations.rows()
            (kept,) = positions(self.backend, weights > 0)
            return [column[kept] for column in columns], self.backend.xp.ones(len(kept), np.int64)
        assert isinstance(head, Head)
        self.execution.begin()
        _, phases = afresh(head).evaluate(collect=True)
        assert phases is not None
        rows = phases[-1]
        return list(rows.columns), rows.weight_column(self.backend.xp)

    def total(self, name: str) -> int:
        """Sum of the weights of a relation's rows; a head that is not kept is counted without enumerating it."""
        with within_memory(self.backend, f"counting relation '{name}'"):
            head = self.heads.get(name)
            if isinstance(head, Head) and not head.state:
                self.execution.begin()
                if self.execution.share is not None or not head.recounting.counts_state:
                    return afresh(head).evaluate(collect=False)[0].net
                if head.total is None:
                    head.total = head.recounting.total()
                return head.total
            if head is not None and not isinstance(head, Head):
                from gpu_wcoj.circuit.grouping import GroupingHead  # which few programs need
                from gpu_wcoj.circuit.positive import PositiveHead

                if not isinstance(head, (GroupingHead, PositiveHead)):
                    from gpu_wcoj.circuit.recursion.ranked import rows_held  # which loops alone need

                    return rows_held(head.relation)
            return exact_sum(self.backend, self._whole(name)[1])

    def compact(self) -> None:
        """Merge every arrangement into one batch at most; nothing that has cancelled is left."""
        with within_memory(self.backend, "compacting the state"):
            for index in self.indices():
                index.compact()
