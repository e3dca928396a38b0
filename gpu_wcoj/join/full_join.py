"""Cost estimates of counting a path's bindings from many rows, by a sample.

Prefixes that are equal for the steps are merged, so a prefix costs nothing if equal ones exist. The sample is therefore
drawn from distinct prefixes: from the nodes of a trie whose first levels are the variables that the steps read, or by
hashes of these. Prefixes that become equal only later count as distinct.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from gpu_wcoj.join.alike import group_key
from gpu_wcoj.join.costed import BudgetedJoin, binding_cost
from gpu_wcoj.join.eliminate import AllowanceError, Summing
from gpu_wcoj.join.plan import AtomUse, DeltaPath, Step
from gpu_wcoj.join.prefixes import Prefixes
from gpu_wcoj.join.seeds import bind_seeds, seed_rows
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.zset.arrays import positions
from gpu_wcoj.zset.index import IndexedZSet

SAMPLE_ROWS = 128
"""Rows in the sample."""

SAMPLE_SIZES = 16, SAMPLE_ROWS
"""Sizes of successive samples, in rows; a larger one follows if the first was cheap."""

MAX_SAMPLE_COST = 1 << 21
"""Cost of samples of a path, in candidates, after which no further sample is drawn.

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


def estimate_cost(trial: CountEstimate, least: float, most: float) -> float:
    """Estimate the cost of counting a path.

    The estimate is rougher if it is far below `least` or far above `most`.
    """
    for draws in SAMPLE_SIZES:
        if not trial.draw(draws) or trial.cost * DECISIVE_FACTOR < least or trial.cost > most * DECISIVE_FACTOR:
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
