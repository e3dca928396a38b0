"""A driver of a program on cells, in a process of its own, whose tasks, executors or self die where it is told.

``python cluster_driver.py FOLDER '{"master": "local-cluster[2,1,1024]", "layout": "hypercube", "cells": 4, ...}'`` with
``"faults"``: a list of ``[point, stage, cell, batch, what]``, each done once, where `what` is ``"raise"``,
``"executor"``, ``"shuffle"`` (all files of shuffles are deleted, and the task fails), ``"wait"`` (the task goes on when
another attempt of it has come here) or ``"mark"`` (nothing, but it is noted whether the task comes again); ``"kill"``:
``[point, batch]``, ``"outputs"`` (all cells have written) or ``"manifest"`` (it is committed); and ``"conf"`` of Spark.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

import pyspark

os.environ["SPARK_HOME"] = str(Path(pyspark.__file__).parent)

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import gpu_wcoj.spark as gws
from gpu_wcoj.spark.cluster.driver import CellOptions, CellRun
from gpu_wcoj.spark.session import DEFAULTS, use_java


def main() -> None:
    folder, plan = Path(sys.argv[1]), json.loads(sys.argv[2])
    faults = {tuple(one[:4]): one[4] for one in plan.get("faults", [])}
    marks = str(folder / "marks")
    os.makedirs(marks, exist_ok=True)
    repeats = folder / "repeats"
    repeats.mkdir(exist_ok=True)

    def watch(point: str, stage: int, cell: int, batch: int) -> None:
        what = faults.get((point, stage, cell, batch))
        if what is None:
            return
        try:
            os.close(os.open(f"{marks}/{point}-{stage}-{cell}-{batch}", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            (repeats / f"{point}-{stage}-{cell}-{batch}").touch()
            return
        if what == "mark":
            return
        if what == "wait":
            end = time.monotonic() + 60
            while not (repeats / f"{point}-{stage}-{cell}-{batch}").exists() and time.monotonic() < end:
                time.sleep(0.05)
            time.sleep(1)
            return
        if what == "shuffle":
            for path in (folder / "local").rglob("shuffle_*"):
                path.unlink(missing_ok=True)
        if what != "executor":
            raise RuntimeError(f"a fault {point}")
        with open(f"/proc/{os.getppid()}/stat") as stat:
            executor = int(stat.read().rsplit(")", 1)[1].split()[1])
        with open(f"/proc/{executor}/cmdline") as line:
            if "CoarseGrainedExecutorBackend" not in line.read():
                raise RuntimeError(f"process {executor} is no executor")
        os.kill(executor, signal.SIGKILL)

    kill = plan.get("kill")

    def commit(run: CellRun, rows, batch: int) -> None:
        if kill == ["outputs", batch]:
            rows.collect()
            os.kill(os.getpid(), signal.SIGKILL)
        if plan.get("reads"):
            table = pq.read_table(sorted((folder / "in" / "edge").glob("*.parquet"))[batch])
            weights = table["weight"].cast("int64")
            run.process_batch(rows, batch, {"edge": table.drop_columns("weight").append_column("weight", weights)})
        else:
            run.commit(rows, batch)
        if kill == ["manifest", batch]:
            os.kill(os.getpid(), signal.SIGKILL)

    conf = {
        "spark.sql.shuffle.partitions": "2", "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "local"), **plan.get("conf", {}),
    }  # fmt: skip
    if plan["master"].startswith("local"):
        spark = gws.local_session("driver", master=plan["master"], memory="1g", conf=conf)
    else:
        use_java()
        builder = SparkSession.builder.master(plan["master"])
        spark = builder.config(map=DEFAULTS | conf).getOrCreate()
    stream = spark.readStream.schema("a int, b bigint, weight int").option("maxFilesPerTrigger", 1)
    changes = gws.normalise(stream.parquet(str(folder / "in" / "edge")), "weight")
    with CellRun.open(
        plan["text"], {"edge": changes.schema}, CellOptions(plan["layout"], plan["cells"]),
        checkpoint=folder / "state", output=folder / "out", watch=watch,
    ) as run:  # fmt: skip
        if run.is_new:
            run.load({})
        frame = run.rows({"edge": changes}) if plan.get("reads") else run.frame({"edge": changes})
        query = (
            frame.writeStream.foreachBatch(lambda rows, batch: commit(run, rows, batch))
            .option("checkpointLocation", str(folder / "spark"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        print(json.dumps({"marks": sorted(os.listdir(marks)), **run.progress}))
    spark.stop()


if __name__ == "__main__":
    main()
