"""The command line, called in this process or in one of its own, and what it prints."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest

from gpu_wcoj.cli.main import main

TRIANGLE = "triangle(a, b, c) :- edge(a, b), edge(b, c), edge(a, c)."
ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "gpu_wcoj"]
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
    "GPU_WCOJ_COMPILE": "never",
}
"""Lets a process begin at once, on NumPy's kernels, which answer the same."""


def run_json(capfd: pytest.CaptureFixture[str], *arguments: object) -> tuple[list[dict], dict]:
    """The lines of JSON for the ticks, and the last one."""
    assert main(["run", *map(str, arguments), "--json"]) == 0, capfd.readouterr().err
    printed = capfd.readouterr()
    assert printed.err == ""
    *ticks, total = map(json.loads, printed.out.splitlines())
    return ticks, total


def complaint(capfd: pytest.CaptureFixture[str], *arguments: object) -> str:
    """The message of a run that fails as it should: one paragraph, no traceback, nothing on standard output."""
    assert main(list(map(str, arguments))) == 2
    printed = capfd.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("gpu-wcoj: ")
    assert printed.err.endswith("\n")
    assert "\n\n" not in printed.err
    assert "Traceback" not in printed.err
    assert "internal error" not in printed.err
    return printed.err


def write_stream(path: Path, rows: list[tuple[int, int, int, int]]) -> Path:
    """A file of changes: CSV, which the command reads at once, or Parquet, which it reads in a process of its own."""
    table = pa.table(dict(zip(("src", "dst", "weight", "tick"), zip(*rows, strict=True), strict=True)))
    (csv.write_csv if path.suffix == ".csv" else pq.write_table)(table, path)
    return path
