"""A rule's join over the whole of what its atoms hold at one moment of a tick, to be counted rather than listed.

Any of its delta paths serves: its atom gives all of its rows as seeds, and every other one is seen whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add

import numpy as np

from gpu_wcoj.join.blocks import in_order
from gpu_wcoj.join.costed import CostedJoin, cost_of_binding, costed
from gpu_wcoj.join.delta import IncrementalGenericJoin
from gpu_wcoj.join.execution import Execution
from gpu_wcoj.join.generic import GenericJoin
from gpu_wcoj.join.meter import Meter
from gpu_wcoj.join.path import AtomUse, DeltaPath
from gpu_wcoj.join.seeds import Seeds, bind, first_variables, seed_rows
from gpu_wcoj.join.summing import Summing
from gpu_wcoj.trace.arrangement import Arrangement, ArrangementKey
from gpu_wcoj.trace.spine import Spine
from gpu_wcoj.zset.index import IndexedZSet

BLOCK_ROWS = 1 << 20
"""Seeds that are bound at once."""

FEWEST_SEEDS = 16
"""A thread is not worth fewer seeds than this."""

WHOLE = -1
"""Where the work of a tick is kept by the numbers of delta paths, that of whole counts has this one."""

THREAD = 3 << 20
"""What a count has to cost for each thread that takes part, in candidates: starting one takes time."""

SAMPLED, GIVEN_UP = "#sampled", "#given up"
"""Beside the steps of a whole count: what all samples did that decide on one, and all counts that cost too much."""

Batches = tuple[IndexedZSet, ...]


@dataclass(eq=False)
class Moment:
    """What arrangements hold before one of a tick's phases, or after the last one, each found once."""

    phase: int
    _compact: dict[ArrangementKey, IndexedZSet] = field(default_factory=dict, init=False)

    def batches(self, arrangement: Arrangement) -> Batches:
        """All of it, as it is kept."""
        return arrangement.before(self.phase)

    def compact(self, arrangement: Arrangement) -> IndexedZSet:
        """All of it in one batch. O(n)."""
        found = self._compact.get(arrangement.key)
        if found is None:
            whole = Spine(self.batches(arrangement)).compact().batches
            found = whole[0].lent() if whole else IndexedZSet.empty(len(arrangement.key.order), arrangement.backend)
            self._compact[arrangement.key] = found
        return found


