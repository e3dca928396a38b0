"""Full recomputation of counts and rows, used where following the change costs more.

A tick of a set is two half-ticks, which first delete and then insert; the change of each is the difference of the
counts after and before it. If the count before is known, which it is as long as every tick is counted, one full count
is enough. The choice compares weighted work: that of a sample of the incremental count with that of the last full count
or, if there is none, of a sample of its seeds. A full count that exceeds its allowance is aborted.

Rows are listed along delta paths first, up to a limit that follows from the cost of listing all rows (`ListingCosts`).
Beyond it, all rows are listed, and the change is the difference to the rows before the tick.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

from gpu_wcoj.costs import SEED
from gpu_wcoj.join.delta import IncrementalGenericJoin, distinct_paths
from gpu_wcoj.join.eliminate import AllowanceError, can_eliminate, with_weights
from gpu_wcoj.join.full_join import (
    SAMPLED,
    CountEstimate,
    FullJoin,
    Moment,
    estimate_cost,
    report_work,
    with_metered_budget,
)
from gpu_wcoj.join.plan import DeltaQuery
from gpu_wcoj.join.settings import Execution
from gpu_wcoj.trace.arrangement import Arrangement
from gpu_wcoj.zset.index import IndexedZSet

MIN_CHANGED = 1024
"""Minimum changed rows of a relation for which full recomputation is considered."""

MIN_CHANGED_ON_DEVICE = 1 << 16
"""Minimum changed rows on a device, where the choice has to wait for the device."""

MIN_CANDIDATES_PER_ROW = 4
"""Lower bound of the cost of a full count, in nanoseconds per row of the atoms."""

MAX_COST_RATIO = 0.5
"""Maximum estimated cost of a full count, as a fraction of the cost of the incremental count."""

SAMPLING_BUDGET = 0.03
"""Budget for sampling a full count, as a fraction of the cost of the incremental count."""

RISKED_COST_RATIO = 0.1
"""Allowance of a full count with variable elimination, as a fraction of the cost of the incremental count."""

SKIP_MARGIN, MAX_SKIPPED_TICKS = 1.25, 15
"""The cost ratio below which sampling is skipped, and the maximum number of ticks in a row that skip it.

Sampling is skipped while the expected cost of the incremental count, times the ratio, is below that of a full count.
"""

MIN_SEED_RATIO = 1.0
"""Minimum ratio of seed rows of the change to those of full counts if no variable can be eliminated.

Without variable elimination a full count is an ordinary generic join.
"""

RETRY_GROWTH = 1.5
"""Growth factor of the allowance, or change of the state's size, after which a full count is tried again."""

Declined = Literal["tried", "given up", "overflow"]
"""Reason for not using full recomputation: its samples cost too much, it was aborted, or weights may leave int64."""


@dataclass(frozen=True)
class Recounted:
    """One phase of a tick that was counted by full recomputation, with its costs.

    Costs weight the work of kernels and joins by the time it takes, in units of testing one candidate; see
    `gpu_wcoj.join.eliminate`.

    Attributes
    ----------
    phase
        0 for deletions and 1 for insertions; 0 in a bag.
    cost
        Cost of the full counts.
    instead
        Estimated cost of the incremental count, from a sample.
    paths
        Per rule, the delta path of the full count.
    lists
        Whether rows were listed, and compared with those before.
    """

    phase: int
    cost: int
    instead: float
    paths: tuple[int, ...] = ()
    lists: bool = False

    def __str__(self) -> str:
        done = "listed" if self.lists else "counted"
        return (
            f"{done} afresh for a cost of {self.cost:,} instead of about {self.instead:,.0f}, where testing one "
            "candidate costs 1"
        )


@dataclass(frozen=True)
class _CostEstimate:
    """The cost of a full count.

    Attributes
    ----------
    costs
        Cost per rule.
    size
        Number of rows of the atoms at that time.
    paths
        The chosen path per rule.
    is_measured
        Whether a full count was run; otherwise the cost is estimated without variable elimination.
    failed_allowance
        The largest allowance that was exceeded.
    min_cost
        Minimum cost of starting a full count.
    """

    costs: tuple[float, ...]
    size: int
    paths: tuple[int, ...]
    is_measured: bool = False
    failed_allowance: float = 0.0
    min_cost: float = 0.0

    @property
    def cost(self) -> float:
        """Cost of all rules; 0 while each rule has an empty atom."""
        return sum(self.costs)


