"""Bring a filled loop up to date: entries of this tick, iteration by iteration, until nothing waits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gpu_wcoj.circuit.recursion.asking import Asking
from gpu_wcoj.circuit.recursion.best import BestHistory, Better
from gpu_wcoj.circuit.recursion.derived import derived
from gpu_wcoj.circuit.recursion.history import SetHistory
from gpu_wcoj.circuit.recursion.ranked import RankedIndex
from gpu_wcoj.circuit.recursion.rule_join import RuleJoin
from gpu_wcoj.circuit.recursion.rules import LoopPlan
from gpu_wcoj.join.delta import IncrementalGenericJoin
from gpu_wcoj.join.execution import Execution
from gpu_wcoj.trace.arrangement import Arrangement, ArrangementKey
from gpu_wcoj.trace.spine import Spine
from gpu_wcoj.zset.index import IndexedZSet


class TooManyDerivedError(Exception):
    """A tick has derived more than it may."""


class Changes:
    """One tick of a loop that holds something.

    Parameters
    ----------
    heads
        The loop's relations.
    outside
        The arrangements of other relations, with this tick's change pending.
    execution
        With weights.
    most
        How many rows may be derived, rows that are derived several times counted as often.
    """

    def __init__(
        self,
        plan: LoopPlan,
        heads: Mapping[str, RankedIndex],
        outside: Mapping[ArrangementKey, Arrangement],
        execution: Execution,
        most: int,
    ) -> None:
        self._heads = heads
        self._left = most
        self._outside = outside
        self._views: dict[ArrangementKey, Arrangement] = {}
        before: dict[ArrangementKey, Arrangement] = {}
        for key, arrangement in outside.items():
            self._views[key], before[key] = _as_it_is(arrangement), _as_it_is(arrangement)
            self._views[key].pending = _as_one(arrangement.pending)
        for index in heads.values():
            for key, arrangement in index.arrangements.items():
                self._views[key], before[key] = _as_it_is(arrangement), _as_it_is(arrangement)
        self._rules = [
            RuleJoin(rule, IncrementalGenericJoin(rule.ranked, self._views, execution)) for rule in plan.rules
        ]
        self._histories: dict[str, SetHistory] = {}
        for name, index in heads.items():
            rules = [rule for rule in plan.rules if rule.head == name]
            if name in plan.best:
                asking = Asking(rules, before, execution, width=2)
                self._histories[name] = BestHistory(index, asking, Better(plan.best[name], execution))
            else:
                self._histories[name] = SetHistory(index, Asking(rules, before, execution))

    @property
    def joins(self) -> list[RuleJoin]:
        """The joins in use, to be asked for their work."""
        asking = [one for history in self._histories.values() for one in history.asking.joins]
        return [*self._rules, *asking]

    def iterations(self) -> Iterator[int]:
        """Run; yield the number of every iteration at which something was looked at."""
        self._derive(-1)
        for key, arrangement in self._outside.items():
            view = self._views[key]
            view.spine, view.pending = Spine(arrangement.after(len(arrangement.pending) - 1)), ()
        while (iteration := self._next()) is not None:
            yield iteration
            changed = []
            for name, history in self._histories.items():
                rows = history.emitted(iteration)
                if rows is not None:
                    changed.append(name)
                    for key in self._heads[name].arrangements:
                        self._views[key].pending = (self._views[key].index(rows),)
            if changed:
                self._derive(iteration)
            for name in changed:
                history, arrangements = self._histories[name], self._heads[name].arrangements
                history.take_in({key: self._views[key].pending[0] for key in arrangements})
                for key, arrangement in arrangements.items():
                    view = self._views[key]
                    view.spine = Spine((*arrangement.spine.batches, *history.entries[key].batches))
                    view.pending = ()

    def result(self) -> dict[str, dict[ArrangementKey, IndexedZSet]]:
        """Per relation, this tick's entries in every order that its index keeps."""
        found: dict[str, dict[ArrangementKey, IndexedZSet]] = {}
        for name, history in self._histories.items():
            for key, spine in history.entries.items():
                whole = spine.compact().batches
                if whole:
                    found.setdefault(name, {})[key] = whole[0]
        return found

    def _derive(self, step: int) -> None:
        """Let what this step's changes derive wait at its iterations.

        Raises
        ------
        TooManyDerivedError
            If the tick has derived more than it may.
        """
        for one in self._rules:
            if not one.begins((0,)):
                continue
            head = one.rule.head
            for columns, iterations, weights in derived(one.join, self._heads[head].columns, step):
                self._histories[head].put(iterations, columns, weights)
                self._left -= len(weights)
                if self._left < 0:
                    raise TooManyDerivedError

    def _next(self) -> int | None:
        waiting = (history.next for history in self._histories.values())
        return min((one for one in waiting if one is not None), default=None)


def _as_it_is(arrangement: Arrangement) -> Arrangement:
    """The arrangement as it was before the tick."""
    view = Arrangement(arrangement.key, arrangement.backend)
    view.spine = arrangement.spine
    return view


def _as_one(pending: Sequence[IndexedZSet]) -> tuple[IndexedZSet, ...]:
    """The phases of a tick's change as one."""
    batches = [batch for batch in pending if batch.n_rows]
    if not batches:
        return ()
    whole = batches[0]
    for batch in batches[1:]:
        whole = whole.merge(batch)
    return (whole,)
