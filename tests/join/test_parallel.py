"""Blocks on threads: the results of one thread, in its order, and few of them held."""

from __future__ import annotations

import threading
import time

import pytest

from gpu_wcoj.join.settings import AHEAD, QUEUE_RESULTS, in_order

THREADS = [1, 2, 5]


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("n_blocks", [0, 1, 3, 50])
def test_the_order_is_that_of_the_blocks(n_blocks, threads):
    def run(block):
        time.sleep(0.002 * (block % 3 == 0))
        return [(block, i) for i in range(block % 7)]

    assert list(in_order(run, n_blocks, threads)) == [row for block in range(n_blocks) for row in run(block)]


@pytest.mark.parametrize("threads", THREADS)
def test_few_results_are_held(threads):
    made = taken = most = 0
    lock = threading.Lock()

    def run(block):
        nonlocal made
        for i in range(50):
            with lock:
                made += 1
            yield i

    for _ in in_order(run, 20, threads):
        with lock:
            taken += 1
            most = max(most, made - taken)
        time.sleep(0.0001)
    assert (made, taken) == (1000, 1000)
    # What waits in the queues, and one result in the hands of each thread.
    assert 0 < most <= AHEAD * threads * QUEUE_RESULTS + threads


@pytest.mark.parametrize("error", [RuntimeError("block 3 failed"), KeyboardInterrupt("block 3 failed")])
@pytest.mark.parametrize("threads", THREADS)
def test_an_error_is_raised_in_its_place(threads, error):
    def run(block):
        yield block, 0
        if block == 3:
            raise error
        yield block, 1

    results = in_order(run, 1000, threads)
    assert [next(results) for _ in range(7)] == [*((block, i) for block in range(3) for i in range(2)), (3, 0)]
    with pytest.raises(type(error), match="block 3 failed"):
        next(results)


@pytest.mark.parametrize("threads", THREADS)
def test_closing_stops_the_blocks(threads):
    began = []

    def run(block):
        began.append(block)
        yield from range(10**9)

    results = in_order(run, 100, threads)
    assert [next(results) for _ in range(5)] == list(range(5))
    before = threading.active_count()
    results.close()
    assert threading.active_count() < before
    assert len(began) <= threads
