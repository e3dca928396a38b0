"""Full recomputation: a rule's join over all rows at one moment of a tick, counted.

Any of the delta paths serves: its atom provides all of its rows as seeds, and the other atoms are seen in full.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add

import numpy as np

from gpu_wcoj.join.costed import BudgetedJoin, binding_cost, with_budget
from gpu_wcoj.join.delta import IncrementalGenericJoin
from gpu_wcoj.join.eliminate import Summing
from gpu_wcoj.join.execution import Execution
from gpu_wcoj.join.generic import GenericJoin
from gpu_wcoj.join.meter import Meter
from gpu_wcoj.join.plan import AtomUse, DeltaPath
from gpu_wcoj.join.seeds import Seeds, bind_seeds, first_variables, seed_rows
from gpu_wcoj.join.settings import in_order
from gpu_wcoj.trace.arrangement import Arrangement, ArrangementKey
from gpu_wcoj.trace.spine import Spine
from gpu_wcoj.zset.index import IndexedZSet

BLOCK_ROWS = 1 << 20
"""Seeds that are bound at once."""

MIN_THREAD_SEEDS = 16
"""Seeds a thread below which a further thread does not pay."""

FULL_COUNT = -1
"""Path index under which the work of full recomputations is recorded."""

THREAD_COST = 3 << 20
"""Cost of a count, in candidates, for each thread that takes part: starting one takes time."""

SAMPLED, GIVEN_UP = "#sampled", "#given up"
"""Names of steps of a full recomputation: the work of all samples, and of abandoned counts."""

Batches = tuple[IndexedZSet, ...]


@dataclass(eq=False)
class Moment:
    """The contents of arrangements before a phase of a tick, or after the last one, cached."""

    phase: int
    _compact: dict[ArrangementKey, IndexedZSet] = field(default_factory=dict, init=False)

    def batches(self, arrangement: Arrangement) -> Batches:
        """Return all rows, as the arrangement's batches."""
        return arrangement.before(self.phase)

    def compact(self, arrangement: Arrangement) -> IndexedZSet:
        """Return all rows in one batch. O(n)."""
        batch = self._compact.get(arrangement.key)
        if batch is None:
            batches = Spine(self.batches(arrangement)).compact().batches
            batch = batches[0].lent() if batches else IndexedZSet.empty(len(arrangement.key.order), arrangement.backend)
            self._compact[arrangement.key] = batch
        return batch


