"""Blocks of work on several threads; results come in block order, through bounded queues."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from queue import Full, Queue
from threading import Event
from typing import TypeVar

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
