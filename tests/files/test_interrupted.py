"""The process that reads Parquet and Arrow files hands on every byte, however often it is interrupted."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gpu_wcoj.files import binary
from gpu_wcoj.files.reader import open_input
from gpu_wcoj.files.spec import parse_input

N_ROWS = 400_000


@pytest.mark.drawn("unbuffered")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_nothing_is_lost_where_the_process_is_stopped_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unbuffered: str
):
    """A write to a full pipe that is interrupted has written a part; Python tells of that where it does not buffer."""
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    columns = np.arange(2 * N_ROWS).reshape(2, N_ROWS)
    pq.write_table(pa.table({"a": columns[0], "b": columns[1]}), tmp_path / "e.parquet")
    reader = open_input(parse_input(f"e={tmp_path / 'e.parquet'}"), arity=2, changes=True, budget=1 << 30)
    assert isinstance(reader, binary.BinaryReader)
    child, done, stops = reader._process.pid, threading.Event(), []

    def interrupt() -> None:
        with contextlib.suppress(ProcessLookupError):  # it is done, and was waited for
            while not done.is_set():
                os.kill(child, signal.SIGSTOP)
                os.kill(child, signal.SIGCONT)
                stops.append(child)

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        blocks = list(reader.blocks())
    finally:
        done.set()
        thread.join()
        reader.close()
    found = pa.Table.from_batches([block.rows for block in blocks])
    assert np.array_equal(np.array([column.to_numpy() for column in found.columns]), columns)
    assert len(stops) > 20