def may_recount(queries: Sequence[DeltaQuery], weighted: bool) -> bool:
    """Return whether full counts of these rules can replace counts of their changes.

    Rules with calculations are excluded, as errors must be detected in the change. Each row of a bag must come from one
    binding, so that no overflow of a weight goes undetected.
    """
    for query in queries:
        if query.calculations:
            return False
        if weighted and not all(query.head_variables.issuperset(path.order) for path in query.paths):
            return False
    return bool(queries)


@dataclass(eq=False)
class Recounting:
    """Full counts of one head, and estimates of their cost.

    The estimates do not affect answers, so undoing a tick keeps them.

    Attributes
    ----------
    joins
        One per rule.
    recounted
        The phases of the last tick that were counted by full recomputation.
    declined
        Reasons for which full recomputation was considered but not used for other phases of the last tick.
    """

    joins: Sequence[IncrementalGenericJoin]
    execution: Execution
    recounted: list[Recounted] = field(default_factory=list)
    declined: list[Declined] = field(default_factory=list)
    _estimate: _CostEstimate | None = field(default=None, init=False)
    _followed: tuple[int, float] | None = field(default=None, init=False)
    _skipped_ticks: int = field(default=0, init=False)

    @cached_property
    def is_possible(self) -> bool:
        """True if a full count may replace the count of a change."""
        return may_recount([join.query for join in self.joins], self.execution.weighted)

    @cached_property
    def counts_state(self) -> bool:
        """True if a full count gives the weight of the committed state."""
        return bool(self.joins) and not any(join.query.calculations for join in self.joins)

    def begin(self) -> None:
        """Discard the records of the previous tick."""
        self.recounted.clear()
        self.declined.clear()

    def change(self, phase: int, before: int | None) -> tuple[int, int] | None:
        """Return the change of the sum of weights in a phase, and the new sum.

        None if delta paths are cheaper.

        Parameters
        ----------
        before
            The sum before the phase, if known.
        """
        min_rows = MIN_CHANGED if self.execution.backend.device is None else MIN_CHANGED_ON_DEVICE
        for arrangement in self._seed_arrangements:
            if arrangement.pending and arrangement.pending[phase].n_rows >= min_rows:
                break
        else:
            return None
        execution = self.execution
        if (
            not (execution.recounts and execution.uses("recounts"))
            or execution.share is not None
            or not self.is_possible
        ):
            return None
        counts = 1 if before is not None else 2
        if self._is_hopeless(phase, counts):
            return None
        if all(join.is_empty for join in self.joins) and (
            self.execution.backend.device is not None or all(join.query.load for join in self.joins)
        ):
            return None  # the change is the whole state: it has a plan, or sampling waits for the device
        moment = Moment(phase + 1)
        following = self._incremental_cost(phase, counts * MIN_CANDIDATES_PER_ROW * self.size(moment) / MAX_COST_RATIO)
        allowance = self._allowance(following / counts, moment)
        if allowance is None:
            self.declined.append("tried")
            return None
        try:
            after, cost = self._recompute(moment, allowance)
            if before is None:
                before, more = self._recompute(Moment(phase), allowance)
                cost += more
        except AllowanceError:
            assert self._estimate is not None
            self._estimate = replace(self._estimate, failed_allowance=allowance)
            self.declined.append("given up")
            return None
        if self.execution.weighted and self.bound() >= 1 << 63:
            self.declined.append("overflow")
            return None
        assert self._estimate is not None
        self.recounted.append(Recounted(phase, cost, following, self._estimate.paths))
        return after - before, after

    def total(self) -> int:
        """Return the sum of weights of the committed state, without a cost limit."""
        moment, before = Moment(0), self._estimate
        if before is None or not self._is_estimate_current(moment):
            self._estimate = self._estimate_costs(moment, None)
        try:
            return self._recompute(moment, None)[0]
        except BaseException:
            self._estimate = before  # the cost of the only path is unknown
            raise

    def bound(self) -> int:
        """Return an upper bound of the weights after the tick, if each row comes from one binding."""
        total = 0
        for join in self.joins:
            product = 1
            for arrangement in join.positive:
                product *= sum(batch.largest_weight for batch in Moment(1).batches(arrangement))
            total += product
        return total

    def _changes(self, phase: int) -> Iterator[tuple[IncrementalGenericJoin, int, IndexedZSet]]:
        """Yield the changes that seed delta paths: join, path index, rows."""
        for join in self.joins:
            for path_index in join.followed_paths:
                seeds = join.arrangements[join.query.paths[path_index].seed.key].delta(phase)
                if seeds is not None:
                    yield join, path_index, seeds

    def _is_hopeless(self, phase: int, counts: int) -> bool:
        """Return whether sampling can be skipped, as full recomputation is too expensive.

        Once in `MAX_SKIPPED_TICKS` + 1 ticks it is never skipped. `counts` is the number of full counts needed.
        """
        if self._skipped_ticks >= MAX_SKIPPED_TICKS:
            self._skipped_ticks = 0
            return False
        if not self._eliminates and not self._starts_more(phase, counts):
            self._skipped_ticks += 1
            return True
        if self._followed is None:
            return False
        size, estimate = self.size(Moment(phase + 1)), self._estimate
        rows = sum(seeds.n_rows for _, _, seeds in self._changes(phase))
        share = rows / max(1, self._followed[0])
        worth = SKIP_MARGIN * self._followed[1] / counts
        worth *= share if share > 1 else share**0.5  # fewer rows share work less often
        hopeless = worth * MAX_COST_RATIO < MIN_CANDIDATES_PER_ROW * size
        if estimate is not None and not self._may_pay(worth, size, estimate):
            hopeless = True
        self._skipped_ticks += hopeless
        return hopeless

    def _starts_more(self, phase: int, counts: int) -> bool:
        """Return whether a change has more seed rows than full counts."""
        change = sum(
            seeds.n_rows for join, path_index, seeds in self._changes(phase) if join.is_live(path_index, phase)
        )
        moment, rows = Moment(phase + 1), 0
        for join in self.joins:
            atom_batches = (moment.batches(arrangement) for arrangement in join.positive)
            rows += min(map(_count_rows, atom_batches))
        return change > MIN_SEED_RATIO * counts * rows

    def _incremental_cost(self, phase: int, min_cost: float) -> float:
        """Estimate the cost of the incremental count.

        More roughly if it is far less than `min_cost`.
        """
        cost, rows = 0.0, 0
        changes = list(self._changes(phase))
        matters = min_cost / max(1, len(changes)), float("inf")
        for join, path_index, seeds in changes:
            rows += seeds.n_rows
            generic = join.generic_join(path_index, phase)
            if generic is not None:
                path = join.query.paths[path_index]
                batches = [join.arrangements[use.key].pending[phase] for use in path.seeds]
                sample = with_metered_budget(
                    with_weights(generic, path), self.execution
                )  # not part of the incremental count
                cost += estimate_cost(
                    CountEstimate(path, batches, seeds.n_rows, sample, not self.execution.weighted), *matters
                )
                report_work(join, [sample], SAMPLED)
        if not any(join.is_empty for join in self.joins):  # else there is one path only
            self._followed = rows, cost
        return cost

    def _recompute(self, moment: Moment, max_cost: float | None) -> tuple[int, int]:
        """Return the sum of weights at a moment, and the cost of the full count."""
        estimate, size = self._estimate, self.size(moment)
        assert estimate is not None
        total, costs = 0, list[float]()
        for join, path_index, before in zip(self.joins, estimate.paths, estimate.costs, strict=True):
            expected = before * size / max(1, estimate.size) if before else float("inf")
            change, cost = FullJoin(join, moment).total(
                path_index, None if max_cost is None else max_cost - sum(costs), expected
            )
            total += change
            costs.append(cost)
        self._estimate = _CostEstimate(tuple(costs), size, estimate.paths, is_measured=True)
        return total, int(sum(costs))

    def _allowance(self, worth: float, moment: Moment) -> float | None:
        """Return the maximum cost of a full count; None if it is not worthwhile."""
        size = self.size(moment)
        if worth * MAX_COST_RATIO < MIN_CANDIDATES_PER_ROW * size:
            return None
        if self._estimate is None or not (
            (self._estimate.is_measured and self._estimate.cost) or self._is_estimate_current(moment)
        ):
            self._estimate = self._estimate_costs(moment, SAMPLING_BUDGET * worth, worth)
        estimate = self._estimate
        if not self._may_pay(worth, size, estimate):
            return None
        return (
            worth
            if estimate.cost * size <= worth * MAX_COST_RATIO * max(1, estimate.size)
            else RISKED_COST_RATIO * worth
        )

    def _may_pay(self, worth: float, size: int, estimate: _CostEstimate) -> bool:
        """Return whether a full count may cost less, by its estimate or by variable elimination."""
        if estimate.cost * size <= worth * MAX_COST_RATIO * max(1, estimate.size):
            return True
        min_allowance = max(RETRY_GROWTH * estimate.failed_allowance, estimate.min_cost * size / max(1, estimate.size))
        return self._eliminates and not estimate.is_measured and RISKED_COST_RATIO * worth > min_allowance

    def _estimate_costs(self, moment: Moment, max_cost: float | None, worth: float = float("inf")) -> _CostEstimate:
        """Estimate the cost of full counts along the cheapest paths by samples.

        The samples cost at most `max_cost`.

        Paths that cost far more than `worth` are sampled more roughly.
        """
        paths, chosen_costs, min_cost = [], list[float](), 0
        for join, path_indices in zip(self.joins, self._distinct_paths, strict=True):
            whole_join = FullJoin(join, moment)
            if max_cost is None and len(path_indices) == 1:
                costs = {path_indices[0]: float("inf")}  # the only path, whatever it costs
            else:
                costs = whole_join.estimate_costs(
                    path_indices, None if max_cost is None else max_cost / len(path_indices), worth
                )
            paths.append(min(costs, key=costs.__getitem__))
            chosen_costs.append(costs[paths[-1]])
            min_cost += whole_join.seed_cost(paths[-1])
        return _CostEstimate(tuple(chosen_costs), self.size(moment), tuple(paths), min_cost=min_cost)

    def _is_estimate_current(self, moment: Moment) -> bool:
        """Return whether the estimate is for a state of about this size."""
        estimate = self._estimate
        if estimate is None or not estimate.cost:
            return False
        return estimate.size / RETRY_GROWTH <= self.size(moment) <= estimate.size * RETRY_GROWTH

    def size(self, moment: Moment) -> int:
        """Return the number of rows of the atoms."""
        seen = {arrangement.key: arrangement for join in self.joins for arrangement in join.positive}
        return sum(_count_rows(moment.batches(arrangement)) for arrangement in seen.values())

    @cached_property
    def _eliminates(self) -> bool:
        """True if variables can be eliminated."""
        return any(can_eliminate(path) for join in self.joins for path in join.query.paths if not path.is_negated)

    @cached_property
    def _distinct_paths(self) -> list[tuple[int, ...]]:
        """Per rule, one path of each class of paths that automorphisms of the rule make equivalent."""
        return [distinct_paths(join.query) for join in self.joins]

    @cached_property
    def _seed_arrangements(self) -> list[Arrangement]:
        """The distinct arrangements whose changes seed delta paths."""
        keys = dict.fromkeys((join, path.seed.key) for join in self.joins for path in join.query.paths)
        arrangements = {key: join.arrangements[key] for join, key in keys}
        return list(arrangements.values())


