"""From how many changes a tick on the device is faster than the CPU."""

from __future__ import annotations

import dataclasses
from typing import Any

from bench.engine.graph import STANDARD, generate
from bench.engine.queries import CLIQUE, TRIANGLE, Query
from bench.gpu import stream
from bench.gpu.feed import load, program_of
from bench.gpu.place import Place, find
from bench.gpu.report import Options, Report
from bench.gpu.streams17 import keys_of
from gpu_wcoj.engine.calibrate import SIZES as CALIBRATED
from gpu_wcoj.engine.calibrate import calibrate

SIZES = (1, 3, 10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)


def run(place: Place, options: Options, report: Report) -> None:
    """Ticks of growing size on both, and by route; the first size from which the device stays ahead."""
    scale = options.scale or STANDARD[0]
    n_edges = options.edges or (STANDARD[1] if options.scale is None else 16 << scale)
    graph = generate(scale, n_edges, STANDARD[2])
    described = {"scale": scale, "directed_edges": n_edges, "seed": STANDARD[2], "undirected_edges": len(graph.edges)}
    report.say(graph=described)
    loaded, arriving = keys_of(graph.loaded), keys_of(graph.stream)
    report.attempt("calibration", _calibration, place, len(loaded), report)
    for query in (TRIANGLE, CLIQUE):
        report.attempt(f"crossover {query.name}", _pattern, place, query, loaded, arriving, options, report)
        place.release()


def _calibration(place: Place, n_rows: int, report: Report) -> None:
    """What the engine itself measures to route by; it is not stored."""
    sizes = [size for size in CALIBRATED if size <= n_rows // 10] or [1, 2]
    found = calibrate(place.backend, find("cpu").backend, n_rows, sizes)
    samples = [dataclasses.asdict(sample) for sample in found.samples]
    report.add("calibration", edges=n_rows, thresholds=found.thresholds, samples=samples)


def _pattern(place: Place, query: Query, loaded: Any, arriving: Any, options: Options, report: Report) -> None:
    cpu = find("cpu")
    on_device, on_host = program_of(place, query), program_of(cpu, query)
    by_route = program_of(place, query, route="auto")
    for program in (on_device, by_route):
        load(place, program, place.backend.asarray(loaded))
    load(cpu, on_host, loaded)
    sizes = [size for size in SIZES if size <= len(arriving)]
    if query is CLIQUE:
        sizes = [size for size in sizes if size <= 10_000]
    ahead: list[tuple[int, bool]] = []
    for size in sizes:
        if place.time_left <= 0:
            report.leave_out(f"{query.name}, ticks of {size:,}", "the part's time was over")
            continue
        n_ticks = max(1, min(options.ticks or 20, len(arriving) // size, 20 if size <= 1_000 else 3))
        ticks = [arriving[i * size : (i + 1) * size] for i in range(n_ticks)]
        device_ticks = [place.backend.asarray(keys) for keys in ticks]
        ours = stream.run_engine(place, on_device, query, device_ticks, rounds=2, limit=10)
        routed = stream.run_engine(place, by_route, query, device_ticks, rounds=2, limit=10)
        theirs = stream.run_engine(cpu, on_host, query, ticks, rounds=2, limit=10)
        checks: list[str] = []
        stream.compared(ours, theirs, "the engine on the CPU", checks)
        stream.compared(ours, routed, "the engine by its own route", checks)
        mine, other = ours.record(size), theirs.record(size)
        ahead.append((size, mine["seconds"] < other["seconds"]))
        report.add(
            f"{query.name}, ticks of {size:,}",
            query=query.name,
            tick_rows=size,
            device_seconds=mine["seconds"],
            routed_seconds=routed.record(size)["seconds"],
            routed_to=by_route.last_tick.backend,
            cpu_seconds=other["seconds"],
            device=mine,
            cpu=other,
            checks=checks,
        )
    route = next((line for line in by_route.explain().splitlines() if line.startswith("route")), None)
    stays = next((size for i, (size, _) in enumerate(ahead) if all(won for _, won in ahead[i:])), None)
    report.add(f"{query.name}: the device is ahead from", tick_rows=stays, explained=route)
