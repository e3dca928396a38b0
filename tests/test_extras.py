"""The extras can be installed, alone and beside each other, and the package runs on its lowest versions.

Pip looks for a version of everything, and installs nothing. That takes a minute, and depends on nothing here but
pyproject.toml. Ordinary runs see whether it says what it said when all combinations were found. The lowest versions are
installed into a venv of their own, which takes a minute of CPU time: `make test-long` does it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest

from tests.helpers.command_line import ENVIRONMENT, ROOT

ALL = os.environ.get("CHECK_EXTRAS") == "1"
"""Whether all combinations are tried, as ``make check-extras`` does."""
FOUND = Path(__file__).with_name("extras_found.json")
"""What pyproject.toml asked for when pip found everything."""
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


def asked_for() -> dict[str, object]:
    """What the package and its extras for users ask for."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = {name: project["optional-dependencies"][name] for name in ("gpu", "gpu-cuda12", "gpu-cudf", "spark")}
    return {"python": project["requires-python"], "dependencies": project["dependencies"], **extras}


@pytest.mark.skipif(ALL, reason="they are tried, and then stored")
def test_the_extras_are_those_that_pip_found():
    assert asked_for() == json.loads(FOUND.read_text()), (
        "make check-extras looks for what is asked for now, and stores it"
    )


@pytest.mark.slow
@pytest.mark.skipif(not ALL, reason="make check-extras runs it")
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
def test_pip_finds_a_version_of_everything(index, tmp_path, wanted, found):
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


@pytest.mark.skipif(not ALL, reason="make check-extras runs it")
def test_what_was_found_is_stored(index, request):
    assert not request.session.testsfailed
    FOUND.write_text(json.dumps(asked_for(), indent=2) + "\n")


def lowest_versions():
    """The requirements of `make test-lowest`."""
    (line,) = (one for one in (ROOT / "Makefile").read_text().splitlines() if one.startswith("LOWEST :="))
    return line.removeprefix("LOWEST :=").split()


SHOWN_OTHERWISE = (
    "arrow/write.py::gpu_wcoj.arrow.write.to_pandas",
    "data/rows.py::gpu_wcoj.data.rows.as_python",
    "engine/calibrate.py::gpu_wcoj.engine.calibrate.fit_costs",
    "program.py::gpu_wcoj.program.Inspected.explain",
)
"""Examples that show scalars, which NumPy 1 shows without their types, and the kind of kernels."""


@pytest.mark.long
@pytest.mark.usefixtures("index")
def test_examples_hold_on_the_lowest_versions(tmp_path):
    """All examples of docstrings but those of devices and Spark; `make test-lowest` runs tests, too."""
    venv.create(tmp_path, with_pip=True)
    python = str(tmp_path / "bin" / "python")
    needed = [
        *lowest_versions(),
        "pandas==2.2.0",
        "polars",
        "scipy",
        "sqlglot>=30,<31",
        "duckdb",
        "pytest",
        "hypothesis",
    ]
    environment = ENVIRONMENT | {"PYTHONPATH": str(ROOT), "GPU_WCOJ_COMPILE": "never"}
    subprocess.run([python, "-m", "pip", "install", "--quiet", *needed], check=True, env=ENVIRONMENT)
    left_out = [f"--deselect=gpu_wcoj/{name}" for name in SHOWN_OTHERWISE]
    left_out += ["--ignore=gpu_wcoj/spark", "--ignore=gpu_wcoj/kernels/cuda"]
    run = subprocess.run(
        [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--noconftest", *left_out, "gpu_wcoj"],
        cwd=ROOT, capture_output=True, text=True, env=environment, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr
    assert int(re.search(r"(\d+) passed", run.stdout)[1]) > 350


def test_the_lowest_versions_are_those_that_make_test_lowest_installs():
    dependencies = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    lowest = dict(one.split(">=") for one in dependencies)
    installed = dict(one.split("==") for one in lowest_versions())
    assert installed.keys() == lowest.keys()
    for name, version in lowest.items():  # a series of versions stands for its first patch with wheels
        assert f"{installed[name]}.".startswith(f"{version}."), name
