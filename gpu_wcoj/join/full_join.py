"""Full recomputation of a count, and its cost estimated from a sample.

Prefixes that are equal for the steps are merged, so a prefix costs nothing if equal ones exist. The sample is therefore
drawn from distinct prefixes: from the nodes of a trie whose first levels are the variables that the steps read, or by
hashes of these. Prefixes that become equal only later count as distinct.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from math import exp, log
from operator import add

import numpy as np

from gpu_wcoj.costs import INDEXED_ROW, LOCATED_SEED, MERGED_ROW, SEED, THREAD, WRITTEN_PREFIX
from gpu_wcoj.join.delta import IncrementalGenericJoin, Piece
from gpu_wcoj.join.eliminate import (
    MIN_SAMPLE_SCALE,
    AllowanceError,
    BudgetedJoin,
    Summing,
    charge_share,
    thin_sample,
    with_budget,
    with_weights,
)
from gpu_wcoj.join.generic import GenericJoin, group_key
from gpu_wcoj.join.plan import AtomUse, DeltaPath, Step
from gpu_wcoj.join.prefixes import Meter, Prefixes
from gpu_wcoj.join.seeds import Seeds, bind_seeds, first_variables, seed_rows
from gpu_wcoj.join.settings import Execution, in_order
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.trace.arrangement import Arrangement, ArrangementKey, RowBatch
from gpu_wcoj.trace.spine import Spine
from gpu_wcoj.zset.arrays import positions
from gpu_wcoj.zset.index import IndexedZSet


def binding_cost(path: DeltaPath, n_seeds: int, join: GenericJoin) -> int:
    """Return the cost of reading `n_seeds` seeds of a path and locating them in its atoms."""
    return n_seeds * (SEED + LOCATED_SEED * sum(len(join.batches[atom]) for atom, _, _ in path.binding))


SAMPLE_ROWS = 128
"""Rows in the sample."""

SAMPLE_SIZES = 16, SAMPLE_ROWS
"""Sizes of successive samples, in rows; a larger one follows if the first was cheap."""

MAX_SAMPLE_COST = 1 << 21
"""Cost of samples of a path, in nanoseconds, after which no further sample is drawn.

It is also the least limit of a sample's cost."""

DECISIVE_FACTOR = 8.0
"""Factor between an estimate and the relevant costs beyond which sampling stops."""

MAX_RESAMPLE_FRACTION = 0.05
"""Fraction of a path's cost that a larger sample may cost to find the cheapest path."""

COMPARED_HASHES = 8 * SAMPLE_ROWS
"""Rows whose hashes are compared, approximately."""

MAX_HASHED_ROWS = 1 << 20
"""Rows above which they are not hashed."""


def read_seed_variables(path: DeltaPath) -> frozenset[str]:
    """Return the variables of a path's seed that its steps read.

    Examples
    --------
    >>> from gpu_wcoj.join.plan import Step
    >>> from gpu_wcoj.trace.arrangement import ArrangementKey
    >>> uses = [AtomUse(at, ArrangementKey("e", (0, 1)), pair) for at, pair in enumerate(["ab", "bc", "cd"])]
    >>> sorted(read_seed_variables(DeltaPath((uses[0],), tuple(uses[1:]), (), (Step("c", (1, 2)), Step("d", (2,))))))
    ['b']
    """
    bound = set(path.seed.variables)
    read = frozenset[str]().union(*(step.read_variables for step in path.steps))
    for use in path.other_atoms:
        if not bound.issuperset(use.variables):
            read = read.union(use.variables)
    return read & bound


@dataclass(eq=False)
class _Depth:
    """Measurements of a sum at one number of remaining steps.

    Attributes
    ----------
    rows
        Prefixes written.
    places
        Upper bound of the prefixes that the steps can tell apart, if there is one.
    below
        Prefixes written for all of these together, if that is known.
    """

    prefixes: int = 0
    cost: int = 0
    rows: int = 0
    places: int | None = None
    below: int | None = None


