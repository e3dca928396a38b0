"""Comparison of proposed values with the plan's estimates, and the decision to replan.

Each tick adds the number of values that joins have proposed, and the number expected for the changed rows. The sums are
checked once so many values have been proposed that planning by the statistics of the state would be a small part of the
work. If the sums then differ by more than a factor, the next tick begins with replanning. Each replan that changes
nothing doubles the work before the next check, so all checks together cost no more than the joins.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from gpu_wcoj.circuit.circuit import Circuit
from gpu_wcoj.circuit.head import Head
from gpu_wcoj.circuit.recount import Recounted
from gpu_wcoj.circuit.recursion.plan import LoopPlan
from gpu_wcoj.costs import INDEXED_ROW, PROPOSAL
from gpu_wcoj.join.delta import IncrementalGenericJoin
from gpu_wcoj.join.plan import AtomUse, DeltaPath, DeltaQuery
from gpu_wcoj.kernels.protocol import PROPOSALS, Int64Array
from gpu_wcoj.planner.ir import EMPTY_CATALOG, CatalogReader
from gpu_wcoj.planner.lower import INVERSE, Place, Plan
from gpu_wcoj.planner.passes.share import with_shared_prefixes
from gpu_wcoj.trace.arrangement import Arrangement, ArrangementKey

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
SORTING = INDEXED_ROW / PROPOSAL
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

    def recounted(self, circuit: Circuit) -> Sequence[Recounted]:
        """Return the phases of the last tick that were evaluated by full recomputation."""
        head = circuit.heads[self.head]
        return head.recounting.recounted if isinstance(head, Head) else ()

    def proposed(self, work: HeadWork, circuit: Circuit) -> Iterator[tuple[Place, int]]:
        """Yield the values that each path proposed in the last tick, for its automorphic paths too.

        A change that was too dear to be listed is taken to have proposed as many as listing all rows has, times the
        ratio of their costs.
        """
        joins = circuit.heads[self.head].joins
        listed = [recount for recount in self.recounted(circuit) if recount.lists]
        for rule, paths in work.items():
            for path_index, steps in paths.items():
                if path_index < 0 and not listed:  # a full count or a planned load, which have no estimate
                    continue
                n_proposed, place = 0, path_index
                for counted in steps.values():
                    n_proposed += counted.item(PROPOSALS)
                if path_index < 0:
                    place = listed[0].paths[rule]
                    n_proposed = int(n_proposed * max(1.0, listed[0].instead / max(1, listed[0].cost)))
                if place < 0:  # along the plan of the load
                    place = _dearest_path(joins[rule], paths)
                if n_proposed:
                    place %= len(joins[rule].query.paths)  # also for paths that join changes with each other
                    yield (self.head, rule, place), n_proposed * joins[rule].stands_for(path_index)

    def expected(self, circuit: Circuit) -> float:
        """Return the expected number of proposed values."""
        counted, total = [recount.phase for recount in self.recounted(circuit) if not recount.lists], 0.0
        for arrangement, rate in self.seeds:
            for phase, batch in enumerate(arrangement.pending):
                if phase not in counted:
                    total += rate * batch.n_rows
        return total


def _dearest_path(join: IncrementalGenericJoin, paths: Mapping[int, Mapping[str, Int64Array]]) -> int:
    """Return the path that proposed the most values, or has the most seeds if none was begun."""
    begun = {index: sum(counted.item(PROPOSALS) for counted in steps.values())
             for index, steps in paths.items() if index >= 0}  # fmt: skip
    if begun:
        return max(begun, key=begun.__getitem__)
    phases = range(len(join.execution.phases))
    return max(range(len(join.query.paths)), key=lambda index: sum(join.n_seeds(index, phase) for phase in phases))


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
                    yield (join.rule.head, join.rule.index, INVERSE if join.is_inverse else path_index), n_proposed

    def expected(self, _: Circuit) -> float:
        """Return the expected number of proposed values."""
        total = 0.0
        for join in self.loop.joins:
            for path_index, rows in enumerate(join.seeds):
                place = join.rule.head, join.rule.index, INVERSE if join.is_inverse else path_index
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

    def observe(
        self, circuit: Circuit, plan: Plan, work: Mapping[str, HeadWork], tick: int, is_sum: bool = False
    ) -> None:
        """Record an evaluated tick with pending changes; small ticks are sampled. O(paths).

        With `is_sum`, the pending changes and the work are those of all ticks since the last call.
        """
        if self.factor is None:
            return
        stands_for = 1
        if not (is_sum or _is_large(circuit)):
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
            rates[rule.head, rule.index, INVERSE] = sum(level.proposed for level in derivation_levels[rule.index][1:])
    return rates


# Take some delta paths from one plan and the others from another plan of the same program.


def mix_plans(present: Plan, planned: Plan, places: Collection[Place], catalog: CatalogReader = EMPTY_CATALOG) -> Plan:
    """Return the present plan with the wanted paths of the other plan.

    Seeds come from the arrangements that the paths then need.

    A rule's paths have the same variables in both. Common prefixes are chosen again, by the statistics in `catalog`.

    Examples
    --------
    >>> from gpu_wcoj import Program
    >>> program = Program("h(a, b, c) :- s(a), r(a, b), t(a, c).")
    >>> present, planned = (program._planned() for _ in range(2))
    >>> found = mix_plans(present, planned, [("h", 0, 1)]).queries["h"][0].paths
    >>> found == present.queries["h"][0].paths
    True
    """
    queries: dict[str, tuple[DeltaQuery, ...]] = {}
    for name, rules in present.queries.items():
        queries[name] = tuple(
            _mixed(
                old, new, {path_index for head, rule_index, path_index in places if (head, rule_index) == (name, rule)}
            )
            for rule, (old, new) in enumerate(zip(rules, planned.queries[name], strict=True))
        )
    if places:
        queries = _share_prefixes(queries, {name for loop in present.loops for name in loop.widths}, catalog)
    loops = zip(present.loops, planned.loops, strict=True)
    mixed_loops = tuple(_mixed_loop(old, new, queries, places) for old, new in loops)
    return replace(present, queries=queries, loops=mixed_loops, estimates={}, asked={})


def _share_prefixes(
    queries: Mapping[str, Sequence[DeltaQuery]], recursive: Collection[str], catalog: CatalogReader
) -> dict[str, tuple[DeltaQuery, ...]]:
    """Return the rules with common prefixes chosen again."""
    pairs = [(name, query) for name, rules in queries.items() for query in rules]
    shared = iter(with_shared_prefixes(pairs, queries.keys() - recursive, catalog))
    return {name: tuple(next(shared) for _ in rules) for name, rules in queries.items()}


def _mixed_loop(
    old: LoopPlan, new: LoopPlan, queries: Mapping[str, Sequence[DeltaQuery]], places: Collection[Place]
) -> LoopPlan:
    """Return a loop over these queries, with the wanted derivation paths of the other plan."""
    rules = []
    for present_rule, planned_rule in zip(old.rules, new.rules, strict=True):
        query = queries[present_rule.head][present_rule.index]
        asking = (
            planned_rule.inverse if (present_rule.head, present_rule.index, INVERSE) in places else present_rule.inverse
        )
        is_same = query is present_rule.query and asking is present_rule.inverse
        rules.append(
            present_rule
            if is_same
            else type(present_rule).from_queries(present_rule.head, present_rule.index, query, asking, old.widths)
        )
    return replace(old, rules=tuple(rules))


def _mixed(old: DeltaQuery, new: DeltaQuery, path_indices: Collection[int]) -> DeltaQuery:
    if not path_indices:
        return old
    paths = [new.paths[path_index] if path_index in path_indices else path for path_index, path in enumerate(old.paths)]
    needed = list(dict.fromkeys(key for path in paths for key in path.keys))
    return replace(old, paths=tuple(_seeded(path, needed) for path in paths))


def _seeded(path: DeltaPath, needed: Sequence[ArrangementKey]) -> DeltaPath:
    """Return the path with seeds from needed arrangements, and variants over these only."""
    seed = path.seed
    variable = dict(zip(seed.key.order, seed.variables, strict=True))
    keys = [key for key in needed if key.selection == seed.key.selection]
    before = [use.key for use in path.seeds]
    keys.sort(key=lambda key: before.index(key) if key in before else len(before))
    seeds = tuple(AtomUse(seed.atom, key, tuple(variable[column] for column in key.order)) for key in keys) or (seed,)
    variants = tuple(variant for variant in path.variants if all(key in needed for key in variant.keys))
    return replace(path, variants=variants).with_seeds(seeds)
