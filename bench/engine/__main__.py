"""``python -m bench.engine``: see `main`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pyarrow as pa
from cyclopts import App, Parameter
from rich.console import Console

from bench.engine import machine
from bench.engine.graph import STANDARD, generate
from bench.engine.measure import measure
from bench.engine.queries import TRIANGLE
from bench.engine.reference import yardstick
from bench.engine.report import print_table, write_json
from bench.engine.rows import ROWS

RESULTS = Path(__file__).parents[1] / "results"
WARM_UP = (10, 8_000, 1)
"""Scale, edges and seed of a small graph that every row runs on first, so that nothing is compiled in a timed tick."""

app = App(name="python -m bench.engine")


@app.default
def main(
    *,
    scale: int = STANDARD[0],
    edges: int = STANDARD[1],
    seed: int = STANDARD[2],
    rows: Annotated[list[str] | None, Parameter(consume_multiple=True)] = None,
    rivals: bool = True,
    limit: float = 60.0,
    output: Path = RESULTS,
) -> None:
    """Measure the engine's ticks on an R-MAT graph, as multiples of GraphBLAS's time to count its triangles.

    Parameters
    ----------
    scale
        The graph has 2 to the power of this many vertex ids.
    edges
        Directed edges to generate.
    seed
        Of the generator.
    rows
        Names of the rows to run; all if none is named.
    rivals
        Whether DuckDB runs too.
    limit
        Seconds after which a tick of DuckDB is interrupted.
    output
        The folder that the JSON goes to.
    """
    known = [row.name for row in ROWS]
    chosen = rows or known
    if unknown := sorted(set(chosen) - set(known)):
        raise SystemExit(f"There is no row {', '.join(unknown)}. The rows are: {', '.join(known)}.")
    console = Console(width=160)
    pa.set_cpu_count(1)
    described = machine.describe()
    small, graph = generate(*WARM_UP), generate(scale, edges, seed)
    yardstick_seconds, triangles = yardstick(graph.edges)
    console.print(f"{len(graph.edges):,} undirected edges, {triangles:,} triangles; seed {seed}, scale {scale}")
    if graph.is_standard and triangles != TRIANGLE.known[0]:
        raise SystemExit(f"GraphBLAS counts {triangles:,} triangles; {TRIANGLE.known[0]:,} are known.")
    measurements = []
    for row in ROWS:
        if row.name in chosen:
            measure(row, small, limit, rivals=False)
            measurements.append(measure(row, graph, limit, rivals=rivals))
            seconds = measurements[-1].headline
            console.print(f"{row.name}: {seconds:.6f} s, {seconds / yardstick_seconds:.4f} Y")
    print_table(measurements, yardstick_seconds, graph, console)
    day, commit = str(described["date"])[:10], str(described["commit"]).replace("+", "-")
    path = output / f"engine-{day}-{commit}-scale{scale}.json"
    write_json(path, measurements, yardstick_seconds, graph, described)
    console.print(f"Written to {path}")


if __name__ == "__main__":
    app()
