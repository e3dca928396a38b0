"""Tasks, executors and drivers that die at every step of a batch on cells: each batch counts once."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'gpu_wcoj[spark]'")

import pyspark

from gpu_wcoj.checkpoint.folder import OsFolder
from gpu_wcoj.spark.cluster.state import CellFolder, Entry, read_entry
from tests.spark.cluster.test_answers import EDGE, Stream, alone, random_ticks, written

DRIVER = Path(__file__).parents[1] / "cluster_driver.py"
TEXT = """
triangle(a, b, c) :- edge(a, b), edge(b, c), edge(a, c).
far(a) :- edge(a, b), edge(b, c), a != c.
.output triangle
.output far
"""
TRIANGLE = "triangle(a, b, c) :- edge(a, b), edge(b, c), edge(a, c)."
GROUPS = """
hops(a, count()) :- edge(a, b), edge(b, c).
reach(a, b) :- edge(a, b).
reach(a, c) :- reach(a, b), edge(b, c).
.output hops
.output reach
"""
BEFORE, AFTER = "before the state is written", "after the state is written"


def start(folder: Path, **plan: Any) -> subprocess.CompletedProcess[str]:
    """Run a driver whose processes, of which many are killed, begin on NumPy's kernels at once."""
    path = os.pathsep.join(filter(None, [str(DRIVER.parents[2]), os.environ.get("PYTHONPATH")]))
    return subprocess.run(
        [sys.executable, str(DRIVER), str(folder), json.dumps({"text": TEXT, **plan})],
        env={**os.environ, "PYTHONPATH": path, "GPU_WCOJ_COMPILE": "never"},
        capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["hypercube", "replicated"])
def test_tasks_executors_and_drivers_that_die(spark: Any, tmp_path: Path, layout: str) -> None:
    ticks = random_ticks(5, 5, 150, 20)
    stream = Stream(spark, tmp_path / "in", EDGE)
    for tick in ticks:
        stream.add(tick)
    how = {"master": "local-cluster[2,1,1024]", "layout": layout, "cells": 3}
    faults = [
        [BEFORE, 0, 0, 0, "raise"],
        [AFTER, 0, 1, 0, "raise"],
        [BEFORE, 1, 2, 1, "raise"],
        [AFTER, 1, 0, 1, "raise"],
        [AFTER, 0, 2, 2, "executor"],
    ]
    first = start(tmp_path, **how, faults=faults, kill=["outputs", 3])
    assert first.returncode == -signal.SIGKILL, first.stderr[-3000:]
    assert len(list((tmp_path / "marks").iterdir())) == len(faults)
    assert sorted(written(tmp_path / "out")) == [-1, 0, 1, 2]
    second = start(tmp_path, **how, kill=["manifest", 3])
    assert second.returncode == -signal.SIGKILL, second.stderr[-3000:]
    third = start(tmp_path, **how)
    assert third.returncode == 0, third.stderr[-3000:]
    assert json.loads(third.stdout.splitlines()[-1])["batch"] == 4
    check_answers(tmp_path, TEXT, ticks)
    check_files(tmp_path)


FAULTS_IN_STAGES = [
    [BEFORE, 0, 1, 0, "executor"],
    [AFTER, 0, 2, 1, "raise"],
    [BEFORE, 1, 1, 1, "raise"],
    [AFTER, 2, 0, 2, "executor"],
]
FAULTS_IN_ONE_STAGE = [[BEFORE, 0, 1, 0, "executor"], [AFTER, 0, 2, 1, "raise"], [AFTER, 0, 0, 2, "executor"]]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "faults"), [(GROUPS, FAULTS_IN_STAGES), (TRIANGLE, FAULTS_IN_ONE_STAGE)], ids=["stages", "one stage"]
)
def test_executors_that_die_while_they_have_parcels_of_the_driver(
    spark: Any, tmp_path: Path, text: str, faults: list[list[Any]]
) -> None:
    """The driver reads the batches, so that parcels come with the tasks; it goes on with other executors."""
    ticks = [tick for tick in random_ticks(6, 9, 60, 12) if tick["edge"]][:4]
    stream = Stream(spark, tmp_path / "in", EDGE)
    for tick in ticks:
        stream.add(tick)
    how = {"layout": "hypercube", "cells": 3, "text": text, "reads": True}
    first = start(tmp_path, **how, master="local-cluster[2,1,1024]", faults=faults, kill=["manifest", 2])
    assert first.returncode == -signal.SIGKILL, first.stderr[-3000:]
    assert len(list((tmp_path / "marks").iterdir())) == len(faults)
    second = start(tmp_path, **how, master="local-cluster[1,2,1024]")
    assert second.returncode == 0, second.stderr[-3000:]
    check_answers(tmp_path, text, ticks)
    check_files(tmp_path)


