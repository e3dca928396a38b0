"""The benchmark of cells beside one engine, on a small graph."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.skipif("TEST_SPARK" not in os.environ, reason="starts another Java; make test-spark runs it")
def test_cells_and_one_engine_count_the_same_and_are_recorded(tmp_path: Path) -> None:
    options = [
        "--scale",
        "9",
        "--rounds",
        "1",
        "--counts",
        "triangles",
        "--counts",
        "4-cliques",
        "--sql",
        "--output",
        str(tmp_path),
    ]
    subprocess.run([sys.executable, "-m", "bench.spark.scale", *options], check=True, timeout=600)
    (path,) = tmp_path.iterdir()
    record = json.loads(path.read_text())
    (one,), (cells,) = record["rounds"]["one engine"], record["rounds"]["cells"]
    assert one["answers"].items() >= cells["answers"].items()
    assert one["answers"]["Spark SQL, triangles"] == one["answers"]["triangles"] > 0
    assert {*one["seconds"]} >= {*cells["seconds"]} >= {"triangles", "4-cliques", "triangles, ticks of 1,000: load"}
    assert all(value > 0 for run in (one, cells) for value in run["peak_bytes"].values())
