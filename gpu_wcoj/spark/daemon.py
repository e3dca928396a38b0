"""The process that PySpark forks its workers from, with the engine imported: ``spark.python.daemon.module``.

A worker takes 1.3 s of a core to import this package, its libraries and their machine code. Spark starts one for every
core of an executor, and again after a minute without tasks. A worker that is forked from this process has it all, in
memory that all workers of the executor share.
"""

from __future__ import annotations

import contextlib
import gc
import sys

import numpy as np
import pandas as pd  # noqa: F401  # PySpark imports it in each worker
import pyarrow.parquet as pq  # noqa: F401  # cells do at their first row
from pyspark.daemon import manager

from gpu_wcoj.backend import has_compiled_kernels
from gpu_wcoj.spark.cluster import worker

WARM_UP = "triangle(a, b, c) :- edge(a, b), edge(b, c), edge(a, c)."
"""A program whose ticks load the machine code that most programs need."""


def prepare() -> None:
    """Run a small program, if its kernels are compiled.

    It starts no thread, which forked workers would lack.
    """
    if not has_compiled_kernels():
        return
    program = worker.Program(WARM_UP, backend="cpu", threads=1)
    edges = np.random.default_rng(1).integers(0, 1000, (5000, 2))
    program.load({"edge": edges[:4000]})
    program.step({"edge": edges[4000:4010]})
    program.step_counts({"edge": edges[4010:]})


def main() -> None:
    """Prepare, and fork workers as PySpark's own module does."""
    with contextlib.redirect_stdout(sys.stderr), contextlib.suppress(Exception):  # Spark reads a port from stdout
        prepare()
    gc.collect()
    gc.freeze()
    manager()


if __name__ == "__main__":
    main()
