"""Connections to DuckDB in processes that are forked."""

from __future__ import annotations

import os
import signal
import threading

import pytest

import gpu_wcoj as gw

ROWS = {"k": [1, 1, 2], "v": [1, 2, 3]}


def numbered() -> list[tuple[int, int]]:
    """Answer a query whose window DuckDB evaluates."""
    return sorted(gw.query("SELECT v, count(*) OVER (PARTITION BY k) AS n FROM t", t=ROWS).rows())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.parametrize("in_thread", [False, True])
def test_a_forked_process_calls_duckdb_as_its_parent_did(in_thread):
    called, done = threading.Event(), threading.Event()

    def call() -> None:
        numbered()
        called.set()
        done.wait()

    thread = threading.Thread(target=call)
    if in_thread:
        thread.start()
        called.wait()
    else:
        numbered()
    child = os.fork()
    if child == 0:
        try:
            signal.alarm(20)  # the child must not hang for longer
            os._exit(10 if numbered() == [(1, 2), (2, 2), (3, 1)] else 11)
        finally:
            os._exit(99)
    _, status = os.waitpid(child, 0)
    done.set()
    if in_thread:
        thread.join()
    assert os.waitstatus_to_exitcode(status) == 10
    assert numbered() == [(1, 2), (2, 2), (3, 1)]
