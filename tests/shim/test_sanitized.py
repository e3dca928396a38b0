"""The sanitized flavour sees what the plain one cannot: reads out of bounds, and overflow."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.shim import available, build
from tests.shim.plugin import ROOT, environment

pytestmark = [
    pytest.mark.skipif(available() is not None, reason=str(available())),
    pytest.mark.xdist_group("sanitized kernels"),  # one process compiles them
]

SCRIPT = """
import numpy as np
from tests.shim.device import ShimDevice
TEXT = 'extern "C" __global__ void f(long long* out, long long n) {{ {body} }}'
device = ShimDevice(sources=lambda _: TEXT)
out = device.xp.zeros(100, np.int64)
device.launch("f", "f", 1, 32, [out, {n}])
print("ran")
"""


def run(body: str, n: int) -> tuple[int, str]:
    script = SCRIPT.format(body=body, n=n).replace("{{", "{").replace("}}", "}")
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, cwd=ROOT,
        env=environment("sanitized"),
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def sanitizer():
    try:
        code, text = run("out[threadIdx.x] = n;", 3)
    except build.ShimError as error:
        pytest.skip(f"no sanitizer: {error}")
    if code:
        pytest.skip(f"no sanitizer: {text}")
    return text


def test_a_correct_kernel_runs(sanitizer):
    assert sanitizer == "ran\n"


@pytest.mark.parametrize(("body", "n", "message"), [
    ("out[0] = out[n];", 100, "heap-buffer-overflow"),
    ("out[threadIdx.x] = n + 1;", 2**63 - 1, "signed integer overflow"),
    ("out[0] = 1 << n;", 40, "shift exponent 40"),
])  # fmt: skip
def test_a_mistake_ends_the_run(sanitizer, body, n, message):
    code, text = run(body, n)
    assert code != 0
    assert message in text
