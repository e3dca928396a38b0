"""``python -m bench.souffle``: see `main`."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from cyclopts import App
from rich.console import Console
from rich.table import Table

from bench.engine import machine
from bench.souffle.programs import programs

RESULTS = Path(__file__).parents[1] / "results"

app = App(name="python -m bench.souffle")


@app.default
def main(*, output: Path | None = RESULTS) -> None:
    """Run programs in Soufflé's dialect, and count those that give the right output.

    Parameters
    ----------
    output
        Folder of the JSON.
    """
    console = Console(width=120, highlight=False)
    described = machine.describe()
    results: dict[str, dict[str, Any]] = {}
    areas: dict[str, list[bool]] = {}
    for program in programs():
        with tempfile.TemporaryDirectory() as folder:
            differences = program.differences(Path(folder))
        results[program.name] = {"is_right": not differences, "refused": bool(program.error), "differs": differences}
        areas.setdefault(program.area, []).append(not differences)
        for line in differences:
            console.print(f"{program.name}: {line}", markup=False)
    table = Table(box=None, pad_edge=False)
    for column in ("programs", "right", "of"):
        table.add_column(column, justify="left" if column == "programs" else "right")
    for area, right in areas.items():
        table.add_row(area, str(sum(right)), str(len(right)))
    n_right, n_programs = sum(map(sum, areas.values())), sum(map(len, areas.values()))
    table.add_row("all", str(n_right), str(n_programs))
    console.print(table)
    run = {name: one for name, one in results.items() if not one["refused"]}
    share = sum(one["is_right"] for one in run.values()) / len(run)
    console.print(f"of {len(run)} programs that are no mistakes, {100 * share:.0f} % run with the right output")
    if output is not None:
        date = str(described["date"])[:10]
        path = output / f"souffle-{date}-{described['commit']}.json"
        machine.write_json(path, {"machine": described, "share": share, "results": results})
        console.print(f"written to {path}")


if __name__ == "__main__":
    app()
