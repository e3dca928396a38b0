"""The engine on the same ticks, on one thread."""

from __future__ import annotations

import time
from typing import Literal

import pyarrow as pa

import gpu_wcoj as gw
from bench.rivals.arriving import Arriving
from bench.rivals.tick import Run, Tick

TRIANGLES = "triangle(a, b, c) :- edge(a, b), edge(b, c), edge(a, c)."

Way = Literal["counts", "rows"]
"""Whether triangles are counted, or all of them are made."""


def run(graph: Arriving, way: Way, nodes: int, limit: int | None, seconds: float) -> Run:
    """Feed the ticks until they have taken so many seconds."""
    program = gw.Program(TRIANGLES, backend="cpu", threads=1)
    ticks: list[Tick] = []
    stopped = None
    left = seconds
    for edges in graph.ticks(nodes, limit):
        batch = pa.RecordBatch.from_arrays([pa.array(edges[:, 0]), pa.array(edges[:, 1])], names=["src", "dst"])
        start, computed = time.perf_counter(), time.process_time()
        if way == "counts":
            found = program.step_counts({"edge": batch})["triangle"].net
        else:
            found = len(program.step({"edge": batch})["triangle"])
        ticks.append(Tick(len(edges), found, time.perf_counter() - start, time.process_time() - computed))
        left -= ticks[-1].seconds
        if left < 0:
            stopped = f"ended after {seconds:g} s"
            break
    return Run(f"engine, {way}", nodes, ticks, stopped)
