"""The engine's own table of streams, at scale 17, on the device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bench.engine.graph import STANDARD, Graph, generate
from bench.engine.queries import Query
from bench.engine.rows import ROWS, Row
from bench.engine.streams import CountError
from bench.gpu import stream
from bench.gpu.feed import load, program_of
from bench.gpu.graph import packed
from bench.gpu.patterns import ACYCLIC
from bench.gpu.place import Place, find
from bench.gpu.probes import bound
from bench.gpu.report import Options, Report, against

ONE_CHANGE_SECONDS = 1.5e-3
BINARY_FACTOR = 1.1
"""What an acyclic pattern may take, as a multiple of the binary join's time."""
SMALL = (10, 8_000, 1)
TICKS_MEASURED = 20
"""Ticks of one row of the table, at most; the CPU gets as many as the device."""
BINARY_TICKS = 3


def run(place: Place, options: Options, report: Report) -> None:
    """Measure every row of the table."""
    graph = _graph(place, options, report)
    small = generate(*SMALL) if graph.scale > SMALL[0] else graph
    cpu = find("cpu")
    for row in ROWS:
        if row.tick_rows:
            ticks = graph.ticks(row.tick_rows, min(row.n_ticks or TICKS_MEASURED, options.ticks or TICKS_MEASURED))
            report.attempt(row.name, _row, place, cpu, graph, small, row, ticks, options, report)
            place.release()


def run_acyclic(place: Place, options: Options, report: Report) -> None:
    """Measure the patterns that a binary join is made for."""
    graph = _graph(place, options, report)
    for query in ACYCLIC:
        for tick_rows in (1_000, 100_000):
            ticks = graph.ticks(tick_rows, min(3, options.ticks or 3))
            report.attempt(query.name, _acyclic, place, graph, query, ticks, report)
            place.release()


def _graph(place: Place, options: Options, report: Report) -> Graph:
    scale = options.scale or STANDARD[0]
    n_edges = options.edges or (STANDARD[1] if options.scale is None else 16 << scale)
    graph = generate(scale, n_edges, STANDARD[2])
    report.say(
        graph={"scale": scale, "directed_edges": n_edges, "seed": STANDARD[2], "undirected_edges": len(graph.edges)},
        loaded=graph.n_loaded,
        what="a tick is timed from its edges in the device's memory to its count (or its rows there)",
    )
    report.attempt("bound", bound, place, options.rows >> 3, report)
    return graph


def keys_of(edges: Any) -> Any:
    """Edges as keys, NumPy's."""
    return packed(np.ascontiguousarray(edges[:, 0]), np.ascontiguousarray(edges[:, 1]))


def _row(
    place: Place,
    cpu: Place,
    graph: Graph,
    small: Graph,
    row: Row,
    ticks: Sequence[Any],
    options: Options,
    report: Report,
) -> None:
    query, rows = row.query, row.how == "list"
    warm = program_of(place, query)
    load(place, warm, place.backend.asarray(keys_of(small.loaded)))
    stream.run_engine(place, warm, query, [place.backend.asarray(keys_of(small.stream[:50]))], rows=rows, rounds=1)
    del warm
    on_host = [keys_of(one) for one in ticks]
    on_device = [place.backend.asarray(keys) for keys in on_host]
    loaded = keys_of(graph.loaded)
    program = program_of(place, query)
    load_seconds = load(place, program, place.backend.asarray(loaded))
    found = stream.run_engine(place, program, query, on_device, rows=rows)
    checks = ["each deletion took away what its insertion had added"]
    _known(query, graph, ticks, found.inserted, checks)
    state_bytes = program.nbytes
    del program
    rivals: dict[str, Any] = {}
    if options.rivals:
        cpu_load, on_cpu = stream.run_cpu(cpu, query, loaded, on_host[: max(1, min(len(on_host), 5))], rows=rows)
        stream.compared(found, on_cpu, "the engine on the CPU", checks)
        rivals["engine on the CPU, all processors"] = {"load_seconds": cpu_load, **on_cpu.record(len(ticks[0]))}
        joined = stream.run_binary(
            place, query, place.backend.asarray(loaded), on_device[:BINARY_TICKS], rows=rows, rounds=1, limit=10
        )
        stream.compared(found, joined, "binary joins on the device", checks)
        rivals["binary joins on the device"] = joined.record(len(ticks[0]))
    record = found.record(len(ticks[0]))
    target = against(record["seconds"], target=ONE_CHANGE_SECONDS, most=True) if row.tick_rows == 1 else {}
    if query.name == "clique4" and not rows:
        record["rows_per_s"] = sum(found.inserted) / len(ticks) / record["seconds"]
    report.add(
        row.name,
        query=query.name,
        tick_rows=len(ticks[0]),
        call="step" if rows else "step_counts",
        load_seconds=load_seconds,
        state_bytes=state_bytes,
        output_rows=sum(found.inserted),
        candidates_of_first_tick=found.n_candidates,
        **report.bound(found.n_candidates),
        **record,
        **target,
        rivals=rivals,
        checks=checks,
    )


def _known(query: Query, graph: Graph, ticks: Sequence[Any], inserted: Sequence[int], checks: list[str]) -> None:
    if not graph.is_standard:
        return
    n_edges = n_rows = 0
    for tick, count in zip(ticks, inserted, strict=True):
        n_edges += len(tick)
        n_rows += count
        if (known := query.known.get(n_edges)) is not None:
            if known != n_rows:
                raise CountError(f"{query.name}: {n_rows:,} after {n_edges:,} insertions; {known:,} is known")
            checks.append(f"equals the known answer after {n_edges:,} insertions: {n_rows:,}")


def _acyclic(place: Place, graph: Graph, query: Query, ticks: Sequence[Any], report: Report) -> None:
    """Counted and listed; never slower than a binary join, by more than a tenth."""
    on_device = [place.backend.asarray(keys_of(one)) for one in ticks]
    loaded = place.backend.asarray(keys_of(graph.loaded))
    for rows in (False, True):
        if rows and len(ticks[0]) > 1_000:
            continue  # a tick of 100,000 edges has billions of paths
        program = program_of(place, query)
        load(place, program, loaded)
        found = stream.run_engine(place, program, query, on_device, rows=rows, limit=10)
        del program
        joined = stream.run_binary(place, query, loaded, on_device, rows=rows, limit=10)
        checks: list[str] = []
        stream.compared(found, joined, "binary joins on the device", checks)
        record, other = found.record(len(ticks[0])), joined.record(len(ticks[0]))
        factor = record["seconds"] / other["seconds"] if other["seconds"] else None
        report.add(
            f"{query.name}-{len(ticks[0])}{'-list' if rows else ''}",
            query=query.name,
            tick_rows=len(ticks[0]),
            call="step" if rows else "step_counts",
            output_rows=sum(found.inserted),
            **record,
            of_binary_join=factor,
            **({} if factor is None else against(factor, target=BINARY_FACTOR, most=True)),
            rivals={"binary joins on the device": other},
            checks=checks,
        )