@dataclass(eq=False)
class FullJoin:
    """One rule at one moment; it may negate, and calculates nothing.

    Attributes
    ----------
    join
        The rule's join.
    """

    join: IncrementalGenericJoin
    moment: Moment

    def _arrangement(self, use: AtomUse) -> Arrangement:
        return self.join.arrangements[use.key]

    def generic_join(self, path_index: int, max_cost: float | None = None) -> BudgetedJoin | None:
        """Return the join over the other atoms of a path, with a cost limit; None if one is empty."""
        path, execution = self.join.query.paths[path_index], self.join.execution
        batches = {use.atom: self.moment.batches(self._arrangement(use)) for use in path.other_atoms}
        seeds = self.moment.batches(self._arrangement(path.seed))
        if not seeds or not all(batches.values()):
            return None
        bound = 1
        if execution.weighted:
            for atom_batches in (seeds, *batches.values()):
                bound *= sum(batch.largest_weight for batch in atom_batches)
        negated = {check.use.atom: self.moment.batches(self._arrangement(check.use)) for check in path.absent}
        join = GenericJoin(
            {use.atom: use for use in path.other_atoms}, batches, True, path.compared, execution.backend,
            execution.piece_rows, execution.ranks, bound, negated=negated, dictionary=execution.dictionary,
        )  # fmt: skip
        return with_metered_budget(join, execution, max_cost)

    def rows(self, path: DeltaPath) -> int:
        """Return the number of rows of the path's atom; rows that cancel count twice."""
        return sum(map(len, self.moment.batches(self._arrangement(path.seed))))

    def seeds(self, path: DeltaPath, generic: GenericJoin) -> Seeds:
        """Return all rows of the path's atom, in the best order."""
        batches = [self.moment.compact(self._arrangement(use)) for use in path.seeds]
        return seed_rows(path, batches, generic, first_variables([path], batches[:1], [generic])[0])

    def estimate_costs(
        self, numbers: Sequence[int], max_cost: float | None = None, worth: float = float("inf")
    ) -> dict[int, float]:
        """Estimate the costs of these paths by samples; infinite if a sample exceeds `max_cost`.

        If a path costs far more than `worth` or than another, the sample is small; without `max_cost`, also if a larger
        one would cost much of the path's cost.
        """
        from gpu_wcoj.join.full_join import (  # needed by full recomputations
            MAX_SAMPLE_COST,
            CountEstimate,
            compare_costs,
        )

        trials: dict[int, CountEstimate] = {}
        for path_index in numbers:
            generic = self.generic_join(path_index, None if max_cost is None else max(MAX_SAMPLE_COST, max_cost))
            if generic is None:
                return dict.fromkeys(numbers, 0.0)
            path = self.join.query.paths[path_index]
            largest = [max(self.moment.batches(self._arrangement(use)), key=len) for use in path.seeds]
            trials[path_index] = CountEstimate(
                path, largest, self.rows(path), generic, not self.join.execution.weighted
            )
        costs = compare_costs(trials, worth, max_cost is None)
        report_work(self.join, [trial.join for trial in trials.values()], SAMPLED)
        return costs

    def seed_cost(self, path_index: int) -> int:
        """Return the cost of binding the path's seeds."""
        path, generic = self.join.query.paths[path_index], self.generic_join(path_index)
        return 0 if generic is None else binding_cost(path, self.rows(path), generic)

    def total(self, path_index: int, max_cost: float | None = None, expected: float = float("inf")) -> tuple[int, int]:
        """Return the sum of the weights of all bindings along a path, and its cost.

        The number of threads follows the `expected` cost.

        Raises
        ------
        AllowanceError
            If it costs more than `max_cost`.
        """
        generic = self.generic_join(path_index, max_cost)
        if generic is None:
            return 0, 0
        path, execution = self.join.query.paths[path_index], self.join.execution
        generic.allowance.before = self.seed_cost(path_index)
        generic.allowance.check(generic)
        seeds = self.seeds(path, generic)
        threads = execution.threads if execution.backend.device is None else 1
        threads = int(min(threads, max(1, expected / THREAD_COST)))
        most_rows = BLOCK_ROWS if execution.backend.device is None else min(BLOCK_ROWS, execution.piece_rows)
        n_blocks = max(1, -(-len(seeds) // most_rows))
        n_blocks = -(-n_blocks // threads) * threads if len(seeds) >= threads * MIN_THREAD_SEEDS else n_blocks
        edges = np.linspace(0, len(seeds), n_blocks + 1).astype(int).tolist()

        joins: dict[int, BudgetedJoin] = {}

        def block(index: int) -> Sequence[tuple[int, int]]:
            block_join = self.generic_join(path_index, None if max_cost is None else max_cost / n_blocks)
            assert block_join is not None
            joins[index] = block_join
            part = seeds.part(edges[index], edges[index + 1], execution.backend.xp)
            block_join.allowance.before = binding_cost(path, len(part), block_join)
            prefixes = bind_seeds(path, part, block_join)
            if block_join.meter is not None:
                block_join.meter.prefixes += len(prefixes)
            total = Summing(block_join, block_join.allowance, not execution.weighted).sum_merged(prefixes, path.steps)
            return [(total, block_join.allowance.cost(block_join))]

        is_serial = threads == 1 or n_blocks == 1
        counted: list[tuple[int, int]] = []
        results = (block(index)[0] for index in range(n_blocks)) if is_serial else in_order(block, n_blocks, threads)
        try:
            counted.extend(results)  # keeps earlier results if one raises an error
        finally:  # blocks behind the first failed one have done an arbitrary part of their work
            did = [joins[index] for index in range(len(counted) + 1) if index in joins]
            report_work(self.join, did, "" if len(counted) == n_blocks else GIVEN_UP)
        return sum(total for total, _ in counted), sum(cost for _, cost in counted)


def with_metered_budget(join: GenericJoin, execution: Execution, max_cost: float | None = None) -> BudgetedJoin:
    """Return the join with a cost limit, and with a meter where joins are measured."""
    return with_budget(join, max_cost, Meter(FULL_COUNT, 0, {}) if execution.measures else None)


def report_work(join: IncrementalGenericJoin, did: Sequence[GenericJoin], name: str = "") -> None:
    """Record the work of joins as work of a rule's tick, under one name if there is one."""
    for join_done in did:
        work = dict(join_done.work)
        if name and work:
            work = {name: reduce(add, work.values())}
        join.finished.append((FULL_COUNT, work))
        if join_done.meter is not None:
            join.meters.append(replace(join_done.meter, work=work, gauges=join_done.meter.total_gauges(name)))
