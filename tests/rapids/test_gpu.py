"""On a machine with a GPU: the same plans run there, with the right rows, and whatever would not is an error."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'gpu_wcoj[spark]'")

import gpu_wcoj.spark as gws
from tests.rapids.plans import KEPT, PLANS
from tests.spark.cdc_formats import CASES

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(
    os.environ.get("TEST_RAPIDS_GPU") != "1", reason="make test-rapids-gpu runs these, on a machine with a GPU"
)


@pytest.fixture(scope="module")
def computing(jar) -> Iterator[object]:
    session = gws.local_session(master="local[2]", conf=gws.rapids_conf(jar, allowed_on_cpu=[]))
    yield session
    session.stop()


@pytest.mark.parametrize("name", [name for name in PLANS if name.startswith("normalise") and name not in KEPT])
def test_plans_run_on_the_gpu_with_the_right_rows(computing, tmp_path, name):
    computing.conf.set("spark.rapids.sql.enabled", "false")
    frame = PLANS[name](computing, tmp_path)
    expected = sorted(map(tuple, frame.collect()))
    computing.conf.set("spark.rapids.sql.enabled", "true")
    again = frame.select("*")  # planned anew
    assert sorted(map(tuple, again.collect())) == expected
    assert "Gpu" in again._jdf.queryExecution().executedPlan().toString()
    case = CASES.get(name.removeprefix("normalise, "))
    if case is not None:
        assert sorted(((row[0], row[1]), row[2]) for row in expected) == sorted(case.expected)


def test_a_stream_runs_on_the_gpu(jar, tmp_path):
    command = [sys.executable, "-m", "tests.rapids.stream", "executeOnGPU", jar, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["rows", "6"]
