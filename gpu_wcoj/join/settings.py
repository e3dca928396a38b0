"""Settings of a join: backend, threads, chunk size and its share; blocks run on threads."""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from queue import Full, Queue
from threading import Event
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from gpu_wcoj.backend import Backend
from gpu_wcoj.budget import Budget
from gpu_wcoj.data.column import Dictionary
from gpu_wcoj.errors import UsageError
from gpu_wcoj.join.generic import Ranks
from gpu_wcoj.join.plan import AtomUse
from gpu_wcoj.join.prefixes import choose_piece_rows
from gpu_wcoj.join.seeds import Seeds
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.zset.arrays import positions

_T = TypeVar("_T")

QUEUE_RESULTS = 2
"""Results that a block's queue holds at most; a block with more waits."""

AHEAD = 2
"""Blocks a thread that are started ahead of the block being read."""

_LOOK_SECONDS = 0.05
"""Interval in seconds at which a waiting block checks whether it was stopped."""


@dataclass(frozen=True)
class _End:
    """The end of a block's results, with the error that ended it."""

    error: BaseException | None = None


def in_order(run: Callable[[int], Iterable[_T]], n_blocks: int, threads: int) -> Iterator[_T]:
    """Yield the results of ``run(0)``, then of ``run(1)``, ..., run on `threads` threads.

    At most ``AHEAD * threads * HELD`` results wait. An error in a block is raised at its place. When the iterator is
    closed, blocks stop at their next result.

    Examples
    --------
    >>> list(in_order(range, 4, threads=2))
    [0, 0, 1, 0, 1, 2]
    """
    stop = Event()
    queues: deque[Queue[tuple[_T] | _End]] = deque()
    with ThreadPoolExecutor(threads) as pool:

        def begin(block: int) -> None:
            queues.append(Queue(QUEUE_RESULTS))
            pool.submit(_run, run, block, queues[-1], stop)

        try:
            for block in range(min(AHEAD * threads, n_blocks)):
                begin(block)
            for block in range(n_blocks):
                queue = queues.popleft()
                while isinstance(result := queue.get(), tuple):
                    yield result[0]
                if result.error is not None:
                    raise result.error
                if block + AHEAD * threads < n_blocks:
                    begin(block + AHEAD * threads)
        finally:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)


def _run(run: Callable[[int], Iterable[_T]], block: int, queue: Queue[tuple[_T] | _End], stop: Event) -> None:
    try:
        for result in run(block):
            if not _put((result,), queue, stop):
                return
    except BaseException as error:
        _put(_End(error), queue, stop)
    else:
        _put(_End(), queue, stop)


def _put(result: tuple[_T] | _End, queue: Queue[tuple[_T] | _End], stop: Event) -> bool:
    """Wait for room in the queue and add the result; return False if the block was stopped."""
    while not stop.is_set():
        try:
            queue.put(result, timeout=_LOOK_SECONDS)
        except Full:
            continue
        return True
    return False


# Settings of joins: backend, threads, and rows a piece.


ITERATIONS = 100_000
"""Iterations of a loop in a tick at most, unless the user sets a limit."""


FAST_PATHS = (
    "auxiliary relations", "bushy plans", "early aggregates", "elimination", "joined pairs", "load paths",
    "merged prefixes", "path variants", "projections", "push down", "range sums", "recounts", "seed lookups",
    "shared prefixes", "symmetry",
)  # fmt: skip
"""What `Tuning.off` may name. ``make bench-fast-paths`` measures the case of each that it is there for."""


