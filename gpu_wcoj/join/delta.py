"""The delta rule: the change of a join as one generic join per atom.

    dQ = sum over j of  after(A1) ... after(A(j-1)) . d(Aj) . before(A(j+1)) ... before(An)

Atoms are numbered in the order of the body; every occurrence of a relation is an atom. The rule is exact for
insertions, deletions, bag weights, self-joins and simultaneous changes. A path is skipped if one of its factors is
empty: from the empty state only the path of the last atom remains.

A negated atom N is the factor 1 - d(N), d(w) = 1 if w > 0 else 0. Negated atoms are numbered before the positive ones,
so that other paths read them as after the tick; the change of -d(N) has a path of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np

from gpu_wcoj.backend import Backend
from gpu_wcoj.costs import WRITTEN_PREFIX
from gpu_wcoj.join.eliminate import (
    Allowance,
    AllowanceError,
    BudgetedJoin,
    Merging,
    can_eliminate,
    cost_of_listing,
    sum_bindings,
    with_budget,
)
from gpu_wcoj.join.generic import GenericJoin, with_meter
from gpu_wcoj.join.plan import AtomUse, CommonPrefix, Continuation, DeltaPath, DeltaQuery, Symmetry, branch_name
from gpu_wcoj.join.prefixes import (
    JoinCounts,
    Meter,
    Prefixes,
    Shapes,
    bound_magnitudes,
    exact_dot,
    largest_magnitudes,
    multiply_exactly,
    now,
    run_within_memory,
    sum_meters,
)
from gpu_wcoj.join.seeds import (
    Seeds,
    assign_seeds_to_variants,
    bind_seeds,
    first_variables,
    reverse_change,
    seed_rows,
    seeding,
)
from gpu_wcoj.join.settings import Execution, in_order
from gpu_wcoj.kernels.protocol import N_WORK, SURVIVORS, Int64Array, Level
from gpu_wcoj.trace.arrangement import Arrangement, ArrangementKey, RowBatch
from gpu_wcoj.trace.spine import Spine
from gpu_wcoj.zset.arrays import is_host, numbers, stacked
from gpu_wcoj.zset.index import IndexedZSet

# Execution of delta paths: seeds of a tick, arrangements, blocks on threads or a device.
#
# The caller passes a function that processes the first prefixes.


_T = TypeVar("_T")

Run = Callable[[GenericJoin, Prefixes, DeltaPath], Iterable[_T]]
"""A function that processes the first prefixes of a path."""

SPLIT_FROM = 2048
"""Seeds of a path below which it runs on one thread."""

BLOCKS_PER_THREAD = 4
"""Blocks of seeds a thread, at most."""

MIN_BLOCK_SEEDS = 256
"""Least number of seeds of one block."""
MAX_BLOCK_SEEDS = 1 << 16
"""Seeds of a block at which a path gets more blocks than its threads need."""


def edges_of(n_seeds: int, n_blocks: int) -> Iterator[tuple[int, int]]:
    """Return the bounds of so many blocks of seeds, or of more if these are too large.

    What is made of the seeds of a block stays in the processor's cache.
    """
    edges = np.linspace(0, n_seeds, max(1, n_blocks, n_seeds // MAX_BLOCK_SEEDS) + 1).astype(int)
    return pairwise(edges.tolist())


@dataclass(eq=False)
class BoundPath:
    """A path, a variant of one, or the continuation of one, with its arrangements.

    Attributes
    ----------
    seeds, others, negated
        The arrangements of its seeds and of the other atoms.
    done
        The arrangements of atoms whose weights are already in the rows that start the path.
    """

    path: DeltaPath
    seeds: list[Arrangement]
    other_atoms: list[tuple[AtomUse, Arrangement]]
    negated: list[tuple[AtomUse, Arrangement]]
    shapes: Shapes = field(default_factory=dict)
    done: Sequence[tuple[AtomUse, Arrangement]] = ()

    @cached_property
    def uses(self) -> dict[int, AtomUse]:
        """The other atoms, by index."""
        return {use.atom: use for use, _ in self.other_atoms}

    def visible_batches(self, use: AtomUse, arrangement: Arrangement, phase: int) -> tuple[IndexedZSet, ...]:
        """Return the batches of an atom that the path sees in a phase: the state after it or before."""
        return arrangement.after(phase) if self.path.sees_after(use) else arrangement.before(phase)


MIN_PIECE_ROWS, PIECES_OF_LIMIT = 1024, 4
"""Rows of a piece at least, and pieces that may be written within the limit, if a change may be given up.

