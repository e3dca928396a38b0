"""Run tests with kernels whose every access is watched for races; see `races.h` for what counts as one.

``python -m tests.shim.races tests/kernels`` runs the shim's cases of these tests; further arguments go to pytest. A
race is a `ShimError` that names both places.
"""

from __future__ import annotations

import os
import subprocess
import sys

from tests.shim import build
from tests.shim.sanitized import ROOT


def environment() -> dict[str, str]:
    """Variables that a Python with watched kernels needs."""
    return {**os.environ, build.FLAVOUR_VARIABLE: "races"}


def main(arguments: list[str]) -> int:
    """Run pytest on the shim's cases."""
    command = [sys.executable, "-m", "pytest", "-k", "shim", *(arguments or ["tests/kernels"])]
    return subprocess.run(command, cwd=ROOT, env=environment(), check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
