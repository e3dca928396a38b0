"""The project's own kernels on the stronger flavours of the shim: watched for races, sanitized, and as PTX.

A part of ``make test-shim-races``, ``make test-shim-sanitized`` and ``make test-ptx`` that launches every kernel.
"""

from __future__ import annotations

import re

import pytest

from gpu_wcoj.kernels.cuda import device
from tests.ptx import library
from tests.shim import available
from tests.shim.errors import ShimError
from tests.shim.plugin import KERNEL_TESTS, QUICK, environment, run

pytestmark = pytest.mark.skipif(available() is not None, reason=str(available()))
EXAMPLES = {"races": 4, "sanitized": 3, "ptx": 4}


def kernels_of(source: str) -> list[str]:
    """The kernels that a CUDA source defines."""
    pattern = r"__global__ void\s+(?:__launch_bounds__\([^)]*\)\s*)?(\w+)\("
    return re.findall(pattern, device.source_text(source))


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("flavour", EXAMPLES)
def test_the_kernels_of_the_project(flavour):
    """Half a minute of processor time for the first two together, as much for PTX."""
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
