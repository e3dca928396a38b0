"""``python -m bench.one_shot``: see `main`."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter
from rich.console import Console
from rich.table import Table

from bench.engine import machine
from bench.one_shot import cases
from bench.one_shot.measure import measure

RESULTS = Path(__file__).parents[1] / "results"
LIBRARIES = ("numpy", "pyarrow", "numba", "llvmlite", "duckdb", "sqlglot")

app = App(name="python -m bench.one_shot")


@app.default
def main(
    *names: str,
    threads: Annotated[tuple[int, ...], Parameter(consume_multiple=True)] = (1, 2),
    rounds: int = 5,
    seed: int = 1,
    scale: float = 1.0,
    output: Path | None = RESULTS,
) -> None:
    """Answer one-shot queries from Arrow tables, in turn with DuckDB on the same tables and threads.

    The queries are a join of orders and customers with groups, the two-hop rows of a graph, and rings of transfers with
    conditions, each over uniform and skewed keys. Answers are compared before their time counts. A ratio is the median
    time of the engine by that of DuckDB.

    Parameters
    ----------
    names
        Cases, or the beginnings of their names; all by default.
    threads
        Numbers of threads of both.
    rounds
        Timed answers of each side.
    seed
        Seed of the tables.
    scale
        Factor of the tables' sizes.
    output
        Folder of the JSON.
    """
    console = Console(width=140)
    described = machine.describe(LIBRARIES)
    table = Table(box=None, pad_edge=False, title=f"medians of {rounds} rounds, in milliseconds", title_justify="left")
    for column in ("case", "rows", "threads", "processor", "DuckDB", "ratio", "clock", "DuckDB", "ratio"):
        table.add_column(column, justify="left" if column == "case" else "right")
    results: dict[str, dict[str, Any]] = {}
    generated: dict[str, cases.Tables] = {}
    for name, case in cases.CASES.items():
        if names and not name.startswith(tuple(names)):
            continue
        if case.tables not in generated:
            generated = {case.tables: cases.generate(case.tables, seed, scale)}
        for n_threads in threads:
            measured = measure(case, generated[case.tables], n_threads, rounds)
            results.setdefault(name, {})[str(n_threads)] = measured
            row = [name, f"{measured['rows']:,}", str(n_threads)]
            for kind in ("processor", "wall"):
                row += [f"{1000 * statistics.median(measured[side][kind]):.1f}" for side in ("ours", "DuckDB")]
                row.append(f"{measured['ratio'][kind]:.2f}")
            table.add_row(*row)
            console.print(" ".join(row), style="dim", highlight=False)
    console.print(table)
    if output is None:
        return
    path = machine.store(output, "one-shot", described, scale=scale, seed=seed, rounds=rounds, results=results)
    console.print(f"Written to {path}")


if __name__ == "__main__":
    app()
