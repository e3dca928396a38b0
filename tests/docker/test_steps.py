"""Every step of the CPU image is carried out over this machine's root, and what comes of it runs a cluster.

It fetches half a gigabyte and takes minutes, so `make test-docker` asks for it.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docker.test_files import DOCKER, ROOT, composed
from tests.helpers.docker_steps import Layer, build

pytestmark = pytest.mark.skipif(os.environ.get("TEST_DOCKER") != "1", reason="make test-docker runs these")

JOB = """
from pyspark.sql import SparkSession

def triangles(batches):
    import os, pyarrow as pa, gpu_wcoj as gw
    edges = [(1, 2), (2, 3), (1, 3)]
    found = gw.query("triangle(a, b, c) :- edge(a, b), edge(b, c), edge(a, c).", edge=edges)
    for batch in batches:
        row = {"id": [os.getuid()], "place": [os.environ["SPARK_EXECUTOR_DIRS"]], "found": [len(found)]}
        yield pa.RecordBatch.from_pydict(row)

spark = SparkSession.builder.master("spark://master:7077").config("spark.ui.enabled", "false").config(
    "spark.scheduler.minRegisteredResourcesRatio", "1.0").config("spark.cores.max", "4").getOrCreate()
rows = spark.range(0, 8, 1, 8).mapInArrow(triangles, "id bigint, place string, found bigint").collect()
print("ANSWER", {row.id for row in rows}, sum(row.found for row in rows), len({row.place for row in rows}))
"""


@pytest.fixture(scope="module")
def image(tmp_path_factory) -> Layer:
    if sys.platform != "linux" or os.getuid() != 0:
        pytest.skip("layers over the root take root, on Linux")
    if sys.version_info[:2] != (3, 11):
        pytest.skip("the image has Python 3.11, and this is another")
    try:
        Layer(tmp_path_factory.mktemp("try") / "layer").run(["true"])
    except AssertionError as error:
        pytest.skip(f"no layers can be mounted here: {error}")
    return build(DOCKER / "Dockerfile", ROOT, tmp_path_factory.mktemp("image"))


def test_the_image_runs_its_command_and_its_check_of_health_as_its_user(image, tmp_path):
    container = image.over(tmp_path / "container")
    assert "Usage: gpu-wcoj" in container.run([*image.entrypoint, *image.cmd])
    assert container.run(["id", "-u"]).strip() == "10001"
    container.run(image.health)
    container.run(["touch", "/data/here"])
    with pytest.raises(AssertionError, match="Permission denied"):
        container.run(["touch", "/opt/gpu_wcoj/here"])


def test_the_check_of_health_can_fail(image, tmp_path):
    container = image.over(tmp_path / "container")
    with pytest.raises(AssertionError, match="URLError"):
        container.run(image.health, {"HEALTH_URL": "http://localhost:1"})


def test_the_image_holds_exactly_the_pinned_versions(image, tmp_path):
    printed = image.over(tmp_path / "container").run(["/opt/gpu_wcoj/bin/pip", "freeze"])
    installed = {line for line in printed.splitlines() if "==" in line}
    pinned = {line for line in (DOCKER / "constraints.txt").read_text().splitlines() if "==" in line}
    assert installed == pinned


def a_port_is_free(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) != 0


@pytest.fixture
def started(image, tmp_path) -> Iterator[dict[str, Layer]]:
    """The services of compose.yaml in one network, so that the second worker's page needs a port of its own."""
    if not all(map(a_port_is_free, (7077, 8080, 8081, 8082))):
        pytest.skip("a port of the cluster is taken")
    hosts = Path("/etc/hosts").read_text() + "\n127.0.0.1 master\n"
    processes, containers = [], {}
    try:
        for name, service in composed("compose.yaml").items():
            container = image.over(tmp_path / name)
            (container.files / "etc" / "hosts").unlink(missing_ok=True)
            (container.files / "etc" / "hosts").write_text(hosts)
            said = {**service.get("environment", {}), "SPARK_LOCAL_IP": "127.0.0.1"}
            command = [*service["entrypoint"], *service["command"]]
            if name == "worker-2":
                command = [word.replace("8081", "8082") for word in command]
                said["HEALTH_URL"] = said["HEALTH_URL"].replace("8081", "8082")
            container.env |= said
            containers[name] = container
            if name == "submit":
                continue
            with (tmp_path / f"{name}.log").open("w") as log:
                processes.append(container.start(command, stdout=log, stderr=log))
            check = image.over(tmp_path / f"{name}-check")
            check.env |= said
            wait_for(check, tmp_path / f"{name}.log")
        yield containers
    finally:
        for process in processes:
            os.killpg(process.pid, signal.SIGTERM)
        for process in processes:
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def wait_for(check: Layer, log: Path) -> None:
    """Until the container's own check of health passes."""
    for _ in range(60):
        try:
            check.run(check.health)
        except AssertionError as error:
            last = error
            time.sleep(1)
        else:
            return
    raise AssertionError(f"{last}\n{log.read_text()}")


def test_the_cluster_of_the_compose_file_runs_the_engine_on_its_workers(started):
    printed = started["submit"].run(["python", "-c", JOB])
    assert "ANSWER {10001} 8 2" in printed, printed