@dataclass(eq=False)
class _Traced(Summing):
    """A `Summing` that measures each depth separately."""

    depths: dict[int, _Depth] = field(default_factory=dict, init=False)
    _depth: int = field(default=-1, init=False)

    def __post_init__(self) -> None:
        self._mark = self.allowance.cost(self.join), self.allowance.rows

    def total(self, prefixes: Prefixes, steps: Sequence[Step]) -> int:
        """Return `Summing.total`, measured."""
        outer = self._depth
        self._charge_to(len(steps))
        depth = self.depths[len(steps)]
        depth.prefixes += len(prefixes)
        if len(prefixes) and depth.places is None:
            _, depth.places = group_key(prefixes, steps, self.join)
            read = {atom for step in steps for atom in step.atoms}
            prefix_batches = [(self.join.batches[atom], bound) for atom, bound in prefixes.layout if atom in read]
            if depth.places is not None and len(prefix_batches) == 1:
                ((batches, bound),) = prefix_batches
                depth.below = sum(len(batch.values[bound]) for batch in batches)
        total = super().total(prefixes, steps)
        self._charge_to(outer)
        return total

    def _charge_to(self, depth: int) -> None:
        """Charge the work since the last call to the previous depth, and continue at `depth`."""
        now = self.allowance.cost(self.join), self.allowance.rows
        depth_measured = self.depths.setdefault(self._depth, _Depth())
        depth_measured.cost += now[0] - self._mark[0]
        depth_measured.rows += now[1] - self._mark[1]
        self._depth, self._mark = depth, now
        self.depths.setdefault(depth, _Depth())

    def cost_of(self, share: float) -> float:
        """Return the cost of `share` times as many prefixes, limited by the distinct ones a depth."""
        total = 0.0
        for _, depth in sorted(self.depths.items(), reverse=True):
            if depth.prefixes == 0:
                total += share * depth.cost
                continue
            if depth.places is not None:
                share = min(share, depth.places / depth.prefixes)
                if depth.below is not None and share * depth.rows > depth.below:
                    share = depth.below / depth.rows
            total += share * depth.cost
        return total


