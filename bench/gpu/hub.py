"""A graph with hubs: one vertex beside all others, then a second one. Every count is known without counting."""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.engine.streams import CountError
from bench.gpu import stream
from bench.gpu.feed import load, program_of
from bench.gpu.graph import packed, splitmix64
from bench.gpu.patterns import ORIENTED, rules_of
from bench.gpu.place import Place, find
from bench.gpu.probes import bound
from bench.gpu.report import Options, Report

SCALE = 22


def run(place: Place, options: Options, report: Report) -> None:
    """Edges among the hub's neighbours close one triangle each; a second hub closes one with each of them."""
    n = 1 << (options.scale or SCALE)
    report.say(leaves=n, program=str(rules_of(ORIENTED)), what="vertex 0 is beside every other; vertex 1 becomes so")
    report.attempt("bound", bound, place, options.rows >> 3, report)
    cases = {f"leaves, ticks of {n_rows:,}": n_rows for n_rows in (1, 1_000, 100_000, n // 4) if n_rows <= n // 4}
    xp = place.xp
    hub = packed(xp.zeros(n + 1, np.int64), xp.arange(1, n + 2, dtype=np.int64))
    program = program_of(place, ORIENTED)
    report.add("load", edges=len(hub), load_seconds=load(place, program, hub))
    cpu, on_host = find("cpu"), None
    if options.rivals:
        on_host = program_of(cpu, ORIENTED)
        load(cpu, on_host, place.backend.to_host(hub))
    for name, n_rows in cases.items():
        keys = matching(xp, n, n_rows)
        report.attempt(name, _ticks, place, cpu, program, on_host, name, keys, n_rows, report)
    second = packed(xp.ones(n, np.int64), xp.arange(2, n + 2, dtype=np.int64))
    report.attempt("a second hub", _ticks, place, cpu, program, on_host, "a second hub", second, n, report)
    if options.rivals:
        for name, keys in (("leaves, ticks of 1,000", matching(xp, n, min(1_000, n // 4))), ("a second hub", second)):
            report.attempt(f"binary joins: {name}", _binary, place, hub, name, keys, report)
            place.release()


def matching(xp: Any, n: int, n_rows: int) -> Any:
    """Edges between leaves, no two of which meet: pairs (2 + 2i, 3 + 2i), in a random order."""
    first = xp.arange(2, 2 + 2 * n_rows, 2, dtype=np.int64)
    assert 3 + 2 * n_rows <= n + 2
    order = xp.argsort(splitmix64(first.view(np.uint64)))
    return xp.take(packed(first, first + 1), order)


def _ticks(
    place: Place, cpu: Place, program: Any, on_host: Any, name: str, keys: Any, expected: int, report: Report
) -> None:
    found = stream.run_engine(place, program, ORIENTED, [keys], rounds=5)
    if found.inserted != (expected,):
        raise CountError(f"{name}: {found.inserted[0]:,} triangles; there are {expected:,}")
    rivals = {}
    if on_host is not None:
        ran = stream.run_engine(cpu, on_host, ORIENTED, [place.backend.to_host(keys)], rounds=2)
        stream.compared(found, ran, "the engine on the CPU", [])
        rivals = {"engine on the CPU, all processors": ran.record(len(keys))}
    report.add(
        name,
        tick_rows=len(keys),
        output_rows=expected,
        candidates_of_first_tick=found.n_candidates,
        **report.bound(found.n_candidates),
        **found.record(len(keys)),
        rivals=rivals,
        checks=["equals the number that the graph is made to have"],
    )


def _binary(place: Place, hub: Any, name: str, keys: Any, report: Report) -> None:
    ran = stream.run_binary(place, ORIENTED, hub, [keys], rounds=2, limit=10)
    if ran.inserted and ran.inserted != (len(keys),):
        raise CountError(f"binary joins, {name}: {ran.inserted[0]:,} triangles; there are {len(keys):,}")
    report.add(f"binary joins: {name}", tick_rows=len(keys), **ran.record(len(keys)))
