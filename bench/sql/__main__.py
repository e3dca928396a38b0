"""``python -m bench.sql``: see `main`."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cyclopts import App
from rich.console import Console
from rich.table import Table

from bench.engine import machine
from bench.sql.data import PER_SECTION, SEED, generate, read, statements
from bench.sql.measure import SHARE, Outcome, Rival, apart, ask, follow, load_kernels
from bench.sql.tables import tables as small_tables

RESULTS = Path(__file__).parents[1] / "results"
LIBRARIES = ("numpy", "pyarrow", "numba", "duckdb", "sqlglot")
FEWEST = 1_000
"""Rows from which on a table is refreshed."""

app = App(name="python -m bench.sql")


@app.default
def main(
    *names: str,
    tpch: float = 0.05,
    tpcds: float = 0.05,
    refreshes: int = 20,
    seed: int = 1,
    seconds: float = 120.0,
    output: Path | None = RESULTS,
) -> None:
    """Answer TPC-H, TPC-DS and a thousand statements by gw.query, and compare each answer with DuckDB's.

    Queries of TPC-H and TPC-DS that gw.view accepts are kept over refreshes, too, and compared with the answer from
    scratch after each of them; an ORDER BY that cuts nothing off is left out there.

    These are no results of the TPC, whose data and queries they use.

    Parameters
    ----------
    names
        Some of tpch, tpcds and statements; all by default.
    tpch, tpcds
        Scale factors.
    refreshes
        Refreshes of each view; 0 for queries only.
    seed
        Chooses the rows that come and go.
    seconds
        Seconds of a query, and of a view with its refreshes.
    output
        Folder of the JSON.
    """
    console = Console(width=160, soft_wrap=True, highlight=False, markup=False)
    described = machine.describe(LIBRARIES)
    chosen = names or ("tpch", "tpcds", "statements")
    results: dict[str, Any] = {}
    scales = {name: scale for name, scale in (("tpch", tpch), ("tpcds", tpcds)) if name in chosen}
    for name, folder in generate(scales).items() if scales else ():
        results[name] = _benchmark(console, name, folder, refreshes, seed, seconds)
    if "statements" in chosen:
        results["statements"] = _statements(console)
    if output is not None:
        path = machine.store(
            output, "sql", described, scales=scales, refreshes=refreshes, share=SHARE, seed=seed, seconds=seconds,
            drawn={"per section": PER_SECTION, "seed": SEED}, summary=summarise(results), results=results,
        )  # fmt: skip
        console.print(f"Written to {path}")


def _benchmark(console: Console, name: str, folder: Path, refreshes: int, seed: int, seconds: float) -> dict[str, Any]:
    tables, queries = read(folder)
    load_kernels()
    results = {}
    for number, text in queries.items():
        found = apart(lambda text=text: ask(text, tables, Rival(tables)), seconds)  # type: ignore[misc]  # a default binds it
        outcome = found if isinstance(found, Outcome) else Outcome(why=found)
        if refreshes:
            kept = apart(lambda text=text: follow(text, tables, refreshes, seed, FEWEST), seconds)  # type: ignore[misc]
            outcome.view = str(kept)
        results[number] = asdict(outcome)
        console.print(
            f"{name} {number}: {outcome.worker or 'refused'}, {outcome.n_rows} rows, {outcome.seconds:.2f} s"
            f"{'  WRONG ' + outcome.wrong if outcome.wrong else ''}{'  ' + outcome.why if outcome.why else ''}"
            f"{'  | view: ' + outcome.view if outcome.view else ''}"
        )
    return results


def _statements(console: Console) -> dict[str, Any]:
    tables = small_tables()
    rival = Rival(tables)
    results: dict[str, Any] = {}
    for section, text in statements():
        outcome = ask(text, tables, rival)
        results.setdefault(section, []).append({"text": text, **asdict(outcome)})
        if not outcome.agrees:
            console.print(f"{section}: {text}\n  {outcome.wrong or outcome.why}")
    table = Table(box=None, pad_edge=False)
    for column in ("section", "statements", "agree", "engine", "both", "DuckDB"):
        table.add_column(column, justify="left" if column == "section" else "right")
    for section, outcomes in results.items():
        counts = count(outcomes)
        table.add_row(section, *(str(counts[key]) for key in ("all", "agree", "engine", "both", "DuckDB")))
    console.print(table)
    return results


def count(outcomes: list[Mapping[str, Any]]) -> Counter[str]:
    """Return the number of statements: all, those that agree, and of these those of each worker."""
    counts: Counter[str] = Counter(all=len(outcomes))
    for outcome in outcomes:
        if outcome["worker"] and not outcome["wrong"]:
            counts.update(("agree", str(outcome["worker"])))
        if outcome["view"]:
            counts["view exact"] += outcome["view"] == "exact"
    return counts


def summarise(results: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """Return the counts of each benchmark, and of all statements."""
    summary = {}
    for name, found in results.items():
        outcomes = list(found.values())
        if name == "statements":
            outcomes = [outcome for section in outcomes for outcome in section]
        summary[name] = dict(count(outcomes))
    return summary


if __name__ == "__main__":
    sys.exit(app())
