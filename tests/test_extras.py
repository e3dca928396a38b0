"""The extras can be installed, alone and beside each other: pip finds a version of everything, and installs nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ALL = os.environ.get("CHECK_EXTRAS") == "1"
"""Whether all combinations are tried, as ``make check-extras`` does; else only the one that is hardest to meet."""
SOURCES_ONLY = "gpu_wcoj,pyspark,py4j"
"""What is built from sources; of everything else there has to be a wheel."""


@pytest.fixture(scope="module")
def index() -> None:
    asked = [sys.executable, "-m", "pip", "index", "versions", "cupy-cuda13x"]
    try:
        done = subprocess.run(asked, capture_output=True, text=True, timeout=60)
    except subprocess.TimeoutExpired:
        pytest.skip("the package index does not answer")
    if done.returncode:
        pytest.skip(f"the package index cannot be reached: {(done.stderr.strip() or 'no pip').splitlines()[-1]}")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the GPU's libraries have wheels for Linux")
@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        pytest.param([".[spark,gpu-cudf]"], {"pyspark", "pylibcudf-cu13", "cupy-cuda13x"}, id="spark,gpu-cudf"),
        pytest.param([".[gpu]"], {"cupy-cuda13x", "nvidia-cuda-nvrtc"}, id="gpu"),
        pytest.param([".[gpu-cuda12]"], {"cupy-cuda12x", "nvidia-cuda-nvrtc-cu12"}, id="gpu-cuda12"),
        pytest.param([".[spark,gpu]"], {"cupy-cuda13x", "pyspark"}, id="spark,gpu"),
        pytest.param([".[gpu-cudf]", "cudf-cu13"], {"pylibcudf-cu13", "cudf-cu13"}, id="gpu-cudf with all of cuDF"),
    ],
)  # fmt: skip
def test_pip_finds_a_version_of_everything(index, request, tmp_path, wanted, found):
    if not ALL and request.node.callspec.id != "spark,gpu-cudf":
        pytest.skip("make check-extras tries this one too")
    report = tmp_path / "report.json"
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet"]
    command += ["--only-binary=:all:", f"--no-binary={SOURCES_ONLY}", "--report", str(report), *wanted]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    installed = {
        one["metadata"]["name"]: one["metadata"]["version"] for one in json.loads(report.read_text())["install"]
    }
    print(" ".join(f"{name}=={version}" for name, version in sorted(installed.items())))
    assert found <= installed.keys()
