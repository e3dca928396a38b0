"""Whole answers: a graph loaded, and all its triangles or 4-cliques counted."""

from __future__ import annotations

import statistics
import time
from typing import Any

from bench.engine.graph import STANDARD, generate
from bench.engine.queries import CLIQUE, TRIANGLE, Query
from bench.engine.streams import CountError
from bench.gpu import libraries
from bench.gpu.binary_join import BinaryJoin, OutOfTimeError
from bench.gpu.feed import change, load, program_of
from bench.gpu.graph import undirected
from bench.gpu.place import Place, Timing, find
from bench.gpu.recount import triangles
from bench.gpu.report import Options, Report, against
from bench.gpu.streams17 import keys_of

CLIQUES_RATE, CLIQUES_AIM = 2e9, 5e9
"""4-cliques a second, counted on the graph of scale 17."""
REPETITIONS = 5
LARGER = 20
LIMIT = 40.0


def run(place: Place, options: Options, report: Report) -> None:
    """Scale 17 for both patterns, scale 20 for triangles."""
    scale = options.scale or STANDARD[0]
    n_edges = options.edges or (STANDARD[1] if options.scale is None else 16 << scale)
    graph = generate(scale, n_edges, STANDARD[2])
    keys = keys_of(graph.edges)
    report.say(graph={"scale": scale, "directed_edges": n_edges, "seed": STANDARD[2], "undirected_edges": len(keys)})
    for query in (TRIANGLE, CLIQUE):
        known = query.known[0] if graph.is_standard else None
        on_device = place.backend.asarray(keys)
        report.attempt(f"{query.name}, scale {scale}", _count, place, query, scale, on_device, known, options, report)
        place.release()
    if options.scale is None:
        drawn = undirected(place.xp, LARGER, 16 << LARGER)
        name = f"triangle, scale {LARGER}"
        report.attempt(name, _count, place, TRIANGLE, LARGER, drawn, None, options, report)


def _count(
    place: Place, query: Query, scale: int, keys: Any, known: int | None, options: Options, report: Report
) -> None:
    counted = [_first_count(place, query, keys) for _ in range(REPETITIONS + 1)][1:]  # the first warms up
    load_seconds = statistics.median(load for load, _, _ in counted)
    timing = Timing(tuple(seconds for _, seconds, _ in counted), counted[-1][2])
    found = int(timing.result)
    checks: list[str] = []
    if known is not None:
        _same(query, "the known answer", known, found, checks)
    if query is TRIANGLE:
        _same(query, "other code's count", triangles(place, keys, 1 << scale), found, checks)
    place.release()

    def from_empty() -> int:
        return int(program_of(place, query).step_counts({"edge": change(place, keys)})[query.name].net)

    start = place.wall(from_empty)
    _same(query, "one tick from the empty state", start[1], found, checks)
    rivals: dict[str, Any] = {}
    if options.rivals:
        rivals["engine on the CPU, all processors"] = _on_cpu(query, place.backend.to_host(keys), found, checks)
        rivals["binary joins on the device"] = _binary(place, query, keys, found, checks)
        for name, count in libraries.COUNTERS.items():
            rivals[name] = _library(count, place, query, keys, found, checks)
    is_clique = query is CLIQUE
    rate = found / timing.median
    report.add(
        f"{query.name}, scale {scale}",
        edges=len(keys),
        answer_rows=found,
        rows_per_s=rate,
        edges_per_s=len(keys) / timing.median,
        load_seconds=load_seconds,
        from_empty_seconds=start[0],
        **timing.record(),
        **(against(rate, target=CLIQUES_RATE, aim=CLIQUES_AIM) if is_clique and known is not None else {}),
        rivals=rivals,
        checks=checks,
    )


def _first_count(place: Place, query: Query, keys: Any) -> tuple[float, float, int]:
    """Seconds to load the graph and to count for the first time, and the count; a program keeps it from then on."""
    place.release()
    program = program_of(place, query)
    load_seconds = load(place, program, keys)
    seconds, count = place.wall(lambda: program.count(query.name))
    return load_seconds, seconds, int(count)


def _on_cpu(query: Query, keys: Any, found: int, checks: list[str]) -> dict[str, Any]:
    load_seconds, seconds, count = _first_count(find("cpu"), query, keys)
    _same(query, "the engine on the CPU", count, found, checks)
    return {"load_seconds": load_seconds, "seconds": seconds}


def _binary(place: Place, query: Query, keys: Any, found: int, checks: list[str]) -> dict[str, Any]:
    until = time.monotonic() + LIMIT
    join = BinaryJoin(place.xp, query, keys, stop=lambda: time.monotonic() > until)
    try:
        seconds, count = place.wall(join.count)
    except OutOfTimeError:
        return {"seconds": None, "stopped": f"not done within {LIMIT:g} s"}
    _same(query, "binary joins on the device", count, found, checks)
    return {"seconds": seconds}


def _library(
    count: libraries.Counter, place: Place, query: Query, keys: Any, found: int, checks: list[str]
) -> dict[str, Any]:
    result = count(place, query, keys)
    if "count" in result:
        _same(query, str(result.get("what", "a library")), int(result["count"]), found, checks)
    return result


def _same(query: Query, source: str, expected: int, found: int, checks: list[str]) -> None:
    if expected != found:
        raise CountError(f"{query.name}: {source} is {expected:,}, the engine on the device counts {found:,}")
    checks.append(f"equals {source}: {found:,}")
