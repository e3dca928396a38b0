"""``python -m bench.rivals``: see `main`."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any, get_args

from cyclopts import App, Parameter

from bench.engine import machine
from bench.rivals import dogs, engine
from bench.rivals.arriving import HUB, generate
from bench.rivals.tick import Run, check
from bench.suite.memory import held_bytes
from gpu_wcoj.cli.run import LateBar

RESULTS = Path(__file__).parents[1] / "results"
LIBRARIES = ("numpy", "pyarrow", "numba", "llvmlite")

Contender = Callable[[int, int | None, float], Run]
"""Takes nodes of a tick, ticks at most, and seconds."""

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
    memory: float | None = None,
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
        After which a contender is ended; it is compared over the ticks that it has done by then. The whole takes ten
        times as long at most, and what it takes to load.
    memory
        Gigabytes that dogs3 may have; six tenths of the machine's by default.
    output
        The folder that the JSON goes to, whenever a contender has ended.
    """
    graph = generate(scale, edges, seed, hub)
    for way in get_args(engine.Way):
        engine.run(generate(10, 5000, 1, None), way, 64, None, seconds)  # compiles
    n_bytes = held_bytes() if memory is None else round(memory * 1e9)
    left_out, program = None, None
    try:
        program = dogs.build()
    except dogs.NotBuiltError as error:
        left_out = str(error)
        print(f"dogs3 is left out: {left_out}")
    found = machine.describe(LIBRARIES)
    record: dict[str, Any] = {
        "machine": found,
        "graph": {"scale": scale, "edges": edges, "seed": seed, "hub": hub},
        "seconds": seconds, "dogs3_bytes": n_bytes, "left_out": left_out, "runs": [], "compared": [],
    }  # fmt: skip
    name = f"dogs3-{str(found['date'])[:10]}-{str(found['commit']).partition('+')[0]}-scale{scale}.json"
    with tempfile.TemporaryDirectory() as folder, LateBar() as bar:
        path = Path(folder) / "edges.txt"
        graph.write(path)
        contenders: dict[str, Contender] = {
            f"engine, {way}": partial(engine.run, graph, way) for way in get_args(engine.Way)
        }
        if program is not None:
            contenders |= {
                f"dogs3 {query}": partial(dogs.run, program, path, query, n_bytes=n_bytes)
                for query in get_args(dogs.Query)
            }
        for number, batch in enumerate(nodes):
            runs: list[Run] = []
            for contender, run in contenders.items():
                share = (number + len(runs) / len(contenders)) / len(nodes)
                bar.update(f"{contender}, {batch} nodes a tick, at most {seconds:g} s", share)
                runs.append(run(batch, few if batch == 1 else None, seconds))
                check(runs)
                record["runs"].append(runs[-1].summary())
                print(json.dumps(runs[-1].summary()), flush=True)
                if len(runs) > 2:
                    record["compared"].append(runs[-1].beside(runs[1]))
                    print(json.dumps(record["compared"][-1]), flush=True)
                if output is not None:
                    machine.write_json(output / name, record)  # now, so that a contender that fails loses no other
    if output is not None:
        print(f"written to {output / name}")


if __name__ == "__main__":
    app()