@dataclass(frozen=True)
class Tuning:
    """Switches of the fast paths, and thresholds of the walks.

    Answers are the same with all values. Tests and benchmarks set them by `tune`.

    Attributes
    ----------
    max_tick_rows
        Passed rows up to which a tick may walk; -1 if no tick may. From some 700 rows on, joins with few matches a row
        are as fast path by path. Cliques walk more rows, and programs with aggregates fewer; see
        `gpu_wcoj.engine.small_ticks.max_walked_rows`.
    max_expected_work
        Values to propose and search up to which a tick of few rows may walk; as many per changed row are expected as in
        the walked ticks before. A walk costs 1 to 3 ns for each. Ticks of more rows walk fewer values; see
        `gpu_wcoj.engine.small_ticks.MANY_ROWS_DIVISOR`. The only path of a clique is walked in place of all delta
        paths, so its work counts for as much less.
    max_walk_work
        Values proposed and searched at which the walk of a rule is given up, and the tick runs path by path; fewer for
        many rows, too. Joins that bind one variable for all changed rows at a time group them where values repeat, so
        they need fewer.
    max_memtable_rows
        Rows of a memtable from which all of them become batches. Ticks of 100 edges of R-MAT 17 take a third less with
        8,192 than with 512, as fewer batches are made and merged. Memory is written only where rows are. Ticks of few
        rows and programs with aggregates have fewer; see `gpu_wcoj.engine.small_ticks`.
    walk_loops
        Whether loops may run row at a time; see `gpu_wcoj.circuit.recursion.walks`.
    off
        The fast paths that are not used, of `FAST_PATHS`.
    """

    max_tick_rows: int = 512
    max_expected_work: int = 48_000_000
    max_walk_work: int = 64_000_000
    max_memtable_rows: int = 8192
    walk_loops: bool = True
    off: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if unknown := self.off.difference(FAST_PATHS):
            raise UsageError.unknown_name("fast path", min(unknown), FAST_PATHS)


_TUNING: ContextVar[Tuning] = ContextVar("tuning", default=Tuning())  # noqa: B039  # a tuning is immutable


def get_tuning() -> Tuning:
    """Return the tuning of programs that are made here."""
    return _TUNING.get()


@contextmanager
def tune(**settings: Any) -> Generator[Tuning]:
    """Make programs with another tuning inside the context, in this thread.

    A program keeps the tuning with which it is made.

    Parameters
    ----------
    **settings
        Fields of `Tuning`; the others stay as they are.

    Examples
    --------
    >>> with tune(max_tick_rows=-1) as tuning:
    ...     tuning.max_tick_rows, get_tuning().walk_loops
    (-1, True)
    >>> get_tuning().max_tick_rows
    512
    """
    token = _TUNING.set(replace(_TUNING.get(), **settings))
    try:
        yield _TUNING.get()
    finally:
        _TUNING.reset(token)


