"""Workers of PySpark: the process that forks them, and what their tasks leave."""

from __future__ import annotations

import gc
import os
import socket
import subprocess
import sys
import weakref
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'gpu_wcoj[spark]'")

from gpu_wcoj.spark.workers import as_task

MODULES = """
import sys
import gpu_wcoj.spark as gws
spark = gws.local_session(master="local[1]", memory="512m", conf=dict(part.split("=") for part in sys.argv[1:]))
def modules(rows):
    import os, sys
    list(rows)  # a worker that does not read to the end is not used again
    loaded = "gpu_wcoj.spark.cluster.worker" in sys.modules
    yield loaded, os.getpid(), os.getppid()
first, second = (spark.sparkContext.parallelize([1], 1).mapPartitions(modules).collect()[0] for _ in range(2))
print(first[0], first == second)
spark.stop()
"""

THREADS = """
import os, time
from gpu_wcoj.spark import workers
before = set(os.listdir("/proc/self/task"))
workers.prepare()
end = time.monotonic() + 10  # a thread that has ended is listed until the system has removed it
while before != set(os.listdir("/proc/self/task")) and time.monotonic() < end:
    time.sleep(0.01)
print(before == set(os.listdir("/proc/self/task")))
"""


def output_of(program: str, *arguments: str, **environment: str) -> str:
    ran = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=300,
        env={**os.environ, **environment}, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.mark.parametrize(("confs", "loaded"), [((), True), (("spark.python.daemon.module=pyspark.daemon",), False)])
def test_workers_have_the_engine_unless_the_conf_names_another_module(confs: tuple[str, ...], loaded: bool) -> None:
    assert output_of(MODULES, *confs).split() == [str(loaded), "True"]


def test_another_python_has_its_own_daemon(tmp_path: Path) -> None:
    """It may lack this package."""
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    assert output_of(MODULES, PYSPARK_PYTHON=str(python)).split() == ["False", "True"]


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads are read from /proc")
@pytest.mark.parametrize("mode", ["background", "never", "wait"])
def test_it_leaves_no_thread(mode: str) -> None:
    """Forked workers would lack it."""
    assert output_of(THREADS, GPU_WCOJ_COMPILE=mode).split() == ["True"]


def test_garbage_of_a_task_is_freed_and_no_object_is_left_to_a_later_search() -> None:
    """Files and sockets of the worker stay as they are."""

    class Node:
        pass

    def make_garbage(rows: Iterable[int]) -> Iterator[weakref.ref[Node]]:
        for _ in rows:
            node = Node()
            node.itself = node  # type: ignore[attr-defined]
            yield weakref.ref(node)

    def drop(rows: Iterable[int]) -> Iterator[int]:
        gc.unfreeze()
        yield from rows

    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        accepted, _ = server.accept()
        with accepted:
            client.sendall(b"a")
            n_files = len(os.listdir("/proc/self/fd")) if Path("/proc").exists() else 0
            task = as_task(make_garbage)
            try:
                (garbage,) = task([1])
                assert garbage() is None
                assert gc.get_freeze_count()
                node = Node()
                node.itself = node  # type: ignore[attr-defined]
                older = weakref.ref(node)
                assert list(as_task(iter)([1])) == [1]
                del node
                assert list(as_task(iter)([1])) == [1]
                assert older() is not None  # an older object is not looked at, unless a task asks for it
                assert list(as_task(drop)([1])) == [1]
                assert older() is None
            finally:
                gc.unfreeze()
            assert not n_files or len(os.listdir("/proc/self/fd")) <= n_files  # other threads close files
            accepted.sendall(b"b")
            assert (accepted.recv(1), client.recv(1)) == (b"a", b"b")
