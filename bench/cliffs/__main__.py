"""``python -m bench.cliffs``: see `main`."""

from __future__ import annotations

import dataclasses
import statistics
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from cyclopts import App
from rich.console import Console

import gpu_wcoj as gw
from bench.cliffs.laws import Findings
from bench.cliffs.queries import FIRST_HALF, Query, draw
from bench.cliffs.rows import tables_of
from bench.cliffs.search import examine_apart, load_kernels, reduce
from bench.cliffs.text import write
from bench.engine import machine

RESULTS = Path(__file__).parents[1] / "results"

app = App(name="python -m bench.cliffs")


def describe(query: Query, findings: Findings) -> str:
    """Return a query that breaks a law, for people: tables, text, counts and plan."""
    tables = "\n".join(f"  {table}" for table in query.used_tables)
    text = write(query)
    empty = {name: rows.slice(0, 0) for name, rows in tables_of(query).items()}
    try:
        plan = gw.view(text, empty, language=query.language).explain()
    except gw.GpuWcojError as error:
        plan = str(error)
    laws = ", ".join(f"{law} x {factor:.1f}" for law, factor in findings.broken.items())
    return f"\nseed {query.seed} ({query.language}): {laws}\n{tables}\n{text}\n{findings.work}\n{plan}"


@app.default
def main(
    *,
    seconds: float = 300.0,
    first: int = 0,
    n: int = 1_000_000,
    max_rows: int = 50_000,
    timed: bool = True,
    promised: bool = False,
    parts: tuple[str, ...] = (),
    shrink: float = 60.0,
    output: Path | None = RESULTS,
) -> None:
    """Search for cliffs: queries whose work hangs on how they are put.

    Each random query is answered as it is, with its parts in two other orders, with a derived table or helper rule in
    place of two of its atoms, over a tenth of its rows, and as a view that is loaded and takes an insertion and a
    deletion. The counted work of these has to agree within the factors of `bench.cliffs.laws`. A query that breaks a
    law is made smaller, and printed with its plan.

    Parameters
    ----------
    seconds
        Seconds of the search; the last query ends later.
    first, n
        First seed, and number of seeds.
    max_rows
        Rows of a table, at most.
    timed
        Compare the time with DuckDB's, too.
    promised
        Only queries for which the laws are promised: with equalities, comparisons with constants, EXISTS, outer joins,
        DISTINCT and counts.
    parts
        Only queries with a part of these kinds, whose other parts are those of `promised`: ``or``, ``window``,
        ``first rows``, ``query as a value``, ``either``, ``record`` and others of `bench.cliffs.queries`.
    shrink
        Seconds to make a query smaller that breaks a law; 0 to print it as it is.
    output
        Folder of the JSON.
    """
    console = Console(width=120, soft_wrap=True, highlight=False)
    described = machine.describe(("numpy", "numba", "duckdb"))
    load_kernels()
    end = time.monotonic() + seconds
    records: list[dict[str, Any]] = []
    for seed in range(first, first + n):
        if time.monotonic() > end:
            break
        query = draw(seed, max_rows)
        if promised and not query.is_promised:
            continue
        if parts and not (query.parts & set(parts) and query.parts - set(parts) <= FIRST_HALF):
            continue
        findings = examine_apart(query, timed)
        records.append({
            "seed": seed, "language": query.language, "parts": sorted(query.parts), "promised": query.is_promised,
            **dataclasses.asdict(findings),
        })  # fmt: skip
        for law in findings.broken:
            smaller = reduce(query, law, timed, shrink) if shrink else query
            console.print(describe(smaller, findings if smaller is query else examine_apart(smaller, timed)))
            break
    summary = summarise(records)
    for name, value in summary.items():
        console.print(f"{name}: {value}")
    if output is not None:
        path = machine.store(
            output, "cliffs", described, first=first, max_rows=max_rows, summary=summary, results=records
        )
        console.print(f"Written to {path}")


def summarise(records: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the numbers of queries and of broken laws, and the ratios to DuckDB."""
    examined = [record for record in records if not record["skipped"]]
    summary: dict[str, Any] = {"queries": len(records), "examined": len(examined)}
    for kind, is_promised in (("promised", True), ("others", False)):
        own = [record for record in examined if record["promised"] == is_promised]
        broken = [record for record in own if record["broken"]]
        summary[kind] = {
            "queries": len(own),
            "break a law": len(broken),
            "laws": dict(Counter(law for record in broken for law in record["broken"])),
            "seeds": [record["seed"] for record in broken],
        }
    drawn = Counter(part for record in examined for part in record["parts"])
    broken_parts = Counter(part for record in examined if record["broken"] for part in record["parts"])
    summary["break a law, by part"] = {part: f"{broken_parts[part]} of {n}" for part, n in sorted(drawn.items())}
    ratios = [
        record["seconds"]["query"] / record["seconds"]["DuckDB"]
        for record in examined
        if record["seconds"].get("DuckDB") and record["seconds"]["query"] > 0.05
    ]
    if len(ratios) > 1:
        summary["ratio to DuckDB over 50 ms"] = {
            "queries": len(ratios),
            "median": statistics.median(ratios),
            "90 %": float(np.percentile(ratios, 90)),
            "99 %": float(np.percentile(ratios, 99)),
        }
    return summary


if __name__ == "__main__":
    sys.exit(app())
