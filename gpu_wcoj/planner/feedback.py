"""Whether ticks do what their plan was expected to do, and when it is worth to plan anew.

Per tick it is added up how many values joins have proposed, and how many were expected for the rows that have changed.
Nothing else is done until so much has been proposed that to plan by the statistics of the state is a small part of it.
If the sums are apart by more than a factor then, the next tick begins by planning anew. Each time that this changes
nothing, the next look has to wait for twice as much work; so all looks together cost no more than the joins did.
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
"""Fewer proposed values than this are nobody's worry."""
PER_ROW = 2.0
"""How many have to be proposed for each row of the state before it is looked at again."""
PER_ORDER = 100_000.0
"""How many for each order that planning compares: about four times what that takes."""
LESS = 4.0
"""How many times as much where fewer values are proposed than was expected: then there is less to gain."""
AGAIN = 1.25
"""It is looked again where that much more has been proposed, as long as it is too little to plan anew."""
CLEARLY = 1.5
"""A plan replaces another one if that one is expected to cost so many times as much."""
SORTING = 8.0
"""What it costs to arrange a row anew, in proposed values."""

HeadWork = Mapping[int, Mapping[int, Mapping[str, Int64Array]]]
"""Per rule, path and variable, what the kernels counted."""

SMALL_TICKS = 16
"""So many ticks of few rows are known by one of them."""
FEW_ROWS = 64
"""A tick that changes fewer rows of every relation is small."""


@dataclass(eq=False)
class _Gauge:
    """What one head's rules are expected to propose.

    Attributes
    ----------
    seeds
        Per relation, or selection of one, whose changed rows start paths: values expected for each of them.
    """

    head: str
    seeds: list[tuple[Arrangement, float]]

    def counted_afresh(self, circuit: Circuit) -> Collection[int]:
        """The phases of the last tick that were not followed."""
        head = circuit.heads[self.head]
        return [one.phase for one in head.recounting.last] if isinstance(head, Head) else ()

    def proposed(self, work: HeadWork, circuit: Circuit) -> Iterator[tuple[Place, int]]:
        """The values that paths have proposed in the last tick, where that is any, those that others stood for too."""
        joins = circuit.heads[self.head].joins
        for rule, paths in work.items():
            for number, steps in paths.items():
                if number < 0:  # a whole count, of which nothing is expected
                    continue
                own = 0
                for counted in steps.values():
                    own += counted.item(PROPOSALS)
                if own:
                    place = self.head, rule, number % len(joins[rule].query.paths)  # also of changes with each other
                    yield place, own * joins[rule].stands_for(number)

    def expected(self, circuit: Circuit) -> float:
        """The values that were expected."""
        afresh, total = self.counted_afresh(circuit), 0.0
        for arrangement, rate in self.seeds:
            for phase, batch in enumerate(arrangement.pending):
                if phase not in afresh:
                    total += rate * batch.n_rows
        return total


@dataclass(eq=False)
class _LoopGauge:
    """What the rules of a loop are expected to propose.

    Attributes
    ----------
    head
        Its first one, which speaks for all.
    rates
        Per path, the values expected for each row that starts it.
    """

    head: str
    loop: Loop
    rates: dict[Place, float]

    def proposed(self, work: HeadWork, _: Circuit) -> Iterator[tuple[Place, int]]:
        """The values that paths have proposed in the last tick, where that is any; looking up ranks is none of that."""
        for at, one in enumerate(self.loop.joins):
            for number, steps in work[at].items():
                own = sum(counted.item(PROPOSALS) for name, counted in steps.items() if not name.startswith("#"))
                if own:
                    yield (one.rule.head, one.rule.number, ASKED if one.is_asked else number), own

    def expected(self, _: Circuit) -> float:
        """The values that were expected."""
        total = 0.0
        for one in self.loop.joins:
            for number, rows in enumerate(one.seeds):
                place = one.rule.head, one.rule.number, ASKED if one.is_asked else number
                total += rows * self.rates.get(place, 0.0)
        return total


