"""``python -m bench.estimates``: see `main`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from cyclopts import App
from rich.console import Console
from rich.table import Table

from bench.engine import machine
from bench.estimates.ticks import KINDS, estimates

RESULTS = Path(__file__).parents[1] / "results"

app = App(name="python -m bench.estimates")


@app.default
def main(*, output: Path | None = RESULTS) -> None:
    """Compare what plans were expected to do with what ticks counted, over the planner's golden programs.

    Parameters
    ----------
    output
        Folder of the JSON.
    """
    console, described = Console(width=100), machine.describe()
    found = list(estimates())
    table = Table("rows", box=None, pad_edge=False, title="factors between expected and counted", title_justify="left")
    for column in ("rules", "median", "90 %", "largest"):
        table.add_column(column, justify="right")
    factors = {}
    for kind in (*KINDS, "all"):
        of_kind = [one.factor for one in found if kind in (one.kind, "all")]
        median, high, largest = (round(float(np.quantile(of_kind, share)), 2) for share in (0.5, 0.9, 1.0))
        factors[kind] = {"median": median, "90 %": high, "largest": largest}
        table.add_row(kind, str(len(of_kind)), *map(str, (median, high, largest)))
    console.print(table)
    if output is not None:
        path = machine.store(output, "estimates", described, factors=factors, rules=[one.to_json() for one in found])
        console.print(f"Written to {path}")


if __name__ == "__main__":
    app()
