"""The benchmark of motifs beside Spark SQL, on a small graph."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.skipif("TEST_SPARK" not in os.environ, reason="starts another Java; make test-spark runs it")
def test_both_ways_find_the_same_and_rounds_are_added_to_a_record(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench.spark.find", "--scale", "9", "--edges", "4000", "--rounds", "1"]
    subprocess.run([*command, "--output", str(tmp_path)], check=True, timeout=600)
    (path,) = tmp_path.iterdir()
    subprocess.run([*command, "--kinds", "counted", "--record", str(path)], check=True, timeout=600)
    rounds = json.loads(path.read_text())["rounds"]
    assert [(row["kind"], row["way"]) for row in rounds] == [
        (kind, way) for kind in ("counted", "listed", "counted") for way in ("gws.find", "Spark SQL")
    ]
    assert len({row["answer"] for row in rounds}) == 1
    assert rounds[0]["answer"] > 0
