"""``python -m bench.costs``: see `main`."""

from __future__ import annotations

import re
from pathlib import Path

from cyclopts import App
from rich.console import Console
from rich.table import Table

import gpu_wcoj.costs
from bench.costs.measure import measure
from bench.engine import machine
from gpu_wcoj.destination import replacing

RESULTS = Path(__file__).parents[1] / "results"
TABLE = Path(gpu_wcoj.costs.__file__)

app = App(name="python -m bench.costs")


def rewritten(text: str, costs: dict[str, float]) -> str:
    """Return the table of costs with other numbers, of two digits; whole numbers stay whole."""

    def put(match: re.Match[str]) -> str:
        name, old = match[1], match[2]
        if name not in costs:
            return match[0]
        value = float(f"{costs[name]:.2g}")
        return f"{name}: Final = {value if '.' in old else max(1, round(value))}"

    return re.sub(r"^([A-Z_]+): Final = (.+)$", put, text, flags=re.MULTILINE)


@app.default
def main(*, write: bool = False, output: Path | None = RESULTS) -> None:
    """Measure the costs of elementary operations, and compare them with the table that the engine reads.

    Parameters
    ----------
    write
        Write what was measured into the table. Plans may change: run the tests, and the benchmarks on both.
    output
        Folder of the JSON.
    """
    console, described = Console(width=100), machine.describe()
    costs = measure()
    table = Table("operation", box=None, pad_edge=False, title="nanoseconds of one core", title_justify="left")
    for column in ("table", "measured", "measured / table"):
        table.add_column(column, justify="right")
    stored = {name: float(value) for name, value in vars(gpu_wcoj.costs).items() if name.isupper()}
    for name, value in stored.items():
        measured = costs.get(name)
        ratio = "by hand" if measured is None else f"{measured / value:.2f}"
        table.add_row(name, f"{value:,g}", "" if measured is None else f"{measured:,.3g}", ratio)
    console.print(table)
    if output is not None:
        path = machine.store(output, "costs", described, table=stored, measured=costs)
        console.print(f"Written to {path}")
    if write:
        text = rewritten(TABLE.read_text(encoding="utf-8"), costs)
        with replacing(TABLE) as file:
            file.write(text.encode())
        console.print(f"Written to {TABLE}; git diff shows what changed.")


if __name__ == "__main__":
    app()
