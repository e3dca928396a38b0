"""``python -m bench.fast_paths``: see `main`."""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from cyclopts import App
from rich.console import Console
from rich.table import Table

import gpu_wcoj as gw
from bench.engine import machine
from bench.fast_paths.cases import CASES, Case, Rows
from gpu_wcoj.join.settings import tune

RESULTS = Path(__file__).parents[1] / "results"

app = App(name="python -m bench.fast_paths")


def _change(rows: Rows, weight: int) -> pa.Table:
    columns = {f"c{column}": np.ascontiguousarray(rows[:, column]) for column in range(rows.shape[1])}
    return pa.table({**columns, "weight": np.full(len(rows), weight)})


def _loaded(case: Case, rows: dict[str, Rows], n_arriving: int, off: bool) -> gw.Program:
    with tune(**{**case.base, **(case.off if off else {})}):
        program = gw.Program(case.text, backend="cpu", threads=1, bag=case.bag)
    program.load({
        name: _change(own[:-n_arriving] if name == case.changed else own, 1) for name, own in rows.items()
    })  # fmt: skip
    return program


def _counts(program: gw.Program, case: Case, changes: dict[str, pa.Table]) -> dict[str, int]:
    if case.is_single:
        return {name: len(answer) for name, answer in program.answer(changes).items()}
    if case.lists:
        return {name: len(change) for name, change in program.step(changes).items()}
    return {name: count.net or 0 for name, count in program.step_counts(changes).items()}


def measure(case: Case, rounds: int) -> dict[str, list[float]]:
    """Return CPU seconds a tick per round, with and without the fast path, in turn; their answers are compared."""
    rows = dict(case.rows())
    if not case.changed:
        return _measure_loads(case, rows, rounds)
    n_arriving = case.tick_rows * case.n_ticks
    ticks = np.array_split(rows[case.changed][-n_arriving:], case.n_ticks)
    sides = {"with": _loaded(case, rows, n_arriving, off=False), "without": _loaded(case, rows, n_arriving, off=True)}
    seconds: dict[str, list[float]] = {side: [] for side in sides}
    for number in range(rounds + 1):
        answers = []
        for side, program in sides.items():
            inserted = [{case.changed: _change(tick, 1)} for tick in ticks]
            deleted = [{case.changed: _change(tick, -1)} for tick in ticks]
            start = time.process_time()
            counted = [_counts(program, case, change) for change in inserted]
            took = time.process_time() - start
            for change in deleted:
                program.step_counts(change)
            answers.append(counted)
            if number:  # the first round plans, and loads kernels
                seconds[side].append(took / len(ticks))
        if answers[0] != answers[1]:
            raise AssertionError(f"the answers of {case.text} differ: {answers}")
    return seconds


def _measure_loads(case: Case, rows: dict[str, Rows], rounds: int) -> dict[str, list[float]]:
    """Return CPU seconds of the first tick of new programs."""
    seconds: dict[str, list[float]] = {"with": [], "without": []}
    for number in range(rounds + 1):
        answers = []
        for side, taken in seconds.items():
            with tune(**{**case.base, **(case.off if side == "without" else {})}):
                program = gw.Program(case.text, backend="cpu", threads=1, bag=case.bag, single_tick=case.is_single)
            changes = {name: _change(own, 1) for name, own in rows.items()}
            start = time.process_time()
            answers.append(_counts(program, case, changes))
            if number:
                taken.append(time.process_time() - start)
        if answers[0] != answers[1]:
            raise AssertionError(f"the answers of {case.text} differ: {answers}")
    return seconds


@app.default
def main(*names: str, rounds: int = 7, output: Path | None = RESULTS) -> None:
    """Time ticks with and without each fast path, in turn, on the case that it is there for.

    Parameters
    ----------
    names
        Fast paths, or the beginnings of their names; all by default.
    rounds
        Timed rounds of each side.
    output
        Folder of the JSON.
    """
    console = Console(width=100)
    described = machine.describe()
    table = Table(box=None, pad_edge=False, title=f"medians of {rounds} rounds, in milliseconds", title_justify="left")
    for column in ("fast path", "rows a tick", "with", "without", "without / with"):
        table.add_column(column, justify="left" if column == "fast path" else "right")
    results: dict[str, Any] = {}
    for name, case in CASES.items():
        if names and not name.startswith(tuple(names)):
            continue
        seconds = measure(case, rounds)
        with_it, without = (statistics.median(seconds[side]) for side in ("with", "without"))
        ratio = statistics.median(
            other / one for one, other in zip(seconds["with"], seconds["without"], strict=True)
        )  # fmt: skip
        results[name] = {"text": case.text, "tick_rows": case.tick_rows, "seconds": seconds, "ratio": ratio}
        row = (name, f"{case.tick_rows:,}", f"{1000 * with_it:.2f}", f"{1000 * without:.2f}", f"{ratio:.2f}")
        table.add_row(*row)
        console.print(" ".join(row), style="dim", highlight=False)
    console.print(table)
    if output is None:
        return
    path = machine.store(output, "fast-paths", described, rounds=rounds, results=results)
    console.print(f"Written to {path}")


if __name__ == "__main__":
    app()