@dataclass(eq=False)
class Feedback:
    """Sums over the ticks since the plan was last looked at.

    Attributes
    ----------
    factor
        How far the sums may be apart; None to plan never anew.
    proposed, expected
        Values.
    done
        Per path, the values that it has proposed.
    first_tick
        The first that is in the sums.
    look_at
        How much has to be proposed before anything else is done.
    patience
        How many times as much as usual; doubled by each look that has changed nothing.
    built
        What has been spent on building arrangements for the present plan, in proposed values.
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
        """Take note of a tick that has been evaluated, its changes still pending; of a few of small ones. O(paths)."""
        if self.factor is None:
            return
        stands_for = 1
        if not _is_large(circuit):
            if tick % SMALL_TICKS:
                return
            stands_for = SMALL_TICKS
        if not self._has_state:
            self._has_state = any(index.accumulated() for index in circuit.sources.values())
            if not self._has_state:  # of all paths only the last runs
                return
        gauges = self._gauges.get(circuit)
        if gauges is None:
            gauges = self._gauges[circuit] = _gauges(circuit, plan)
        done = self.done
        for gauge in gauges:
            proposed = 0
            for place, own in gauge.proposed(work[gauge.head], circuit):
                done[place] = done.get(place, 0.0) + own * stands_for
                proposed += own
            if proposed:
                self.proposed += proposed * stands_for
                self.expected += gauge.expected(circuit) * stands_for
        if self.proposed >= self.look_at:
            self._look(circuit, plan, tick)

    def _look(self, circuit: Circuit, plan: Plan, tick: int) -> None:
        """See whether the plan is to be looked at; forget half of what was if it is not, so that what is new counts."""
        assert self.factor is not None
        rows = sum(len(one.spine) for index in circuit.indices() for one in index.arrangements.values())
        needed = max(FEWEST, PER_ROW * rows + PER_ORDER * plan.candidates, self.built) * self.patience
        enough = needed if self.proposed > self.expected else LESS * needed
        self.look_at = min(enough, max(needed, AGAIN * self.proposed))  # which of the two is more may change by then
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
        """What the sums say, for people."""
        if not self.expected:
            return f"ticks from {self.first_tick} on proposed {self.proposed:,.0f} values, and nothing was known before"
        more = self.proposed / self.expected
        return f"ticks from {self.first_tick} on proposed {more:.3g} times as many values as had been expected"

    def begin_anew(self, tick: int, built: float = 0.0, patience: float = 2.0) -> None:
        """The plan is another one, or the same by other expectations; then the next look takes more patience."""
        self.patience = 1.0 if built else min(patience * self.patience, 2.0**20)
        self.built = built
        self.proposed = self.expected = 0.0
        self.done = {}
        self.first_tick = tick
        self.look_at = FEWEST * self.patience
        self.is_due = False
        self._gauges.clear()

    def wait_for(self, share: float) -> None:
        """Look again once there is that much more."""
        self.look_at = self.proposed * max(share, AGAIN)
        self.is_due = False


def _is_large(circuit: Circuit) -> bool:
    """Whether a relation changes by more than a few rows."""
    for index in circuit.sources.values():
        for batch in index.arrangements[index.canonical].pending:
            if batch.n_rows >= FEW_ROWS:
                return True
    return False


def _gauges(circuit: Circuit, plan: Plan) -> list[_Gauge | _LoopGauge]:
    found: list[_Gauge | _LoopGauge] = []
    for name, head in circuit.heads.items():
        if not isinstance(head, Head):
            continue
        rates: dict[object, tuple[Arrangement, float]] = {}
        estimates = plan.estimates.get(name, ())
        for rule, join in enumerate(head.joins):
            for number, path in enumerate(join.query.paths):
                rows = path.seed.key.selection
                expected = estimates[rule][number] if rule < len(estimates) else ()
                arrangement, before = rates.get(rows, (join.arrangements[path.seed.key], 0.0))
                rates[rows] = arrangement, before + sum(level.proposed for level in expected[1:])
        found.append(_Gauge(name, list(rates.values())))
    if plan.loops:
        from gpu_wcoj.circuit.recursion.loop import LoopHead

        first = (circuit.heads[next(iter(loop.widths))] for loop in plan.loops)
        found += [
            _LoopGauge(head.name, head.loop, _rates(head.loop, plan)) for head in first if isinstance(head, LoopHead)
        ]
    return found


def _rates(loop: Loop, plan: Plan) -> dict[Place, float]:
    """Per path of a loop, the values that each row that starts it is expected to propose."""
    found: dict[Place, float] = {}
    for rule in loop.plan.rules:
        paths = plan.estimates.get(rule.head)
        for number, levels in enumerate(paths[rule.number] if paths else ()):
            found[rule.head, rule.number, number] = sum(level.proposed for level in levels[1:])
        asked = plan.asked.get(rule.head)
        if asked:
            found[rule.head, rule.number, ASKED] = sum(level.proposed for level in asked[rule.number][1:])
    return found
