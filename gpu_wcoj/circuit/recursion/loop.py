"""Loops as parts of a circuit: mutually recursive heads, evaluated together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from operator import methodcaller

import numpy as np

from gpu_wcoj.budget import reserve
from gpu_wcoj.circuit.head import refuse_failure
from gpu_wcoj.circuit.operator import ChangeCount, PieceSink, RelationOperator
from gpu_wcoj.circuit.recursion.plan import DerivationQuery, LoopPlan, RuleJoin, derive
from gpu_wcoj.circuit.recursion.relation import (
    BestHistory,
    LoopChange,
    RankedIndex,
    SetHistory,
    ValueOrder,
    change_of_best,
    count_rows,
    unranked,
)
from gpu_wcoj.circuit.recursion.semi_naive import BUDGET_PER_ROW, MIN_BUDGET, SemiNaiveRun, walkable_rows
from gpu_wcoj.circuit.recursion.walks import WalkTable, seeded_path
from gpu_wcoj.costs import BEST_ITERATION, MAINTAINED_ITERATION, STORED_ROW, WALKED_OPERATION
from gpu_wcoj.errors import IterationLimitError
from gpu_wcoj.join.delta import IncrementalGenericJoin
from gpu_wcoj.join.relation import RelationIndex
from gpu_wcoj.join.settings import Execution
from gpu_wcoj.kernels.protocol import PAUSED, WIDE, WRONG
from gpu_wcoj.trace.arrangement import Arrangement, ArrangementKey, PhaseRows, StateAsChange
from gpu_wcoj.trace.spine import Spine
from gpu_wcoj.zset.index import IndexedZSet

# Incremental maintenance of a filled loop, iteration by iteration.


class TooManyDerivedError(Exception):
    """A tick has exceeded its limit of derived rows or of cost."""


class TooWideError(Exception):
    """A tick that runs row at a time has too much work in one iteration."""


class IncrementalRun:
    """One tick of a loop that is not empty.

    Parameters
    ----------
    heads
        The loop's relations.
    outside
        The arrangements of other relations, with this tick's change pending.
    execution
        With weights.
    max_derived
        Maximum number of derivations; a row that is derived twice counts twice.
    max_cost
        Maximum cost of its iterations, in nanoseconds; see `SemiNaiveRun.cost`.
    walks
        Whether it may run row at a time.
    """

    def __init__(
        self,
        plan: LoopPlan,
        heads: Mapping[str, RankedIndex],
        outside: Mapping[ArrangementKey, Arrangement],
        execution: Execution,
        max_derived: int,
        max_cost: int,
        walks: bool = True,
    ) -> None:
        self._heads = heads
        self._n_allowed = max_derived
        self._cost_left = max_cost
        self._iteration_cost = BEST_ITERATION if plan.best else MAINTAINED_ITERATION
        self._execution = execution
        self._walked_rows = 0 if plan.best or not walks else walkable_rows(plan, execution)
        self._walked: dict[str, PhaseRows] | None = None
        self._outside = outside
        self._views: dict[ArrangementKey, Arrangement] = {}
        before: dict[ArrangementKey, Arrangement] = {}
        for key, arrangement in outside.items():
            self._views[key], before[key] = _committed_view(arrangement), _committed_view(arrangement)
            self._views[key].pending = _merge_phases(arrangement.pending)
        for index in heads.values():
            for key, arrangement in index.arrangements.items():
                self._views[key], before[key] = _committed_view(arrangement), _committed_view(arrangement)
        self._rules = [
            RuleJoin(rule, IncrementalGenericJoin(rule.ranked, self._views, execution)) for rule in plan.rules
        ]
        self._histories: dict[str, SetHistory] = {}
        for name, index in heads.items():
            rules = [rule for rule in plan.rules if rule.head == name]
            if name in plan.best:
                asking = DerivationQuery(rules, before, execution, width=2)
                self._histories[name] = BestHistory(index, asking, ValueOrder(plan.best[name], execution))
            else:
                self._histories[name] = SetHistory(index, DerivationQuery(rules, before, execution))

    @property
    def joins(self) -> list[RuleJoin]:
        """The joins in use, for reading their work counts."""
        asking = [rule_join for history in self._histories.values() for rule_join in history.derivation_query.joins]
        return [*self._rules, *asking]

    def iterations(self) -> Iterator[int]:
        """Run; yield the number of iterations so far."""
        n_iterations = 0
        if not self._walked_rows:
            self._spend(self._iteration_cost)
        self._derive(-1)
        for key, arrangement in self._outside.items():
            view = self._views[key]
            view.spine, view.pending = Spine(arrangement.after(len(arrangement.pending) - 1)), ()
        n_stored = sum(history.buffer.n_stored for history in self._histories.values())
        if self._walked_rows and n_stored <= DERIVED_PER_ROW * self._walked_rows:
            yield from self._walk()
            return
        while (iteration := self._next()) is not None:
            n_iterations += 1
            yield n_iterations
            if n_iterations > 1:
                self._spend(self._iteration_cost)
            changed = []
            for name, history in self._histories.items():
                rows = history.emit(iteration)
                if rows is not None:
                    changed.append(name)
                    for key in self._heads[name].arrangements:
                        self._views[key].pending = (self._views[key].index(rows),)
            if changed:
                self._derive(iteration)
            for name in changed:
                history, arrangements = self._histories[name], self._heads[name].arrangements
                history.absorb({key: self._views[key].pending[0] for key in arrangements})
                for key, arrangement in arrangements.items():
                    view = self._views[key]
                    view.spine = Spine((*arrangement.spine.batches, *history.entries[key].batches))
                    view.pending = ()

    def result(self) -> dict[str, dict[ArrangementKey, IndexedZSet]]:
        """Return this tick's entries per relation, in every order of its index."""
        entries: dict[str, dict[ArrangementKey, IndexedZSet]] = {}
        if self._walked is not None:
            for name, rows in self._walked.items():
                index = self._heads[name]
                indexed = index.on_each(methodcaller("index", rows), len(rows))
                entries[name] = dict(zip(index.arrangements, indexed, strict=True))
            return entries
        for name, history in self._histories.items():
            for key, spine in history.entries.items():
                batches = spine.compact().batches
                if batches:
                    entries.setdefault(name, {})[key] = batches[0]
        return entries

    def _walk(self) -> Iterator[int]:
        """Run all iterations row at a time; yield their number so far.

        Raises
        ------
        TooManyDerivedError
            If the tick exceeds its limit of derivations or cost.
        TooWideError
            If an iteration has so much work that it is cheaper vectorised.
        """
        order = {name: index.canonical.order[:-1] for name, index in self._heads.items()}
        table = WalkTable(order)
        for rule_join in self._rules:
            path_index = seeded_path(rule_join.rule, self._heads)
            if path_index is not None:
                table.add_walk(rule_join, path_index)
        for history in self._histories.values():
            for rule_join in history.derivation_query.joins:
                table.add_inverse(rule_join)
        kernels = self._execution.backend.kernels
        states = [[batch.levels for batch in index.accumulated()] for index in self._heads.values()]
        run = kernels.maintenance(table.table(), states)
        for head, (name, history) in enumerate(self._histories.items()):
            stored = history.buffer.take_stored()
            if stored is not None:
                (iterations, *columns), weights = stored
                run.add(head, [columns[column] for column in order[name]], iterations, weights)
        max_work = int(MAINTAINED_PER_ROW * self._walked_rows)
        budget, result = max(MIN_BUDGET, min(max_work, int(BUDGET_PER_ROW * self._walked_rows))), PAUSED
        iteration_work = 0
        while result == PAUSED:
            spent, n_iterations = run.spent, run.iterations
            result = run.run(
                self._execution.iterations, self._n_allowed, min(budget, self._cost_left // WALKED_OPERATION + 1)
            )
            yield run.iterations
            self._cost_left -= WALKED_OPERATION * (run.spent - spent)
            iteration_work = 0 if run.iterations > n_iterations + 1 else iteration_work + run.spent - spent
            if result == PAUSED and self._cost_left < 0:
                result = WIDE
            if result == PAUSED and iteration_work > max_work:
                raise TooWideError
        rows, iterations, signs = run.entries()
        heads = [np.flatnonzero(rows[:, 0] == head) for head in range(len(self._heads))]
        table.report(run, list(map(len, heads)))
        if result == WIDE:
            raise TooManyDerivedError
        if result == WRONG:
            raise AssertionError("a row of a recursion has fewer than no derivations")
        self._walked = {}
        for (name, head_order), chosen in zip(order.items(), heads, strict=True):
            if len(chosen):
                columns = [rows[chosen, 1 + head_order.index(column)] for column in range(len(head_order))]
                columns.append(iterations[chosen])
                rows_order = kernels.lexsort(columns)
                self._walked[name] = PhaseRows([column[rows_order] for column in columns], signs[chosen[rows_order]])

    def _spend(self, cost: int) -> None:
        """Count the cost of an iteration.

        Raises
        ------
        TooManyDerivedError
            If the tick exceeds its limit.
        """
        self._cost_left -= cost
        if self._cost_left < 0:
            raise TooManyDerivedError

    def _derive(self, step: int) -> None:
        """Store the derivations from this step's changes at their iterations.

        Raises
        ------
        TooManyDerivedError
            If the tick exceeds its limit of derivations.
        """
        for rule_join in self._rules:
            if not rule_join.has_seeds((0,)):
                continue
            head = rule_join.rule.head
            for columns, iterations, weights in derive(rule_join.join, self._heads[head].columns, step):
                self._histories[head].put(iterations, columns, weights)
                self._n_allowed -= len(weights)
                if self._n_allowed < 0:
                    raise TooManyDerivedError

    def _next(self) -> int | None:
        waiting = (history.next for history in self._histories.values())
        return min((iteration for iteration in waiting if iteration is not None), default=None)


def _committed_view(arrangement: Arrangement) -> Arrangement:
    """Return the arrangement as it was before the tick."""
    view = Arrangement(arrangement.key, arrangement.backend)
    view.spine = arrangement.spine
    return view


def _merge_phases(pending: Sequence[IndexedZSet]) -> tuple[IndexedZSet, ...]:
    """Merge the phases of a tick's change into one batch."""
    batches = [batch for batch in pending if batch.n_rows]
    if not batches:
        return ()
    merged = batches[0]
    for batch in batches[1:]:
        merged = merged.merge(batch)
    return (merged,)


MAINTAINED_PER_ROW = 4
"""Candidates and operations per row of `Kernels.walked_rows` at which an iteration is too large to be maintained so.

In the closure of wiki-Vote, ticks with such iterations took twice as long row at a time."""

DERIVED_PER_ROW = 1
"""Derivations from changes outside of a loop, per row of `Kernels.walked_rows`, up to which it is maintained so."""

UNKNOWN_COST = 4 * STORED_ROW
"""Cost per row of evaluating a loop from the empty state, if this has not been done since it was restored."""

GIVE_UP = 2
"""Ratio of the cost from the empty state to the cost at which a tick gives up and begins there."""

_UNLIMITED = 1 << 62
"""A limit of cost that no tick reaches."""

MAX_DERIVED_PER_ROW = 1
"""Derivations per row of the loop after which a tick is recomputed from the empty loop.

A derivation costs a tenth there, as sets need no counts.
"""

MIN_DERIVED_LIMIT = 1 << 18
"""Derivations that a tick may have, whatever the size of the loop."""

Entries = dict[str, dict[ArrangementKey, IndexedZSet]]
"""Per head, its entries in every order of its index."""


@dataclass(eq=False)
class Loop:
    """Mutually recursive heads.

    Attributes
    ----------
    relations
        The state of each head; for a head that keeps best values, its history.
    best
        Per head that keeps best values, the rows that the outside reads.
    outside
        The arrangements of other relations that the rules use.
    execution
        The execution of the circuit.
    joins
        The joins of the last tick.
    """

    plan: LoopPlan
    relations: Mapping[str, RankedIndex]
    best: Mapping[str, RelationIndex]
    outside: Mapping[ArrangementKey, Arrangement]
    execution: Execution
    joins: list[RuleJoin] = field(default_factory=list)
    _changes: dict[str, LoopChange] | None = None
    _last_cost: tuple[int, int] | None = None
    """Cost and rows of the last evaluation from the empty state."""

    def __post_init__(self) -> None:
        self._set = replace(self.execution, weighted=False)
        self._weighted = replace(self.execution, weighted=True)

    @property
    def cycle(self) -> str:
        """A cycle of heads as a text for messages."""
        return " reads ".join(f"'{name}'" for name in self.plan.cycle)

    def begin(self) -> None:
        """Discard the data of the previous tick."""
        self.joins = []
        self._changes = None

    def change(self, name: str) -> LoopChange:
        """Return this tick's change of one head; the first call evaluates all heads."""
        if self._changes is None:
            self._changes = self._evaluate()
        return self._changes[name]

    def _evaluate(self) -> dict[str, LoopChange]:
        for execution in (self._set, self._weighted):
            execution.threads = self.execution.threads
            execution.measures = self.execution.measures
            execution.begin()
        entries: Entries = {}
        if any(batch.n_rows for arrangement in self.outside.values() for batch in arrangement.pending):
            rows = sum(count_rows(index) for index in self.relations.values())
            if rows == 0:
                entries = self._run(SemiNaiveRun(self.plan, self.relations, self.outside, self._set))
            else:
                entries = self._maintain(rows)
        changes = {name: self._publish(index, entries.get(name, {})) for name, index in self.relations.items()}
        self._refuse_failures(changes)
        return changes

    def _maintain(self, rows: int) -> Entries:
        """Return the entries of a tick of a loop with rows."""
        if self.plan.size_limits:
            return self._recompute()
        max_cost = self._cost_from_empty(rows) // GIVE_UP
        with suppress(TooManyDerivedError):
            return self._follow(rows, max_cost)
        try:
            return self._recompute()
        except IterationLimitError:  # loops that grew tick by tick may need more iterations than their changes do
            with suppress(TooManyDerivedError):
                return self._follow(rows, None)
            raise

    def _follow(self, rows: int, max_cost: int | None) -> Entries:
        """Return the entries of a tick by its changes; None does not limit the cost."""
        max_derived = max(MIN_DERIVED_LIMIT, MAX_DERIVED_PER_ROW * rows)
        limit = _UNLIMITED if max_cost is None else int(max_cost)
        arguments = self.plan, self.relations, self.outside, self._weighted, max_derived, limit
        with suppress(TooWideError):
            return self._run(IncrementalRun(*arguments))
        return self._run(IncrementalRun(*arguments, walks=False))

    def _cost_from_empty(self, rows: int) -> int:
        """Estimate the cost of evaluating the loop from the empty state by that of the last time."""
        if self._last_cost is None:
            return UNKNOWN_COST * rows
        cost, rows_then = self._last_cost
        return max(cost, cost * rows // max(1, rows_then))

    def _recompute(self) -> Entries:
        """Return the entries of a tick by evaluating the loop from the empty state."""
        outside = {key: StateAsChange(outer, False, after=True) for key, outer in self.outside.items()}
        entries = self._run(SemiNaiveRun(self.plan, self.relations, outside, self._set))
        for name, index in self.relations.items():
            head_entries = entries.setdefault(name, {})
            for key, arrangement in index.arrangements.items():
                for before in arrangement.spine.compact().batches:
                    gone = IndexedZSet(before.values, before.offsets, -before.weight_column(), before.backend)
                    head_entries[key] = head_entries[key].merge(gone) if key in head_entries else gone
        return entries

    def _refuse_failures(self, changes: Mapping[str, LoopChange]) -> None:
        """Raise if a binding of a rule has an undefined value after the last iteration."""
        failed = {rule_join.join.query.rule for rule_join in self.joins if rule_join.join.may_have_failed}
        for rule in self.plan.rules:
            if rule.query.rule in failed:
                arrangements = dict(self.outside)
                for key in rule.query.keys:
                    if key.relation in self.relations:
                        arrangements[key] = self._visible(key)
                        arrangements[key].receive_delta(changes[key.relation].phases)
                refuse_failure(IncrementalGenericJoin(rule.query, arrangements, self._set))

    def _visible(self, key: ArrangementKey) -> Arrangement:
        """Return the committed rows of a head as the outside reads them."""
        if key.relation not in self.best:
            return self.relations[key.relation].view(key)
        arrangement = Arrangement(key, self.execution.backend)
        arrangement.receive_delta([PhaseRows(*self.best[key.relation].rows())])
        arrangement.commit()
        return arrangement

    def _run(self, run: SemiNaiveRun | IncrementalRun) -> Entries:
        self.joins = [*self.joins, *run.joins]
        budget = self.execution.budget
        for n_iterations in run.iterations():
            reserve(0, "the recursion")
            if budget is not None:
                budget.check_time()
            if n_iterations > self.execution.iterations:
                raise IterationLimitError(f"the recursion ({self.cycle})", self.execution.iterations)
        if isinstance(run, SemiNaiveRun):
            self._last_cost = run.cost, run.n_rows
        return run.result()

    def _publish(self, index: RankedIndex, entries: Mapping[ArrangementKey, IndexedZSet]) -> LoopChange:
        """Set the entries of a relation as pending in its arrangements.

        Return the change without ranks.
        """
        for key, arrangement in index.arrangements.items():
            arrangement.pending = (entries[key],) if key in entries else ()
        canonical_entries = entries.get(index.canonical)
        if index.name in self.best:
            return self._publish_best(index, canonical_entries)
        backend = self.execution.backend
        change = LoopChange(
            IndexedZSet.empty(index.columns, backend) if canonical_entries is None else unranked(canonical_entries)
        )
        index.receive_change(change, self.execution.weighted)
        return change

    def _publish_best(self, index: RankedIndex, entries: IndexedZSet | None) -> LoopChange:
        """Do the same for a head that keeps best values, from the entries of its history."""
        backend, best = self.execution.backend, self.best[index.name]
        change = LoopChange(IndexedZSet.empty(index.columns, backend))
        if entries is not None:
            better = ValueOrder(self.plan.best[index.name], self.execution)
            columns, weights = change_of_best(better, index.accumulated(), entries)
            order = self.plan.order(index.name)
            rows = [columns[order.index(column)] for column in range(index.columns)]
            change = LoopChange(IndexedZSet.from_columns(rows, weights, backend))
        best.receive_delta([change.as_bag] if self.execution.weighted else change.phases)
        return change


@dataclass(eq=False)
class LoopHead(RelationOperator):
    """A head of a loop.

    Attributes
    ----------
    relation
        Its state, as the outside reads it.
    derivations
        The history of a head that keeps best values.
    position
        Its position among the loop's heads; the first head reports the joins of all.
    """

    name: str
    loop: Loop
    relation: RelationIndex = field()  # pyright: ignore[reportIncompatibleVariableOverride]
    position: int
    derivations: RankedIndex | None = None  # pyright: ignore[reportIncompatibleVariableOverride]

    def begin(self) -> None:
        """Discard the data of the previous tick."""
        if self.position == 0:
            self.loop.begin()

    def evaluate(
        self,
        collect: bool,
        sink: PieceSink | None = None,  # noqa: ARG002  # rows are complete only at the end of the loop
    ) -> tuple[ChangeCount, list[PhaseRows] | None]:
        """Return this tick's change, from the pending changes of the loop's inputs."""
        change = self.loop.change(self.name)
        inserted, deleted = change.inserted, change.deleted
        if self.loop.execution.weighted:
            return ChangeCount(None, None, inserted - deleted), [change.as_bag] if collect else None
        return ChangeCount(inserted, deleted, inserted - deleted), change.phases if collect else None

    @property
    def joins(self) -> Sequence[IncrementalGenericJoin]:  # type: ignore[override]  # they are those of the last tick
        """Joins of the loop in the last tick, at its first head; else empty."""
        return [rule_join.join for rule_join in self.loop.joins] if self.position == 0 else ()

    @property
    def reads(self) -> tuple[str, ...]:
        """Names of the loop's heads and of the relations, or positive parts of bags, that it reads."""
        outside = dict.fromkeys(key.relation for key in self.loop.outside)
        return (*self.loop.relations, *outside, *(f"{name}#set" for name in outside))

    def stored_total(self) -> int:
        """Return the number of rows."""
        return count_rows(self.relation)


def loop_heads(loop: Loop) -> Iterator[LoopHead]:
    """Yield the loop's heads in its order."""
    for position, (name, relation) in enumerate(loop.relations.items()):
        if name in loop.best:
            yield LoopHead(name, loop, loop.best[name], position, relation)
        else:
            yield LoopHead(name, loop, relation, position)
