"""Confs under which Spark's own work runs on the GPU, by the RAPIDS Accelerator, beside the engine."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Literal

from gpu_wcoj.errors import UnsupportedError, UsageError, entry_point
from gpu_wcoj.spark.versions import require_pyspark

PLUGIN = "26.08.1"
"""The version of the plugin that `make test-rapids` tries."""

ARTIFACT = "com.nvidia:rapids-4-spark_2.13"
"""Its Maven coordinates, without the version; this one is for CUDA 12, the classifier ``cuda13`` for CUDA 13."""

BUILT_FOR = {
    "26.08.1": (
        *(f"4.0.{patch}" for patch in range(5)),
        *(f"4.1.{patch}" for patch in (1, 2, 3)),
        "4.2.0",
    ),
    "26.06.0": (*(f"4.0.{patch}" for patch in range(4)), "4.1.1"),
}
"""Which versions of Spark 4 each version of the plugin takes. It looks at the patch number too, and ends Spark else."""

WHY = {
    "spark.plugins": "loads the plugin when Spark starts; later is too late",
    "spark.driver.extraClassPath": "where the plugin is; not spark.jars, which copies a gigabyte at every start",
    "spark.executor.extraClassPath": "the same jar at the same path on every machine",
    "spark.rapids.sql.mode": "executeonGPU runs what it can on the GPU, explainOnly only says what it could",
    "spark.rapids.sql.explain": "the log names whatever stays on the CPU, and why",
    "spark.rapids.memory.gpu.allocFraction": "the plugin would take all of the GPU's memory; this is its share of it",
    "spark.rapids.memory.gpu.maxAllocFraction": "and no more later: the rest is the engine's",
    "spark.rapids.memory.gpu.minAllocFraction": "it refuses shares below a quarter unless this is lower, too",
    "spark.rapids.memory.pinnedPool.size": "transfers from pinned memory are faster; the pool is off by default",
    "spark.rapids.sql.concurrentGpuTasks": "with a small share, tasks go one after the other rather than spill",
    "spark.rapids.sql.python.gpu.enabled": "our workers choose their GPU and hold their memory themselves",
    "spark.gpuWcoj.gpuMemory": "the engine's share of the GPU's memory",
    "spark.executor.cores": "tasks at a time on one executor, which share its GPU",
    "spark.executor.resource.gpu.amount": "the plugin takes one GPU per executor: as many executors as GPUs",
    "spark.task.resource.gpu.amount": "1 over the cores, or the GPU would let one task run at a time",
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
    """Confs for a session with the plugin, which has to be started with them; the reasons are in `WHY`.

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
        raise UnsupportedError(
            f"version {plugin} of the RAPIDS Accelerator does not take Spark {version}.\n"
            f"  It takes {', '.join(BUILT_FOR[plugin])}: pip install 'pyspark=={BUILT_FOR[plugin][-2]}'"
        )
    for name, share in (("plugin_share", plugin_share), ("engine_share", engine_share)):
        if not 0 < share < 1:
            raise UsageError(f"{name} is {share}; it is a part of the GPU's memory, above 0 and below 1.")
    if plugin_share + engine_share > 0.95:
        raise UsageError(
            f"plugin_share={plugin_share} and engine_share={engine_share} leave nothing of the GPU's memory free.\n"
            "  CUDA itself needs some for each process: 0.95 is the most that both may have together."
        )
    if (cores is None) != (discovery_script is None):
        raise UsageError(
            f"cores={cores} and discovery_script={discovery_script!r}: a cluster needs both, local mode neither."
        )
    if cores is not None and cores < 1:
        raise UsageError(f"cores={cores}; an executor has at least 1.")
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
    """1 over `cores`, rounded down: of more than that, fewer tasks than cores would fit.

    Examples
    --------
    >>> _share_of_tasks(1), _share_of_tasks(3)
    ('1', '0.333333')
    """
    return f"{int(Fraction(10**6, cores)) / 10**6:g}"