@dataclass(eq=False)
class Execution:
    """Settings with which joins run.

    Attributes
    ----------
    weighted
        Bag semantics: weights are carried. Otherwise relations are sets and change in two phases.
    chunk_rows
        Rows of one piece; None to choose it every tick.
    threads
        Threads for the seeds of a path; 1 on a device.
    host_ranks
        Maps a family of text to the rank of every code in text order.
    share
        The share of every path's seeds that is processed; None for all.
    iterations
        Iterations of a loop in a tick at most.
    dictionary
        The texts that rules calculate with.
    recounts
        Whether a head's change may be counted as the difference of two full recomputations.
    measures
        Whether joins measure what the kernels do not count; see `gpu_wcoj.join.prefixes`.
    tuning
        Switches and thresholds of the walks.
    single_tick
        Whether the circuit takes one tick from the empty state and is then dropped. Rows are then indexed only where
        they are looked up, and groups are added up without sorting; see `UnsortedArrangement`.
    may_repeat
        In a single tick of a bag, whether rows that are not part of an answer need not be consolidated: no row has a
        negative weight.
    budget
        The limits of a tick; None if it has none.
    piece_rows
        Rows of one piece in this tick.
    """

    backend: Backend
    weighted: bool
    chunk_rows: int | None = None
    threads: int = 1
    host_ranks: Ranks | None = None
    share: Share | None = None
    iterations: int = ITERATIONS
    dictionary: Dictionary | None = None
    recounts: bool = True
    measures: bool = False
    tuning: Tuning = field(default_factory=get_tuning)
    single_tick: bool = False
    budget: Budget | None = None
    may_repeat: bool = field(default=False, init=False)
    piece_rows: int = field(init=False)
    _moved: dict[str, tuple[Int64Array, Int64Array]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.begin()

    @property
    def phases(self) -> tuple[int, ...]:
        """Sign of each phase of a tick; 0 if rows carry weights."""
        return (0,) if self.weighted else (-1, 1)

    @property
    def loads(self) -> bool:
        """True if a tick from nothing may run otherwise than along the delta paths of later ticks."""
        is_usual = self.backend.device is None and not self.single_tick and self.share is None
        return is_usual and self.uses("load paths")

    def uses(self, fast_path: str) -> bool:
        """Return whether a fast path of `FAST_PATHS` may be used."""
        return fast_path not in self.tuning.off

    def begin(self) -> None:
        """Start a tick or another join: choose the piece size by the free memory."""
        self.piece_rows = self.chunk_rows or choose_piece_rows(self.backend)

    def ranks(self, family: str) -> Int64Array:
        """Return the rank of every code of a family, on the backend; moved only after a change."""
        assert self.host_ranks is not None
        host = self.host_ranks(family)
        moved = self._moved.get(family)
        if moved is None or moved[0] is not host:
            moved = self._moved[family] = host, self.backend.asarray(host)
        return moved[1]


# Work partition of ticks: the share of a path's seeds that one of several engines runs.
#
# All engines hold the same state and receive the same changes; each extends its share of every change's rows, and their
# answers add up. A row's share depends on its values only: codes of text, batches and orders of rows differ between
# engines that were started at different times, and must not matter.


_UInt64Array = npt.NDArray[np.uint64]


@dataclass(eq=False)
class Share:
    """One of several shares.

    Attributes
    ----------
    family
        Maps a relation's stored column to its dictionary, ``"string"`` or ``"binary"``, or an empty string. None for a
        column of null flags, which an engine may lack before it has seen a null.
    dictionaries
        By family. Code 0 is the empty text in each; rows without a value have its hash.
    """

    index: int
    n_shares: int
    family: Callable[[str, int], str | None]
    dictionaries: dict[str, Dictionary]
    _hashes: dict[str, _UInt64Array] = field(default_factory=dict)

    def rows_of(self, use: AtomUse, seeds: Seeds, backend: Backend) -> Seeds:
        """Return the seeds of this share, in their order."""
        xp = backend.xp
        mixed: Any = xp.zeros(len(seeds), np.uint64)
        for column in sorted(use.key.order):  # independent of the arrangement that an engine's plan uses
            family = self.family(use.key.relation, column)
            if family is None:
                continue
            values = seeds.matrix[use.key.order.index(column)]
            hashes = backend.asarray(self._text_hashes(family))[values] if family else values.view(np.uint64)
            mixed = _mix_bits(mixed * np.uint64(0x9E3779B97F4A7C15) + hashes, xp)
        (in_share,) = positions(backend, mixed % np.uint64(self.n_shares) == np.uint64(self.index))
        if len(in_share) == len(seeds):
            return seeds
        weights = None if seeds.weights is None else seeds.weights[in_share]
        return Seeds(seeds.order, xp.ascontiguousarray(seeds.matrix[:, in_share]), weights)

    def _text_hashes(self, family: str) -> _UInt64Array:
        """Return a hash of each code's value; only hashes of new values are computed."""
        dictionary = self.dictionaries[family]
        hashes = self._hashes.get(family, np.empty(0, np.uint64))[: len(dictionary)]
        if len(hashes) < len(dictionary):
            values = dictionary.decode(np.arange(len(hashes), len(dictionary))).to_pylist()
            fresh = [zlib.crc32(value.encode() if isinstance(value, str) else value) for value in values]
            hashes = np.concatenate([hashes, np.array(fresh, np.uint64)])
        self._hashes[family] = hashes
        return hashes


def _mix_bits(values: Any, xp: Any) -> Any:
    """Mix the bits of values (the finaliser of SplitMix64)."""
    values = (values ^ values >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ values >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return xp.bitwise_xor(values, values >> np.uint64(31))
