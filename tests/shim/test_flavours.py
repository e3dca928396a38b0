"""The project's own kernels on the stronger flavours of the shim: watched for races, sanitized, and as PTX.

A part of ``make test-shim-races``, ``make test-shim-sanitized`` and ``make test-ptx`` that launches every kernel.
"""

from __future__ import annotations

import re

import pytest

from gpu_wcoj.kernels.cuda import device
from tests.ptx import library
from tests.shim import available, build
from tests.shim.errors import ShimError
from tests.shim.mutants import MUTANTS, Mutant, mutated
from tests.shim.plugin import KERNEL_TESTS, QUICK, ROOT, environment, run

pytestmark = pytest.mark.skipif(available() is not None, reason=str(available()))
EXAMPLES = {"races": 4, "sanitized": 3, "ptx": 4}


def kernels_of(source: str) -> list[str]:
    """The kernels that a CUDA source defines."""
    pattern = r"__global__ void\s+(?:__launch_bounds__\([^)]*\)\s*)?(\w+)\("
    return re.findall(pattern, device.source_text(source))


@pytest.mark.drawn("flavour")
@pytest.mark.slow
@pytest.mark.parametrize("flavour", EXAMPLES)
def test_the_kernels_of_the_project(flavour):
    """One flavour in ordinary runs; half a minute of processor time for the first two together, as much for PTX."""
    if flavour == "ptx" and (reason := library.available()):
        pytest.skip(reason)
    try:
        variables = environment(flavour)
    except ShimError as error:
        pytest.skip(f"no sanitizer: {error}")
    done = run(
        KERNEL_TESTS, variables | {"GPU_WCOJ_TESTS_EXAMPLES": str(EXAMPLES[flavour])}, "-q", "-k", QUICK, capture=True
    )
    assert done.returncode == 0, done.stdout[-3000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    assert int(passed[1]) > 40
    if flavour == "ptx":
        launched = set(re.findall(r"(\w+\.\w+) \d+", done.stdout))
        assert launched >= {f"{name}.{kernel}" for name in device.SOURCES for kernel in kernels_of(name)}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: str(mutant.number))
def test_planted_faults_still_fit_the_sources(mutant):
    """``make test-kernel-mutants`` sees that each is found."""
    assert mutated(mutant)
    assert (ROOT / mutant.tests[0]).is_file()
    assert mutant.flavour in build.FLAVOURS


def test_a_fault_that_does_not_fit_is_an_error():
    mutant = Mutant(99, "nothing", "scan.cuh", (("no such text", ""),), ("", ""), "plain")
    with pytest.raises(ValueError, match=r"Mutant 99 does not fit scan\.cuh: got 0 places with .*, expected 1\."):
        mutated(mutant)
