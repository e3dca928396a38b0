"""What it costs to count a path's bindings from many rows, by some of them, before that is done.

Prefixes that look alike to the steps go on as one, so one more costs nothing where others like it are there.
Rows are drawn from those that do not look alike: from the nodes of a trie that begins with what the steps see, or by
the hashes of that. What looks alike only later on is taken to be different.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from gpu_wcoj.join.alike import look_of
from gpu_wcoj.join.costed import CostedJoin, cost_of_binding
from gpu_wcoj.join.path import AtomUse, DeltaPath, Step
from gpu_wcoj.join.prefixes import Prefixes
from gpu_wcoj.join.seeds import bind, seed_rows
from gpu_wcoj.join.summing import AllowanceError, Summing
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.zset.arrays import positions
from gpu_wcoj.zset.index import IndexedZSet

TRIED = 128
"""Rows that are drawn."""

DRAWS = 16, TRIED
"""So many of them are tried, more and more while that is cheap."""

MOST_SPENT = 1 << 21
"""No more is tried once so much has been spent on a path, in candidates; what may be spent in any case."""

FAR = 8.0
"""If the few rows tell a cost that is so many times away from what matters, no more of them are tried."""

SECOND = 0.05
"""Of what a path costs, how much may be spent on more of them where it is only asked which path is the cheapest."""

HASHED = 8 * TRIED
"""About so many rows are looked at for which of them look alike."""

MOST_HASHED = 1 << 20
"""More rows than this are not hashed."""


def seen_of(path: DeltaPath) -> frozenset[str]:
    """The variables of a path's seed that its steps see.

    Examples
    --------
    >>> from gpu_wcoj.join.path import Step
    >>> from gpu_wcoj.trace.arrangement import ArrangementKey
    >>> uses = [AtomUse(at, ArrangementKey("e", (0, 1)), pair) for at, pair in enumerate(["ab", "bc", "cd"])]
    >>> sorted(seen_of(DeltaPath((uses[0],), tuple(uses[1:]), (), (Step("c", (1, 2)), Step("d", (2,))))))
    ['b']
    """
    bound = set(path.seed.variables)
    read = frozenset[str]().union(*(step.spoken for step in path.steps))
    for use in path.others:
        if not bound.issuperset(use.variables):
            read = read.union(use.variables)
    return read & bound


@dataclass(eq=False)
class _Depth:
    """What a sum did with all prefixes that had so many steps left.

    Attributes
    ----------
    rows
        Prefixes that were written.
    places
        How many prefixes the steps can tell apart, if that is known.
    below
        What is written for all of these together, if that is known.
    """

    prefixes: int = 0
    cost: int = 0
    rows: int = 0
    places: int | None = None
    below: int | None = None


@dataclass(eq=False)
class _Traced(Summing):
    """As `Summing`; what is done at each depth is told apart."""

    depths: dict[int, _Depth] = field(default_factory=dict, init=False)
    _at: int = field(default=-1, init=False)

    def __post_init__(self) -> None:
        self._mark = self.allowance.cost(self.join), self.allowance.rows

    def total(self, prefixes: Prefixes, steps: Sequence[Step]) -> int:
        """See `Summing.total`."""
        outer = self._at
        self._pass_to(len(steps))
        depth = self.depths[len(steps)]
        depth.prefixes += len(prefixes)
        if len(prefixes) and depth.places is None:
            _, depth.places = look_of(prefixes, steps, self.join)
            read = {atom for step in steps for atom in step.atoms}
            own = [(self.join.batches[atom], bound) for atom, bound in prefixes.layout if atom in read]
            if depth.places is not None and len(own) == 1:
                ((batches, bound),) = own
                depth.below = sum(len(batch.values[bound]) for batch in batches)
        found = super().total(prefixes, steps)
        self._pass_to(outer)
        return found

    def _pass_to(self, depth: int) -> None:
        """What has been done since the last call was done at the depth of then."""
        now = self.allowance.cost(self.join), self.allowance.rows
        own = self.depths.setdefault(self._at, _Depth())
        own.cost += now[0] - self._mark[0]
        own.rows += now[1] - self._mark[1]
        self._at, self._mark = depth, now
        self.depths.setdefault(depth, _Depth())

    def cost_of(self, share: float) -> float:
        """What it costs to sum over so many times as many prefixes, where no depth has more than can be told apart."""
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
class Trial:
    """What it costs to count a path from many rows, by some of them.

    Attributes
    ----------
    batches
        Most of the rows, in each of the path's seed orders.
    n_rows
        How many there are.
    join
        What it has cost up to now is in its allowance.
    of_sets
        Whether all relations are sets.
    cost
        As far as is known; infinite before any row was tried, and where that takes more than it may.
    """

    path: DeltaPath
    batches: Sequence[IndexedZSet]
    n_rows: int
    join: CostedJoin
    of_sets: bool
    cost: float = field(default=float("inf"), init=False)

    def __post_init__(self) -> None:
        if self.n_rows == 0 or len(self.batches[0]) == 0:
            self.cost = 0.0

    @cached_property
    def _rows(self) -> tuple[list[Int64Array], float]:
        return _drawn(self.path, self.batches)

    def draw(self, draws: int) -> bool:
        """Try about so many rows; whether more of them would tell more."""
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
            summing.over(bind(path, seeds, join), path.steps)
        except AllowanceError:
            return False
        share = different / len(some) * self.n_rows / len(self.batches[0])
        self.cost = self.least + summing.cost_of(share)
        return len(some) < n and join.allowance.cost(join) <= MOST_SPENT

    @property
    def least(self) -> int:
        """What it costs to begin."""
        return cost_of_binding(self.path, self.n_rows, self.join)

    def is_dear(self, draws: int) -> bool:
        """Whether after so many of them the rest would cost much of what the path does."""
        return self.join.allowance.cost(self.join) * DRAWS[-1] > SECOND * self.cost * draws


def tried(trial: Trial, least: float, most: float) -> float:
    """About what it costs to count a path, more roughly if that is far less than `least` or far more than `most`."""
    for draws in DRAWS:
        if not trial.draw(draws) or trial.cost * FAR < least or trial.cost > most * FAR:
            break
    return trial.cost


def compared(trials: Mapping[int, Trial], worth: float, only_cheapest: bool) -> dict[int, float]:
    """About what it costs to count along each of these paths; more roughly where it is far more than along another.

    Of a path that costs more to begin with than another one does in all, only that is said.

    Parameters
    ----------
    worth
        What a count may cost for it to matter what it costs.
    only_cheapest
        Whether it is only asked which path is the cheapest. Then no more rows are tried where that would cost much of
        what the path does.
    """
    least = {number: trial.least for number, trial in trials.items()}
    costs: dict[int, float] = {}
    left = sorted(trials, key=least.__getitem__)
    for draws in DRAWS:
        more = []
        for number in left:
            if min(costs.values(), default=float("inf")) < least[number]:
                continue  # another path costs less than this one does to begin with
            if trials[number].draw(draws):
                more.append(number)
            costs[number] = trials[number].cost
        most = FAR * min(worth, *costs.values())
        left = [number for number in more if costs[number] <= most]
        if only_cheapest:
            left = [number for number in left if not trials[number].is_dear(draws)]
            left = left if len(left) > 1 else []
    for number in sorted(trials.keys() - costs.keys(), key=least.__getitem__):
        if least[number] < min(costs.values()):  # more rows have told that the others cost more
            trials[number].draw(DRAWS[0])
            costs[number] = trials[number].cost
        else:
            costs[number] = least[number]
    return costs


def _drawn(path: DeltaPath, batches: Sequence[IndexedZSet]) -> tuple[list[Int64Array], float]:
    """Rows that look different to the steps, by the variables of the path's seed; and how many such rows there are."""
    seen = seen_of(path)
    for use, batch in zip(path.seeds, batches, strict=True):
        level = next((at for at in range(len(seen), 0, -1) if seen == frozenset(use.variables[:at])), 0)
        if level:
            return _below(path, use, batch, level - 1), float(len(batch.values[level - 1]))
    batch = batches[0]
    if not seen or len(batch) > MOST_HASHED:
        return _below(path, path.seed, batch, batch.depth - 1), float(len(batch) if seen else 1)
    xp = batch.backend.xp
    columns = [batch.matrix[at] for at, name in enumerate(path.seed.variables) if name in seen]
    hashes = batch.backend.kernels.hash_rows(columns)
    share = max(1, len(batch) // HASHED)
    (chosen,) = positions(batch.backend, hashes % np.uint64(share) == 0)
    if len(chosen) == 0:
        return _below(path, path.seed, batch, batch.depth - 1), float(len(batch))
    own = hashes[chosen].astype(np.int64)
    order = batch.backend.kernels.lexsort([own])
    first = order[batch.backend.kernels.run_starts([own[order]])]
    rows = chosen[first[:: max(1, len(first) // TRIED)]]
    return [xp.ascontiguousarray(column[rows]) for column in batch.matrix], float(len(first) * share)


def _below(path: DeltaPath, use: AtomUse, batch: IndexedZSet, level: int) -> list[Int64Array]:
    """Of some nodes of a level one row each, by the variables of the path's seed."""
    xp = batch.backend.xp
    n = len(batch.values[level])
    node = xp.arange(0, n, max(1, n // TRIED))
    columns = {use.variables[level]: batch.values[level][node]}
    above = node
    for depth in range(level - 1, -1, -1):
        above = xp.searchsorted(batch.offsets[depth], above, side="right") - 1
        columns[use.variables[depth]] = batch.values[depth][above]
    for depth in range(level + 1, batch.depth):
        node = batch.offsets[depth - 1][node]
        columns[use.variables[depth]] = batch.values[depth][node]
    return [xp.ascontiguousarray(columns[name].astype(np.int64)) for name in path.seed.variables]