@dataclass(eq=False)
class WholeJoin:
    """One rule at one moment; it negates and joins, and calculates nothing.

    Attributes
    ----------
    join
        The rule.
    """

    join: IncrementalGenericJoin
    moment: Moment

    def _arrangement(self, use: AtomUse) -> Arrangement:
        return self.join.arrangements[use.key]

    def generic(self, number: int, most: float | None = None) -> CostedJoin | None:
        """The join over the other atoms of a path, and what it may cost; None if one of all atoms is empty."""
        path, execution = self.join.query.paths[number], self.join.execution
        batches = {use.atom: self.moment.batches(self._arrangement(use)) for use in path.others}
        seeds = self.moment.batches(self._arrangement(path.seed))
        if not seeds or not all(batches.values()):
            return None
        bound = 1
        if execution.weighted:
            for own in (seeds, *batches.values()):
                bound *= sum(batch.largest_weight for batch in own)
        negated = {check.use.atom: self.moment.batches(self._arrangement(check.use)) for check in path.absent}
        join = GenericJoin(
            {use.atom: use for use in path.others}, batches, True, path.compared, execution.backend,
            execution.piece_rows, execution.ranks, bound, negated=negated, dictionary=execution.dictionary,
        )  # fmt: skip
        return costed_in(join, execution, most)

    def rows(self, path: DeltaPath) -> int:
        """How many rows the path's atom has, those that cancel counted twice."""
        return sum(map(len, self.moment.batches(self._arrangement(path.seed))))

    def seeds(self, path: DeltaPath, generic: GenericJoin) -> Seeds:
        """All rows of the path's atom, in the order that serves best."""
        whole = [self.moment.compact(self._arrangement(use)) for use in path.seeds]
        return seed_rows(path, whole, generic, first_variables([path], whole[:1], [generic])[0])

    def tried(self, numbers: Sequence[int], most: float | None = None, worth: float = float("inf")) -> dict[int, float]:
        """About what these paths cost, by samples of their seeds; infinite if to try one costs more than `most`.

        If it costs far more than `worth` or than another, the sample is a small one; without `most`, also if a larger
        one would cost much of what the path does.
        """
        from gpu_wcoj.join.tried import MOST_SPENT, Trial, compared  # which counts of a state need

        trials: dict[int, Trial] = {}
        for number in numbers:
            generic = self.generic(number, None if most is None else max(MOST_SPENT, most))
            if generic is None:
                return dict.fromkeys(numbers, 0.0)
            path = self.join.query.paths[number]
            largest = [max(self.moment.batches(self._arrangement(use)), key=len) for use in path.seeds]
            trials[number] = Trial(path, largest, self.rows(path), generic, not self.join.execution.weighted)
        costs = compared(trials, worth, most is None)
        report(self.join, [trial.join for trial in trials.values()], SAMPLED)
        return costs

    def least(self, number: int) -> int:
        """What it costs to begin with the path."""
        path, generic = self.join.query.paths[number], self.generic(number)
        return 0 if generic is None else cost_of_binding(path, self.rows(path), generic)

    def total(self, number: int, most: float | None = None, expected: float = float("inf")) -> tuple[int, int]:
        """The sum of the weights of all bindings, along a path; and what it cost, about what was `expected`.

        Raises
        ------
        AllowanceError
            If it costs more than `most`.
        """
        generic = self.generic(number, most)
        if generic is None:
            return 0, 0
        path, execution = self.join.query.paths[number], self.join.execution
        generic.allowance.before = self.least(number)
        generic.allowance.check(generic)
        seeds = self.seeds(path, generic)
        threads = execution.threads if execution.backend.device is None else 1
        threads = int(min(threads, max(1, expected / THREAD)))
        most_rows = BLOCK_ROWS if execution.backend.device is None else min(BLOCK_ROWS, execution.piece_rows)
        n_blocks = max(1, -(-len(seeds) // most_rows))
        n_blocks = -(-n_blocks // threads) * threads if len(seeds) >= threads * FEWEST_SEEDS else n_blocks
        edges = np.linspace(0, len(seeds), n_blocks + 1).astype(int).tolist()

        begun: dict[int, CostedJoin] = {}

        def block(at: int) -> Sequence[tuple[int, int]]:
            own = self.generic(number, None if most is None else most / n_blocks)
            assert own is not None
            begun[at] = own
            part = seeds.part(edges[at], edges[at + 1], execution.backend.xp)
            own.allowance.before = cost_of_binding(path, len(part), own)
            prefixes = bind(path, part, own)
            if own.meter is not None:
                own.meter.prefixes += len(prefixes)
            found = Summing(own, own.allowance, not execution.weighted).over(prefixes, path.steps)
            return [(found, own.allowance.cost(own))]

        alone = threads == 1 or n_blocks == 1
        counted: list[tuple[int, int]] = []
        results = (block(at)[0] for at in range(n_blocks)) if alone else in_order(block, n_blocks, threads)
        try:
            counted.extend(results)  # keeps those of before where one is an error
        finally:  # of those that run ahead of the first that gives up, it is chance how far they have come
            did = [begun[at] for at in range(len(counted) + 1) if at in begun]
            report(self.join, did, "" if len(counted) == n_blocks else GIVEN_UP)
        return sum(found for found, _ in counted), sum(cost for _, cost in counted)


def costed_in(join: GenericJoin, execution: Execution, most: float | None = None) -> CostedJoin:
    """The join, with nothing counted yet and what it may cost; with a meter of its own where joins are measured."""
    return costed(join, most, Meter(WHOLE, 0, {}) if execution.measures else None)


def report(join: IncrementalGenericJoin, did: Sequence[GenericJoin], name: str = "") -> None:
    """Let what these joins have done by now count as work of a rule's tick, under one name if there is one."""
    for one in did:
        work = dict(one.work)
        if name and work:
            work = {name: reduce(add, work.values())}
        join.finished.append((WHOLE, work))
        if one.meter is not None:
            join.meters.append(replace(one.meter, work=work, gauges=one.meter.added_up(name)))
