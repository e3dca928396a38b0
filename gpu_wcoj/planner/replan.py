"""Comparison of proposed values with the plan's estimates, and the decision to replan.

Each tick adds the number of values that joins have proposed, and the number expected for the changed rows. The sums are
checked once so many values have been proposed that planning by the statistics of the state would be a small part of the
work. If the sums then differ by more than a factor, the next tick begins with replanning. Each replan that changes
nothing doubles the work before the next check, so all checks together cost no more than the joins.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from gpu_wcoj.circuit.circuit import Circuit
from gpu_wcoj.circuit.head import Head
from gpu_wcoj.kernels.protocol import PROPOSALS, Int64Array
from gpu_wcoj.planner.lower import ASKED, Place, Plan
from gpu_wcoj.trace.arrangement import Arrangement

if TYPE_CHECKING:
    from gpu_wcoj.circuit.recursion.loop import Loop

FEWEST = 1 << 16
"""Paths that propose fewer values than this never trigger replanning."""
PER_ROW = 2.0
"""Proposed values for each row of the state before the plan is checked."""
PER_ORDER = 100_000.0
"""Proposed values for each order that planning compares: about four times the cost of comparing it."""
LESS = 4.0
"""Factor on the required values where fewer values are proposed than expected: there is less to gain."""
AGAIN = 1.25
"""Re-check after this factor of further proposed values if the last check came too early to replan."""
CLEARLY = 1.5
"""Cost ratio: a plan replaces another one that is expected to cost at least this many times as much."""
SORTING = 8.0
"""Cost of arranging a row again, in proposed values."""

HeadWork = Mapping[int, Mapping[int, Mapping[str, Int64Array]]]
"""Per rule, path and variable, the counters of the kernels."""

SMALL_TICKS = 16
"""Sampling interval in ticks: one of this many consecutive small ticks is measured."""
FEW_ROWS = 64
"""Rows: a tick is small if it changes fewer rows than this of every relation."""


@dataclass(eq=False)
class _Gauge:
    """Expected proposed values of one head's rules.

    Attributes
    ----------
    seeds
        Per relation, or selection of it, whose changed rows start paths: expected values per row.
    """

    head: str
    seeds: list[tuple[Arrangement, float]]

    def counted_afresh(self, circuit: Circuit) -> Collection[int]:
        """Return the phases of the last tick that were evaluated by full recomputation."""
        head = circuit.heads[self.head]
        return [recount.phase for recount in head.recounting.recounted] if isinstance(head, Head) else ()

    def proposed(self, work: HeadWork, circuit: Circuit) -> Iterator[tuple[Place, int]]:
        """Yield the values that each path proposed in the last tick, for its automorphic paths too."""
        joins = circuit.heads[self.head].joins
        for rule, paths in work.items():
            for path_index, steps in paths.items():
                if path_index < 0:  # a full recomputation, which has no estimate
                    continue
                n_proposed = 0
                for counted in steps.values():
                    n_proposed += counted.item(PROPOSALS)
                if n_proposed:
                    place = (
                        self.head,
                        rule,
                        path_index % len(joins[rule].query.paths),
                    )  # also for paths that join changes with each other
                    yield place, n_proposed * joins[rule].stands_for(path_index)

    def expected(self, circuit: Circuit) -> float:
        """Return the expected number of proposed values."""
        afresh, total = self.counted_afresh(circuit), 0.0
        for arrangement, rate in self.seeds:
            for phase, batch in enumerate(arrangement.pending):
                if phase not in afresh:
                    total += rate * batch.n_rows
        return total


@dataclass(eq=False)
class _LoopGauge:
    """Expected proposed values of the rules of a loop.

    Attributes
    ----------
    head
        First head of the loop, which stands for all of them.
    rates
        Per path, the expected values per seed row.
    """

    head: str
    loop: Loop
    rates: dict[Place, float]

    def proposed(self, work: HeadWork, _: Circuit) -> Iterator[tuple[Place, int]]:
        """Yield the values that each path proposed in the last tick, rank lookups excluded."""
        for join_index, join in enumerate(self.loop.joins):
            for path_index, steps in work[join_index].items():
                n_proposed = sum(counted.item(PROPOSALS) for name, counted in steps.items() if not name.startswith("#"))
                if n_proposed:
                    yield (join.rule.head, join.rule.index, ASKED if join.is_inverse else path_index), n_proposed

    def expected(self, _: Circuit) -> float:
        """Return the expected number of proposed values."""
        total = 0.0
        for join in self.loop.joins:
            for path_index, rows in enumerate(join.seeds):
                place = join.rule.head, join.rule.index, ASKED if join.is_inverse else path_index
                total += rows * self.rates.get(place, 0.0)
        return total


@dataclass(eq=False)
class Feedback:
    """Sums over the ticks since the plan was last checked.

    Attributes
    ----------
    factor
        Maximum ratio of the sums; None to disable replanning.
    proposed, expected
        Sums of proposed and of expected values.
    done
        Per path, the values that it has proposed.
    first_tick
        First tick in the sums.
    look_at
        Proposed values at which the sums are checked next.
    patience
        Factor on the required values; doubled by each replan that changed nothing.
    built
        Cost of building arrangements for the present plan, in proposed values.
    """

    factor: float | None
    proposed: float = 0.0
    expected: float = 0.0
    done: dict[Place, float] = field(default_factory=dict)
    first_tick: int = 0
    look_at: float = 0.0
    patience: float = 1.0
    built: float = 0.0
    is_due: bool = False
    _gauges: WeakKeyDictionary[Circuit, list[_Gauge | _LoopGauge]] = field(default_factory=WeakKeyDictionary)
    _has_state: bool = False

    def observe(self, circuit: Circuit, plan: Plan, work: Mapping[str, HeadWork], tick: int) -> None:
        """Record an evaluated tick with pending changes; small ticks are sampled. O(paths)."""
        if self.factor is None:
            return
        stands_for = 1
        if not _is_large(circuit):
            if tick % SMALL_TICKS:
                return
            stands_for = SMALL_TICKS
        if not self._has_state:
            self._has_state = any(index.accumulated() for index in circuit.sources.values())
            if not self._has_state:  # a first tick runs only the last path
                return
        gauges = self._gauges.get(circuit)
        if gauges is None:
            gauges = self._gauges[circuit] = _gauges(circuit, plan)
        done = self.done
        for gauge in gauges:
            proposed = 0
            for place, n_values in gauge.proposed(work[gauge.head], circuit):
                done[place] = done.get(place, 0.0) + n_values * stands_for
                proposed += n_values
            if proposed:
                self.proposed += proposed * stands_for
                self.expected += gauge.expected(circuit) * stands_for
        if self.proposed >= self.look_at:
            self._look(circuit, plan, tick)

    def _look(self, circuit: Circuit, plan: Plan, tick: int) -> None:
        """Decide if the plan is to be checked; if not, halve the sums so that new ticks weigh more."""
        assert self.factor is not None
        rows = sum(len(arrangement.spine) for index in circuit.indices() for arrangement in index.arrangements.values())
        needed = max(FEWEST, PER_ROW * rows + PER_ORDER * plan.candidates, self.built) * self.patience
        enough = needed if self.proposed > self.expected else LESS * needed
        self.look_at = min(
            enough, max(needed, AGAIN * self.proposed)
        )  # by then the larger of the two sums may be another
        if self.proposed < enough:
            return
        more, less = max(self.proposed, self.expected), min(self.proposed, self.expected)
        if more > self.factor * less:
            self.is_due = True
        else:
            self.proposed, self.expected = self.proposed / 2, self.expected / 2
            self.done = {place: values / 2 for place, values in self.done.items()}
            self.first_tick = tick

    def why(self) -> str:
        """Describe the sums for a person."""
        if not self.expected:
            return f"ticks from {self.first_tick} on proposed {self.proposed:,.0f} values, and nothing was known before"
        more = self.proposed / self.expected
        return f"ticks from {self.first_tick} on proposed {more:.3g} times as many values as had been expected"

    def begin_anew(self, tick: int, built: float = 0.0, patience: float = 2.0) -> None:
        """Reset the sums after a replan; an unchanged plan doubles the patience."""
        self.patience = 1.0 if built else min(patience * self.patience, 2.0**20)
        self.built = built
        self.proposed = self.expected = 0.0
        self.done = {}
        self.first_tick = tick
        self.look_at = FEWEST * self.patience
        self.is_due = False
        self._gauges.clear()

    def wait_for(self, share: float) -> None:
        """Postpone the next check until this factor of values has been proposed."""
        self.look_at = self.proposed * max(share, AGAIN)
        self.is_due = False


def _is_large(circuit: Circuit) -> bool:
    """Return True if a relation changes by `FEW_ROWS` rows or more."""
    for index in circuit.sources.values():
        for batch in index.arrangements[index.canonical].pending:
            if batch.n_rows >= FEW_ROWS:
                return True
    return False


def _gauges(circuit: Circuit, plan: Plan) -> list[_Gauge | _LoopGauge]:
    gauges: list[_Gauge | _LoopGauge] = []
    for name, head in circuit.heads.items():
        if not isinstance(head, Head):
            continue
        rates: dict[object, tuple[Arrangement, float]] = {}
        estimates = plan.estimates.get(name, ())
        for rule, join in enumerate(head.joins):
            for path_index, path in enumerate(join.query.paths):
                rows = path.seed.key.selection
                expected = estimates[rule][path_index] if rule < len(estimates) else ()
                arrangement, before = rates.get(rows, (join.arrangements[path.seed.key], 0.0))
                rates[rows] = arrangement, before + sum(level.proposed for level in expected[1:])
        gauges.append(_Gauge(name, list(rates.values())))
    if plan.loops:
        from gpu_wcoj.circuit.recursion.loop import LoopHead

        first = (circuit.heads[next(iter(loop.widths))] for loop in plan.loops)
        gauges += [
            _LoopGauge(head.name, head.loop, _rates(head.loop, plan)) for head in first if isinstance(head, LoopHead)
        ]
    return gauges


def _rates(loop: Loop, plan: Plan) -> dict[Place, float]:
    """Return, per path of a loop, the values that a seed row is expected to propose."""
    rates: dict[Place, float] = {}
    for rule in loop.plan.rules:
        paths = plan.estimates.get(rule.head)
        for path_index, levels in enumerate(paths[rule.index] if paths else ()):
            rates[rule.head, rule.index, path_index] = sum(level.proposed for level in levels[1:])
        derivation_levels = plan.asked.get(rule.head)
        if derivation_levels:
            rates[rule.head, rule.index, ASKED] = sum(level.proposed for level in derivation_levels[rule.index][1:])
    return rates
