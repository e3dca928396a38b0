"""Connections to DuckDB in processes that are forked, and their temporary files."""

from __future__ import annotations

import gc
import os
import signal
import stat
import tempfile
import threading

import pytest

import gpu_wcoj as gw
from gpu_wcoj.arrow.database import Database, Settings

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


@pytest.mark.parametrize("memory", [None, 10**9])
def test_temporary_files_lie_in_a_folder_of_their_own_that_is_removed(tmp_path, monkeypatch, memory):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for is_closed in (True, False):
        database = Database(Settings(memory=memory))
        (folder,) = tmp_path.iterdir()
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        ((setting,),) = database._connection.sql("SELECT current_setting('temp_directory')").fetchall()
        assert setting == str(folder)
        if is_closed:
            database.close()
        del database
        gc.collect()
        assert not list(tmp_path.iterdir())


def test_without_a_folder_for_temporary_files_queries_run_in_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    database = Database(Settings(memory=10**9))
    assert database._connection.sql("SELECT current_setting('temp_directory'), 1").fetchall() == [("", 1)]
    database.close()
    assert numbered() == [(1, 2), (2, 2), (3, 1)]
