"""The process that forks workers: what it has imported, and that it can be left out."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'gpu_wcoj[spark]'")

MODULES = """
import sys
import gpu_wcoj.spark as gws
spark = gws.local_session(master="local[1]", memory="512m", conf=dict(part.split("=") for part in sys.argv[1:]))
def modules(rows):
    import os, sys
    list(rows)  # a worker that does not read to the end is not used again
    loaded = "gpu_wcoj.spark.cluster.worker" in sys.modules
    yield loaded, os.getpid(), os.getppid()
first, second = (spark.sparkContext.parallelize([1], 1).mapPartitions(modules).collect()[0] for _ in range(2))
print(first[0], first == second)
spark.stop()
"""

THREADS = """
import os
from gpu_wcoj.spark import daemon
before = set(os.listdir("/proc/self/task"))
daemon.prepare()
print(before == set(os.listdir("/proc/self/task")))
"""


def output_of(program: str, *arguments: str, **environment: str) -> str:
    ran = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=300,
        env={**os.environ, **environment}, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.mark.parametrize(("confs", "loaded"), [((), True), (("spark.python.daemon.module=pyspark.daemon",), False)])
def test_workers_have_the_engine_unless_the_conf_names_another_module(confs: tuple[str, ...], loaded: bool) -> None:
    assert output_of(MODULES, *confs).split() == [str(loaded), "True"]


def test_another_python_has_its_own_daemon(tmp_path: Path) -> None:
    """It may lack this package."""
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    assert output_of(MODULES, PYSPARK_PYTHON=str(python)).split() == ["False", "True"]


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads are read from /proc")
@pytest.mark.parametrize("mode", ["background", "never", "wait"])
def test_it_starts_no_thread(mode: str) -> None:
    """Forked workers would lack it."""
    assert output_of(THREADS, GPU_WCOJ_COMPILE=mode).split() == ["True"]
