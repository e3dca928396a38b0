"""The engine on the same ticks, on one thread."""

from __future__ import annotations

import time
from typing import Literal

import pyarrow as pa

import gpu_wcoj as gw
from bench.rivals.arriving import Arriving
from bench.rivals.tick import Run, Tick
from gpu_wcoj.kernels.protocol import PROPOSALS

TRIANGLES = "triangle(a, b, c) :- edge(a, b), edge(b, c), edge(a, c)."
CHAINED = """
two(a, b, c) :- edge(a, b), edge(b, c).
triangle(a, b, c) :- two(a, b, c), edge(a, c).
.output triangle
"""

KEPT_ROWS = 40_000_000
"""Paths of two edges that may be kept; a tick that would bring more is not taken, for want of memory."""

Way = Literal["counts", "rows", "kept"]
"""Whether triangles are counted, or all of them are made, or counted by joins of two relations, the first one kept."""


def run(graph: Arriving, way: Way, nodes: int, limit: int | None, seconds: float) -> Run:
    """Feed the ticks until they have taken so many seconds."""
    if way == "kept":
        program = gw.Program(CHAINED, backend="cpu", threads=1, keep=("two",))
    else:
        program = gw.Program(TRIANGLES, backend="cpu", threads=1)
    ticks: list[Tick] = []
    stopped = None
    left = seconds
    for edges in graph.ticks(nodes, limit):
        if way == "kept" and (paths := graph.paths((len(ticks) + 1) * nodes)) > KEPT_ROWS:
            stopped = f"ended before tick {len(ticks)}, which would keep {paths:,} paths, more than {KEPT_ROWS:,}"
            break
        batch = pa.RecordBatch.from_arrays([pa.array(edges[:, 0]), pa.array(edges[:, 1])], names=["src", "dst"])
        start, computed = time.perf_counter(), time.process_time()
        if way == "rows":
            found = len(program.step({"edge": batch})["triangle"])
        else:
            found = program.step_counts({"edge": batch})["triangle"].net
        passed, computed = time.perf_counter() - start, time.process_time() - computed
        ticks.append(Tick(len(edges), found, passed, computed, proposals(program)))
        left -= passed
        if left < 0:
            stopped = f"ended after {seconds:g} s"
            break
    return Run(f"engine, {way}", nodes, ticks, stopped)


def proposals(program: gw.Program) -> int:
    """Values that the last tick's joins tried."""
    rules = [rule for head in program.last_tick.work.values() for rule in head.values()]
    return sum(int(counted[PROPOSALS]) for rule in rules for path in rule.values() for counted in path.values())
