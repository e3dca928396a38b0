"""The command line as a fixture, since tests import no neighbours."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
Run = Callable[..., tuple[list[dict], dict]]


@pytest.fixture
def run() -> Run:
    """Run ``gpu-wcoj run ARGUMENTS --json`` in a process of its own: the lines for the ticks, and the last one."""

    def run(*arguments: object) -> tuple[list[dict], dict]:
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        done = subprocess.run(
            [sys.executable, "-m", "gpu_wcoj.cli.main", "run", *map(str, arguments), "--json"],
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        *ticks, total = map(json.loads, done.stdout.splitlines())
        assert total["ticks"] == len(ticks)
        return ticks, total

    return run
