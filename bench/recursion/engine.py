"""The engine: fixpoints from scratch, single edges of a closure, and the social-media case."""

from __future__ import annotations

import gc
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import gpu_wcoj as gw
from bench.recursion import ttc
from bench.recursion.tasks import CLOSURE, DATA, Rows, Task

CHECKED_SOURCES = 20
"""Sources whose reachable vertices are counted again after a change, at most, half of them among those it touches."""


class AnswerError(AssertionError):
    """An answer is not the known one, or not the one that other code found."""


def from_scratch(task: Task, inputs: Mapping[str, Rows], threads: int) -> tuple[float, dict[str, int]]:
    """Seconds from the empty state to the fixpoint committed, and the rows of each derived relation."""
    program = gw.Program(task.text, keep=list(task.known), backend="cpu", threads=threads)
    changes = {name: gw.ZSet.from_numpy(rows) for name, rows in inputs.items()}
    gc.collect()
    start = time.perf_counter()
    program.load(changes)
    seconds = time.perf_counter() - start
    return seconds, {name: program.count(name) for name in task.known}


def single_edges(edges: Rows, n_edges: int, seed: int, threads: int) -> dict[str, Any]:
    """Take away and put back single edges of the closure, chosen at random, each in a tick of its own.

    Returns
    -------
    The seconds of every deletion and insertion, the rows that each deletion took away, and the seconds of a run from
    scratch. What is reachable from some sources is searched afresh after every tick.

    Raises
    ------
    AnswerError
        If a source reaches another number of vertices than a search finds, or an insertion does not bring back as many
        rows as the deletion had taken away.
    """
    rng = np.random.default_rng(seed)
    edges = np.unique(edges, axis=0)
    program = gw.Program(CLOSURE.text, backend="cpu", threads=threads)
    start = time.perf_counter()
    program.load({"edge": edges})
    scratch = time.perf_counter() - start
    n = int(edges.max()) + 1
    reached = np.bincount(program.relation("reach").to_numpy()["x"], minlength=n)
    gc.collect()
    timed: dict[str, list[float]] = {"delete": [], "insert": []}
    sizes: list[int] = []
    for edge in edges[rng.choice(len(edges), n_edges, replace=False)]:
        for verb, weight in (("delete", -1), ("insert", 1)):
            change = gw.ZSet.from_rows([(tuple(edge.tolist()), weight)])
            start = time.perf_counter()
            change = program.step({"edge": change})["reach"]
            timed[verb].append(time.perf_counter() - start)
            touched = change.to_numpy()["x"]
            np.add.at(reached, touched, change.weights)
            if verb == "delete":
                sizes.append(len(change))
            elif len(change) != sizes[-1]:
                raise AnswerError(f"edge {edge}: {sizes[-1]:,} rows went and {len(change):,} came back")
            present = edges if verb == "insert" else edges[(edges != edge).any(axis=1)]
            some = np.unique(touched)
            chosen = [*rng.permutation(some)[: CHECKED_SOURCES // 2], *rng.integers(0, n, CHECKED_SOURCES // 2)]
            _check(reached, present, n, chosen)
    return {"scratch_seconds": scratch, "seconds": timed, "rows": sizes}


def _check(reached: Rows, edges: Rows, n: int, sources: Sequence[int]) -> None:
    starts = np.searchsorted(edges[:, 0], np.arange(n + 1))
    for source in sources:
        found = np.zeros(n, np.bool_)
        frontier = edges[starts[source] : starts[source + 1], 1]
        while len(frontier):
            found[frontier] = True
            sizes = starts[frontier + 1] - starts[frontier]
            at = np.repeat(starts[frontier] - np.cumsum(sizes) + sizes, sizes) + np.arange(sizes.sum())
            frontier = np.unique(edges[at, 1])
            frontier = frontier[~found[frontier]]
        if reached[source] != found.sum():
            raise AnswerError(f"{source} reaches {found.sum():,} vertices, the engine says {reached[source]:,}")


def social_media(size: int, query: str, threads: int, folder: Path = DATA) -> tuple[list[float], str]:
    """Seconds of the initial state and of each change set, and which rankings were checked.

    The smallest size goes through another program first, so that nothing is compiled in a timed tick.

    Raises
    ------
    AnswerError
        If a ranking is not the expected one.
    """
    warm = ttc.Ranking(query, backend="cpu", threads=threads)
    for tick in ttc.ticks(folder / "ttc2018", min(ttc.SIZES)):
        warm.step(tick)
    ranking = ttc.Ranking(query, backend="cpu", threads=threads)
    expected = ttc.expected(folder / "ttc2018", query, size)
    seconds = []
    for number, tick in enumerate(ttc.ticks(folder / "ttc2018", size)):
        start = time.perf_counter()
        found = ranking.step(tick)
        seconds.append(time.perf_counter() - start)
        if found != expected[number]:
            raise AnswerError(f"{query}, size {size}, after {number} change sets: {expected[number]}, not {found}")
    return seconds, f"{len(expected)} rankings are the expected ones"
