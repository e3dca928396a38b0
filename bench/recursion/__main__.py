"""``python -m bench.recursion``: see `main`."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter
from rich.console import Console
from rich.table import Table

from bench.engine import machine
from bench.recursion import ttc
from bench.recursion.contender import Outcome, run
from bench.recursion.tasks import CLOSURE, DATA, TASKS

RESULTS = Path(__file__).parents[1] / "results"
LIBRARIES = ("numpy", "pyarrow", "numba", "llvmlite", "duckdb", "clingo")
SINGLE_EDGES = "single edges"
SOCIAL_MEDIA = "social media"
PARTS = (*TASKS, SINGLE_EDGES, SOCIAL_MEDIA)
AT_LEAST = 20
"""How many times faster than a run from scratch a single edge must be, at the median."""

app = App(name="python -m bench.recursion")


@app.default
def main(
    *,
    parts: Annotated[list[str] | None, Parameter(consume_multiple=True)] = None,
    rounds: int = 3,
    rivals: bool = True,
    rival_rounds: int = 1,
    threads: int = 2,
    edges: int = 100,
    seed: int = 1,
    limit: float = 180.0,
    memory: float = 12.0,
    output: Path = RESULTS,
) -> None:
    """Measure recursive programs: from scratch beside DuckDB and clingo, and kept up to date.

    Every answer is compared with the known one before its time counts; a wrong one ends the run. Each run has a process
    of its own, which first evaluates a few rows.

    Parameters
    ----------
    parts
        Names of the parts to run; all if none is named.
    rounds
        Runs of the engine at each task; the median counts.
    rivals
        Whether DuckDB and clingo run too.
    rival_rounds
        Runs of each of them.
    threads
        Of the engine and of DuckDB; clingo grounds on one.
    edges
        Single edges that are deleted and inserted again.
    seed
        Chooses them.
    limit
        Seconds after which a rival's run is stopped, reading its input included.
    memory
        Gigabytes of address space that a run may take.
    output
        The folder that the JSON goes to.
    """
    chosen = parts or list(PARTS)
    if unknown := sorted(set(chosen) - set(PARTS)):
        raise SystemExit(f"There is no part {', '.join(unknown)}. The parts are: {', '.join(PARTS)}.")
    if not DATA.is_dir():
        raise SystemExit(f"There is no folder {DATA}, where the graphs and facts are read from.")
    console = Console(width=140)
    described = machine.describe(LIBRARIES)
    limit_bytes = int(memory * 1e9)
    results: dict[str, Any] = {}

    def attempt(what: dict[str, Any], seconds: float | None = None) -> Outcome:
        outcome = run({**what, "threads": threads}, seconds or 10 * limit, limit_bytes)
        if outcome.found is None and seconds is None:
            raise SystemExit(f"{what}: {outcome.stopped}")
        return outcome

    for name, task in TASKS.items():
        if name in chosen:
            own = {"engine": [attempt({"call": "engine", "task": name}) for _ in range(rounds)]}
            calls = ["duckdb-loop", *["duckdb-recursive"] * (task is CLOSURE), "clingo"] if rivals else []
            for call in calls:
                own[call] = [attempt({"call": call, "task": name}, limit) for _ in range(rival_rounds)]
            results[name] = {call: _record(outcomes) for call, outcomes in own.items()}
            results[name].update(must=task.must, aim=task.aim, rows=dict(task.known))
            _print_fixpoint(name, results[name], console)
    if SINGLE_EDGES in chosen:
        outcome = attempt({"call": "edges", "n_edges": edges, "seed": seed})
        results[SINGLE_EDGES] = {**(outcome.found or {}), "peak_bytes": outcome.peak_bytes, "seed": seed}
        _print_edges(results[SINGLE_EDGES], console)
    if SOCIAL_MEDIA in chosen:
        results[SOCIAL_MEDIA] = {}
        for query in ttc.QUERIES:
            for size in ttc.SIZES:
                outcome = attempt({"call": "social-media", "size": size, "query": query})
                found = {**(outcome.found or {}), "peak_bytes": outcome.peak_bytes}
                results[SOCIAL_MEDIA][f"{query}, size {size}"] = found
                initial, *updates = found["seconds"]
                console.print(f"{query}, size {size}: initial {initial:.3f} s, 20 updates {sum(updates):.3f} s")
    path = machine.store(output, "recursion", described, threads=threads, results=results)
    console.print(f"Written to {path}")


def _record(outcomes: list[Outcome]) -> dict[str, Any]:
    seconds = [outcome.found["seconds"] for outcome in outcomes if outcome.found]
    return {
        "seconds": seconds,
        "median": statistics.median(seconds) if seconds else None,
        "peak_bytes": max((outcome.peak_bytes or 0 for outcome in outcomes), default=0) or None,
        "stopped": next((outcome.stopped for outcome in outcomes if outcome.stopped), None),
    }


def _print_fixpoint(name: str, result: dict[str, Any], console: Console) -> None:
    table = Table(
        box=None, pad_edge=False, title=f"{name}: {result['rows']}, must {result['must']} s", title_justify="left"
    )
    for column in ("", "seconds", "of ours", "peak memory"):
        table.add_column(column, justify="left" if not column else "right")
    ours = result["engine"]["median"]
    for call, own in result.items():
        if not isinstance(own, dict) or "median" not in own:
            continue
        median, peak = own["median"], own["peak_bytes"]
        times = "" if median is None else f"{median / ours:.1f}"
        shown = own["stopped"] if median is None else f"{median:.2f}"
        table.add_row(call, shown, times, "" if peak is None else f"{peak / 1e9:.2f} GB")
    console.print(table)


def _print_edges(result: dict[str, Any], console: Console) -> None:
    for verb, seconds in result["seconds"].items():
        low, middle, high = statistics.quantiles(seconds, n=4)
        ratio = result["scratch_seconds"] / middle
        result.setdefault("quartiles", {})[verb] = [min(seconds), low, middle, high, max(seconds)]
        console.print(
            f"{verb}: median {middle * 1e3:.2f} ms ({low * 1e3:.2f} to {high * 1e3:.2f}, worst {max(seconds):.3f} s), "
            f"{ratio:.0f} times faster than from scratch; must {AT_LEAST}"
        )


if __name__ == "__main__":
    app()
