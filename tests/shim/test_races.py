"""The flavour that looks for races finds those between lanes, warps and blocks, and nothing where there is none."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from tests.shim import available
from tests.shim.plugin import ROOT, environment

pytestmark = [
    pytest.mark.skipif(available() is not None, reason=str(available())),
    pytest.mark.xdist_group("kernels with races"),  # one process compiles them
]

SHARED = "__shared__ int x[64]; x[threadIdx.x] = threadIdx.x; "
LAST = """
    __shared__ int last;
    out[1 + blockIdx.x] = blockIdx.x;
    FENCE
    __syncthreads();
    if (threadIdx.x == 0) last = atomicAdd((unsigned long long*)out, 1ull) == gridDim.x - 1;
    __syncthreads();
    if (last && threadIdx.x == 0) for (int b = 0; b < gridDim.x; b++) out[20 + b] = out[1 + b];
""".replace("out[1 + blockIdx.x] =", "if (threadIdx.x == 0) out[1 + blockIdx.x] =").replace(
    "b < gridDim", "b < (int)gridDim"
)
KERNELS = {
    "neighbours of a warp": (
        SHARED + "out[item()] = x[threadIdx.x ^ 1];", "shared memory: a .* at k.cu:1, and a .* at k.cu:1"),
    "neighbours of a warp that met": (SHARED + "__syncwarp(); out[item()] = x[threadIdx.x ^ 1];", None),
    "a vote orders nothing": (SHARED + "if (__any_sync(~0u, 1)) out[item()] = x[threadIdx.x ^ 1];", "shared memory"),
    "other warps": (SHARED + "__syncwarp(); out[item()] = x[threadIdx.x ^ 32];", "shared memory"),
    "other warps behind a barrier": (SHARED + "__syncthreads(); out[item()] = x[threadIdx.x ^ 32];", None),
    "a write after others have read": (
        SHARED + "__syncthreads(); out[item()] = x[63 - threadIdx.x]; x[threadIdx.x] = 0;",
        "a write .* and a read|a read .* a write"),
    "blocks that write to one place": (
        "if (threadIdx.x == 0) out[0] = 1;", "global memory: a write .* and a write by block"),
    "blocks that add to one place": ("atomicAdd((unsigned long long*)out, 1ull);", None),
    "a sum that is no atomic operation": ("if (threadIdx.x == 0) out[0] += 1;", "global memory"),
    "an atomic operation beside a write": (
        "if (item() == 7) out[0] = 1; else atomicAdd((unsigned long long*)out, 1ull);", "an atomic operation"),
    "the last block reads what the others wrote": (LAST.replace("FENCE", "__threadfence();"), None),
    "the last block, without a fence": (LAST.replace("FENCE", ""), "global memory: a read at .*, and a write by block"),
    "a place for each": ("out[item()] = 3; out[item()] += 2;", None),
}  # fmt: skip

SCRIPT = """
import json, sys
import numpy as np
from tests.shim.device import ShimDevice
from tests.shim.errors import ShimError
HEAD = "__device__ inline long long item() { return (long long)blockIdx.x * blockDim.x + threadIdx.x; }\\n"
for name, body in json.load(sys.stdin).items():
    text = HEAD + 'extern "C" __global__ void k(long long* out) {\\n#line 1 "k.cu"\\n' + body + "\\n}"
    found = []
    for seed in range(4):
        device = ShimDevice(seed, sources=lambda _: text)
        try:
            device.launch("k", "k", 5, 64, [device.xp.zeros(400, np.int64)])
            found.append("")
        except ShimError as error:
            found.append(str(error))
    print(json.dumps([name, found]))
"""


@pytest.fixture(scope="module")
def found() -> dict[str, list[str]]:
    """What is said of each kernel on some schedules."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        input=json.dumps({name: body for name, (body, _) in KERNELS.items()}),
        capture_output=True, text=True, check=False, cwd=ROOT, env=environment("races"),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return dict(json.loads(line) for line in done.stdout.splitlines())


@pytest.mark.parametrize("name", KERNELS)
def test_races_are_found_and_nothing_else(found, name):
    message = KERNELS[name][1]
    if message is None:
        assert found[name] == [""] * 4
    else:
        assert all(re.search(message, text) for text in found[name])
