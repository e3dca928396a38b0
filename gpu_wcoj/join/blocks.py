"""Blocks of work on several threads, whose results come in the blocks' order and never pile up."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from queue import Full, Queue
from threading import Event
from typing import TypeVar

_T = TypeVar("_T")

HELD = 2
"""Results of one block that wait to be taken, at most; a block that has more waits itself."""

AHEAD = 2
"""Blocks per thread that are begun before the first of them is taken whole."""

_LOOK_SECONDS = 0.05
"""How often a block that waits looks whether anybody still wants its results."""


@dataclass(frozen=True)
class _End:
    """Behind a block's last result."""

    error: BaseException | None = None


def in_order(run: Callable[[int], Iterable[_T]], n_blocks: int, threads: int) -> Iterator[_T]:
    """All results of ``run(0)``, then all of ``run(1)``, ..., the blocks run on `threads` threads.

    At most ``AHEAD * threads * HELD`` results wait. What a block raises is raised in its place. When the iterator is
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
            queues.append(Queue(HELD))
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
    """Wait for room in the queue; whether anybody still wants the result."""
    while not stop.is_set():
        try:
            queue.put(result, timeout=_LOOK_SECONDS)
        except Full:
            continue
        return True
    return False
