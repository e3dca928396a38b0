"""The search: each query in a process of its own, with limits of time and memory; what breaks a law is made smaller."""

from __future__ import annotations

import multiprocessing
import resource
import time
from multiprocessing.connection import Connection

from bench.cliffs.laws import Findings, examine
from bench.cliffs.queries import Query, draw, reductions

SECONDS = 60.0
"""Seconds of a query, all its runs together."""

MEMORY = 8 << 30
"""Bytes of the address space of a query's process."""

_FORKING = multiprocessing.get_context("fork")


def load_kernels() -> None:
    """Examine some queries in this process, so that its children begin with all kernels loaded."""
    for seed in range(-20, 0):
        examine(draw(seed, 2_000), is_timed=False)


def _answer(pipe: Connection, query: Query, is_timed: bool) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    try:
        pipe.send(examine(query, is_timed))
    except BaseException as error:
        pipe.send(f"{type(error).__name__}: {str(error)[:300]}")
        raise


def examine_apart(query: Query, is_timed: bool, seconds: float = SECONDS) -> Findings:
    """Examine a query in a child process; a failure, or no end, is a broken law of its own."""
    here, there = _FORKING.Pipe(duplex=False)
    process = _FORKING.Process(target=_answer, args=(there, query, is_timed), daemon=True)
    process.start()
    there.close()
    try:
        if not here.poll(seconds):
            return Findings(broken={"no end": seconds})
        found = here.recv()
    except EOFError:
        return Findings(broken={"no answer": 1.0})
    finally:
        process.kill()
        process.join()
        here.close()
    return found if isinstance(found, Findings) else Findings(broken={found: 1.0})


def reduce(query: Query, law: str, is_timed: bool, seconds: float) -> Query:
    """Return a smaller query that breaks the same law: no part and no half of a table can be left out.

    Greedy, as delta debugging is (Zeller and Hildebrandt 2002); it stops after `seconds`.
    """
    end = time.monotonic() + seconds
    is_smaller = True
    while is_smaller:
        is_smaller = False
        for smaller in reductions(query):
            if time.monotonic() > end:
                return query
            if law in examine_apart(smaller, is_timed).broken:
                query, is_smaller = smaller, True
                break
    return query
