"""Execution of delta paths: seeds of a tick, arrangements, blocks on threads or a device.

The caller passes a function that processes the first prefixes; see `gpu_wcoj.join.delta`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from gpu_wcoj.backend import Backend
from gpu_wcoj.join.execution import Execution
from gpu_wcoj.join.generic import GenericJoin
from gpu_wcoj.join.memory import run_within_memory
from gpu_wcoj.join.plan import AtomUse, DeltaPath, DeltaQuery
from gpu_wcoj.join.prefixes import Prefixes
from gpu_wcoj.join.seeds import Seeds, assign_seeds_to_variants, bind_seeds, first_variables, reverse_change, seed_rows
from gpu_wcoj.join.settings import in_order
from gpu_wcoj.join.shapes import Shapes
from gpu_wcoj.kernels.protocol import SURVIVORS, Int64Array
from gpu_wcoj.trace.arrangement import Arrangement, ArrangementKey
from gpu_wcoj.zset.arrays import is_host, numbers
from gpu_wcoj.zset.index import IndexedZSet

if TYPE_CHECKING:
    from gpu_wcoj.join.begun import PrefixUser
    from gpu_wcoj.join.meter import JoinCounts, Meter

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
        Truth values that tell whether calculations failed in the last tick; see `gpu_wcoj.join.checks`.
    meters
        Measurements of the last tick, if joins are measured.
    begun
        The paths that may continue from common prefixes, by path index; see `gpu_wcoj.join.begun`.
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

    def begin(self) -> None:
        """Reset the counts of the previous tick."""
        self.finished = []
        if self.meters:
            self.meters = []
        self.seeds = 0
        self.weight_bound = 0
        self.magnitude = 0
        self.failed.clear()

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
        from gpu_wcoj.join.meter import sum_meters

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
        return way.seeds[0].delta(phase) is not None and all(
            way.visible_batches(use, arrangement, phase) for use, arrangement in way.other_atoms
        )

    def generic_join(self, path_index: int, phase: int, variant: int = 0) -> GenericJoin | None:
        """Return the join over a path's other atoms; None if some factor of the term is empty."""
        return self.bound_join(self.bound_paths[path_index][variant], path_index, phase, variant)

    def bound_join(self, way: BoundPath, path_index: int, phase: int, variant: int = 0) -> GenericJoin | None:
        """Return the join over the other atoms of a bound path; see `generic_join`."""
        delta = way.seeds[0].delta(phase)
        if delta is None:
            return None
        execution = self.execution
        batches = {}
        bound = delta.largest_weight if execution.weighted and not way.path.is_negated else 1
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
            dictionary=execution.dictionary,
        )  # fmt: skip
        return self._with_meter(join, path_index, variant) if execution.measures else join

    def _with_meter(self, join: GenericJoin, path_index: int, variant: int) -> GenericJoin:
        from gpu_wcoj.join.measured import with_meter
        from gpu_wcoj.join.meter import Meter

        meter = Meter(path_index, variant, join.work)
        self.meters.append(meter)
        return with_meter(join, meter)

    def pending(self, path_index: int, phase: int, order: int = 0) -> IndexedZSet:
        """Return the change that starts a path, in one of the orders of its seeds."""
        return self.bound_paths[path_index][0].seeds[order].pending[phase]

    def seeds_of(self, path_index: int, phase: int, join: GenericJoin, first: str | None = None) -> Seeds:
        """Return the rows that start a path whose term is not empty.

        `first` is the result of `first_variables`, if that was called.
        """
        if join.meter is not None:
            with join.meter.seeding(join.backend):
                seeds = self._seeds_of(path_index, phase, join, first)
            join.meter.changes += len(seeds)
            return seeds
        return self._seeds_of(path_index, phase, join, first)

    def _seeds_of(self, path_index: int, phase: int, join: GenericJoin, first: str | None) -> Seeds:
        deltas = [arrangement.pending[phase] for arrangement in self.bound_paths[path_index][0].seeds]
        path, share = self.query.paths[path_index], self.execution.share
        seeds = seed_rows(path, deltas, join, first or first_variables([path], deltas[:1], [join])[0])
        if path.is_negated and self.execution.weighted:
            seeds = reverse_change(seeds, self.bound_paths[path_index][0].seeds[0].before(phase), join.backend)
        return seeds if share is None else share.rows_of(path.seed, seeds, join.backend)

    @property
    def threads(self) -> int:
        """Number of threads that run along a path."""
        return 1 if self._makes_text else self.execution.threads

    @cached_property
    def _makes_text(self) -> bool:
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
        if threads == 1 or not any(self.pending(path_index, phase).n_rows >= SPLIT_FROM for path_index, _ in live):
            for path_id, join in live:
                seeds = self.seeds_of(path_id, phase, join)
                self.seeds += len(seeds)
                yield from self._run_variants(path_id, phase, seeds, run, join)
            return
        with ThreadPoolExecutor(threads) as pool:
            seeded = list(pool.map(lambda one: (one[0], self.seeds_of(one[0], phase, one[1])), live))
        blocks: list[tuple[int, Seeds, int, int]] = []
        for path_id, seeds in seeded:
            self.seeds += len(seeds)
            n_blocks = max(
                1, min(threads * BLOCKS_PER_THREAD, len(seeds) // MIN_BLOCK_SEEDS), len(seeds) // MAX_BLOCK_SEEDS
            )
            edges = np.linspace(0, len(seeds), n_blocks + 1).astype(int).tolist()
            blocks.extend((path_id, seeds, begin, end) for begin, end in pairwise(edges))

        def block(block_index: int) -> Iterator[_T]:
            path_index, seeds, begin, end = blocks[block_index]
            yield from self._run_variants(path_index, phase, seeds.part(begin, end), run)

        yield from in_order(block, len(blocks), threads)

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
            from gpu_wcoj.join.begun import run_continuation  # needed by few programs

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
            if len(prefixes):
                yield from run(first, prefixes, ways[0].path)
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
            if len(variant_prefixes):
                yield from run(join, variant_prefixes, way.path)
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
