"""Confs for the RAPIDS Accelerator, which runs Spark's work on the GPU beside the engine."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Literal

from gpu_wcoj.errors import UnsupportedError, UsageError, entry_point
from gpu_wcoj.spark.versions import require_pyspark

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
