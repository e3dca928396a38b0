"""``python -m bench.spark.flat``: a stream at a constant rate, for as long as is asked; see `main`."""

from __future__ import annotations

import os
import statistics
import tempfile
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from cyclopts import App
from rich.console import Console

import gpu_wcoj.spark as gws
from bench.engine import machine
from bench.engine.graph import STANDARD, Edges
from bench.spark import graphs
from bench.spark.metered import processor_seconds, resident

RESULTS = Path(__file__).parents[1] / "results"
TRIANGLE = "triangle(a, b, c) :- edge(a, b), edge(b, c), edge(a, c)."

app = App(name="python -m bench.spark.flat")


class Feeder(threading.Thread):
    """Writes a file of changes every few seconds: as many edges come as go, so that the state keeps its size.

    Parameters
    ----------
    edges
        int64, shape (n, 2); a window of `held` of them slides over these, and begins again at their end.
    rows
        Edges that come, and that go, with each file.
    """

    def __init__(self, edges: Edges, folder: Path, held: int, rows: int, every: float) -> None:
        super().__init__(daemon=True)
        self.edges, self.folder, self.held, self.rows, self.every = edges, folder, held, rows, every
        self.is_over = threading.Event()
        self.written = 0
        folder.mkdir(parents=True)

    def run(self) -> None:
        """Feed until told to stop."""
        while not self.is_over.wait(self.every):
            self.write()

    def write(self) -> None:
        """The next file: the first one fills the window, the others move it."""
        n, at = len(self.edges), self.rows * self.written
        if self.written == 0:
            rows, weights = self.edges[: self.held], np.ones(self.held, np.int64)
        else:
            gone = np.arange(at - self.rows, at) % n
            come = (gone + self.held) % n
            rows = self.edges[np.concatenate([gone, come])]
            weights = np.repeat(np.array([-1, 1]), self.rows)
        table = pa.table({"src": rows[:, 0], "dst": rows[:, 1], "weight": weights})
        hidden = self.folder / f".{self.written:06}.parquet"
        pq.write_table(table, hidden)
        hidden.rename(self.folder / hidden.name[1:])
        self.written += 1


@app.default
def main(
    *, minutes: float = 30.0, every: float = 2.0, rows: int = 2500, held: int = 500_000, output: Path = RESULTS
) -> None:
    """Keep triangles over a sliding window of an R-MAT graph, and see whether time and memory stay what they are.

    Parameters
    ----------
    minutes
        How long the stream goes on.
    every
        Seconds from one file to the next; each is a batch.
    rows
        Edges that come with each file, and as many go.
    held
        Edges in the window.
    output
        The folder that the JSON and the plot go to.
    """
    described = machine.describe(("numpy", "pyarrow", "numba", "pyspark"))
    shown = Console(width=150)
    spark = gws.local_session("flat", memory="2g")
    found: list[dict[str, Any]] = []
    spent = [0.0]

    def note(progress: dict[str, Any]) -> None:
        if progress["batch"] < 0:
            return
        now = processor_seconds()
        found.append({
            **progress, "resident_bytes": resident(), "processor_seconds": now - spent[0], "load": os.getloadavg()[0]
        })  # fmt: skip
        spent[0] = now
        if len(found) % 50 == 0:
            shown.print(f"batch {progress['batch']}: {progress['seconds']['batch']:.3f} s")

    with tempfile.TemporaryDirectory(prefix="gpu_wcoj-flat-") as place:
        folder = Path(place)
        feeder = Feeder(graphs.rmat(*STANDARD, folder).edges, folder / "changes", held, rows, every)
        feeder.write()
        stream = spark.readStream.schema("src bigint, dst bigint, weight bigint").option("maxFilesPerTrigger", 1)
        view = gws.maintain(
            {"edge": stream.parquet(str(folder / "changes"))}, TRIANGLE,
            changes="weight", checkpoint=folder / "checkpoint", output=folder / "out",
        )  # fmt: skip
        view.on_batch(note)
        view.start(trigger={"processingTime": "100 milliseconds"})
        feeder.start()
        feeder.is_over.wait(60 * minutes)
        feeder.is_over.set()
        feeder.join()
        view.stop()
        waiting = feeder.written - len(found)
    spark.stop()
    day, commit = str(described["date"])[:10], str(described["commit"]).replace("+", "-")
    path = output / f"spark-flat-{day}-{commit}.json"
    load = [one["load"] for one in found]
    summary = {
        "minutes": minutes, "every": every, "rows": rows, "held": held, "batches": len(found),
        "files_not_read_at_the_end": waiting, "load": [min(load), statistics.median(load), max(load)],
        "first_third": _summary(found[1 : len(found) // 3]), "last_third": _summary(found[-(len(found) // 3) :]),
    }  # fmt: skip
    keys = ("batch", "rows", "seconds", "state_bytes", "resident_bytes", "processor_seconds", "load")
    batches = [{key: one[key] for key in keys if key in one} for one in found]
    machine.write_json(path, {"machine": described, **summary, "each": batches})
    _plot(found, path.with_suffix(".svg"))
    shown.print(summary)
    shown.print(f"Written to {path}")


def _summary(found: list[dict[str, Any]]) -> dict[str, float]:
    seconds = [one["seconds"]["batch"] for one in found]
    return {
        "median_seconds": statistics.median(seconds),
        "p95_seconds": float(np.quantile(seconds, 0.95)),
        "most_seconds": max(seconds),
        "median_processor_seconds": statistics.median(one["processor_seconds"] for one in found),
        "median_resident_bytes": statistics.median(one["resident_bytes"] for one in found),
    }


def _plot(found: list[dict[str, Any]], path: Path) -> None:
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot as plt

    figure, (above, middle, below) = plt.subplots(3, 1, sharex=True, figsize=(8, 7), layout="constrained")
    number = [one["batch"] for one in found]
    middle.plot(number[1:], [one["processor_seconds"] for one in found[1:]], ".", markersize=2)
    middle.set_ylabel("processor seconds\nfrom batch to batch")
    middle.set_ylim(bottom=0)
    above.plot(number, [one["seconds"]["batch"] for one in found], ".", markersize=2)
    above.set_ylabel("seconds a batch")
    above.set_ylim(bottom=0)
    below.plot(number, [one["resident_bytes"] / 1e9 for one in found], label="JVM and engine")
    below.set_ylabel("resident memory, GB")
    below.set_xlabel("batch")
    below.set_ylim(bottom=0)
    figure.savefig(path)


if __name__ == "__main__":
    app()
