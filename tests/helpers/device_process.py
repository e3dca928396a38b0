"""Code that is run in a process of its own, and the mark of tests that need CuPy."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpu_wcoj.kernels.cuda import detect

ROOT = Path(__file__).parents[2]

with_cupy = pytest.mark.skipif(not detect.has_cupy(), reason="CuPy is not installed")


def run(code: str, **environment: str) -> str:
    variables = {**os.environ, **environment, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True, text=True, check=True)
    return done.stdout + done.stderr
