"""Counts of a change as the difference of two whole counts, where that costs less than following the change.

A tick of a set is two half-ticks, which first delete and then insert; each brings as many rows as the head has more
after it than before. Where the number before is known, which it is as long as every tick is counted, one whole count is
enough. Whether it is worth it is decided by counted work, weighed: that of a sample of the change, and that of the last
whole count, or as long as there is none that of a sample of its seeds. A whole count that turns out to cost more is
given up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

from gpu_wcoj.join.delta import IncrementalGenericJoin
from gpu_wcoj.join.execution import Execution
from gpu_wcoj.join.path import DeltaQuery
from gpu_wcoj.join.summing import AllowanceError, carrying, may_sum
from gpu_wcoj.join.whole import SAMPLED, Moment, WholeJoin, costed_in, report
from gpu_wcoj.trace.arrangement import Arrangement
from gpu_wcoj.zset.index import IndexedZSet

FEWEST_CHANGED = 1024
"""Where fewer rows than this change, nobody asks whether to recount."""

FEWEST_ON_DEVICE = 1 << 16
"""Likewise where a device would be waited for."""

CHEAPEST = 4
"""A whole count costs so many candidates a row at least."""

MARGIN = 0.5
"""A whole count has to promise that it costs no more than this part of what following the change costs."""

TRYING = 0.03
"""Of what following the change costs, how much may be spent on samples of a whole count."""

PROBE = 0.1
"""Of what following the change costs, how much is risked on a whole count that may sum variables away."""

SPARED, MOST_PASSED_OVER = 1.25, 15
"""While a change seems to cost less than a whole count divided by this, it is tried once in so many ticks and one."""

PLAIN = 1.0
"""Where nothing can be summed away a whole count is one more generic join. It is tried if a change starts more than so
many times as many rows."""

GROWN = 1.5
"""A whole count is given another chance when so many times as much may be risked, or the state has changed as much."""

Declined = Literal["tried", "given up", "overflow"]
"""Why a change is followed though a whole count was thought of: samples of it promise too little, it has turned out to
cost too much, or weights might have left int64."""


@dataclass(frozen=True)
class Recounted:
    """How one phase of a tick has been counted, and what that cost.

    Costs are no counts: they weigh what the kernels and the join have done by the time that it takes, where testing one
    candidate is 1; see `gpu_wcoj.join.summing`.

    Attributes
    ----------
    phase
        0 for what goes and 1 for what comes; 0 in a bag.
    cost
        Of the whole counts.
    instead
        What following the change would have cost, by a sample of it.
    paths
        Per rule, the delta path along which all is counted.
    """

    phase: int
    cost: int
    instead: float
    paths: tuple[int, ...] = ()

    def __str__(self) -> str:
        return (
            f"counted afresh for a cost of {self.cost:,} instead of about {self.instead:,.0f}, where testing one "
            "candidate costs 1"
        )


@dataclass(frozen=True)
class _Known:
    """What a whole count costs.

    Attributes
    ----------
    costs
        Per rule.
    size
        How many rows the atoms had then.
    paths
        Per rule, the path to take.
    is_measured
        Whether there was one; otherwise it is what it would cost without summing.
    in_vain
        The largest allowance that has not sufficed.
    least
        What it costs to begin.
    """

    costs: tuple[float, ...]
    size: int
    paths: tuple[int, ...]
    is_measured: bool = False
    in_vain: float = 0.0
    least: float = 0.0

    @property
    def cost(self) -> float:
        """Of all rules; nothing while an atom of each is empty, which tells nothing of other states."""
        return sum(self.costs)


def may_recount(queries: Sequence[DeltaQuery], weighted: bool) -> bool:
    """Whether whole counts of these rules can stand in for counts of their changes, if nothing is stored of them.

    What is calculated may fail, which has to be seen in the change. A bag's rows must each come from one binding, so
    that no weight leaves int64 unseen.
    """
    for query in queries:
        if query.calculations:
            return False
        if weighted and not all(query.head_variables.issuperset(path.order) for path in query.paths):
            return False
    return bool(queries)


@dataclass(eq=False)
class Recounting:
    """Whole counts of one head, and what is known of their cost; that changes no answer, so that no tick undoes it.

    Attributes
    ----------
    joins
        One per rule.
    last
        How the phases of the last tick were counted, where that was afresh.
    declined
        Why others of its phases were not, where that was thought of.
    """

    joins: Sequence[IncrementalGenericJoin]
    execution: Execution
    last: list[Recounted] = field(default_factory=list)
    declined: list[Declined] = field(default_factory=list)
    _known: _Known | None = field(default=None, init=False)
    _followed: tuple[int, float] | None = field(default=None, init=False)
    _passed_over: int = field(default=0, init=False)

    @cached_property
    def is_possible(self) -> bool:
        """Whether a whole count may take the place of a change's."""
        return may_recount([join.query for join in self.joins], self.execution.weighted)

    @cached_property
    def counts_state(self) -> bool:
        """Whether a whole count is that of the committed state, of which no weight is outside int64."""
        return bool(self.joins) and not any(join.query.calculations for join in self.joins)

    def begin(self) -> None:
        """Forget how the tick before was counted."""
        self.last.clear()
        self.declined.clear()

    def change(self, phase: int, before: int | None) -> tuple[int, int] | None:
        """By how much the sum of weights changes in a phase, and what it is then; None where following is cheaper.

        Parameters
        ----------
        before
            What it is before, if that is known.
        """
        fewest = FEWEST_CHANGED if self.execution.backend.device is None else FEWEST_ON_DEVICE
        for one in self._seeds:
            if one.pending and one.pending[phase].n_rows >= fewest:
                break
        else:
            return None
        if not self.execution.recounts or self.execution.share is not None or not self.is_possible:
            return None
        counts = 1 if before is not None else 2
        if self._is_hopeless(phase, counts):
            return None
        if self.execution.backend.device is not None and all(join.is_empty for join in self.joins):
            return None  # the change is all that there is, and trying waits for the device
        moment = Moment(phase + 1)
        following = self._following(phase, counts * CHEAPEST * self._size(moment) / MARGIN)
        allowance = self._allowance(following / counts, moment)
        if allowance is None:
            self.declined.append("tried")
            return None
        try:
            after, cost = self._whole(moment, allowance)
            if before is None:
                before, more = self._whole(Moment(phase), allowance)
                cost += more
        except AllowanceError:
            assert self._known is not None
            self._known = replace(self._known, in_vain=allowance)
            self.declined.append("given up")
            return None
        if self.execution.weighted and self.bound() >= 1 << 63:
            self.declined.append("overflow")
            return None
        assert self._known is not None
        self.last.append(Recounted(phase, cost, following, self._known.paths))
        return after - before, after

    def total(self) -> int:
        """The sum of weights of the committed state, whatever it costs."""
        moment, before = Moment(0), self._known
        if before is None or not self._is_near(moment):
            self._known = self._looked(moment, None)
        try:
            return self._whole(moment, None)[0]
        except BaseException:
            self._known = before  # the cost of a path that is taken in any case is not known
            raise

    def bound(self) -> int:
        """What no weight of a row exceeds after the tick, if each comes from one binding."""
        total = 0
        for join in self.joins:
            product = 1
            for arrangement in join.positive:
                product *= sum(batch.largest_weight for batch in Moment(1).batches(arrangement))
            total += product
        return total

    def _changes(self, phase: int) -> Iterator[tuple[IncrementalGenericJoin, int, IndexedZSet]]:
        """The changes that start paths: rule, path, rows."""
        for join in self.joins:
            for number in join.followed:
                seeds = join.arrangements[join.query.paths[number].seed.key].delta(phase)
                if seeds is not None:
                    yield join, number, seeds

    def _is_hopeless(self, phase: int, counts: int) -> bool:
        """Whether rows would have to cost several times what they did when that was last tried; now and then it is not.

        A tick that is not much too small is not spared the trying. So many whole counts are needed.
        """
        if self._passed_over >= MOST_PASSED_OVER:
            self._passed_over = 0
            return False
        if not self._sums and not self._starts_more(phase, counts):
            self._passed_over += 1
            return True
        if self._followed is None:
            return False
        size, known = self._size(Moment(phase + 1)), self._known
        rows = sum(seeds.n_rows for _, _, seeds in self._changes(phase))
        share = rows / max(1, self._followed[0])
        worth = SPARED * self._followed[1] / counts
        worth *= share if share > 1 else share**0.5  # fewer rows look alike less often
        hopeless = worth * MARGIN < CHEAPEST * size
        if known is not None and not self._may_pay(worth, size, known):
            hopeless = True
        self._passed_over += hopeless
        return hopeless

    def _starts_more(self, phase: int, counts: int) -> bool:
        """Whether a change starts paths with more rows than whole counts do, which take the smallest atoms."""
        change = sum(seeds.n_rows for join, number, seeds in self._changes(phase) if join.is_live(number, phase))
        moment, rows = Moment(phase + 1), 0
        for join in self.joins:
            held = (moment.batches(arrangement) for arrangement in join.positive)
            rows += min(map(_held, held))
        return change > PLAIN * counts * rows

    def _following(self, phase: int, least: float) -> float:
        """About what it costs to follow the change; more roughly if that is far less than `least`."""
        from gpu_wcoj.join.tried import Trial, tried  # which programs that only list answers have no use for

        cost, rows = 0.0, 0
        changes = list(self._changes(phase))
        matters = least / max(1, len(changes)), float("inf")
        for join, number, seeds in changes:
            rows += seeds.n_rows
            generic = join.generic_join(number, phase)
            if generic is not None:
                path = join.query.paths[number]
                batches = [join.arrangements[use.key].pending[phase] for use in path.seeds]
                sample = costed_in(carrying(generic, path), self.execution)  # it is no part of following the change
                cost += tried(Trial(path, batches, seeds.n_rows, sample, not self.execution.weighted), *matters)
                report(join, [sample], SAMPLED)
        if not any(join.is_empty for join in self.joins):  # else there is one path only
            self._followed = rows, cost
        return cost

    def _whole(self, moment: Moment, most: float | None) -> tuple[int, int]:
        """The sum of weights at a moment, and what it cost."""
        known, size = self._known, self._size(moment)
        assert known is not None
        total, costs = 0, list[float]()
        for join, number, before in zip(self.joins, known.paths, known.costs, strict=True):
            expected = before * size / max(1, known.size) if before else float("inf")
            found, cost = WholeJoin(join, moment).total(number, None if most is None else most - sum(costs), expected)
            total += found
            costs.append(cost)
        self._known = _Known(tuple(costs), size, known.paths, is_measured=True)
        return total, int(sum(costs))

    def _allowance(self, worth: float, moment: Moment) -> float | None:
        """What a whole count may cost; None if it is not worth trying."""
        size = self._size(moment)
        if worth * MARGIN < CHEAPEST * size:
            return None
        if self._known is None or not ((self._known.is_measured and self._known.cost) or self._is_near(moment)):
            self._known = self._looked(moment, TRYING * worth, worth)
        known = self._known
        if not self._may_pay(worth, size, known):
            return None
        return worth if known.cost * size <= worth * MARGIN * max(1, known.size) else PROBE * worth

    def _may_pay(self, worth: float, size: int, known: _Known) -> bool:
        """Whether a whole count may cost less, by what is known, or else if more is summed away than that tells."""
        if known.cost * size <= worth * MARGIN * max(1, known.size):
            return True
        least = max(GROWN * known.in_vain, known.least * size / max(1, known.size))
        return self._sums and not known.is_measured and PROBE * worth > least

    def _looked(self, moment: Moment, most: float | None, worth: float = float("inf")) -> _Known:
        """What whole counts cost by samples, along the cheapest paths; `most` is what trying may cost.

        Paths that cost far more than `worth` are tried more roughly.
        """
        paths, found, least = [], list[float](), 0
        for join, numbers in zip(self.joins, self._unlike, strict=True):
            whole = WholeJoin(join, moment)
            if most is None and len(numbers) == 1:
                costs = {numbers[0]: float("inf")}  # it is taken, whatever it costs
            else:
                costs = whole.tried(numbers, None if most is None else most / len(numbers), worth)
            paths.append(min(costs, key=costs.__getitem__))
            found.append(costs[paths[-1]])
            least += whole.least(paths[-1])
        return _Known(tuple(found), self._size(moment), tuple(paths), least=least)

    def _is_near(self, moment: Moment) -> bool:
        """Whether what is known is of a state of about this size."""
        known = self._known
        if known is None or not known.cost:
            return False
        return known.size / GROWN <= self._size(moment) <= known.size * GROWN

    def _size(self, moment: Moment) -> int:
        """How many rows the atoms have."""
        seen = {arrangement.key: arrangement for join in self.joins for arrangement in join.positive}
        return sum(_held(moment.batches(arrangement)) for arrangement in seen.values())

    @cached_property
    def _sums(self) -> bool:
        """Whether variables can be summed away."""
        return any(may_sum(path) for join in self.joins for path in join.query.paths if not path.is_negated)

    @cached_property
    def _unlike(self) -> list[tuple[int, ...]]:
        """Per rule, the paths that it makes a difference to count along, as far as can be told from the rule."""
        from gpu_wcoj.join.images import unlike  # which programs that are not asked for counts have no use for

        return [unlike(join.query) for join in self.joins]

    @cached_property
    def _seeds(self) -> list[Arrangement]:
        """The arrangements whose changes start paths, each once."""
        keys = dict.fromkeys((join, path.seed.key) for join in self.joins for path in join.query.paths)
        found = {key: join.arrangements[key] for join, key in keys}
        return list(found.values())


def _held(batches: Sequence[IndexedZSet]) -> int:
    """How many rows there are, where each that is gone has one of weight -1 beside it; never less than none."""
    return max(0, sum(len(batch) - 2 * batch.n_negative for batch in batches))