# Full recomputation of the rows of a head.


MIN_LIMIT = 1 << 18
"""Cost of listing a change up to which it is not given up; about a quarter of a millisecond.

Listing all rows takes longer, whatever they cost."""

RISKED_FRACTION, MAX_FRACTION = 0.125, 1.25
"""Cost at which listing a change is given up, as a fraction of the cost of listing all rows, at least and at most.

In between, it is given up at twice the cost that is expected of it."""

MIN_GAIN = 1.5
"""Factor by which listing all rows has to be cheaper than a change."""

MIN_SAMPLED_FRACTION = 1 / 16
"""Rows that start a path, as a fraction of the rows of the atoms, from which on samples tell the cost of a change."""

FORGOTTEN = 7 / 8
"""Part of the expected cost of a change that is left after each tick that lists all rows, so that it is tried again."""

GIVEN_UP_FACTOR = 2.0
"""Expected cost of a change like one that was given up, as a factor of the cost of listing all rows."""

MAX_SAMPLED_RATIO = 64.0
"""Cost of listing all rows up to which samples look for it, as a factor of what the change has cost so far."""

MAX_OVERRUN = 4.0
"""Factor by which listing all rows may cost more than expected before it is given up."""


@dataclass(eq=False)
class ListingCosts:
    """Costs of listing the rows of a head, and their changes, by the last ticks.

    The costs do not affect answers, so undoing a tick keeps them.

    Attributes
    ----------
    all_rows
        Cost of listing all rows, None if unknown.
    size
        Rows of the atoms at that time.
    per_seed
        Cost of a change per row that starts a path.
    is_followed
        Whether the last change was listed to its end.
    """

    all_rows: float | None = None
    size: int = 0
    per_seed: float = 0.0
    is_followed: bool = True

    def is_sampled(self, n_seeds: int, size: int) -> bool:
        """Return whether samples tell the cost of a change: a large one, if the last was listed.

        After a change that was not, a later one is tried without samples: replanning learns from what it costs.
        """
        return self.is_followed and n_seeds >= max(MIN_CHANGED, MIN_SAMPLED_FRACTION * size)

    def expected(self, size: int) -> float | None:
        """Return the cost of listing all rows of a state of `size` rows, None if it is unknown."""
        if self.all_rows is None or not self.size / RETRY_GROWTH <= max(1, size) <= self.size * RETRY_GROWTH:
            return None
        return self.all_rows * size / self.size

    def limit(self, n_seeds: int, size: int) -> float:
        """Return the cost at which listing a change is given up; 0 if it is not begun."""
        all_rows = self.expected(size)
        if all_rows is None:
            return max(MIN_LIMIT, SEED * size)
        all_rows *= MIN_GAIN
        change = n_seeds * self.per_seed
        if change > max(MIN_LIMIT, all_rows):
            self.per_seed *= FORGOTTEN
            self.is_followed = False
            return 0.0
        return max(MIN_LIMIT, RISKED_FRACTION * all_rows, min(2 * change, MAX_FRACTION * all_rows))

    def max_change(self, size: int) -> float:
        """Return the cost from which on a change is dearer than all rows; infinite if unknown."""
        all_rows = self.expected(size)
        return float("inf") if all_rows is None else max(MIN_LIMIT, MIN_GAIN * all_rows)

    def set_all_rows(self, cost: float, size: int) -> None:
        """Note what listing all rows has cost, or would cost."""
        self.all_rows, self.size = cost, max(1, size)

    def set_given_up(self, n_seeds: int, size: int) -> None:
        """Note that listing a change would have cost more than listing all rows."""
        self.set_change(GIVEN_UP_FACTOR * max(MIN_LIMIT, self.expected(size) or 0.0), n_seeds)
        self.is_followed = False

    def set_change(self, cost: float, n_seeds: int) -> None:
        """Note what listing a change has cost, or would cost."""
        self.per_seed, self.is_followed = cost / max(1, n_seeds), True


def _count_rows(batches: Sequence[IndexedZSet]) -> int:
    """Return the number of present rows: a deleted row has an entry of weight -1 beside it.

    At least 0.
    """
    return max(0, sum(len(batch) - 2 * batch.n_negative for batch in batches))