That is tested between pieces. A single tick writes one: rows of one hub are found again in every piece, and it is given
up once, while ticks are given up again and again."""


@dataclass(eq=False)
class PathRunner:
    """Runs delta paths over arrangements and their pending changes; holds no state.

    Attributes
    ----------
    query
        The plan.
    arrangements
        The plan's arrangements, by key.
    finished
        The kernels' counters of the last tick, by path and variable, one entry a block. Blocks of several threads
        append to it, which needs no lock.
    failed
        Truth values that tell whether calculations failed in the last tick; see `gpu_wcoj.join.generic`.
    meters
        Measurements of the last tick, if joins are measured.
    prefix_users
        The paths that may continue from common prefixes, by path index; see `CommonPrefixes`.
    max_cost
        Cost of listing the change at which this is given up by an `AllowanceError`; None if it is not limited.
    given_up_cost
        Cost of paths of the last tick that were given up for others.
    """

    query: DeltaQuery
    arrangements: Mapping[ArrangementKey, Arrangement]
    execution: Execution
    finished: list[tuple[int, dict[str, Int64Array]]] = field(default_factory=list)
    weight_bound: int = 0
    magnitude: int = 0
    seeds: int = 0
    failed: list[Any] = field(default_factory=list)
    meters: list[Meter] = field(default_factory=list)
    prefix_users: Mapping[int, PrefixUser] = field(default_factory=dict)
    max_cost: float | None = None
    given_up_cost: int = 0
    _costed: tuple[int, int] = 0, 0

    def begin(self) -> None:
        """Reset the counts of the previous tick."""
        self.finished = []
        if self.meters:
            self.meters = []
        self.seeds = 0
        self.given_up_cost = 0
        self.weight_bound = 0
        self.magnitude = 0
        self._costed = 0, 0
        self.failed.clear()

    @property
    def cost(self) -> int:
        """Cost of what has been listed in this tick; see `gpu_wcoj.join.eliminate`."""
        n, cost = self._costed
        done = self.finished[n:]
        cost += cost_of_listing([work for _, steps in done for work in steps.values()], self.execution.backend)
        self._costed = n + len(done), cost
        return cost

    def check_cost(self) -> None:
        """Raise `AllowanceError` if listing has cost more than `max_cost`."""
        if self.max_cost is not None and self.cost > self.max_cost:
            raise AllowanceError

    @property
    def may_have_failed(self) -> bool:
        """True if a calculation failed for a binding of the last tick. Waits once for a device."""
        return bool(self.failed) and any(numbers(self.execution.backend, *self.failed))

    @property
    def work(self) -> dict[int, dict[str, Int64Array]]:
        """The kernels' counters of the last tick, per path and variable. Waits once for a device."""
        if self.execution.backend.device is not None:
            fetch_work(self.execution.backend, [self])
        total: dict[int, dict[str, Int64Array]] = {}
        for path_index, counted in self.finished:
            path_work = total.setdefault(path_index, {})
            for variable, more in counted.items():
                path_work[variable] = path_work[variable] + more if variable in path_work else more
        return total

    @property
    def measured(self) -> JoinCounts:
        """Measurements of the last tick, per path and step; empty without `Execution.measures`."""
        return sum_meters(self.query, self.meters, self.execution.backend)

    @property
    def survivors(self) -> int:
        """Upper bound of the bindings that the last tick added up, without full recomputations."""
        followed = [steps.values() for path_index, steps in self.work.items() if path_index >= 0]
        return sum(int(counted[SURVIVORS]) for steps in followed for counted in steps) + self.seeds

    @cached_property
    def bound_paths(self) -> list[list[BoundPath]]:
        """Per path, itself and its variants."""
        return [[self.bind_path(variant) for variant in (path, *path.variants)] for path in self.query.paths]

    def bind_continuation(self, path_index: int, remaining_path: DeltaPath) -> BoundPath:
        """Return the continuation of a path with its arrangements."""
        left = {use.atom for use in remaining_path.other_atoms}
        done = [
            (use, arrangement)
            for use, arrangement in self.bound_paths[path_index][0].other_atoms
            if use.atom not in left
        ]
        return replace(self.bind_path(remaining_path), done=done)

    def bind_path(self, path: DeltaPath) -> BoundPath:
        """Return a path with its arrangements."""
        seeds = [self.arrangements[use.key] for use in path.seeds]
        other_atoms = [(use, self.arrangements[use.key]) for use in path.other_atoms]
        return BoundPath(
            path, seeds, other_atoms, [(check.use, self.arrangements[check.use.key]) for check in path.absent]
        )

    def is_live(self, path_index: int, phase: int) -> bool:
        """Return whether no factor of a path's term is empty, by the changes known so far."""
        way = self.bound_paths[path_index][0]
        return way.seeds[0].n_starting_rows(phase) > 0 and all(
            way.visible_batches(use, arrangement, phase) for use, arrangement in way.other_atoms
        )

    def generic_join(self, path_index: int, phase: int, variant: int = 0) -> GenericJoin | None:
        """Return the join over a path's other atoms; None if some factor of the term is empty."""
        return self.bound_join(self.bound_paths[path_index][variant], path_index, phase, variant)

    def bound_join(self, way: BoundPath, path_index: int, phase: int, variant: int = 0) -> GenericJoin | None:
        """Return the join over the other atoms of a bound path; see `generic_join`."""
        if not way.seeds[0].n_starting_rows(phase):
            return None
        execution = self.execution
        batches = {}
        is_weighted = execution.weighted and not way.path.is_negated
        bound = way.seeds[0].largest_starting_weight(phase) if is_weighted else 1
        for use, arrangement in way.other_atoms:
            seen = way.visible_batches(use, arrangement, phase)
            if not seen:
                return None
            batches[use.atom] = seen
            if execution.weighted:
                bound *= sum(batch.largest_weight for batch in seen)
        for use, arrangement in way.done if execution.weighted else ():
            seen = way.visible_batches(use, arrangement, phase)
            bound *= sum(batch.largest_weight for batch in seen)
        self.weight_bound = max(self.weight_bound, bound)
        negated = {}
        for use, arrangement in way.negated:
            negated[use.atom] = way.visible_batches(use, arrangement, phase)
        join = GenericJoin(
            way.uses, batches, execution.weighted, self.query.head_variables | way.path.compared, execution.backend,
            execution.piece_rows, execution.ranks, bound, way.shapes, negated=negated, failed=self.failed,
            dictionary=execution.dictionary, budget=execution.budget,
        )  # fmt: skip
        if self.max_cost is not None:
            limited = with_budget(join, None, Meter(path_index, variant, {}) if execution.measures else None)
            self._limit(limited)
            self.meters += [] if limited.meter is None else [limited.meter]
            return limited
        return self._with_meter(join, path_index, variant) if execution.measures else join

    def _limit(self, join: GenericJoin) -> None:
        """Limit the cost of a path's join to what is left now. Raise `AllowanceError` if nothing is."""
        if self.max_cost is None or not isinstance(join, BudgetedJoin):
            return
        self.check_cost()
        left = join.allowance.limit = self.max_cost - self.cost
        piece_rows = left / (WRITTEN_PREFIX * (1 if self.execution.single_tick else PIECES_OF_LIMIT))
        join.chunk_rows = int(min(self.execution.piece_rows, max(MIN_PIECE_ROWS, piece_rows)))

    def _with_meter(self, join: GenericJoin, path_index: int, variant: int) -> GenericJoin:
        meter = Meter(path_index, variant, join.work)
        self.meters.append(meter)
        return with_meter(join, meter)

    def pending(self, path_index: int, phase: int, order: int = 0) -> IndexedZSet:
        """Return the change that starts a path, in one of the orders of its seeds."""
        return self.bound_paths[path_index][0].seeds[order].pending[phase]

    def n_seeds(self, path_index: int, phase: int) -> int:
        """Return the number of rows of the change that starts a path."""
        return self.bound_paths[path_index][0].seeds[0].n_starting_rows(phase)

    def seeds_of(
        self,
        path_index: int,
        phase: int,
        join: GenericJoin,
        first: str | None = None,
        part: tuple[int, int] | None = None,
    ) -> Seeds:
        """Return the rows that start a path whose term is not empty.

        Parameters
        ----------
        first
            The result of `first_variables`, if that was called.
        part
            The first row and the end of some of the rows, of a `RowBatch`.
        """
        with seeding(join):
            seeds = self._seeds_of(path_index, phase, join, first, part)
        if join.meter is not None:
            join.meter.changes += len(seeds)
        return seeds

    def _seeds_of(
        self, path_index: int, phase: int, join: GenericJoin, first: str | None, part: tuple[int, int] | None
    ) -> Seeds:
        path, share = self.query.paths[path_index], self.execution.share
        rows = self.bound_paths[path_index][0].seeds[0].starting_rows(phase)
        if isinstance(rows, RowBatch):
            rows = rows if part is None else rows.part(*part)
            matrix, weights = stacked(join.backend, rows.columns()), rows.weights if join.weighted else None
            return Seeds(path.seed.variables, matrix, weights).filtered(path, join)
        deltas = [arrangement.pending[phase] for arrangement in self.bound_paths[path_index][0].seeds]
        seeds = seed_rows(path, deltas, join, first or first_variables([path], deltas[:1], [join])[0])
        if path.is_negated and self.execution.weighted:
            seeds = reverse_change(seeds, self.bound_paths[path_index][0].seeds[0].before(phase), join.backend)
        elif self.execution.single_tick and deltas[0].weights is None:
            seeds = replace(seeds, weights=None)
        return seeds if share is None else share.rows_of(path.seed, seeds, join.backend)

    @property
    def threads(self) -> int:
        """Number of threads that run along a path."""
        return 1 if self.makes_text else self.execution.threads

    @cached_property
    def makes_text(self) -> bool:
        """True if texts are calculated: one thread then assigns their codes deterministically."""
        return any(calculation.makes_text for path in self.query.paths for calculation in path.calculations)

    def run_paths(self, numbers: Iterable[int], phase: int, run: Run[_T]) -> Iterator[_T]:
        """Run over the seeds of these paths, in the seeds' order.

        Many seeds run in blocks on several threads.
        """
        if self.prefix_users and any(user.is_worth_it(phase) for user in self.prefix_users.values()):
            numbers = yield from self._run_continuations(numbers, phase, run)
        if self.execution.measures:
            run = _count_prefixes(run)
        live = [
            (path_index, join) for path_index in numbers if (join := self.generic_join(path_index, phase)) is not None
        ]
        threads = self.threads
        if self.execution.backend.device is not None:
            for (path_id, join), first in zip(live, self._first_variables(live, phase), strict=True):
                yield from self._run_on_device(path_id, phase, join, first, run)
            return
        unsorted = [path_index for path_index, _ in live if self._is_unsorted(path_index, phase)]
        for path_id in unsorted:
            yield from self._run_unsorted(path_id, phase, run)
        live = [(path_index, join) for path_index, join in live if path_index not in unsorted]
        if threads == 1 or not any(self.n_seeds(path_index, phase) >= SPLIT_FROM for path_index, _ in live):
            for path_id, join in live:
                self._limit(join)
                seeds = self.seeds_of(path_id, phase, join)
                self.seeds += len(seeds)
                if len(seeds) < 2 * MAX_BLOCK_SEEDS:
                    yield from self._run_variants(path_id, phase, seeds, run, join)
                    continue
                for begin, end in edges_of(len(seeds), 1):
                    yield from self._run_variants(path_id, phase, seeds.part(begin, end), run)
            return
        with ThreadPoolExecutor(threads) as pool:
            seeded = list(pool.map(lambda one: (one[0], self.seeds_of(one[0], phase, one[1])), live))
        blocks: list[tuple[int, Seeds, int, int]] = []
        for path_id, seeds in seeded:
            self.seeds += len(seeds)
            n_blocks = min(threads * BLOCKS_PER_THREAD, len(seeds) // MIN_BLOCK_SEEDS)
            blocks.extend((path_id, seeds, begin, end) for begin, end in edges_of(len(seeds), n_blocks))

        def block(block_index: int) -> Iterator[_T]:
            path_index, seeds, begin, end = blocks[block_index]
            yield from self._run_variants(path_index, phase, seeds.part(begin, end), run)

        yield from in_order(block, len(blocks), threads)

    def _is_unsorted(self, path_index: int, phase: int) -> bool:
        """Return whether a path starts with the rows of a `RowBatch`."""
        return isinstance(self.bound_paths[path_index][0].seeds[0].starting_rows(phase), RowBatch)

    def _run_unsorted(self, path_index: int, phase: int, run: Run[_T]) -> Iterator[_T]:
        """Run over the rows of a `RowBatch`, some at a time.

        What is made of them then stays in the processor's cache.
        """
        n_seeds = self.n_seeds(path_index, phase)
        threads = self.threads if n_seeds >= SPLIT_FROM else 1
        n_blocks = max(-(-n_seeds // MAX_BLOCK_SEEDS), min(threads, max(1, n_seeds // MIN_BLOCK_SEEDS)))
        edges = np.linspace(0, n_seeds, n_blocks + 1).astype(int).tolist()

        def block(block_index: int) -> Iterator[_T]:
            join = self.generic_join(path_index, phase)
            assert join is not None
            seeds = self.seeds_of(path_index, phase, join, part=(edges[block_index], edges[block_index + 1]))
            self.seeds += len(seeds)
            yield from self._run_variants(path_index, phase, seeds, run, join)

        if threads > 1:
            yield from in_order(block, n_blocks, threads)
            return
        for block_index in range(n_blocks):
            yield from block(block_index)

    def _first_variables(self, live: Sequence[tuple[int, GenericJoin]], phase: int) -> list[str]:
        """Return the variable by which each path's seeds are sorted, with one wait for a device."""
        paths = [self.query.paths[path_index] for path_index, _ in live]
        deltas = [self.bound_paths[path_index][0].seeds[0].pending[phase] for path_index, _ in live]
        joins = [join for _, join in live]
        doing = "choosing an order of the seeds"
        return run_within_memory(self.execution.backend, 0, lambda _: first_variables(paths, deltas, joins), doing)

    def _run_continuations(self, numbers: Iterable[int], phase: int, run: Run[_T]) -> Generator[_T, None, list[int]]:
        """Run the paths that continue from common prefixes in this tick; return the other indices."""
        left = []
        for path_index in numbers:
            user = self.prefix_users.get(path_index)
            rows = user.rows(phase, self) if user is not None and user.is_worth_it(phase) else None
            if rows is None:
                left.append(path_index)
                continue

            yield from run_continuation(self, path_index, phase, rows, run)
        return left

    def _run_on_device(self, path_index: int, phase: int, join: GenericJoin, first: str, run: Run[_T]) -> Iterator[_T]:
        """Run over a path's seeds on a device."""
        ways = self.bound_paths[path_index]
        variant_joins = (self.generic_join(path_index, phase, variant) for variant in range(1, len(ways)))
        joins = [join, *(variant_join for variant_join in variant_joins if variant_join is not None)]
        doing = f"binding the seeds of path {path_index + 1}"
        seeds = run_within_memory(join.backend, 0, lambda _: self.seeds_of(path_index, phase, join, first), doing)
        self.seeds += len(seeds)
        yield from self.run_parts(ways, joins, seeds, path_index, run)
        self.finished.extend((path_index, variant_join.work) for variant_join in joins)

    def run_parts(
        self, ways: Sequence[BoundPath], joins: Sequence[GenericJoin], seeds: Seeds, path_index: int, run: Run[_T]
    ) -> Iterator[_T]:
        """Run over these seeds on a device, as many at a time as a piece may have rows."""
        backend = self.execution.backend
        begin, n_rows = 0, self.execution.piece_rows
        while begin < len(seeds):

            def bound(rows: int, begin: int = begin) -> tuple[int, list[Prefixes]]:
                is_all = begin == 0 and rows >= len(seeds)
                part = seeds if is_all else seeds.part(begin, min(len(seeds), begin + rows), backend.xp)
                return rows, assign_seeds_to_variants([way.path for way in ways], part, joins)

            n_rows, prefixes = run_within_memory(backend, n_rows, bound, f"binding the seeds of path {path_index + 1}")
            begin += n_rows
            for way, join, variant_prefixes in zip(ways, joins, prefixes, strict=True):
                if len(variant_prefixes):
                    yield from run(join, variant_prefixes, way.path)

    def _run_variants(
        self,
        path_index: int,
        phase: int,
        seeds: Seeds,
        run: Run[_T],
        first: GenericJoin | None = None,
    ) -> Iterator[_T]:
        """Run each seed along the variant of the path that proposes the fewest values first."""
        ways = self.bound_paths[path_index]
        if first is not None and len(ways) == 1:
            prefixes = bind_seeds(ways[0].path, seeds, first)
            try:
                if len(prefixes):
                    yield from run(first, prefixes, ways[0].path)
            finally:
                self.finished.append((path_index, first.work))
            return
        joins = [
            join
            for join in (self.generic_join(path_index, phase, variant) for variant in range(len(ways)))
            if join is not None
        ]
        bound = [bind_seeds(way.path, seeds, join) for way, join in zip(ways, joins, strict=True)]
        chosen = None
        if len(ways) > 1 and len(bound[0]):
            choices = [
                join.choice(prefixes, way.path.steps[0]) for way, join, prefixes in zip(ways, joins, bound, strict=True)
            ]
            chosen = self.execution.backend.kernels.narrowest(choices)
        for variant_index, (way, join, prefixes) in enumerate(zip(ways, joins, bound, strict=True)):
            variant_prefixes = prefixes if chosen is None else prefixes.gather(np.flatnonzero(chosen == variant_index))
            try:
                if len(variant_prefixes):
                    yield from run(join, variant_prefixes, way.path)
            finally:
                self.finished.append((path_index, join.work))


def _count_prefixes(
    run: Run[_T],
) -> Callable[[GenericJoin, Prefixes, DeltaPath], Iterable[_T]]:
    """Return the function with the prefixes that it receives added to the meter."""

    def counted(join: GenericJoin, prefixes: Prefixes, path: DeltaPath) -> Iterable[_T]:
        if join.meter is not None:
            join.meter.prefixes += len(prefixes)
        return run(join, prefixes, path)

    return counted


def fetch_work(backend: Backend, joins: Iterable[PathRunner]) -> None:
    """Copy the kernels' counters of all joins to the host. Waits once for a device."""
    if backend.device is None:
        return
    runners = list(joins)
    rows = [
        work for join in runners for _, path_work in join.finished for work in path_work.values() if not is_host(work)
    ]
    if not rows:
        return
    moved = iter(backend.to_host(backend.xp.stack(rows)))
    for join in runners:
        join.finished = [
            (path_index, {name: work if is_host(work) else next(moved) for name, work in path_work.items()})
            for path_index, path_work in join.finished
        ]


# Paths of one step and few seeds, evaluated in one kernel call.
#
# Otherwise a tick of one row would spend its time in preparing kernel arguments.


FEW_SEEDS = 16
"""Seeds up to which a path of one step is evaluated by one kernel call."""

_SeedArguments = tuple[Sequence[Sequence[Level]], Sequence[Sequence[int]], Sequence[int], Int64Array, bool, Int64Array]
"""The arguments of `Kernels.extend_seeds`."""


class SeedMatches(NamedTuple):
    """The bindings of a path.

    Attributes
    ----------
    seeds
        One row per variable of the path's seed.
    counts
        Number of values of each seed.
    rows
        Index of the seed and the value, per binding; empty if only counts were requested.
    """

    seeds: Int64Array
    counts: Int64Array
    rows: Int64Array

    def values(self, path: DeltaPath) -> dict[str, Int64Array]:
        """Return the bindings, by variable."""
        values = {name: self.seeds[row][self.rows[0]] for row, name in enumerate(path.seed.variables)}
        values[path.steps[0].variable] = self.rows[1]
        return values


def extend_seeds_once(runner: PathRunner, path_index: int, phase: int, fill: bool) -> SeedMatches | None:
    """Evaluate one path of a set's tick in one kernel call; with `fill` list bindings.

    The result is None if the path has more than one step or too many seeds for that.
    """
    way, execution = runner.bound_paths[path_index][0], runner.execution
    if not way.path.is_single or execution.weighted or execution.share is not None:
        return None
    if not execution.uses("seed lookups"):
        return None
    delta = way.seeds[0].starting_rows(phase)
    if delta is None:
        return _no_matches(runner)
    if delta.n_rows > FEW_SEEDS or isinstance(delta, RowBatch):
        return None
    levels: list[tuple[Level, ...]] = []
    columns: list[tuple[int, ...]] = []
    first = [0]
    for (use, arrangement), (_, _, bound) in zip(way.other_atoms, way.path.binding, strict=True):
        seen = way.visible_batches(use, arrangement, phase)
        if not seen:
            return _no_matches(runner)
        for batch in seen:
            levels.append(batch.levels)
            columns.append(bound)
        first.append(len(levels))
    backend = execution.backend
    work = backend.xp.zeros(N_WORK, np.int64)
    arguments = levels, columns, first, delta.matrix, fill, work
    counts, rows = (
        _extend_metered(runner, path_index, arguments)
        if execution.measures
        else backend.kernels.extend_seeds(*arguments)
    )
    runner.seeds += delta.n_rows
    runner.finished.append((path_index, {way.path.steps[0].variable: work}))
    return SeedMatches(delta.matrix, counts, rows)


def _no_matches(runner: PathRunner) -> SeedMatches:
    xp = runner.execution.backend.xp
    return SeedMatches(xp.empty((0, 0), np.int64), xp.empty(0, np.int64), xp.empty((2, 0), np.int64))


def _extend_metered(runner: PathRunner, path_index: int, arguments: _SeedArguments) -> tuple[Int64Array, Int64Array]:
    """Call `Kernels.extend_seeds`, measured: all seeds are prefixes of the one step."""
    backend, step = runner.execution.backend, runner.query.paths[path_index].steps[0].name
    *_, seeds, _, work = arguments
    meter = Meter(path_index, 0, {step: work}, changes=seeds.shape[1], prefixes=seeds.shape[1])
    runner.meters.append(meter)
    start, gauge = now(backend), meter.gauge(step)
    counts, rows = backend.kernels.extend_seeds(*arguments)
    gauge.seconds = now(backend) - start
    gauge.prefixes, gauge.rows, gauge.nbytes = seeds.shape[1], rows.shape[1], int(rows.nbytes)
    return counts, rows


# Pieces of an answer's change, the results of joins.


@dataclass(frozen=True, eq=False)
class Piece:
    """Some rows of an answer's change: head columns, and weights or one sign for all rows.

    Arrays are on the backend; weights that are Python integers are on the host.
    """

    columns: Sequence[Int64Array]
    weights: Int64Array | int
    bound: int | None = None
    """Upper bound of the weights' magnitudes, if there is one."""

    def __len__(self) -> int:
        return len(self.columns[0])


MIN_PAIRED_ROWS = 64
"""Below this number of changed rows, a symmetry of order two is not used.

Joining the change with itself would cost as much as it saves."""

MAX_CHANGED_FRACTION = 0.25
"""Fraction of an atom's relation that may change where a symmetry is used.

All changed rows join with each other."""

DEVICE_SUMS_FROM = 1 << 14
"""Prefixes from which on variables are eliminated on a device."""


@dataclass(eq=False)
class LoadCost:
    """The cost of a join's last load along the path that was chosen before it.

    Attributes
    ----------
    cost
        In nanoseconds; None before the first load, infinite if that path was given up.
    """

    cost: float | None = None


@dataclass(eq=False)
class IncrementalGenericJoin(PathRunner):
    """The change of a join, from arrangements and their pending changes.

    Attributes
    ----------
    load_cost
        What is known of loads; joins of the same rows share it.
    """

    load_cost: LoadCost = field(default_factory=LoadCost)

    by_symmetry: bool = field(default=False, init=False)
    """True if this tick's change was counted along fewer paths, by symmetry."""
    sampled_costs: dict[int, float] = field(default_factory=dict, init=False)
    """Costs of listing a load along the cheapest paths, in nanoseconds, if samples have told them."""
    _summable: dict[int, bool] = field(default_factory=dict, init=False)
    _mergeable: dict[int, bool] = field(default_factory=dict, init=False)

    def begin(self) -> None:
        """Reset the counts of the previous tick."""
        super().begin()
        self.by_symmetry = False

    @property
    def is_empty(self) -> bool:
        """True if some positive atom held no row before the tick: the join had no binding."""
        return any(not arrangement.spine.batches for arrangement in self.positive)

    @cached_property
    def positive(self) -> tuple[Arrangement, ...]:
        """The arrangements of the positive atoms, one an atom."""
        return tuple(self.arrangements[path.seed.key] for path in self.query.paths if not path.is_negated)

    @property
    def negated_changes(self) -> bool:
        """True if a change of a negated atom's relation may derive rows of both signs in a phase.

        From the empty state it does not.
        """
        if not self.query.has_negation:
            return False
        numbers = [path_index for path_index, path in enumerate(self.query.paths) if path.is_negated]
        phases = range(len(self.execution.phases))
        return any(self.generic_join(path_index, phase) is not None for path_index in numbers for phase in phases)

    def join(self, phase: int, paths: Iterable[int] | None = None) -> Iterator[Piece]:
        """Yield the change of one phase in pieces.

        Rows may repeat across pieces if the head projects. `paths` selects some of the query's paths.
        """
        sign = self.execution.phases[phase]
        backend = self.execution.backend

        def enumerate_block(
            join: GenericJoin, prefixes: Prefixes, path: DeltaPath
        ) -> Iterator[tuple[Prefixes, int, int, Int64Array | None, int | None]]:
            variables = self.query.head_variables
            depth = path.depth_of(variables)
            path_sign = -sign if path.is_negated else sign
            merging = self.merging(join, path)
            bound = self.bind_pieces(join, prefixes, path, depth)
            for piece in bound if merging is None else merging.pieces(prefixes, path.steps, depth):
                max_merged = 0
                if merging is not None and piece.weights is not None:
                    max_merged = largest_magnitudes(backend, piece.weights)[0]
                if depth < len(path.steps):
                    yield piece, path_sign, max_merged, *join.count_bounded(piece, path.steps[depth:])
                else:
                    yield piece, path_sign, max_merged, None, None

        remaining_paths = []
        for path_index in range(len(self.query.paths)) if paths is None else paths:
            path = self.query.paths[path_index]
            matches = (
                extend_seeds_once(self, path_index, phase, True)
                if path.order[-1] in self.query.head_variables
                else None
            )
            if matches is None:
                remaining_paths.append(path_index)
            elif n := matches.rows.shape[1]:
                yield Piece(self._head_columns(matches.values(path), n), sign)
        self.check_cost()
        listed = self.run_paths(remaining_paths, phase, enumerate_block)
        for number, (piece, piece_sign, max_merged, counts, bound) in enumerate(listed):
            if number > 0:  # the last piece is kept, whatever it has cost
                self.check_cost()
            weights: Int64Array | int = piece_sign
            if piece.weights is not None:
                weights = piece.weights if self.execution.weighted else piece.weights * piece_sign
                self.weight_bound = max(self.weight_bound, max_merged)
            elif self.execution.weighted:
                weights = 1
            if counts is None:
                bound = self.weight_bound
            else:
                bound = None if bound is None else bound * self.weight_bound
                weights = (
                    counts * weights if isinstance(weights, int) else multiply_exactly(counts, weights, backend, bound)
                )
            if len(piece):
                yield Piece(self._head_columns(piece.values, len(piece)), weights, bound)

    def merging(self, join: GenericJoin, path: DeltaPath, scale: float = 1.0) -> Merging | None:
        """Return the merging of prefixes that are equal for the head; None if none are.

        `scale` is the number of prefixes that each prefix of a sample stands for.
        """
        if path.branches or path.calculations or not self.execution.uses("merged prefixes"):
            return None
        head_variables, execution = self.query.head_variables, self.execution
        is_mergeable = self._mergeable.get(id(path))
        if is_mergeable is None:
            is_mergeable = self._mergeable[id(path)] = can_eliminate(path, head_variables)
        if not is_mergeable:
            return None
        adds = execution.weighted or not execution.single_tick or self.query.counts_derivations
        if adds and not join.weighted:
            join = replace(join, weighted=True, max_weight=1)
        allowance = join.allowance if isinstance(join, BudgetedJoin) else Allowance()
        return Merging(join, allowance, not execution.weighted, head_variables=head_variables, adds=adds, scale=scale)

    def bind_pieces(self, join: GenericJoin, prefixes: Prefixes, path: DeltaPath, depth: int) -> Iterator[Prefixes]:
        """Bind the first steps of a path; yield the prefixes in pieces."""
        if not path.branches:
            return join.pieces(prefixes, path.steps[:depth])
        from gpu_wcoj.join.bushy import bind_branched  # needed by few paths

        return bind_branched(join, prefixes, path, depth)

    @property
    def symmetry(self) -> Symmetry | None:
        """The symmetry by which this tick's change is counted, if it is small beside the state."""
        symmetry, max_changed = self.query.symmetry, 0
        for arrangement in () if symmetry is None else self.positive:
            changed = max((batch.n_rows for batch in arrangement.pending), default=0)
            if not arrangement.spine.batches or changed > MAX_CHANGED_FRACTION * len(arrangement.spine):
                return None
            max_changed = max(max_changed, changed)
        return None if symmetry is None or (symmetry.order == 2 and max_changed < MIN_PAIRED_ROWS) else symmetry

    @property
    def followed_paths(self) -> Sequence[int]:
        """Indices of the paths along which this tick's change is counted; by symmetry one an orbit."""
        symmetry = self.symmetry
        return range(len(self.query.paths)) if symmetry is None else symmetry.representatives

    def stands_for(self, path_index: int) -> int:
        """Return the number of paths that a path was counted for in this tick."""
        symmetry = self.query.symmetry if self.by_symmetry else None
        return 1 if symmetry is None else next((len(orbit) for orbit in symmetry.orbits if path_index in orbit), 1)

    @cached_property
    def _symmetric(self) -> SymmetricCount:

        assert self.query.symmetry is not None
        return SymmetricCount(self, self.query.symmetry)

    def count(self, phase: int) -> int:
        """Return the sum of the weights of the change of one phase.

        The last level is enumerated only if it has checks.
        """
        if self.symmetry is not None:
            self.by_symmetry = True
            return self._symmetric.count(phase)
        backend = self.execution.backend
        total = 0
        late: list[Any] = []
        remaining_paths = []
        for path_index in range(len(self.query.paths)):
            matches = extend_seeds_once(self, path_index, phase, False)
            if matches is None:
                remaining_paths.append(path_index)
            elif backend.device is None:
                total += int(matches.counts.sum())
            elif len(matches.counts):
                late.append(matches.counts.sum())

        def count_block(join: GenericJoin, prefixes: Prefixes, path: DeltaPath) -> Iterable[Any]:
            reverse = path.is_negated and not self.execution.weighted
            for count in count_positive(join, prefixes, path):
                yield -count if reverse else count

        def count_positive(join: GenericJoin, prefixes: Prefixes, path: DeltaPath) -> Iterable[Any]:
            if self._eliminates_variables(path, len(prefixes)):
                added = sum_bindings(join, prefixes, path, path.steps, self.execution.uses("range sums"))
                self.magnitude += abs(added) if self.execution.weighted else 0
                return (added,)
            counts, bound = join.count_bounded(prefixes, path.steps)
            if self.execution.weighted:
                self.magnitude += bound_magnitudes(counts, bound, backend) * self.weight_bound
            if bound is None or counts.dtype == object:
                return (exact_dot(counts, prefixes.weights, backend),)
            bound *= 1 if prefixes.weights is None else self.weight_bound
            if bound * len(counts) >= 1 << 63:
                return (exact_dot(counts, prefixes.weights, backend),)
            return ((counts if prefixes.weights is None else counts * prefixes.weights).sum(),)

        for result in self.run_paths(remaining_paths, phase, count_block):
            if isinstance(result, int):
                total += result
            else:
                late.append(result)
        if late:
            total += sum(numbers(backend, *late))
        return total if self.execution.weighted else total * self.execution.phases[phase]

    def _eliminates_variables(self, path: DeltaPath, n: int) -> bool:
        """Return whether to eliminate variables of a path in a count; this waits for a device."""
        if (
            len(path.steps) < 2
            or path.calculations
            or not self.execution.uses("elimination")
            or (n < DEVICE_SUMS_FROM and self.execution.backend.device is not None)
        ):
            return False
        is_summable = self._summable.get(id(path))
        if is_summable is None:
            is_summable = self._summable[id(path)] = can_eliminate(path)
        return is_summable

    def _head_columns(self, values: Mapping[str, Int64Array], n: int) -> list[Int64Array]:
        xp = self.execution.backend.xp
        return [values[term] if isinstance(term, str) else xp.full(n, term, np.int64) for term in self.query.head]


# Common prefixes of delta paths: one path enumerates the rows in a tick, others reuse them.
#
# The first path that reads a common prefix enumerates it, in pieces, and continues with each of them. The pieces are
# buffered until the last path that is going to read them in this tick has done so, up to a limit; beyond the limit, the
# other paths enumerate their first steps themselves. So do all paths if few rows change, and if a count groups
# prefixes.


MIN_CHANGED_ROWS = 32
"""Changed rows below which every path enumerates its first steps itself."""

MAX_BUFFERED_NUMBERS = 1 << 23
"""Buffered numbers of all common prefixes of a circuit at most, 8 bytes each."""


@dataclass(eq=False)
class CommonPrefixes:
    """The common prefixes of a circuit.

    Attributes
    ----------
    arrangement
        Returns the arrangement of a key.
    outputs
        The heads whose changes may be requested.
    stored
        The heads that have state: their rows are listed in every tick.
    room
        Numbers that may still be buffered.
    is_used
        Whether rows of a common prefix were requested in this tick.
    """

    execution: Execution
    arrangement: Callable[[ArrangementKey], Arrangement]
    outputs: frozenset[str]
    stored: set[str] = field(default_factory=set)
    room: int = MAX_BUFFERED_NUMBERS
    is_used: bool = False
    _shared: dict[CommonPrefix, SharedPrefix] = field(default_factory=dict)
    _collect: frozenset[str] | None = None

    def users(self, head: str, join: IncrementalGenericJoin) -> dict[int, PrefixUser]:
        """Return the paths of a head's rule that start with a common prefix, by path index."""
        users = {}
        for path_index, continuation in enumerate(join.query.continuations):
            if continuation is not None:
                users[path_index] = self._add_user(continuation, join, path_index, head)
        return users

    def _add_user(
        self, continuation: Continuation, join: IncrementalGenericJoin, path_index: int, head: str = ""
    ) -> PrefixUser:
        shared = self._shared.get(continuation.beginning)
        if shared is None:
            path = continuation.beginning.path
            query = DeltaQuery("", path.order, (path,), continuations=(continuation.beginning.continuation,))
            keys = (*query.keys, *(use.key for use in path.seeds))
            arrangements = {key: self.arrangement(key) for key in keys}
            prefix_join = IncrementalGenericJoin(query, arrangements, self.execution)
            shared = self._shared[continuation.beginning] = SharedPrefix(self, prefix_join)
            if continuation.beginning.continuation is not None:
                shared.above = self._add_user(continuation.beginning.continuation, prefix_join, 0)
                shared.above.below = shared
                prefix_join.prefix_users = {0: shared.above}
        user = PrefixUser(shared, continuation, join, path_index, head)
        shared.users.append(user)
        return user

    def begin(self, collect: frozenset[str] | None) -> None:
        """Start a tick in which the rows of the heads in `collect` are listed, others counted.

        With None, rows are neither listed nor counted.
        """
        self._collect = collect
        self.forget()

    def forget(self) -> None:
        """Drop the buffered rows, after a tick or a failure."""
        if self.is_used:
            self.is_used, self.room = False, MAX_BUFFERED_NUMBERS
            for shared in self._shared.values():
                shared.waiting, shared.buffered = {}, {}

    def will_read(self, head: str, counts: bool) -> bool:
        """Return whether a head's rows are going to be listed in this tick, or counted if `counts`."""
        if head in self.stored:
            return True
        return self._collect is not None and (head in self._collect or (counts and head in self.outputs))


@dataclass(eq=False)
class PrefixUser:
    """A path that continues from a common prefix.

    Attributes
    ----------
    join, path_index
        The join and the index of the path in it.
    head
        The head whose rows it derives, unless it enumerates a common prefix.
    below
        The common prefix that this path enumerates, if it does.
    """

    shared: SharedPrefix
    continuation: Continuation
    join: IncrementalGenericJoin
    path_index: int
    head: str = ""
    below: SharedPrefix | None = None

    def is_worth_it(self, phase: int) -> bool:
        """Return whether enough rows change."""
        delta = self.bound_path.seeds[0].starting_rows(phase)
        return delta is not None and delta.n_rows >= MIN_CHANGED_ROWS

    def will_read(self, phase: int) -> bool:
        """Return whether the path is going to read rows, as far as is known now."""
        if not self.join.is_live(self.path_index, phase):
            return False
        if self.below is not None:
            return any(user.will_read(phase) for user in self.below.users)
        return self.shared.circuit.will_read(self.head, self.continuation.counts)

    def rows(self, phase: int, join: PathRunner) -> Iterator[Seeds] | None:
        """Return the rows to continue from, by this path's variable names.

        The result is None if the path has to enumerate them itself. The work of enumerating them is reported to `join`.
        """
        rows = self.shared.rows(self, phase, join)
        return None if rows is None else map(self._rename, rows)

    def _rename(self, seeds: Seeds) -> Seeds:
        return Seeds(tuple(self._names[name] for name in seeds.order), seeds.matrix, seeds.weights)

    @cached_property
    def _names(self) -> dict[str, str]:
        return dict(
            zip(self.continuation.beginning.path.order, self.continuation.remaining_path.seed.variables, strict=True)
        )

    @cached_property
    def bound_path(self) -> BoundPath:
        """The remaining path with its arrangements."""
        return self.join.bind_continuation(self.path_index, self.continuation.remaining_path)

    def report(self, join: PathRunner) -> None:
        """Report the work of enumerating the common prefix to `join`, as work of this path."""
        prefix_join = self.shared.join
        name = {}
        for step, called in zip(prefix_join.query.paths[0].steps, self.continuation.names, strict=True):
            name[step.name] = called
            name[branch_name((step,))] = f"branch of {called}"  # also of the prefix that this one starts from
        join.finished += [
            (self.path_index, {name[step]: work}) for _, done in prefix_join.finished for step, work in done.items()
        ]
        for meter in prefix_join.meters:
            report = Meter(
                self.path_index, 0, {name[step]: work for step, work in meter.work.items()},
                {name[step]: gauge for step, gauge in meter.gauges.items()},
                meter.changes, meter.prefixes, meter.seconds,
            )  # fmt: skip
            join.meters.append(report)


@dataclass(eq=False)
class SharedPrefix:
    """A common prefix and the paths that use it.

    Attributes
    ----------
    join
        The join over the common prefix.
    above
        The user by which this prefix starts from a shorter one.
    waiting
        Per phase of this tick, the paths that have yet to read its rows.
    buffered
        Per phase, the buffered rows.
    """

    circuit: CommonPrefixes
    join: IncrementalGenericJoin
    users: list[PrefixUser] = field(default_factory=list)
    above: PrefixUser | None = None
    waiting: dict[int, list[PrefixUser]] = field(default_factory=dict)
    buffered: dict[int, list[Seeds]] = field(default_factory=dict)

    def rows(self, user: PrefixUser, phase: int, join: PathRunner) -> Iterator[Seeds] | None:
        """Return the rows for a user; None if it has to enumerate them itself."""
        self.circuit.is_used = True
        is_first = phase not in self.waiting
        if is_first:
            self.waiting[phase] = self._expected_readers(phase)
        waiting = self.waiting[phase]
        if user not in waiting:
            return None
        waiting.remove(user)
        if is_first:
            return self._enumerate(user, phase, join)
        rows = self.buffered.get(phase)
        if rows is not None and not waiting:
            self._drop_buffer(phase)
        return None if rows is None else iter(rows)

    def _expected_readers(self, phase: int) -> list[PrefixUser]:
        """Return the users that are going to read rows; none if sharing does not pay."""
        asking = [user for user in self.users if user.will_read(phase)]
        if len(asking) == 1 and self.above is not None:
            users = self.above.shared.users
            return asking if sum(user.will_read(phase) for user in users) > 1 else []
        return asking if len(asking) > 1 else []

    def _enumerate(self, user: PrefixUser, phase: int, join: PathRunner) -> Iterator[Seeds]:
        """Enumerate all rows, buffering them for the waiting users as far as there is room."""
        self.join.begin()
        buffered: list[Seeds] | None = [] if self.waiting[phase] else None
        room = self.circuit.room
        try:
            for seeds in self._pieces(phase):
                if buffered is not None:
                    room -= _count_numbers(seeds)
                    buffered.append(seeds)
                    if room < 0:
                        buffered = None
                yield seeds
        finally:
            user.report(join)
        if buffered is not None:
            self.buffered[phase] = buffered
            self.circuit.room = room

    def _pieces(self, phase: int) -> Iterator[Seeds]:
        backend, order = self.join.execution.backend, self.join.query.paths[0].order

        def bound(join: GenericJoin, prefixes: Prefixes, path: DeltaPath) -> Iterator[Prefixes]:
            return self.join.bind_pieces(join, prefixes, path, len(path.steps))

        for piece in self.join.run_paths([0], phase, bound):
            weights: Int64Array | None = None
            if self.join.execution.weighted:
                weights = backend.xp.ones(len(piece), np.int64) if piece.weights is None else piece.weights
            if len(piece):
                yield Seeds(piece.order, stacked(backend, [piece.values[name] for name in order]), weights)

    def _drop_buffer(self, phase: int) -> None:
        self.circuit.room += sum(map(_count_numbers, self.buffered.pop(phase)))


def _count_numbers(seeds: Seeds) -> int:
    """Return the numbers that buffered rows consist of."""
    return int(seeds.matrix.size) + (0 if seeds.weights is None else len(seeds))


def run_continuation(
    join: PathRunner, path_index: int, phase: int, rows: Iterator[Seeds], run: Run[_T]
) -> Iterator[_T]:
    """Run over the remaining steps of a path from these rows; many rows run on several threads."""
    way = join.prefix_users[path_index].bound_path
    path, backend = way.path, join.execution.backend
    remaining_join = join.bound_join(way, path_index, phase)
    if remaining_join is None:
        return
    threads = join.threads

    def over(seeds: Seeds, remaining_join: GenericJoin) -> Iterable[_T]:
        prefixes = bind_seeds(path, seeds.filtered(path, remaining_join), remaining_join)
        return run(remaining_join, prefixes, path) if len(prefixes) else ()

    for seeds in rows:
        join.seeds += len(seeds)
        if backend.device is not None:
            yield from join.run_parts([way], [remaining_join], seeds.filtered(path, remaining_join), path_index, run)
        elif threads == 1 or len(seeds) < SPLIT_FROM:
            yield from over(seeds, remaining_join)
        else:
            edges = np.linspace(0, len(seeds), max(1, min(threads, len(seeds) // MIN_BLOCK_SEEDS)) + 1).astype(int)
            blocks = list(pairwise(edges.tolist()))

            def block(index: int, seeds: Seeds = seeds, blocks: list[tuple[int, int]] = blocks) -> Iterator[_T]:
                block_join = join.bound_join(way, path_index, phase)
                assert block_join is not None
                yield from over(seeds.part(*blocks[index]), block_join)
                join.finished.append((path_index, block_join.work))

            yield from in_order(block, len(blocks), threads)
    join.finished.append((path_index, remaining_join.work))


# Counts of a change with automorphic atoms: one delta path counts for a whole orbit.
#
# Let R change from b to a = b + d, and let Q(x, y) be the sum of weights if two automorphic atoms over R contain x and
# y. Then Q(x, y) = Q(y, x), and the delta rule's sum for the two is
#
#     Q(d, b) + Q(a, d) = 2 Q(d, b) + Q(d, d)
#
# For three atoms that are permuted in a cycle, Q(x, y, z) = Q(y, z, x), and likewise
#
#     Q(d, b, b) + Q(a, d, b) + Q(a, a, d) = 3 Q(d, a, b) + Q(d, d, d)
#
# Other atoms are seen in the same state by the whole orbit: orbits are ordered; those before are seen after the tick,
# and those behind before it. The remaining term joins changes with each other, which are few.
#
# Rows are listed by the plain delta rule: there, every atom of an orbit derives different rows.


CHANGES = "#changes"
"""Suffix of a relation's name for its changes of this tick, used as a relation."""

MAX_COMPARED_ROWS = 64
"""Changed rows up to which their values are compared, to see whether any two can join."""

_Links = tuple[tuple[int, int], ...]
"""Levels of a change whose values have to meet if its rows join with each other."""


@dataclass(eq=False)
class _PartialJoin:
    """A join over some paths, and their indices in the full join."""

    join: IncrementalGenericJoin
    path_indices: Sequence[int]


@dataclass(eq=False)
class SymmetricCount:
    """The counts of one join by its `Symmetry`.

    The work is reported to the join: along a path under its index, and among changes under that plus the number of all
    paths.
    """

    join: IncrementalGenericJoin
    symmetry: Symmetry
    _multiple: _PartialJoin = field(init=False)
    _once: _PartialJoin = field(init=False)
    _within: _PartialJoin = field(init=False)
    _changes: dict[ArrangementKey, Arrangement] = field(default_factory=dict, init=False)
    _links: list[tuple[ArrangementKey, _Links]] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        several, once, within = dict[int, DeltaPath](), dict[int, DeltaPath](), dict[int, DeltaPath]()
        paths = self.join.query.paths
        for orbit_index, (orbit, taken) in enumerate(
            zip(self.symmetry.orbits, self.symmetry.representatives, strict=True)
        ):
            other_atoms = [atom for atom in orbit if atom != taken]
            path = _with_after(paths[taken], self.symmetry.after(orbit_index))
            (several if other_atoms else once)[taken] = path
            if other_atoms:
                within[taken + len(paths)] = self._replace_by_changes(path, other_atoms)
                self._links.append((path.seed.key, _links(path, other_atoms)))
        self._multiple, self._once, self._within = map(self._partial_join, (several, once, within))

    def count(self, phase: int) -> int:
        """Return the result of `IncrementalGenericJoin.count`."""
        if all(arrangement.delta(phase) is None for arrangement in self.join.positive):
            return 0
        order, execution = self.symmetry.order, self.join.execution
        total = order * self._count_part(self._multiple, phase, order) + self._count_part(self._once, phase, 1)
        if not any(self._may_meet(key, links, phase) for key, links in self._links):
            return total
        try:
            for key, changes in self._changes.items():
                batch = self.join.arrangements[_state_key(key)].delta(phase)
                changes.spine = (
                    Spine() if batch is None else Spine((batch if execution.weighted else _unit_rows(batch),))
                )
            within = self._count_part(self._within, phase, 1)
        finally:  # drop the tick's changes
            for changes in self._changes.values():
                changes.spine = Spine()
        if not execution.weighted:  # each change has a sign; `count` applied one of them
            within *= execution.phases[phase] ** (order - 1)
        return total + within

    def _may_meet(self, key: ArrangementKey, links: _Links, phase: int) -> bool:
        """Return whether rows of a change may join with each other, by a quick test."""
        batch = self.join.arrangements[key].delta(phase)
        if batch is None or batch.n_rows > MAX_COMPARED_ROWS or batch.backend.device is not None:
            return batch is not None
        values = [set(row.tolist()) for row in batch.matrix]
        return not any(values[first_level].isdisjoint(values[second_level]) for first_level, second_level in links)

    def _count_part(self, share: _PartialJoin, phase: int, times: int) -> int:
        if not share.path_indices:
            return 0
        join, full_join = share.join, self.join
        join.begin()
        count = join.count(phase)
        full_join.finished.extend(
            (share.path_indices[path_index], path_work) for path_index, path_work in join.finished
        )
        for meter in join.meters:
            meter.path_index = share.path_indices[meter.path_index]
            full_join.meters.append(meter)
        full_join.seeds += times * join.seeds
        full_join.weight_bound = max(full_join.weight_bound, times * join.weight_bound)
        full_join.magnitude += times * join.magnitude
        return count

    def _replace_by_changes(self, path: DeltaPath, atoms: Sequence[int]) -> DeltaPath:
        """Return the path, and its variants, with changes in place of these atoms."""
        other_atoms = tuple(self._change_use(use) if use.atom in atoms else use for use in path.other_atoms)
        return replace(
            path,
            other_atoms=other_atoms,
            variants=tuple(self._replace_by_changes(variant, atoms) for variant in path.variants),
        )

    def _change_use(self, use: AtomUse) -> AtomUse:
        key = use.key._replace(relation=f"{use.key.relation}{CHANGES}")
        if key not in self._changes:
            self._changes[key] = Arrangement(key, self.join.execution.backend)
        return use._replace(key=key)

    def _partial_join(self, paths: dict[int, DeltaPath]) -> _PartialJoin:
        query = replace(self.join.query, paths=tuple(paths.values()), continuations=(), symmetry=None)
        arrangements = {**self.join.arrangements, **self._changes}
        return _PartialJoin(IncrementalGenericJoin(query, arrangements, self.join.execution), tuple(paths))


def _with_after(path: DeltaPath, after: frozenset[int]) -> DeltaPath:
    """Return the path, and its variants, seeing these atoms after the tick and others before it."""
    return replace(path, after=after, variants=tuple(_with_after(variant, after) for variant in path.variants))


def _links(path: DeltaPath, atoms: Sequence[int]) -> _Links:
    """Return the levels of a path's seed that hold its variables, and those of these atoms."""
    links = set()
    for use in path.other_atoms:
        for column, name in zip(use.key.order, use.variables, strict=True):
            if use.atom in atoms and name in path.seed.variables:
                links.add((path.seed.variables.index(name), path.seed.key.order.index(column)))
    return tuple(sorted(links))


def _state_key(key: ArrangementKey) -> ArrangementKey:
    return key._replace(relation=key.relation.removesuffix(CHANGES))


def _unit_rows(batch: IndexedZSet) -> IndexedZSet:
    """Return the rows of one phase of a set's change, deleted ones, too, with weight 1."""
    return batch if batch.weights is None else IndexedZSet(batch.values, batch.offsets, None, batch.backend)


# Paths of a body that seem automorphic: counting along one costs as much as along another.
#
# A variable is identified by its column in the seed or by the step that binds it. Conditions are only counted, and
# wrong guesses only cost time.


def distinct_paths(query: DeltaQuery) -> tuple[int, ...]:
    """Return the indices of positive atoms' paths, the first of each class of similar paths.

    Two paths are similar if a renaming of their variables makes seeds and steps equal, apart from the head and the
    operands of conditions.

    Examples
    --------
    >>> from gpu_wcoj.join.plan import Step
    >>> from gpu_wcoj.trace.arrangement import ArrangementKey
    >>> def use(atom, order, names):
    ...     return AtomUse(atom, ArrangementKey("e", order), tuple(names))
    >>> ab, bc, ca = (use(atom, (0, 1), names) for atom, names in enumerate(["ab", "bc", "ca"]))
    >>> ba, cb, ac = (use(atom, (1, 0), names) for atom, names in enumerate(["ba", "cb", "ac"]))
    >>> first = DeltaPath((ab,), (bc, ac), (), (Step("c", (1, 2)),))
    >>> second = DeltaPath((bc,), (ba, ca), (), (Step("a", (0, 2)),))
    >>> third = DeltaPath((ca,), (ab, cb), (), (Step("b", (0, 1)),))
    >>> distinct_paths(DeltaQuery("h(a) :- e(a, b), e(b, c), e(c, a).", ("a",), (first, second, third)))
    (0,)
    """
    first: dict[Hashable, int] = {}
    for path_index, path in enumerate(query.paths):
        if not path.is_negated:
            first.setdefault(_path_signature(path), path_index)
    return tuple(first.values())


def _path_signature(path: DeltaPath) -> str:
    place = dict(zip(path.seed.variables, path.seed.key.order, strict=True))
    for name in (name for step in path.steps for name in (step.variable, *sorted(step.calculated))):
        place.setdefault(name, -len(place) - 1)

    def atom(use: AtomUse) -> str:
        columns = sorted(zip(use.key.order, map(place.get, use.variables), strict=True))
        return repr((use.key.relation, use.key.constants, use.key.equal, use.key.compared, use.atom < 0, columns))

    conditions = [*path.seed_conditions, *(condition for step in path.steps for condition in step.conditions)]
    compared = [name for condition in conditions for name in (condition.variable, condition.operand)]
    atoms = {use.atom: atom(use) for use in (*path.other_atoms, *(check.use for check in path.absent))}
    steps = [
        (sorted(map(atoms.__getitem__, step.atoms)), step.is_lookup, len(step.conditions), [*map(type, step.checks)])
        for step in path.steps
    ]
    n_compared = [compared.count(name) for name in path.seed.variables]
    return repr((atom(path.seed), n_compared, sorted(atoms.values()), steps))