@dataclass(eq=False)
class CountEstimate:
    """The estimated cost of counting a path from many rows, by a sample.

    Attributes
    ----------
    batches
        The largest batch of the rows, in each of the path's seed orders.
    n_rows
        Number of all rows.
    join
        The join; its allowance holds the cost so far.
    of_sets
        Whether all relations are sets.
    cost
        The estimate; infinite before a sample was drawn, and if the sample exceeded its limit.
    """

    path: DeltaPath
    batches: Sequence[IndexedZSet]
    n_rows: int
    join: BudgetedJoin
    of_sets: bool
    cost: float = field(default=float("inf"), init=False)

    def __post_init__(self) -> None:
        if self.n_rows == 0 or len(self.batches[0]) == 0:
            self.cost = 0.0

    @cached_property
    def _rows(self) -> tuple[list[Int64Array], float]:
        return _draw_rows(self.path, self.batches)

    def draw(self, draws: int) -> bool:
        """Draw a sample of about `draws` rows; return whether a larger one would be better."""
        if self.cost == 0.0:
            return False
        path, join = self.path, self.join
        rows, different = self._rows
        n = len(rows[0])
        some = join.backend.xp.arange(0, n, max(1, n // draws))
        batch = IndexedZSet.from_columns([column[some] for column in rows], None, join.backend)
        seeds = seed_rows(path, [batch, *([batch] * (len(path.seeds) - 1))], join, path.seed.variables[0])
        summing = _Traced(join, join.allowance, self.of_sets)
        try:
            summing.sum_merged(bind_seeds(path, seeds, join), path.steps)
        except AllowanceError:
            return False
        share = different / len(some) * self.n_rows / len(self.batches[0])
        self.cost = self.seed_cost + summing.cost_of(share)
        return len(some) < n and join.allowance.cost(join) <= MAX_SAMPLE_COST

    @property
    def seed_cost(self) -> int:
        """Cost of binding the seeds."""
        return binding_cost(self.path, self.n_rows, self.join)

    def is_expensive(self, draws: int) -> bool:
        """Return whether, after `draws` rows, a full sample would cost much of the path's cost."""
        return self.join.allowance.cost(self.join) * SAMPLE_SIZES[-1] > MAX_RESAMPLE_FRACTION * self.cost * draws


def estimate_cost(trial: CountEstimate, low: float, high: float) -> float:
    """Estimate the cost of counting a path.

    The estimate is rougher if it is far below `low` or far above `high`.
    """
    for draws in SAMPLE_SIZES:
        if not trial.draw(draws) or trial.cost * DECISIVE_FACTOR < low or trial.cost > high * DECISIVE_FACTOR:
            break
    return trial.cost


def compare_costs(trials: Mapping[int, CountEstimate], worth: float, only_cheapest: bool) -> dict[int, float]:
    """Estimate the costs of counting along each of these paths.

    Estimates are rougher for paths that are far more expensive than another. If binding a path's seeds costs more than
    another path in total, only that cost is returned.

    Parameters
    ----------
    worth
        The cost below which it matters what a count costs.
    only_cheapest
        Whether only the cheapest path matters. Then no larger sample is drawn if that would cost much of what the path
        does.
    """
    seed_costs = {path_index: trial.seed_cost for path_index, trial in trials.items()}
    costs: dict[int, float] = {}
    left = sorted(trials, key=seed_costs.__getitem__)
    for draws in SAMPLE_SIZES:
        more = []
        for path_id in left:
            if min(costs.values(), default=float("inf")) < seed_costs[path_id]:
                continue  # another path costs less in total than this one's seeds
            if trials[path_id].draw(draws):
                more.append(path_id)
            costs[path_id] = trials[path_id].cost
        max_cost = DECISIVE_FACTOR * min(worth, *costs.values())
        left = [path_index for path_index in more if costs[path_index] <= max_cost]
        if only_cheapest:
            left = [path_index for path_index in left if not trials[path_index].is_expensive(draws)]
            left = left if len(left) > 1 else []
    for path_id in sorted(trials.keys() - costs.keys(), key=seed_costs.__getitem__):
        if seed_costs[path_id] < min(costs.values()):  # larger samples have raised the other estimates
            trials[path_id].draw(SAMPLE_SIZES[0])
            costs[path_id] = trials[path_id].cost
        else:
            costs[path_id] = seed_costs[path_id]
    return costs


def _draw_rows(path: DeltaPath, batches: Sequence[IndexedZSet]) -> tuple[list[Int64Array], float]:
    """Return rows that are distinct for the steps, by seed variables, and their total number."""
    seen = read_seed_variables(path)
    for use, batch in zip(path.seeds, batches, strict=True):
        level = next((width for width in range(len(seen), 0, -1) if seen == frozenset(use.variables[:width])), 0)
        if level:
            return _rows_below(path, use, batch, level - 1), float(len(batch.values[level - 1]))
    batch = batches[0]
    if not seen or len(batch) > MAX_HASHED_ROWS:
        return _rows_below(path, path.seed, batch, batch.depth - 1), float(len(batch) if seen else 1)
    xp = batch.backend.xp
    columns = [batch.matrix[row] for row, name in enumerate(path.seed.variables) if name in seen]
    hashes = batch.backend.kernels.hash_rows(columns)
    share = max(1, len(batch) // COMPARED_HASHES)
    (chosen,) = positions(batch.backend, hashes % np.uint64(share) == 0)
    if len(chosen) == 0:
        return _rows_below(path, path.seed, batch, batch.depth - 1), float(len(batch))
    chosen_hashes = hashes[chosen].astype(np.int64)
    order = batch.backend.kernels.lexsort([chosen_hashes])
    first = order[batch.backend.kernels.run_starts([chosen_hashes[order]])]
    rows = chosen[first[:: max(1, len(first) // SAMPLE_ROWS)]]
    return [xp.ascontiguousarray(column[rows]) for column in batch.matrix], float(len(first) * share)


def _rows_below(path: DeltaPath, use: AtomUse, batch: IndexedZSet, level: int) -> list[Int64Array]:
    """Return one row for each of some nodes of a level, by the variables of the path's seed."""
    xp = batch.backend.xp
    n = len(batch.values[level])
    node = xp.arange(0, n, max(1, n // SAMPLE_ROWS))
    columns = {use.variables[level]: batch.values[level][node]}
    above = node
    for depth in range(level - 1, -1, -1):
        above = xp.searchsorted(batch.offsets[depth], above, side="right") - 1
        columns[use.variables[depth]] = batch.values[depth][above]
    for depth in range(level + 1, batch.depth):
        node = batch.offsets[depth - 1][node]
        columns[use.variables[depth]] = batch.values[depth][node]
    return [xp.ascontiguousarray(columns[name].astype(np.int64)) for name in path.seed.variables]


# Full recomputation: a rule's join over all rows at one moment of a tick, counted.
#
# Any of the delta paths serves: its atom provides all of its rows as seeds, and the other atoms are seen in full.


BLOCK_ROWS = 1 << 20
"""Seeds that are bound at once."""

MIN_THREAD_SEEDS = 16
"""Seeds a thread below which a further thread does not pay."""

FULL_COUNT = -1
"""Path index under which the work of full recomputations is recorded."""

LOAD = -3
"""Path index under which the work of a load is recorded that has a plan of its own."""


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
        threads = int(min(threads, max(1, expected / THREAD)))
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
            total = Summing(
                block_join, block_join.allowance, not execution.weighted, execution.uses("range sums")
            ).sum_merged(prefixes, path.steps)
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


# A load: the change of a rule whose atoms were all empty, listed along the cheapest path.
#
# A change of several atoms is the sum of the terms of all paths. If all atoms were empty, only the path whose atom is
# the last one has a term, whatever it costs; any other path gives the same rows if it sees all rows of the other atoms.


LOAD_ROWS, SMALL_LOAD_ROWS = 1 << 12, 1 << 8
"""Rows of a load from which on its path is chosen by samples, which take about 1 ms.

From the smaller number on, one sample tells first if the path that runs otherwise costs more than `SMALL_LOAD_COST`."""

SMALL_LOAD_COST = 1 << 15
"""Cost of a small load up to which it runs along the path that runs otherwise, in nanoseconds."""

SAMPLED_PIECE_ROWS = 64, 4096
"""Rows of a piece of a sample, at least and at most; its cost is tested between pieces."""

MIN_GAIN = 1.25
"""Factor by which another path has to be cheaper, by the samples, than the one that runs otherwise."""


def list_change(join: IncrementalGenericJoin, phase: int) -> Iterator[Piece]:
    """Yield the change of one phase in pieces, that of a load along its cheapest path.

    See `IncrementalGenericJoin.join`.
    """
    load = _planned_load(join, phase)
    if load is not None:
        with _reported(join, load, LOAD):
            yield from list_change(load, phase)
        return
    limit = _limit_of_planned_path(join, phase)
    if limit is not None:
        yield from _list_single_tick(join, phase, limit)
        return
    with _along_cheapest_path(join, phase, False, None, 0.0) as cheapest:
        yield from cheapest.join(phase)


def _list_as_before(join: IncrementalGenericJoin, phase: int, max_cost: float) -> list[Piece] | None:
    """Return the rows of a load along the path chosen before it; None if that costs too much.

    A load costs up to `max_cost`, or not much more than the one before. If that was given up, it is not tried again.
    """
    known = join.load_cost.cost
    if known == np.inf:
        return None
    before, limit = join.cost, max(max_cost, REPEATED_FACTOR * (known or 0.0))
    pieces = _list_within(join, phase, limit)
    join.load_cost.cost = np.inf if pieces is None else join.cost - before or known
    return pieces


def _list_single_tick(join: IncrementalGenericJoin, phase: int, limit: float) -> Iterator[Piece]:
    """Yield the rows of a single tick along the planned path, or a cheaper one.

    What the planned path has cost is the only sure bound of its cost: samples may miss a hub. So it is given up again
    and again for a comparison with the others, at limits that grow.
    """
    if join.load_cost.cost and (pieces := _list_as_before(join, phase, 0.0)) is not None:
        yield from pieces
        return
    if join.n_seeds(0, phase) >= SAMPLED_ROWS and (
        _sampled_cost(join, join, phase, SAMPLE_SIZES[0], False, limit) >= limit
    ):
        single, pieces = None, None
        if not any(arrangement.is_state for arrangement in join.arrangements.values()):  # which is listed again
            max_cost = max(BELIEVED_FACTOR * join.query.expected_cost, BEGUN_FRACTION * limit)
            pieces = _list_as_before(join, phase, max_cost)
        if pieces is None:
            single, cost = _cheapest_alternative(join, phase, False, FIRST_BUDGET, limit)
            pieces = None if single is None else _list_within(join, phase, BEGUN_FRACTION * cost)
        if pieces is not None:  # the sample did not see that many rows lead to one hub
            yield from pieces
            return
        if single is not None:
            with _reported(join, single, FULL_COUNT):
                yield from single.join(phase)
            return
    max_cost, before = MAX_ERROR * limit, join.cost
    extrapolated = 0.0
    while (pieces := _list_within(join, phase, max_cost)) is None:
        extrapolated = extrapolated or _extrapolated_cost(join, phase, False, MAX_SURPRISE * limit)
        cost = max(max_cost, extrapolated)
        with _along_cheapest_path(join, phase, False, limit, cost) as cheapest:
            max_cost = MAX_ERROR * cost
            if cheapest is not join or max_cost > MAX_GIVEN_UP:
                yield from cheapest.join(phase)
                return
    join.load_cost.cost = join.cost - before or join.load_cost.cost  # a phase without changes tells nothing
    yield from pieces


def count_change(join: IncrementalGenericJoin, phase: int) -> int:
    """Return the weight of the change of one phase, that of a load along its cheapest path.

    See `IncrementalGenericJoin.count`.
    """
    load = _planned_load(join, phase)
    if load is not None:
        with _reported(join, load, LOAD):
            return count_change(load, phase)
    limit, cost = _limit_of_planned_path(join, phase), 0.0
    if limit is not None:
        if _sampled_cost(join, join, phase, SAMPLE_SIZES[0], True, limit / DECISIVE_FACTOR) < limit / DECISIVE_FACTOR:
            return join.count(phase)
        if _sampled_cost(join, join, phase, SAMPLE_SIZES[-1], True, limit) < limit:
            return join.count(phase)
        single, _ = _cheapest_alternative(join, phase, True, FIRST_BUDGET, limit)
        if single is not None:
            with _reported(join, single, FULL_COUNT):
                return single.count(phase)
        cost = _extrapolated_cost(join, phase, True, MAX_SURPRISE * limit)
    with _along_cheapest_path(join, phase, True, limit, cost) as cheapest:
        return cheapest.count(phase)


@contextmanager
def _along_cheapest_path(
    join: IncrementalGenericJoin, phase: int, counts: bool, limit: float | None, cost: float
) -> Generator[IncrementalGenericJoin]:
    """Yield the join, or one along the cheapest path, whose work is reported as work of `join`.

    `limit` is that of the planned path of a single tick, which `cost` exceeds; None if there is none.
    """
    if limit is not None:
        single, index = _cheapest_alternative(join, phase, counts, limit, cost)[0], FULL_COUNT
    else:
        cheapest = _cheapest_path_of_load(join, phase, counts)
        single, index = (None, FULL_COUNT) if cheapest is None else (_along(join, cheapest), cheapest)
    if single is None:
        yield join
        return
    with _reported(join, single, index):
        yield single


@contextmanager
def _reported(join: IncrementalGenericJoin, single: IncrementalGenericJoin, index: int) -> Generator[None]:
    """Report the work of another join of the same rows as work of `join`, under its limit."""
    single.failed = join.failed
    single.max_cost = None if join.max_cost is None else join.max_cost - join.cost
    try:
        yield
    finally:
        join.finished += [(index, work) for _, work in single.finished]
        for meter in single.meters:
            meter.path_index = index
        join.meters += single.meters
        join.seeds += single.seeds
        join.given_up_cost += single.given_up_cost
        join.weight_bound = max(join.weight_bound, single.weight_bound)
        join.magnitude = max(join.magnitude, single.magnitude)


def _along(join: IncrementalGenericJoin, index: int) -> IncrementalGenericJoin:
    return IncrementalGenericJoin(join.query.along(index), join.arrangements, join.execution)


def _path_of_load(join: IncrementalGenericJoin, phase: int) -> int | None:
    """Return the path that runs in a load; None if the change is small, or not a load."""
    numbers = [index for index, path in enumerate(join.query.paths) if not path.is_negated]
    if not join.execution.loads or join.makes_text or type(join) is not IncrementalGenericJoin:
        return None
    if not all(join.query.paths[index].seed.variables for index in numbers):  # an atom of wildcards
        return None
    n_rows = [join.n_seeds(index, phase) for index in numbers]
    if sum(n_rows) < SMALL_LOAD_ROWS or not all(n_rows):
        return None
    if any(arrangement.before(phase) for arrangement in join.arrangements.values()):
        return None
    live = [index for index in numbers if join.is_live(index, phase)]
    return live[0] if len(live) == 1 else None


def _n_sharing(join: IncrementalGenericJoin, index: int, phase: int) -> int:
    """Return the number of paths that share the first steps of a path in this tick."""
    user = join.prefix_users.get(index)
    return 1 if user is None or not user.is_worth_it(phase) else len(user.shared.users)


def _planned_load(join: IncrementalGenericJoin, phase: int) -> IncrementalGenericJoin | None:
    """Return the join by which a load runs that has a plan of its own; None if it has none.

    It has none of its own either if paths of other rules share its first steps.
    """
    query = join.query.load
    if query is None:
        return None
    index = _path_of_load(join, phase)
    if index is None:
        return None
    user = join.prefix_users.get(index)
    if user is not None and any(other.join is not join and other.will_read(phase) for other in user.shared.users):
        return None
    arrangements: dict[ArrangementKey, Arrangement] = {}
    for key in query.keys:
        arrangement = join.arrangements.get(key)
        for source in () if arrangement is not None else join.arrangements.values():
            if source.key.relation == key.relation and arrangement is None:
                arrangement = source.rearranged(key, join.execution.weighted)
        if arrangement is None:
            return None
        arrangements[key] = arrangement
    return IncrementalGenericJoin(query, arrangements, join.execution, load_cost=join.load_cost)


def _cheapest_path_of_load(join: IncrementalGenericJoin, phase: int, counts: bool) -> int | None:
    """Return the path that is cheaper than the one that runs otherwise, or None."""
    numbers = [index for index, path in enumerate(join.query.paths) if not path.is_negated]
    n_rows = [join.n_seeds(index, phase) for index in numbers]
    usual = _path_of_load(join, phase)
    if len(numbers) < 2 or usual is None:
        return None
    min_gain = MIN_GAIN * _n_sharing(join, usual, phase)
    if sum(n_rows) < LOAD_ROWS and (
        _sampled_cost_along(join, usual, phase, SAMPLE_SIZES[0], counts, SMALL_LOAD_COST) < SMALL_LOAD_COST
    ):
        return None
    costs = {} if counts else join.sampled_costs
    if not costs:
        costs = _race(join, numbers, phase, SAMPLE_SIZES[0], counts)
    cheapest = min(costs, key=costs.__getitem__)
    best = costs[cheapest]
    if costs.get(usual, np.inf) < 2 * min_gain * best:
        if costs[usual] > max(min_gain * best, FIRST_BUDGET):  # larger samples of both decide
            limit = DECISIVE_FACTOR * costs[usual]
            pair = {index: _sampled_cost_along(join, index, phase, SAMPLE_SIZES[-1], counts, limit)
                    for index in (usual, cheapest)}  # fmt: skip
            return cheapest if min_gain * pair[cheapest] < pair[usual] else None
        cheapest = usual
    larger = costs.get(cheapest, np.inf)
    if _n_draws(join.n_seeds(cheapest, phase), SAMPLE_SIZES[-1]) > SAMPLE_SIZES[0]:
        larger = _sampled_cost_along(
            join, cheapest, phase, SAMPLE_SIZES[-1], counts, MAX_SURPRISE * max(best, FIRST_BUDGET)
        )
    if larger > DECISIVE_SURPRISE * max(costs[cheapest], FIRST_BUDGET):  # the smaller sample has missed a hub
        remaining = [index for index in numbers if index != cheapest]
        limit = larger if larger < np.inf else MAX_SURPRISE * max(best, FIRST_BUDGET)
        costs = {**_race(join, remaining, phase, SAMPLE_SIZES[-1], counts, limit), cheapest: larger}
    elif cheapest == usual:
        return None
    elif len(costs) > 1 and best > BUDGET_FACTOR * FIRST_BUDGET:  # else more samples would cost as much as the load
        costs[cheapest] = larger
        for index in costs.keys() - {cheapest}:
            cost = _sampled_cost_along(join, index, phase, SAMPLE_SIZES[-1], counts, DECISIVE_FACTOR * best)
            costs[index] = cost if cost < np.inf else costs[index]
    cheapest = min(costs, key=costs.__getitem__)
    return cheapest if costs[cheapest] * min_gain < costs.get(usual, np.inf) else None


def _limit_of_planned_path(join: IncrementalGenericJoin, phase: int) -> float | None:
    """Return the cost up to which the planned path of a single tick runs without a comparison.

    In nanoseconds; None if there is no other path. The atoms of the planned path have to be indexed in any case;
    another path costs the indices of its atoms, too.
    """
    execution, query = join.execution, join.query
    if not query.alternatives or execution.backend.device is not None or execution.share is not None:
        return None
    if join.makes_text or type(join) is not IncrementalGenericJoin or not execution.uses("load paths"):
        return None
    indices = (_cost_of_indices(join, path, phase, query.paths[0].keys) for path in query.alternatives)
    return max(UNCOMPARED_COST, INDICES_FACTOR * min(indices), UNEXPECTED_FACTOR * query.expected_cost)


def _extrapolated_cost(join: IncrementalGenericJoin, phase: int, counts: bool, max_cost: float) -> float:
    """Return the cost of the planned path of a single tick, by samples of two sizes.

    Prefixes that lead to one hub are grouped, so they cost less each, the more there are. A cost per seed that falls
    from the small sample to the large one is taken to fall on as that power of the seeds. Infinite if a sample costs
    more than `max_cost`.
    """
    small, large = (_sampled_cost(join, join, phase, draws, counts, max_cost) for draws in SAMPLE_SIZES)
    n_seeds = join.n_seeds(0, phase)
    n_small, n_large = (_n_draws(n_seeds, draws) for draws in SAMPLE_SIZES)
    if not 0 < large < small < np.inf or n_small == n_large:
        return large
    power = max(-1.0, log(large / small) / log(n_large / n_small))
    return large * exp(power * log(n_seeds / n_large))


def _list_within(join: IncrementalGenericJoin, phase: int, max_cost: float) -> list[Piece] | None:
    """Return the rows of a single tick along the planned path; None if that costs more.

    What was listed is lost then.
    """
    before, outer = (join.seeds, join.magnitude, len(join.failed)), join.max_cost
    cost = join.cost
    limit = cost + max_cost
    join.max_cost = limit if outer is None else min(limit, outer)
    try:
        return list(join.join(phase))
    except AllowanceError:
        if join.max_cost == outer:
            raise
        join.given_up_cost += join.cost - cost
        join.seeds, join.magnitude, n_failed = before
        del join.failed[n_failed:]
        return None
    finally:
        join.max_cost = outer


def _cheapest_alternative(
    join: IncrementalGenericJoin, phase: int, counts: bool, limit: float, planned: float
) -> tuple[IncrementalGenericJoin | None, float]:
    """Return the join along the cheapest other path of a single tick, and its cost, by samples.

    None if no path is clearly cheaper than the planned one, which costs `planned` or more. Samples begin with `limit`.
    The indices that they need cost at most as much as the paths may.
    """
    max_cost = planned / MIN_GAIN
    joins = sorted(_alternatives(join), key=lambda single: single.n_seeds(0, phase))  # costs limit those after them
    indexed, limit = 0.0, min(limit, max_cost / BUDGET_FACTOR)
    costs = [np.inf] * len(joins)
    while min(costs) == np.inf and limit < max_cost:
        limit = min(BUDGET_FACTOR * limit, max_cost)
        for index, single in enumerate(joins):
            indices = _cost_of_indices(join, single.query.paths[0], phase)
            if (1 if limit == max_cost else BUDGET_FACTOR) * (indexed + indices) <= limit:
                indexed += indices
                costs[index] = _sampled_cost(join, single, phase, SAMPLE_SIZES[0], counts, min([limit, *costs]))
    cheapest = joins[costs.index(min(costs))]
    if min(costs) == np.inf:
        return None, np.inf
    cost, n_seeds = min(costs), cheapest.n_seeds(0, phase)
    if _n_draws(n_seeds, SAMPLE_SIZES[-1]) > _n_draws(n_seeds, SAMPLE_SIZES[0]):
        cost = _sampled_cost(join, cheapest, phase, SAMPLE_SIZES[-1], counts, max_cost)
    return (None if cost == np.inf else cheapest), cost


def _alternatives(join: IncrementalGenericJoin) -> list[IncrementalGenericJoin]:
    """Return the joins along the other paths of a single tick."""
    queries = [replace(join.query, paths=(path,), alternatives=()) for path in join.query.alternatives]
    return [IncrementalGenericJoin(query, join.arrangements, join.execution) for query in queries]


def _cost_of_indices(
    join: IncrementalGenericJoin, path: DeltaPath, phase: int, existing: Collection[ArrangementKey] = ()
) -> float:
    """Return the cost of the missing indices that a path of a single tick needs, in nanoseconds."""
    rows = (join.arrangements[key].starting_rows(phase) for key in set(path.keys).difference(existing))
    return INDEXED_ROW * sum(batch.n_rows for batch in rows if isinstance(batch, RowBatch))


SAMPLED_ROWS = 1 << 10
"""Rows that start a planned path from which on a sample is drawn before it runs."""

MAX_ERROR, BELIEVED_FACTOR, BEGUN_FRACTION = 8.0, 2.0, 0.25
"""Cost at which a planned path is given up. It is a factor of its limit; if a sample finds it dearer than that, the
larger of a factor of the cost that the planner has expected and a fraction of the limit; and if samples then find
another path cheaper, a fraction of the other's cost. A small sample does not see that many rows lead to one hub."""

REPEATED_FACTOR = 4.0
"""Factor of the cost of the last load at which the next one along the same path is given up."""

MAX_GIVEN_UP = 1 << 28
"""Cost in nanoseconds up to which a path is given up: until then its rows are in memory."""

UNCOMPARED_COST, INDICES_FACTOR, UNEXPECTED_FACTOR = float(1 << 23), 4.0, 8.0
"""Cost up to which a planned path runs without a comparison.

In nanoseconds, as a factor of missing indices, and as a factor of the cost that the planner has expected.

A sample takes half a millisecond, whatever it costs, and there are several (`python -m bench.cliffs`)."""


def _n_draws(n_seeds: int, draws: int) -> int:
    """Return the number of seeds in a sample of about `draws`; few of few seeds."""
    return max(1, min(draws, n_seeds // MIN_SAMPLE_SCALE))


DECISIVE_SURPRISE, MAX_SURPRISE = 2.0, 64.0
"""Factors by which a larger sample of a path costs more than a small one: where the other paths are sampled again, and
where the larger sample ends."""

FIRST_BUDGET, BUDGET_FACTOR = 1 << 18, 16
"""Cost of a load that is tried first by samples of its paths, and the factor by which it grows until one costs less."""


def _race(
    join: IncrementalGenericJoin, numbers: Sequence[int], phase: int, draws: int, counts: bool, limit: float = np.inf,
    expected: float = FIRST_BUDGET,
) -> dict[int, float]:  # fmt: skip
    """Return the costs of the cheapest paths of a load, in nanoseconds, by samples.

    Paths that cost over `BUDGET_FACTOR` times the cheapest one are left out, and those that cost over `limit`. So
    samples cost little beside the cheapest path, however dear the others are.
    """
    budget = min(limit, max(expected, FIRST_BUDGET))
    costs: dict[int, float] = {}
    while True:
        sampled = {index: _sampled_cost_along(join, index, phase, draws, counts, budget)
                   for index in numbers if index not in costs}  # fmt: skip
        costs |= {index: cost for index, cost in sampled.items() if cost < np.inf}
        enough = min(limit, min(costs.values(), default=np.inf) / MIN_GAIN)
        if budget >= enough:
            return costs
        # The seeds of a path alone may cost more than the budget: the others are to be cheaper than that.
        budget = enough if costs else min(limit, BUDGET_FACTOR * budget)


def sampled_cost_of_load(join: IncrementalGenericJoin, phase: int, limit: float, expected: float) -> float:
    """Return the cost of listing a load along its cheapest path, by samples, in nanoseconds.

    The batches of the rows that start it are merged for it. Infinite if it is more than `limit`. The join remembers the
    costs, for the load itself.
    """
    load = _planned_load(join, phase)
    if load is not None:
        with _reported(join, load, FULL_COUNT):
            cost = _sampled_cost(load, load, phase, SAMPLE_SIZES[0], False, limit)
        return cost + MERGED_ROW * load.n_seeds(0, phase)
    numbers = [index for index, path in enumerate(join.query.paths) if not path.is_negated and path.seed.variables]
    join.sampled_costs = _race(join, numbers, phase, SAMPLE_SIZES[0], False, limit, expected)
    costs = (cost + MERGED_ROW * join.n_seeds(index, phase) for index, cost in join.sampled_costs.items())
    return min(costs, default=np.inf)


def sampled_cost_of_change(join: IncrementalGenericJoin, phase: int, limit: float) -> float:
    """Return the cost of listing the change of one phase, by samples, in nanoseconds.

    Infinite if it is more than `limit`. Paths of few seeds and of negated atoms are left out: a sample would cost as
    much as the path.
    """
    min_seeds = MIN_SAMPLE_SCALE * SAMPLE_SIZES[0]
    sampled = [
        index
        for index, path in enumerate(join.query.paths)
        if not path.is_negated and join.n_seeds(index, phase) >= min_seeds and join.is_live(index, phase)
    ]
    cost = 0.0
    for index in sampled:
        cost += _sampled_cost_along(join, index, phase, SAMPLE_SIZES[0], False, limit - cost)
        if cost >= limit:
            return np.inf
    return cost


def _sampled_cost_along(
    join: IncrementalGenericJoin, index: int, phase: int, draws: int, counts: bool, max_cost: float
) -> float:
    """Return `_sampled_cost` of one path of a join, which sees all rows of the other atoms."""
    return _sampled_cost(join, _along(join, index), phase, draws, counts, max_cost)


def _sampled_cost(
    join: IncrementalGenericJoin, single: IncrementalGenericJoin, phase: int, draws: int, counts: bool, max_cost: float
) -> float:
    """Return the cost of listing or counting along the only path of a join, by a sample.

    The sample has about `draws` seeds.

    Infinite if it is more than `max_cost`. The work is reported as work of `join`.
    """
    path, way = single.query.paths[0], single.bound_paths[0][0]
    generic = single.bound_join(way, 0, phase)
    if generic is None:
        return 0.0
    batch = way.seeds[0].sampled_rows(phase)
    assert batch is not None
    n_rows = way.seeds[0].n_starting_rows(phase)
    n_draws = _n_draws(n_rows, draws)
    if isinstance(batch, RowBatch):  # in the order in which they came
        rows = batch.columns()
        n_rows = len(rows[0])
    else:
        rows = _rows_below(path, path.seed, batch, batch.depth - 1)
    if not n_rows:
        return 0.0
    some = slice(None, None, max(1, len(rows[0]) // n_draws))
    chosen = [np.ascontiguousarray(column[some]) for column in rows]
    sample = IndexedZSet.from_columns(chosen, None, generic.backend)
    scale = n_rows / len(chosen[0] if isinstance(batch, RowBatch) else sample)
    budgeted = with_metered_budget(generic, join.execution, max_cost / scale)
    least, most = SAMPLED_PIECE_ROWS
    budgeted.is_sample = True
    budgeted.chunk_rows = int(min(most, max(least, max_cost / scale / WRITTEN_PREFIX)))
    prefixes = bind_seeds(path, seed_rows(path, [sample], budgeted, path.seed.variables[0]), budgeted)
    depth = 0 if counts else path.depth_of(single.query.head_variables)
    try:
        if counts and len(path.steps) > 1 and not path.calculations:
            weighed = with_weights(budgeted, path)
            Summing(weighed, budgeted.allowance, not join.execution.weighted).sum_merged(prefixes, path.steps)
        else:
            merging = single.merging(budgeted, path, scale)
            bound = single.bind_pieces(budgeted, prefixes, path, depth)
            for piece in bound if merging is None else merging.pieces(prefixes, path.steps, depth):
                if depth < len(path.steps) and len(piece):
                    remaining_scale = scale if merging is None else merging.scale
                    _count_sampled(budgeted, piece, path.steps[depth:], remaining_scale)
        budgeted.allowance.check(budgeted)
    except AllowanceError:
        return np.inf
    finally:
        report_work(join, [budgeted], SAMPLED)
    return scale * (binding_cost(path, len(sample), budgeted) + budgeted.allowance.cost(budgeted))


def _count_sampled(join: BudgetedJoin, prefixes: Prefixes, steps: Sequence[Step], scale: float) -> None:
    """Count the last steps of a sample's prefixes, each of which stands for `scale` prefixes.

    Prefixes that are equal for the steps are counted once, so all of them cost no more than all that the steps can tell
    apart. The sample is charged its share of that.
    """
    columns, places = group_key(prefixes, steps, join)
    if places is None or join.backend.device is not None:
        join.count_bounded(prefixes, steps)
        return
    if columns:
        _, first = np.unique(np.stack(columns), axis=1, return_index=True)
    else:
        first = np.zeros(1, np.int64)
    chosen = prefixes.gather(first, join.backend.xp) if len(first) < len(prefixes) else prefixes
    chosen, share = thin_sample(chosen, places, scale)
    with charge_share(join.allowance, join, share, scale):
        join.count_bounded(chosen, steps)


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