@pytest.mark.slow
def test_lost_shuffles(spark: Any, tmp_path: Path) -> None:
    """A stage whose input is gone makes Spark run the stages before it again, here joins, groups and a recursion."""
    ticks = random_ticks(5, 3, 150, 20)
    stream = Stream(spark, tmp_path / "in", EDGE)
    for tick in ticks:
        stream.add(tick)
    lost = [[BEFORE, 0, 1, 0, "shuffle"], [BEFORE, 1, 1, 1, "shuffle"], [BEFORE, 2, 0, 2, "shuffle"]]
    repeated = [[BEFORE, 0, 2, 1, "mark"], [AFTER, 1, 1, 2, "mark"]]
    how = {"layout": "hypercube", "cells": 3, "text": GROUPS, "master": "local-cluster[2,1,1024]"}
    run = start(tmp_path, **how, faults=lost + repeated)
    assert run.returncode == 0, run.stderr[-3000:]
    repeats = {path.name for path in (tmp_path / "repeats").iterdir()}
    assert repeats.issuperset(f"{point}-{stage}-{cell}-{batch}" for point, stage, cell, batch, _ in lost + repeated)
    check_answers(tmp_path, GROUPS, ticks)


@pytest.fixture
def two_hosts(spark: Any, tmp_path: Path) -> Iterator[str]:
    """The address of a cluster whose workers have addresses of their own, as hosts of a network have."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    home = Path(pyspark.__file__).parent
    environment = {**os.environ, "SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable}
    environment["SPARK_LOCAL_DIRS"] = str(tmp_path / "workers")
    environment["PYTHONPATH"] = str(DRIVER.parents[2])
    master = f"spark://127.0.0.1:{port}"
    worker = [
        "worker.Worker",
        "--webui-port",
        "0",
        "--cores",
        "2",
        "--memory",
        "1g",
        "--work-dir",
        str(tmp_path / "work"),
    ]
    classes = [["master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]]
    classes += [[*worker, "--host", f"127.0.0.{host}", master] for host in (2, 3)]
    with (tmp_path / "cluster.log").open("wb") as log, contextlib.ExitStack() as stack:
        for name, *options in classes:
            command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *options]
            process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
            stack.callback(process.wait)
            stack.callback(process.terminate)
        yield master


@pytest.mark.slow
@pytest.mark.parametrize("point", [BEFORE, AFTER])
def test_speculative_second_attempts(two_hosts: str, spark: Any, tmp_path: Path, point: str) -> None:
    """A task waits until Spark has started it a second time on another host; both attempts go on to their ends."""
    ticks = random_ticks(5, 3, 150, 20)
    stream = Stream(spark, tmp_path / "in", EDGE)
    for tick in ticks:
        stream.add(tick)
    speculation = {
        "": "true",
        ".interval": "100ms",
        ".quantile": "0.1",
        ".multiplier": "1.1",
        ".minTaskRuntime": "500ms",
    }
    conf = {f"spark.speculation{name}": value for name, value in speculation.items()}
    conf |= {
        "spark.executor.memory": "512m",
        "spark.executor.cores": "2",
        "spark.speculation.task.duration.threshold": "2s",
    }
    waits = [[point, 0, 1, 1, "wait"], [point, 1, 1, 2, "wait"]]
    how = {"layout": "hypercube", "cells": 3, "text": GROUPS, "master": two_hosts, "conf": conf}
    run = start(tmp_path, **how, faults=waits)
    assert run.returncode == 0, run.stderr[-3000:]
    repeats = {path.name for path in (tmp_path / "repeats").iterdir()}
    assert repeats == {f"{point}-{stage}-{cell}-{batch}" for _, stage, cell, batch, _ in waits}
    check_answers(tmp_path, GROUPS, ticks)
    check_files(tmp_path, has_late_attempts=True)


def check_answers(folder: Path, text: str, ticks: Sequence[Any]) -> None:
    """Every batch was written once, with the changes of one engine."""
    found = written(folder / "out")
    assert sorted(found) == list(range(-1, len(ticks)))
    for batch, answers in enumerate(alone(text, ticks)):
        for name, rows in answers.items():
            assert {row: weight for row, weight in found[batch][name].items() if weight} == dict(rows), (batch, name)


def check_files(folder: Path, *, has_late_attempts: bool = False) -> None:
    """No more files are left than the last two versions need, and the outputs that are listed.

    Attempts that end after the last commit leave files of its batch, which the next commit would remove.
    """
    from gpu_wcoj.checkpoint.checkpoint import read_all

    manifests = read_all(OsFolder(folder / "state"), OsFolder(folder / "state").names())
    cells = CellFolder(str(folder / "state"))
    needed = set()
    for manifest in manifests:
        for one in manifest.extra["cells"].values():
            entry = Entry(*one)
            for name in (entry.file, *(run.file for run in read_entry(cells, entry).runs)):
                archive, _, file = name.rpartition("/")
                in_folder = (folder / "state" / "cells" / file).exists()
                needed |= {file} if in_folder else {archive}
    names = set(cells.names())
    assert names >= needed
    if has_late_attempts:
        names = {name for name in names if name in needed or int(name.split("-")[1]) != manifests[-1].batch + 1}
    assert names == needed
