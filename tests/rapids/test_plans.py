"""The RAPIDS Accelerator says of every plan of ours that it runs on the GPU, and of others that they do not."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'gpu_wcoj[spark]'")

from gpu_wcoj.spark import session
from tests.rapids.plans import KEPT, PLANS

ROOT = Path(__file__).parents[2]


def explained(spark, frame) -> str:
    """What the plugin says of every part of a plan."""
    explain = spark.sparkContext._jvm.com.nvidia.spark.rapids.ExplainPlan
    return explain.explainPotentialGpuPlan(frame._jdf, "ALL")


def kept_from_the_gpu(text: str) -> list[str]:
    """The parts of a plan that the plugin leaves on the CPU."""
    return [line.strip() for line in text.splitlines() if re.match(r"\s*[!@]", line) or "cannot run on GPU" in line]


def on_the_gpu(text: str) -> int:
    """How many parts the plugin would take."""
    return len(re.findall(r"^\s*\*", text, re.MULTILINE))


@pytest.mark.parametrize("name", PLANS)
def test_nothing_of_a_plan_is_kept_from_the_gpu(planning, outcome, request, tmp_path, name):
    if name in KEPT:
        request.applymarker(pytest.mark.xfail(reason=KEPT[name], raises=AssertionError))
    text = explained(planning, PLANS[name](planning, tmp_path))
    outcome["plans"][name] = {"on_gpu": on_the_gpu(text), "kept": kept_from_the_gpu(text)}
    assert "*Exec <FileSourceScanExec> will run on GPU" in text
    assert kept_from_the_gpu(text) == []


def test_what_cannot_run_on_the_gpu_is_found(planning, tmp_path):
    """The check above can fail: a function of Python's over rows is no plan of the GPU's."""
    from pyspark.sql.functions import udf

    frame = PLANS["normalise, append"](planning, tmp_path).select(udf(lambda value: value, "long")("weight"))
    assert any("BatchEvalPython" in line for line in kept_from_the_gpu(explained(planning, frame)))


def test_a_stream_is_planned_for_the_gpu_too(jar, outcome, tmp_path):
    """The micro-batches of a stream, as the plugin's log tells; only the hand-over to foreachBatch is Spark's own."""
    command = [sys.executable, "-m", "tests.rapids.stream", "explainOnly", jar, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=os.environ, timeout=600)
    assert done.returncode == 0, done.stderr
    assert "RAPIDS Accelerator is in explain only mode" in done.stderr
    assert done.stdout.split() == ["rows", "6"]
    for part in ("MapInArrowExec", "ShuffleExchangeExec", "GenerateExec", "FileSourceScanExec"):
        assert re.search(rf"^\s*\*Exec <{part}>", done.stderr, re.MULTILINE), f"{part} is not in\n{done.stderr}"
    kept = kept_from_the_gpu(done.stderr)
    outcome["stream"] = {"on_gpu": on_the_gpu(done.stderr), "kept": kept}
    assert kept
    assert all("RDDScanExec" in line or "AttributeReference" in line for line in kept), "\n".join(kept)


def test_the_plugin_knows_every_conf_that_is_set(jar):
    """Names of confs are text in the compiled code that declares them."""
    with zipfile.ZipFile(jar) as archive:
        names = [
            name for name in archive.namelist() if name.endswith(("/RapidsConf$.class", "/PythonConfEntries$.class"))
        ]
        code = b"".join(archive.read(name) for name in names)
    assert names
    ours = [key for key in session.WHY if key.startswith("spark.rapids.")]
    assert ours
    assert [key for key in ours if key.encode() not in code] == []
    assert b"spark.rapids.sql.noSuchConf" not in code
