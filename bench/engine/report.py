"""The table on the screen, and the same numbers as JSON."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from bench.engine import machine
from bench.engine.graph import Graph
from bench.engine.measure import Measurement
from bench.engine.rows import MAX_DELETION_RATIO, MAX_WORST_RATIO, MIN_TWO_THREADS_SPEEDUP, Target
from bench.suite.memory import peak_bytes

COLUMNS = ("stream", "call", "rows", "a tick", "worst", "of Y", "must", "aim", "", "deletions", "2 threads", "DuckDB")


def print_table(measurements: Sequence[Measurement], yardstick_seconds: float, graph: Graph, console: Console) -> None:
    """Print one line for each measurement."""
    console.print(f"Y = {yardstick_seconds:.3f} s: GraphBLAS, triangles of the whole graph, one thread, best of 3")
    table = Table(box=None, pad_edge=False)
    for column in COLUMNS:
        table.add_column(column, justify="left" if column in ("stream", "call", "") else "right", no_wrap=True)
    for measurement in measurements:
        table.add_row(*_cells(measurement, yardstick_seconds, graph))
    console.print(table)
    console.print(
        f"'of Y', 'must' and 'aim' are multiples of Y unless they carry a unit. Deletions must cost at most "
        f"{MAX_DELETION_RATIO} times the insertions, two threads give at least {MIN_TWO_THREADS_SPEEDUP}. "
        f"The worst tick may take {MAX_WORST_RATIO} times the median one, as merges are done in instalments. "
        "DuckDB: delta queries on one thread in the better vertex order, seconds and the multiple of ours."
    )


def verdict(seconds: float, yardstick_seconds: float, target: Target, graph: Graph) -> str:
    """Which target is reached: ``aim``, ``must`` or ``missed``; ``-`` for another graph than the targets are for."""
    if not graph.is_standard:
        return "-"
    value = seconds if target.in_seconds else seconds / yardstick_seconds
    return "aim" if value <= target.aim else "must" if value <= target.must else "missed"


def write_json(
    path: Path,
    measurements: Sequence[Measurement],
    yardstick_seconds: float,
    graph: Graph,
    described: dict[str, object],
) -> None:
    """Write everything that was measured."""
    document = {
        "machine": described,
        "graph": {
            "scale": graph.scale,
            "directed_edges": graph.n_directed,
            "seed": graph.seed,
            "undirected_edges": len(graph.edges),
            "loaded": graph.n_loaded,
            "largest_degree": int(np.bincount(graph.edges.ravel()).max()),
        },
        "yardstick_seconds": yardstick_seconds,
        "peak_rss_bytes": peak_bytes(),
        "rows": [_record(measurement, yardstick_seconds, graph) for measurement in measurements],
    }
    machine.write_json(path, document)


def _record(measurement: Measurement, yardstick_seconds: float, graph: Graph) -> dict[str, object]:
    row, target = measurement.row, measurement.row.target
    return {
        "name": row.name,
        "query": row.query.name,
        "tick_rows": row.tick_rows,
        "call": _call(measurement),
        "seconds": measurement.headline,
        "of_yardstick": measurement.headline / yardstick_seconds,
        "must": target.must,
        "aim": target.aim,
        "target_unit": "s" if target.in_seconds else "Y",
        "verdict": verdict(measurement.headline, yardstick_seconds, target, graph),
        "load_seconds": measurement.load_seconds,
        "p50": statistics.median(measurement.seconds),
        "p99": float(np.quantile(measurement.seconds, 0.99)),
        "worst": max(measurement.seconds),
        "worst_ratio": measurement.worst_ratio,
        "insert_seconds": _rounded(measurement.seconds),
        "delete_seconds": _rounded(measurement.delete_seconds),
        "deletion_ratio": measurement.deletion_ratio,
        "two_threads_seconds": _rounded(measurement.two_threads),
        "two_threads_speedup": measurement.two_threads_speedup,
        "output_rows": measurement.n_rows,
        "checks": measurement.checks,
        "duckdb": {
            order: {"seconds": _rounded(result.seconds), "counts": result.counts, "stopped": result.stopped}
            for order, result in measurement.rivals.items()
        },
    }


def _cells(measurement: Measurement, yardstick_seconds: float, graph: Graph) -> tuple[str, ...]:
    row, target, seconds = measurement.row, measurement.row.target, measurement.headline
    limits = [_duration(limit) if target.in_seconds else f"{limit:g}" for limit in (target.must, target.aim)]
    speedup, deletion = measurement.two_threads_speedup, measurement.deletion_ratio
    return (
        row.name,
        _call(measurement),
        f"{measurement.n_rows:,}",
        _duration(seconds),
        f"{_duration(max(measurement.seconds))} x {measurement.worst_ratio:.1f}",
        f"{seconds / yardstick_seconds:.4f}",
        *limits,
        verdict(seconds, yardstick_seconds, target, graph),
        "" if deletion is None else f"x {deletion:.2f}",
        "" if speedup is None else f"x {speedup:.2f}",
        _rival_cell(measurement),
    )


def _rival_cell(measurement: Measurement) -> str:
    best = measurement.best_rival
    if best is not None:
        return f"{_duration(best)} = x {best / measurement.headline:.3g}"
    return next((result.stopped for result in measurement.rivals.values() if result.stopped), "not run")


def _call(measurement: Measurement) -> str:
    return "step_counts" if measurement.row.how == "count" else "step"


def _duration(seconds: float) -> str:
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} us"
    return f"{seconds * 1e3:.2f} ms" if seconds < 1 else f"{seconds:.2f} s"


def _rounded(seconds: Sequence[float]) -> list[float]:
    return [round(value, 7) for value in seconds]
