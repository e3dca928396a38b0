"""A plugin of pytest that runs tests on one flavour of the shim, and the command ``python -m tests.shim`` behind it.

GPU_WCOJ_SHIM names the flavour, see `tests.shim.build.FLAVOURS`. Cases of other kinds of kernels are left out, and
GPU_WCOJ_TESTS_EXAMPLES limits the examples that a test of hypothesis gets. With
``ptx`` the run ends with a list of the kernels that were launched, and at once, with success, where there is no
executor of PTX.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.gpu.plugin import EXAMPLES, backend_of, run_few_examples
from tests.ptx import library
from tests.shim import build

ROOT = Path(__file__).parents[2]
KERNEL_TESTS = (
    "tests/kernels/test_rows.py", "tests/kernels/test_tries.py", "tests/kernels/test_extend.py",
    "tests/kernels/test_range_stats.py", "tests/kernels/test_new_rows.py", "tests/cuda/test_merge.py",
    "tests/cuda/test_extend.py", "tests/cuda/test_index.py",
)  # fmt: skip
"""The tests of every kernel."""
ENGINE_TESTS = ("tests/cuda/test_engine.py",)
"""Whole programs, those that chance writes among them."""
QUICK = " or ".join((
    "test_lexsort", "test_consolidate", "test_distinct_rows", "test_segment_sums", "test_exclusive_sum",
    "test_held_rows", "test_rows_that_one_key_holds", "(test_many_columns and 9-2000)", "test_build_and_expand",
    "test_locate", "test_count_children", "test_weights_of", "test_narrowest", "test_widths",
    "(test_hubs and plain and half)", "test_cross_product", "(test_short_ranges and 3-1-0)",
    "(test_units_end_anywhere and 0)", "(test_an_atom_alone and 0-1-1)", "test_weights_of_one_written_out",
    "(test_nothing_is_left and 4096-2-0)", "(test_few_weights and 512)", "(test_random_tries and 1)",
))  # fmt: skip
"""The tests for ordinary runs, as an expression for ``-k``: all kernels, with few examples of each property."""
ADDRESS_OPTIONS = "detect_leaks=0:detect_stack_use_after_return=0:allocator_may_return_null=1:handle_segv=1"


def environment(flavour: str, architecture: str | None = None, sources: Path | None = None) -> dict[str, str]:
    """Return the variables that a Python with such kernels needs.

    Parameters
    ----------
    architecture
        The GPU whose PTX is run.
    sources
        The folder of CUDA sources in place of the package's own.
    """
    variables = {**os.environ, build.FLAVOUR_VARIABLE: flavour}
    if architecture is not None:
        variables[library.ARCHITECTURE_VARIABLE] = architecture
    if sources is not None:
        variables[build.SOURCES_VARIABLE] = str(sources)
    if flavour == "sanitized":
        # Python is not compiled for the sanitizer, so its library has to be there before all others.
        files = [build.run_compiler([f"-print-file-name={name}"]).strip() for name in ("libasan.so", "libubsan.so")]
        variables |= {
            "LD_PRELOAD": " ".join(files), "ASAN_OPTIONS": ADDRESS_OPTIONS, "UBSAN_OPTIONS": "print_stacktrace=1"
        }  # fmt: skip
    return variables


def run(
    tests: Sequence[str], variables: Mapping[str, str], *options: str, capture: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run pytest with this plugin in a process of its own."""
    command = [sys.executable, "-m", "pytest", "-p", "tests.shim.plugin", "-p", "no:xdist", "-p", "no:cacheprovider"]
    if variables[build.FLAVOUR_VARIABLE] == "sanitized":
        command += ["-p", "no:faulthandler"]  # the sanitizer explains a fault better
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT} if capture else {}
    return subprocess.run([*command, *options, *tests], cwd=ROOT, env=variables, check=False, text=True, **streams)


def pytest_configure() -> None:
    """Stop, with success, where the flavour cannot be run."""
    if build.flavour() == "ptx" and (reason := library.available()):
        pytest.exit(f"skipped: {reason}", returncode=0)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the cases of other kinds."""
    others = {item for item in items if backend_of(item) not in (None, "shim")}
    config.hook.pytest_deselected(items=others)
    items[:] = [item for item in items if item not in others]
    if EXAMPLES:
        for item in items:
            run_few_examples(item)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many launches of which kernels the executor of PTX has run."""
    if library.launches:
        total, kernels = sum(library.launches.values()), len(library.launches)
        terminalreporter.write_line(f"PTX for {library.architecture()}: {total} launches of {kernels} kernels")
        terminalreporter.write_line(", ".join(f"{name} {count}" for name, count in sorted(library.launches.items())))
