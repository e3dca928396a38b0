"""``python -m bench.tpch``: see `main`."""

from __future__ import annotations

import statistics
import subprocess
from pathlib import Path
from typing import Any

from cyclopts import App
from rich.console import Console
from rich.table import Table

from bench.engine import machine
from bench.tpch.data import SHARE, generated, generator, stream
from bench.tpch.measure import over_ticks
from bench.tpch.queries import QUERIES

RESULTS = Path(__file__).parents[1] / "results"
LIBRARIES = ("numpy", "pyarrow", "numba", "llvmlite", "duckdb", "sqlglot")

app = App(name="python -m bench.tpch")


@app.default
def main(
    *queries: str, scale: float = 0.1, ticks: int = 20, seed: int = 1, threads: int = 2, output: Path = RESULTS
) -> None:
    """Keep views of TPC-H's queries up to date while orders come and go, beside DuckDB's answers.

    Each tick inserts a thousandth of the orders with their lines, and deletes as many. After every tick all rows of
    the view are compared with DuckDB's answer to the same SQL on the same tables, and the tick's time with that of
    this answer, on the same number of threads, by the clock and by time of the processor, which other processes of
    the machine disturb less.

    These are no results of the TPC, whose data and queries they use.

    Parameters
    ----------
    queries
        Some of q3, q5, q7, q8, q9 and q10; all by default.
    scale
        The scale factor.
    ticks
        How many refreshes.
    seed
        Chooses the orders that come and go.
    threads
        Of both.
    output
        The folder that the JSON goes to.
    """
    console = Console(width=140)
    tables = generated(scale)
    begin, changes = stream(tables, ticks, seed)
    described = machine.describe(LIBRARIES)
    results: dict[str, Any] = {}
    table = Table(box=None, pad_edge=False, title=f"milliseconds of the processor, at {scale:g}", title_justify="left")
    for column in (
        "query",
        "load",
        "a tick",
        "slowest",
        "DuckDB",
        "fastest",
        "times our ticks",
        "by the clock",
        "rows",
    ):
        table.add_column(column, justify="left" if column == "query" else "right")
    for name in queries or QUERIES:
        found = results[name] = over_ticks(name, begin, changes, threads)
        ours, theirs = found["ticks"]["ours"], found["ticks"]["DuckDB"]
        table.add_row(
            name,
            _ms(found["load"]["processor"][0]),
            _ms(statistics.median(ours["processor"])),
            _ms(max(ours["processor"])),
            _ms(statistics.median(theirs["processor"])),
            _ms(min(theirs["processor"])),
            _ratios(ours["processor"], theirs["processor"]),
            _ratios(ours["wall"], theirs["wall"]),
            f"{found['rows']:,}",
        )
    console.print(table)
    path = machine.store(
        output, "tpch", described, generator=_generator(), scale=scale, ticks=ticks, share=SHARE, seed=seed,
        threads=threads, results=results,
    )  # fmt: skip
    console.print(f"Written to {path}")


def _generator() -> str:
    program = generator()
    assert program is not None
    return subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.strip()


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:.1f}"


def _ratios(ours: list[float], theirs: list[float]) -> str:
    ratios = [other / own for own, other in zip(ours, theirs, strict=True)]
    return f"{min(ratios):.1f} to {max(ratios):.1f}, median {statistics.median(ratios):.1f}"


if __name__ == "__main__":
    app()
