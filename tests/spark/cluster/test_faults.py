"""Tasks, executors and drivers that die at every step of a batch on cells: each batch counts once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'gpu_wcoj[spark]'")

from gpu_wcoj.checkpoint.folder import OsFolder
from gpu_wcoj.spark.cluster.worker import Entry, read_entry
from tests.spark.cluster.test_answers import EDGE, Stream, alone, random_ticks, written

DRIVER = Path(__file__).parents[1] / "cluster_driver.py"
TEXT = """
triangle(a, b, c) :- edge(a, b), edge(b, c), edge(a, c).
far(a) :- edge(a, b), edge(b, c), a != c.
.output triangle
.output far
"""
BEFORE, AFTER = "before the state is written", "after the state is written"


def start(folder: Path, **plan: Any) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(filter(None, [str(DRIVER.parents[2]), os.environ.get("PYTHONPATH")]))
    return subprocess.run(
        [sys.executable, str(DRIVER), str(folder), json.dumps({"text": TEXT, **plan})],
        env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=400, check=False,
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
    found = written(tmp_path / "out")
    assert sorted(found) == [-1, 0, 1, 2, 3, 4]
    for batch, answers in enumerate(alone(TEXT, ticks)):
        for name, rows in answers.items():
            assert {row: weight for row, weight in found[batch][name].items() if weight} == dict(rows), (batch, name)
    check_files(tmp_path)


def check_files(folder: Path) -> None:
    """No more files are left than the last two versions need, and the outputs that are listed."""
    from gpu_wcoj.checkpoint.checkpoint import read_all

    manifests = read_all(OsFolder(folder / "state"), OsFolder(folder / "state").names())
    cells = OsFolder(folder / "state" / "cells")
    needed = set()
    for manifest in manifests:
        for one in manifest.extra["cells"].values():
            entry = Entry(*one)
            needed |= {entry.file, *(run.file for run in read_entry(cells, entry).runs)}
    assert set(cells.names()) == needed
