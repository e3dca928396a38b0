"""Workers of PySpark: the process that forks them, and what makes their tasks cheap.

A worker takes 1.3 s of a core to import this package, its libraries and their machine code. Spark starts one for every
core of an executor, and again after a minute without tasks. Where the conf ``spark.python.daemon.module`` names this
module, workers are forked from a process that has all of it, in memory that the workers of an executor share.
"""

from __future__ import annotations

import contextlib
import gc
import os
import socket
import stat
import sys
import zipimport
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Final, TypeVar

import numpy as np

from gpu_wcoj.backend import has_compiled_kernels
from gpu_wcoj.program import Program

Row = TypeVar("Row")
Result = TypeVar("Result")


def as_task(function: Callable[[Iterable[Row]], Iterator[Result]]) -> Callable[[Iterable[Row]], Iterator[Result]]:
    """Return a function over a task's rows that makes later tasks of its worker start sooner.

    Before each task, PySpark lets all finders of modules read their folders anew. Those of Zip files read the whole
    list of PySpark's files, once for each of its packages, in Python 3.11. They are a cache, which forgets them here.
    After each task, PySpark searches all objects for garbage, also the many of imported modules. Here only those that
    the task has made are searched, and none are left to it. A task that drops older objects with much memory, such as
    the program of a cell, calls ``gc.unfreeze()`` to have them searched, too.

    The JVM sends a task's rows once it has the acknowledgement of what it has sent before, which Linux delays by 40 ms.
    Nothing may have read a row before.
    """

    def run_task(rows: Iterable[Row]) -> Iterator[Result]:
        _acknowledge()
        for path, finder in list(sys.path_importer_cache.items()):
            if isinstance(finder, zipimport.zipimporter):
                del sys.path_importer_cache[path]
        yield from function(rows)
        gc.collect()
        gc.freeze()

    return run_task


def _acknowledge() -> None:
    """Acknowledge what this process has received from its sockets, if that can be asked for."""
    files = Path("/proc/self/fd")
    if not hasattr(socket, "TCP_QUICKACK") or not files.exists():
        return
    for name in os.listdir(files):
        with contextlib.suppress(OSError):  # a file that has been closed, or a socket that is not one of TCP
            if stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                with socket.socket(fileno=os.dup(int(name))) as connection:
                    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)


# The process that forks workers.


WARM_UP: Final = "triangle(a, b, c) :- edge(a, b), edge(b, c), edge(a, c)."
"""A program whose ticks load the machine code that most programs need."""

MODULES: Final = "pandas", "pyarrow.parquet", "gpu_wcoj.spark.cluster.worker"
"""Modules that tasks import. Some import this one."""


def prepare() -> None:
    """Import what tasks import, and run a small program if its kernels are compiled.

    It leaves no thread, which forked workers would lack.
    """
    for name in MODULES:
        import_module(name)
    if not has_compiled_kernels():
        return
    program = Program(WARM_UP, backend="cpu", threads=1)
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
    import_module("pyspark.daemon").manager()


if __name__ == "__main__":
    main()
