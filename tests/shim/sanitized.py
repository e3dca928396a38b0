"""Run tests with kernels compiled for AddressSanitizer and UndefinedBehaviorSanitizer.

``python -m tests.shim.sanitized tests/kernels`` runs the shim's cases of these tests; further arguments go to pytest.
Reads and writes outside of arrays, of arrays given back, and signed overflow end the run with the line that did it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.shim import build

ROOT = Path(__file__).parents[2]
ADDRESS_OPTIONS = "detect_leaks=0:detect_stack_use_after_return=0:allocator_may_return_null=1:handle_segv=1"


def environment() -> dict[str, str]:
    """Variables that a Python with sanitized kernels needs."""
    # Python is not compiled for the sanitizer, so its library has to be there before all others.
    libraries = [build.run_compiler([f"-print-file-name={name}"]).strip() for name in ("libasan.so", "libubsan.so")]
    return {
        **os.environ,
        build.FLAVOUR_VARIABLE: "sanitized",
        "LD_PRELOAD": " ".join(libraries),
        "ASAN_OPTIONS": ADDRESS_OPTIONS,
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }


def main(arguments: list[str]) -> int:
    """Run pytest on the shim's cases."""
    chosen = arguments or ["tests/kernels"]
    command = [sys.executable, "-m", "pytest", "-p", "no:faulthandler", "-k", "shim", *chosen]
    return subprocess.run(command, cwd=ROOT, env=environment(), check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
