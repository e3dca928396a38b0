"""``python -m tests.ptx [TESTS]``: run the tests of the shim on the executor of PTX, for each architecture.

Without tests those of all kernels are run, and whole programs. ``--arch sm_90`` chooses an architecture.
"""

from __future__ import annotations

import argparse
import os
import sys

from tests.ptx.library import ARCHITECTURE_VARIABLE, ARCHITECTURES
from tests.shim import build
from tests.shim.plugin import ENGINE_TESTS, KERNEL_TESTS, run


def main(arguments: list[str]) -> int:
    """Run pytest once an architecture; 1 if anything failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.ptx", description="Run tests on the executor of PTX.")
    parser.add_argument("--arch", action="append", choices=ARCHITECTURES, help="an architecture; all if none is named")
    chosen, tests = parser.parse_known_args(arguments)
    status = 0
    for architecture in chosen.arch or ARCHITECTURES:
        environment = {**os.environ, build.FLAVOUR_VARIABLE: "ptx", ARCHITECTURE_VARIABLE: architecture}
        status |= run(tests or [*KERNEL_TESTS, *ENGINE_TESTS], environment, "-q")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
