"""The confs for the RAPIDS Accelerator: what they say, and what is refused."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'gpu_wcoj[spark]'")

import gpu_wcoj.spark as gws
from gpu_wcoj.errors import UnsupportedError, UsageError
from gpu_wcoj.spark import session

CLUSTER = {"cores": 4, "discovery_script": "/opt/gpus.sh"}


@pytest.fixture(autouse=True)
def pinned(monkeypatch):
    """The version that the plugin was tried with, whichever is installed."""
    monkeypatch.setattr(session, "require_pyspark", lambda: "4.1.3")


def test_every_conf_has_its_reason_and_every_reason_its_conf():
    everything = gws.rapids_conf("p.jar", **CLUSTER, allowed_on_cpu=["RDDScanExec"])
    assert set(everything) == set(session.WHY)
    assert all(isinstance(value, str) for value in everything.values())


def test_local_mode_names_no_resources():
    conf = gws.rapids_conf("p.jar")
    assert not [key for key in conf if ".resource." in key or key == "spark.executor.cores"]


def test_a_cluster_has_one_gpu_an_executor_and_room_for_a_task_a_core():
    for cores in range(1, 65):
        conf = gws.rapids_conf("p.jar", cores=cores, discovery_script="/opt/gpus.sh")
        assert conf["spark.executor.resource.gpu.amount"] == "1"
        assert int(1 / float(conf["spark.task.resource.gpu.amount"])) >= cores
        assert "e" not in conf["spark.task.resource.gpu.amount"]


def test_memory_is_split_between_plugin_and_engine():
    conf = gws.rapids_conf("p.jar", plugin_share=0.2, engine_share=0.7)
    assert conf["spark.rapids.memory.gpu.allocFraction"] == conf["spark.rapids.memory.gpu.maxAllocFraction"] == "0.2"
    assert float(conf["spark.rapids.memory.gpu.minAllocFraction"]) <= 0.2
    assert conf["spark.gpuWcoj.gpuMemory"] == "70%"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"plugin_share": 0.5, "engine_share": 0.5}, "their sum may be at most 0.95"),
        ({"plugin_share": 0}, "plugin_share=0 is not allowed"),
        ({"engine_share": 1.5}, "engine_share=1.5 is not allowed"),
        ({"cores": 4}, "expected both for a cluster"),
        ({"discovery_script": "x"}, "expected both for a cluster"),
        ({**CLUSTER, "cores": 0}, "an integer from 1 on"),
    ],
)
def test_what_cannot_be_is_refused(arguments, message):
    with pytest.raises(UsageError, match=message):
        gws.rapids_conf("p.jar", **arguments)


@pytest.mark.parametrize("version", ["4.1.0", "4.1.4", "4.0.5", "4.2.1", "4.3.0"])
def test_versions_that_the_plugin_does_not_take_are_refused(monkeypatch, version):
    monkeypatch.setattr(session, "require_pyspark", lambda: version)
    with pytest.raises(UnsupportedError, match=f"does not support Spark {version}.*\n.*pyspark==4.1.3"):
        gws.rapids_conf("p.jar")


def test_a_version_of_the_plugin_that_is_not_known_here_is_let_through(monkeypatch):
    monkeypatch.setattr(session, "require_pyspark", lambda: "4.3.0")
    assert gws.rapids_conf("p.jar", plugin="27.02.0")["spark.plugins"]
