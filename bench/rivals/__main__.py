"""``python -m bench.rivals``: see `main`."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Annotated, get_args

from cyclopts import App, Parameter

from bench.engine import machine
from bench.rivals import dogs, engine
from bench.rivals.arriving import HUB, generate
from bench.rivals.tick import Run, check

RESULTS = Path(__file__).parents[1] / "results"
LIBRARIES = ("numpy", "pyarrow", "numba", "llvmlite")

app = App(name="python -m bench.rivals")


@app.default
def main(
    *,
    scale: int = 17,
    edges: int = 2_000_000,
    seed: int = 1,
    hub: tuple[int, int] = HUB,
    nodes: Annotated[list[int], Parameter(consume_multiple=True)] = [1, 1000],  # noqa: B006 - it is only read
    few: int = 200,
    seconds: float = 120.0,
    output: Path | None = RESULTS,
) -> None:
    """Count triangles while the nodes of an R-MAT graph arrive in order, beside the delta queries of dogs3.

    The engine counts them, makes all of them, and counts them by joins of two relations with the first one kept. Every
    contender has one thread; counts are compared tick by tick before a time is printed. dogs3 is left out, with
    the reason, where it cannot be built.

    Parameters
    ----------
    scale, edges, seed
        Of the graph.
    hub
        A node's number, and how many edges it gets.
    nodes
        How many nodes arrive in a tick, for each run.
    few
        Ticks of the runs in which one node arrives at a time; the others go on to the end.
    seconds
        After which a contender is ended; the whole takes ten times as long at most, and what it takes to load.
    output
        The folder that the JSON goes to.
    """
    graph = generate(scale, edges, seed, hub)
    for way in get_args(engine.Way):
        engine.run(generate(10, 5000, 1, None), way, 64, None, seconds)  # compiles
    left_out, program = None, None
    try:
        program = dogs.build()
    except dogs.NotBuiltError as error:
        left_out = str(error)
        print(f"dogs3 is left out: {left_out}")
    summaries, compared = [], []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "edges.txt"
        graph.write(path)
        for batch in nodes:
            limit = few if batch == 1 else None
            runs: list[Run] = [engine.run(graph, way, batch, limit, seconds) for way in get_args(engine.Way)]
            if program is not None:
                runs += [dogs.run(program, path, query, batch, limit, seconds) for query in ("wcoj", "delta")]
            check(runs)
            for run in runs:
                summaries.append(run.summary())
                print(json.dumps(run.summary()), flush=True)
            for run in runs[2:]:
                compared.append(run.beside(runs[1]))
                print(json.dumps(compared[-1]), flush=True)
    if output is not None:
        found = machine.describe(LIBRARIES)
        name = f"dogs3-{str(found['date'])[:10]}-{str(found['commit']).partition('+')[0]}-scale{scale}.json"
        graph_of = {"scale": scale, "edges": edges, "seed": seed, "hub": hub}
        record = {"machine": found, "graph": graph_of, "left_out": left_out, "runs": summaries, "compared": compared}
        output.mkdir(exist_ok=True)
        (output / name).write_text(json.dumps(record, indent=2) + "\n")
        print(f"written to {output / name}")


if __name__ == "__main__":
    app()
