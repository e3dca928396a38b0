"""A driver that keeps triangles up to date, in a process of its own, and kills or stops itself where it is told.

``python view_driver.py FOLDER '{"kill": "manifest", "batch": 3}'``: the stream is ``FOLDER/changes``. Every point is
between two steps of a batch: ``middle`` (some of the output is written), ``outputs`` (all of it), ``manifest`` (the
state is committed, the output is not listed yet), ``commit`` (all is done but Spark's own commit). ``seconds`` kills
at a time instead, counted from the start of a batch, before which ``after`` others are done; ``stop`` is a batch
before whose manifest the process stops itself (SIGSTOP). ``program`` is another program, or a motif.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from pathlib import Path

import gpu_wcoj.spark as gws
from gpu_wcoj.checkpoint import Checkpoint
from gpu_wcoj.spark import output, view
from gpu_wcoj.spark import view as running

TRIANGLE = "triangle(a, b, c) :- edge(a, b), edge(b, c), edge(a, c)."


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def armed(owner: type | object, name: str, is_due, act, after: bool = False) -> None:
    """Let a function act before, or after, it does its work, when it is due."""
    inner = getattr(owner, name)

    def outer(*arguments, **named):
        if not after and is_due(*arguments):
            act()
        result = inner(*arguments, **named)
        if after and is_due(*arguments):
            act()
        return result

    setattr(owner, name, outer)


def arm(plan: dict) -> None:
    batch = plan.get("batch")
    match plan.get("kill"):
        case "middle":
            armed(output.Attempt, "add", lambda attempt, *_: attempt._batch == batch, kill, after=True)
        case "outputs":
            armed(Checkpoint, "commit", lambda _, number: number == batch, kill)
        case "manifest":
            armed(output.ToParquet, "publish", lambda _, manifest: manifest.batch == batch, kill)
        case "commit":
            armed(running, "log_progress", lambda progress: progress["batch"] == batch, kill, after=True)
    if "stop" in plan:
        armed(
            Checkpoint, "commit", lambda _, number: number == plan["stop"], lambda: os.kill(os.getpid(), signal.SIGSTOP)
        )
    if "seconds" in plan:
        taken = []

        def start() -> None:
            taken.append(1)
            if len(taken) == plan.get("after", 0) + 1:
                threading.Timer(plan["seconds"], kill).start()

        armed(view.View, "_run_batch", lambda *_: True, start)


def main() -> None:
    folder, plan = Path(sys.argv[1]), json.loads(sys.argv[2])
    arm(plan)
    conf = {"spark.sql.shuffle.partitions": "2", "spark.sql.warehouse.dir": str(folder / "warehouse")}
    spark = gws.local_session("driver", master="local[2]", memory="1g", conf=conf)
    stream = spark.readStream.schema("src bigint, dst bigint, weight bigint").option("maxFilesPerTrigger", 1)
    program = plan.get("program", TRIANGLE)
    kept = gws.maintain(
        {"edges" if program.startswith("(") else "edge": stream.parquet(str(folder / "changes"))}, program,
        changes="weight", checkpoint=folder / "checkpoint", output=folder / "out",
    )  # fmt: skip
    kept.start("availableNow")
    kept.wait()
    print(json.dumps(kept.answers))
    spark.stop()


if __name__ == "__main__":
    main()
