"""Common prefixes of delta paths: one path enumerates the rows in a tick, others reuse them.

The first path that reads a common prefix enumerates it, in pieces, and continues with each of them. The pieces are
buffered until the last path that is going to read them in this tick has done so, up to a limit; beyond the limit, the
other paths enumerate their first steps themselves. So do all paths if few rows change, and if a count groups prefixes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import TypeVar

import numpy as np

from gpu_wcoj.join.beginning import CommonPrefix, Continuation
from gpu_wcoj.join.conditions import condition_mask
from gpu_wcoj.join.delta import IncrementalGenericJoin
from gpu_wcoj.join.execution import Execution
from gpu_wcoj.join.generic import GenericJoin
from gpu_wcoj.join.meter import Meter
from gpu_wcoj.join.plan import DeltaPath, DeltaQuery, branch_name
from gpu_wcoj.join.prefixes import Prefixes
from gpu_wcoj.join.running import MIN_BLOCK_SEEDS, SPLIT_FROM, BoundPath, PathRunner, Run
from gpu_wcoj.join.seeds import Seeds, bind_seeds
from gpu_wcoj.join.settings import in_order
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.trace.arrangement import Arrangement, ArrangementKey
from gpu_wcoj.zset.arrays import positions, stacked

_T = TypeVar("_T")

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
    _users: dict[tuple[object, ...], PrefixUser] = field(default_factory=dict)
    _collect: frozenset[str] | None = None

    def users(self, head: str, join: IncrementalGenericJoin) -> dict[int, PrefixUser]:
        """Return the paths of a head's rule that start with a common prefix, by path index."""
        users = {}
        for path_index, continuation in enumerate(join.query.continuations):
            if continuation is not None:
                key = join.query.paths, join.query.shared_variables or join, path_index
                if key not in self._users:
                    self._users[key] = self._add_user(continuation, join, path_index)
                users[path_index] = self._users[key]
                users[path_index].heads.append(head)
        return users

    def _add_user(self, continuation: Continuation, join: IncrementalGenericJoin, path_index: int) -> PrefixUser:
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
        user = PrefixUser(shared, continuation, join, path_index)
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
    heads
        The heads whose rows it derives.
    below
        The common prefix that this path enumerates, if it does.
    """

    shared: SharedPrefix
    continuation: Continuation
    join: IncrementalGenericJoin
    path_index: int
    heads: list[str] = field(default_factory=list)
    below: SharedPrefix | None = None

    def is_worth_it(self, phase: int) -> bool:
        """Return whether enough rows change."""
        delta = self.bound_path.seeds[0].delta(phase)
        return delta is not None and delta.n_rows >= MIN_CHANGED_ROWS

    def will_read(self, phase: int) -> bool:
        """Return whether the path is going to read rows, as far as is known now."""
        if not self.join.is_live(self.path_index, phase):
            return False
        if self.below is not None:
            return any(user.will_read(phase) for user in self.below.users)
        return any(self.shared.circuit.will_read(head, self.continuation.counts) for head in self.heads)

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
        prefixes = bind_seeds(path, _filter_seeds(path, seeds, remaining_join), remaining_join)
        return run(remaining_join, prefixes, path) if len(prefixes) else ()

    for seeds in rows:
        join.seeds += len(seeds)
        if backend.device is not None:
            yield from join.run_parts(
                [way], [remaining_join], _filter_seeds(path, seeds, remaining_join), path_index, run
            )
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


def _filter_seeds(path: DeltaPath, seeds: Seeds, join: GenericJoin) -> Seeds:
    """Return the rows that satisfy the path's seed conditions."""
    if not path.seed_conditions:
        return seeds
    backend = join.backend
    values = {name: seeds.matrix[row] for row, name in enumerate(path.seed.variables)}
    (rows,) = positions(backend, condition_mask(path.seed_conditions, values, join.ranks, backend.xp))
    weights = None if seeds.weights is None else seeds.weights[rows]
    return Seeds(seeds.order, backend.xp.ascontiguousarray(seeds.matrix[:, rows]), weights)
