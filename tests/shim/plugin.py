"""A plugin of pytest that runs tests on one flavour of the shim: ``pytest -p tests.shim.plugin tests/kernels``.

GPU_WCOJ_SHIM names the flavour, see `tests.shim.build.FLAVOURS`. Cases of other kinds of kernels are left out. With
``ptx`` the run ends with a list of the kernels that were launched, and at once, with success, where there is no
executor of PTX.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.gpu.plugin import backend_of
from tests.ptx import library
from tests.shim import build

ROOT = Path(__file__).parents[2]
KERNEL_TESTS = (
    "tests/kernels/test_rows.py", "tests/kernels/test_tries.py", "tests/kernels/test_extend.py",
    "tests/kernels/test_choosing.py", "tests/kernels/test_fresh.py", "tests/cuda/test_merge.py",
    "tests/cuda/test_extend.py", "tests/cuda/test_index.py",
)  # fmt: skip
"""The tests of every kernel."""
ENGINE_TESTS = ("tests/cuda/test_engine.py",)
"""Whole programs, those that chance writes among them."""


def run(tests: Sequence[str], environment: Mapping[str, str], *options: str, output: int | None = None) -> int:
    """Run pytest with this plugin in a process of its own; its output goes where `output` says."""
    command = [sys.executable, "-m", "pytest", "-p", "tests.shim.plugin", "-p", "no:xdist", "-p", "no:cacheprovider"]
    done = subprocess.run([*command, *options, *tests], cwd=ROOT, env=environment, check=False, stdout=output)
    return done.returncode


def pytest_configure() -> None:
    """Stop, with success, where the flavour cannot be run."""
    if build.flavour() == "ptx" and (reason := library.available()):
        pytest.exit(f"skipped: {reason}", returncode=0)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the cases of other kinds."""
    others = [item for item in items if backend_of(item) not in (None, "shim")]
    config.hook.pytest_deselected(items=others)
    items[:] = [item for item in items if backend_of(item) in (None, "shim")]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many launches of which kernels the executor of PTX has run."""
    if library.launches:
        total, kernels = sum(library.launches.values()), len(library.launches)
        terminalreporter.write_line(f"PTX for {library.architecture()}: {total} launches of {kernels} kernels")
        terminalreporter.write_line(", ".join(f"{name} {count}" for name, count in sorted(library.launches.items())))
