"""``python -m tests.shim FLAVOUR [TESTS]``: run the kernel tests on a flavour of the shim; options go to pytest.

``sanitized`` ends at reads and writes outside of arrays, of arrays given back, and at signed overflow, with the line
that did it. ``races`` watches every access, see ``races.h`` for what is a race. ``ptx`` runs what NVRTC makes of the
kernels, see `tests.ptx`, for each architecture or the one of ``--arch``, and whole programs besides.
"""

from __future__ import annotations

import argparse
import sys

from tests.ptx.library import ARCHITECTURES
from tests.shim import build
from tests.shim.plugin import ENGINE_TESTS, KERNEL_TESTS, environment, run


def main(arguments: list[str]) -> int:
    """Run pytest, once an architecture; 1 if anything failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.shim", description="Run tests on a flavour of the shim.")
    parser.add_argument("flavour", choices=build.FLAVOURS)
    parser.add_argument("--arch", action="append", choices=ARCHITECTURES, help="of PTX; all if none is named")
    chosen, tests = parser.parse_known_args(arguments)
    is_ptx = chosen.flavour == "ptx"
    tests = tests or [*KERNEL_TESTS, *(ENGINE_TESTS if is_ptx else ())]
    architectures = chosen.arch or ARCHITECTURES if is_ptx else [None]
    return max(run(tests, environment(chosen.flavour, architecture), "-q").returncode for architecture in architectures)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
