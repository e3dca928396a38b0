"""Loops as parts of a circuit: heads that read each other, evaluated together and shown one by one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gpu_wcoj.circuit.afresh import as_change
from gpu_wcoj.circuit.failures import refuse_failure
from gpu_wcoj.circuit.head import ChangeCount, PieceSink
from gpu_wcoj.circuit.recursion.best import Better, change_of_best
from gpu_wcoj.circuit.recursion.changes import Changes, TooManyDerivedError
from gpu_wcoj.circuit.recursion.ranked import LoopChange, RankedIndex, rows_held, unranked
from gpu_wcoj.circuit.recursion.rule_join import RuleJoin
from gpu_wcoj.circuit.recursion.rules import LoopPlan
from gpu_wcoj.circuit.recursion.scratch import Scratch
from gpu_wcoj.errors import IterationLimitError
from gpu_wcoj.join.delta import IncrementalGenericJoin
from gpu_wcoj.join.execution import Execution
from gpu_wcoj.join.index import RelationIndex
from gpu_wcoj.trace.arrangement import Arrangement, ArrangementKey, PhaseRows
from gpu_wcoj.zset.index import IndexedZSet

MOST_DERIVED = 1
"""A tick that has derived more than so many rows for each row that the loop holds begins from the empty loop instead:
there a derivation costs a tenth, as sets need no counts."""

FEWEST_DERIVED = 1 << 18
"""What a tick may derive in any case."""

Found = dict[str, dict[ArrangementKey, IndexedZSet]]
"""Per head, its entries in every order that its index keeps."""


@dataclass(eq=False)
class Loop:
    """Heads that read each other.

    Attributes
    ----------
    relations
        The state of each head; of one that keeps best values, its history.
    best
        Of those, the rows that the outside sees.
    outside
        The arrangements of other relations that the rules use.
    execution
        The circuit's.
    joins
        Those of the last tick.
    """

    plan: LoopPlan
    relations: Mapping[str, RankedIndex]
    best: Mapping[str, RelationIndex]
    outside: Mapping[ArrangementKey, Arrangement]
    execution: Execution
    joins: list[RuleJoin] = field(default_factory=list)
    _changes: dict[str, LoopChange] | None = None

    def __post_init__(self) -> None:
        self._set = replace(self.execution, weighted=False)
        self._weighted = replace(self.execution, weighted=True)

    @property
    def cycle(self) -> str:
        """The heads from one of them back to itself, in words."""
        return " reads ".join(f"'{name}'" for name in self.plan.cycle)

    def begin(self) -> None:
        """Forget the tick before."""
        self.joins = []
        self._changes = None

    def change(self, name: str) -> LoopChange:
        """This tick's change of one head, found for all heads when the first of them is asked for."""
        if self._changes is None:
            self._changes = self._evaluated()
        return self._changes[name]

    def _evaluated(self) -> dict[str, LoopChange]:
        for execution in (self._set, self._weighted):
            execution.threads = self.execution.threads
            execution.measures = self.execution.measures
            execution.begin()
        found: Found = {}
        if any(batch.n_rows for arrangement in self.outside.values() for batch in arrangement.pending):
            rows = sum(rows_held(index) for index in self.relations.values())
            if rows == 0:
                found = self._run(Scratch(self.plan, self.relations, self.outside, self._set))
            else:
                try:
                    most = max(FEWEST_DERIVED, MOST_DERIVED * rows)
                    found = self._run(Changes(self.plan, self.relations, self.outside, self._weighted, most))
                except TooManyDerivedError:
                    found = self._anew()
        changes = {name: self._shown(index, found.get(name, {})) for name, index in self.relations.items()}
        self._refuse_failures(changes)
        return changes

    def _anew(self) -> Found:
        """The entries of a tick that changes so much that to begin from the empty loop is less work."""
        outside = {key: as_change(one, self._set, after=True) for key, one in self.outside.items()}
        found = self._run(Scratch(self.plan, self.relations, outside, self._set))
        for name, index in self.relations.items():
            own = found.setdefault(name, {})
            for key, arrangement in index.arrangements.items():
                for before in arrangement.spine.compact().batches:
                    gone = IndexedZSet(before.values, before.offsets, -before.weight_column(), before.backend)
                    own[key] = own[key].merge(gone) if key in own else gone
        return found

    def _refuse_failures(self, changes: Mapping[str, LoopChange]) -> None:
        """Raise if a binding of a rule lacks a value when the loop has ended; those of iterations may be gone."""
        failed = {one.join.query.rule for one in self.joins if one.join.may_have_failed}
        for rule in self.plan.rules:
            if rule.query.rule in failed:
                arrangements = dict(self.outside)
                for key in rule.query.keys:
                    if key.relation in self.relations:
                        arrangements[key] = self._visible(key)
                        arrangements[key].receive_delta(changes[key.relation].phases)
                refuse_failure(IncrementalGenericJoin(rule.query, arrangements, self._set))

    def _visible(self, key: ArrangementKey) -> Arrangement:
        """The committed rows of a head as the outside sees them."""
        if key.relation not in self.best:
            return self.relations[key.relation].view(key)
        arrangement = Arrangement(key, self.execution.backend)
        arrangement.receive_delta([PhaseRows(*self.best[key.relation].rows())])
        arrangement.commit()
        return arrangement

    def _run(self, run: Scratch | Changes) -> Found:
        self.joins = [*self.joins, *run.joins]
        for number, _ in enumerate(run.iterations()):
            if number >= self.execution.iterations:
                raise IterationLimitError(f"the recursion {self.cycle}", self.execution.iterations)
        return run.result()

    def _shown(self, index: RankedIndex, found: Mapping[ArrangementKey, IndexedZSet]) -> LoopChange:
        """Let a relation's arrangements hold its entries as pending; return the change without ranks."""
        for key, arrangement in index.arrangements.items():
            arrangement.pending = (found[key],) if key in found else ()
        own = found.get(index.canonical)
        if index.name in self.best:
            return self._shown_best(index, own)
        backend = self.execution.backend
        change = LoopChange(IndexedZSet.empty(index.columns, backend) if own is None else unranked(own))
        index.show(change, self.execution.weighted)
        return change

    def _shown_best(self, index: RankedIndex, entries: IndexedZSet | None) -> LoopChange:
        """The same of a head that keeps best values, from the entries of its history."""
        backend, best = self.execution.backend, self.best[index.name]
        change = LoopChange(IndexedZSet.empty(index.columns, backend))
        if entries is not None:
            better = Better(self.plan.best[index.name], self.execution)
            columns, weights = change_of_best(better, index.accumulated(), entries)
            order = self.plan.order(index.name)
            rows = [columns[order.index(column)] for column in range(index.columns)]
            change = LoopChange(IndexedZSet.from_columns(rows, weights, backend))
        best.receive_delta([change.as_bag] if self.execution.weighted else change.phases)
        return change


