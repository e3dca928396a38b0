"""``python -m bench.lsqb``: see `main`."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

from cyclopts import App
from rich.console import Console
from rich.table import Table

from bench.engine import machine
from bench.lsqb.data import DATA, in_ticks, relations
from bench.lsqb.measure import check, over_ticks, recounts
from bench.lsqb.queries import ANSWERS, QUERIES
from bench.lsqb.reached import Reached
from bench.lsqb.rival import FORMULATIONS

RESULTS = Path(__file__).parents[1] / "results"
LIBRARIES = ("numpy", "pyarrow", "numba", "llvmlite", "duckdb")
LARGEST = "0.1"

app = App(name="python -m bench.lsqb")


@app.default
def main(*, ticks: int = 50, rounds: int = 11, tick_rounds: int = 3, seed: int = 1, output: Path = RESULTS) -> None:
    """Count LSQB's queries, at once and tick by tick, beside DuckDB.

    First all known answers are checked: nine queries at two small scale factors, three at 0.1, each at once and in
    ticks. Then those three are measured at 0.1 on two threads and on one: loading, counting a state that has been
    restored from a checkpoint, of which no count is known, and every tick of the data fed in equal shares, all
    relations at once, beside DuckDB's count of the same state. DuckDB counts by several formulations: the plain joins,
    and others that work parts out first, by hand. Ticks are compared by time of the processor, which other processes
    of the machine disturb less: with DuckDB's counts and with our own, of the same state and of all the data, and it is
    said how many are five times as fast, and from which one on.

    These are no results of the LDBC, whose data and queries they use.

    Parameters
    ----------
    ticks
        Shares in which the data is fed.
    rounds
        Counts by each formulation; the median counts.
    tick_rounds
        Times that all ticks are fed, from an empty program on; of every tick the median counts.
    seed
        Of the order of the rows.
    output
        The folder that the JSON goes to.
    """
    if not DATA.is_dir():
        raise SystemExit(f"There is no folder {DATA}, where the data is read from.")
    console = Console(width=140)
    described = machine.describe(LIBRARIES)
    checked = 0
    for scale, answers in ANSWERS.items():
        for query, known in zip(QUERIES, answers, strict=True):
            if known is not None:
                inputs = relations(scale, query.inputs)
                check(query, inputs, in_ticks(inputs, ticks, seed), known)
                checked += 1
    console.print(f"{checked} known answers found, at once and in {ticks} ticks")
    results: dict[str, Any] = {}
    for number, formulations in FORMULATIONS.items():
        query, known = QUERIES[number - 1], ANSWERS[LARGEST][number - 1]
        assert known is not None
        inputs = relations(LARGEST, query.inputs)
        for threads in (2, 1):
            found: dict[str, Any] = {"threads": threads, "answer": known}
            found |= recounts(query, inputs, known, threads, rounds)
            fastest = min(formulations, key=lambda how: found["count"][f"DuckDB: {how}"]["median"])
            chosen = dict.fromkeys(["joins", fastest])
            found["ticks"] = over_ticks(query, in_ticks(inputs, ticks, seed), known, threads, list(chosen), tick_rounds)
            found["reached"] = {how: one.record for how, one in _reached(found).items()}
            results[f"{query.name}, threads {threads}"] = found
            _print(f"{query.name} at {LARGEST}, {threads} threads: {known:,}", found, console)
    path = machine.store(
        output, "lsqb", described, n_ticks=ticks, rounds=rounds, tick_rounds=tick_rounds, seed=seed, results=results
    )
    console.print(f"Written to {path}")


def _reached(found: dict[str, Any]) -> dict[str, Reached]:
    """Our ticks beside every count of the same state, and of all the data; each formulation of ours beside its own."""
    ticks = {how: one["processor"] for how, one in found["ticks"].items()}
    whole = {how: statistics.median(one["processor"]) for how, one in found["count"].items()}
    compared: dict[str, Reached] = {}
    for ours in (how for how in ticks if how.startswith("ours: ")):
        own = f"ours, counted: {ours.removeprefix('ours: ')}"
        rivals = [how for how in ticks if how.startswith("DuckDB")]
        for how in (*rivals, own):
            compared[f"{ours} / {how}"] = Reached.of(ticks[ours], ticks[how])
        for how in (*rivals, ours):
            compared[f"{ours} / {how}, all the data"] = Reached.of(ticks[ours], [whole[how]] * len(ticks[ours]))
    return compared


def _print(title: str, found: dict[str, Any], console: Console) -> None:
    table = Table(box=None, pad_edge=False, title=title, title_justify="left")
    for column in ("milliseconds", "load", "count", "of the processor", "a tick", "first tick", "slowest after"):
        table.add_column(column, justify="left" if column == "milliseconds" else "right")
    for how, count in found["count"].items():
        load = found["load"].get(how) or found["load"].get(how.partition(":")[0], {})
        tick = found["ticks"].get(how)
        row = [how, _ms(load.get("median")), _ms(count["median"]), _ms(statistics.median(count["processor"]))]
        if tick:
            first, *rest = tick["processor"]
            row += [_ms(statistics.median(tick["processor"])), _ms(first), _ms(max(rest, default=first))]
        table.add_row(*row)
    console.print(table)
    for how, one in _reached(found).items():
        ours, _, counted = how.partition(" / ")
        console.print(f"  {ours}, a tick beside {counted}: {one}", soft_wrap=True)


def _ms(seconds: float | None) -> str:
    return "" if seconds is None else f"{1000 * seconds:.2f}"


if __name__ == "__main__":
    app()
