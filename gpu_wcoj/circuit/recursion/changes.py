"""Incremental maintenance of a filled loop, iteration by iteration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gpu_wcoj.circuit.recursion.asking import DerivationQuery
from gpu_wcoj.circuit.recursion.best import BestHistory, ValueOrder
from gpu_wcoj.circuit.recursion.derived import derive
from gpu_wcoj.circuit.recursion.history import SetHistory
from gpu_wcoj.circuit.recursion.plan import LoopPlan
from gpu_wcoj.circuit.recursion.relation import RankedIndex
from gpu_wcoj.circuit.recursion.rule_join import RuleJoin
from gpu_wcoj.join.delta import IncrementalGenericJoin
from gpu_wcoj.join.execution import Execution
from gpu_wcoj.trace.arrangement import Arrangement, ArrangementKey
from gpu_wcoj.trace.spine import Spine
from gpu_wcoj.zset.index import IndexedZSet


class TooManyDerivedError(Exception):
    """A tick has exceeded its limit of derived rows."""


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
    """

    def __init__(
        self,
        plan: LoopPlan,
        heads: Mapping[str, RankedIndex],
        outside: Mapping[ArrangementKey, Arrangement],
        execution: Execution,
        max_derived: int,
    ) -> None:
        self._heads = heads
        self._n_allowed = max_derived
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
        """Run; yield every iteration that is evaluated."""
        self._derive(-1)
        for key, arrangement in self._outside.items():
            view = self._views[key]
            view.spine, view.pending = Spine(arrangement.after(len(arrangement.pending) - 1)), ()
        while (iteration := self._next()) is not None:
            yield iteration
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
        for name, history in self._histories.items():
            for key, spine in history.entries.items():
                batches = spine.compact().batches
                if batches:
                    entries.setdefault(name, {})[key] = batches[0]
        return entries

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