@dataclass(eq=False)
class LoopHead:
    """One head of a loop.

    Attributes
    ----------
    relation
        Its state, as the outside sees it.
    derivations
        The history of a head that keeps best values.
    number
        Its place among the loop's heads; the first speaks for what they share.
    """

    name: str
    loop: Loop
    relation: RelationIndex
    number: int
    derivations: RankedIndex | None = None
    weight_bound: int = 0
    pending_bound: int = 0

    def begin(self) -> None:
        """Forget the tick before."""
        if self.number == 0:
            self.loop.begin()

    def evaluate(
        self,
        collect: bool,
        sink: PieceSink | None = None,  # noqa: ARG002  # rows come when the loop has ended
    ) -> tuple[ChangeCount, list[PhaseRows] | None]:
        """This tick's change, from the pending changes of what the loop's rules read."""
        change = self.loop.change(self.name)
        inserted, deleted = change.inserted, change.deleted
        if self.loop.execution.weighted:
            return ChangeCount(None, None, inserted - deleted), [change.as_bag] if collect else None
        return ChangeCount(inserted, deleted, inserted - deleted), change.phases if collect else None

    @property
    def joins(self) -> Sequence[IncrementalGenericJoin]:
        """Those of the loop in the last tick, at its first head."""
        return [one.join for one in self.loop.joins] if self.number == 0 else ()

    @property
    def reads(self) -> tuple[str, ...]:
        """The heads of the loop, and what it reads of others: relations, or sets of a bag's rows."""
        outside = dict.fromkeys(key.relation for key in self.loop.outside)
        return (*self.loop.relations, *outside, *(f"{name}#set" for name in outside))

    @property
    def state(self) -> tuple[RelationIndex, ...]:
        """What the head keeps between ticks."""
        return (self.relation,) if self.derivations is None else (self.derivations, self.relation)


def loop_heads(loop: Loop) -> Iterator[LoopHead]:
    """The loop's heads, in its order."""
    for number, (name, relation) in enumerate(loop.relations.items()):
        if name in loop.best:
            yield LoopHead(name, loop, loop.best[name], number, relation)
        else:
            yield LoopHead(name, loop, relation, number)
