"""CUDA kernels without a GPU: a host stand-in for the grid, for CuPy, and for a device's memory.

``shim_backend(seed)`` is a `Backend` like the one of a GPU. Its kernels are the same CUDA C++ sources, compiled by a
host compiler and run thread by thread (`shim.cpp`); its arrays are `array.Array`, which refuses what CuPy refuses and
what CuPy answers wrongly; ``backend.device`` counts launches, transfers and bytes:

    backend = shim_backend(seed=3, memory_limit=1 << 20)
    with backend.device.counted() as counts:
        ...
    assert counts.reads <= 1 and counts.launches <= 4

A mistake in a kernel or a launch raises `ShimError`, with the kernel, block, thread and line. Seeds are schedules: 0
runs blocks, warps and lanes in ascending order, 1 in descending order, others in pseudo-random ones, with threads
changing at atomics and fences too. One block runs after the other, so a block that waits for another waits for ever.

Three more flavours of the same kernels are there, run by ``python -m tests.shim FLAVOUR tests/kernels``: ``sanitized``
by AddressSanitizer and UndefinedBehaviorSanitizer, ``races`` with every access watched for races, ``ptx`` as NVRTC
compiles them (`tests.ptx`). A device can have sources of its own, as in `test_shim`:
``ShimDevice(sources=lambda name: text)``; `tests.mutants.kernels` plants faults in them.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec

import pytest

from gpu_wcoj.backend import Backend
from tests.shim import build
from tests.shim.errors import ShimError, ShimOutOfMemoryError

__all__ = ["ShimError", "ShimOutOfMemoryError", "available", "shim_backend"]


def available() -> str | None:
    """Why there is no shim on this machine; None if there is one."""
    if sys.platform != "linux":
        return "the shim needs Linux: shared memory is a section of an ELF file"
    if find_spec("cupy") is None:
        return "the shim needs CuPy: pip install cupy-cuda13x"
    return None if build.compiler() else "the shim needs a C++ compiler: g++, or the one named by CXX"


def shim_backend(seed: int = 0, memory_limit: int | None = None) -> Backend:
    """A CUDA backend on the host, see the module's text; a machine without one skips the test."""
    if (reason := available()) is not None:
        pytest.skip(reason)
    from gpu_wcoj.kernels.cuda.kernels import CudaKernels
    from tests.shim.device import ShimDevice

    device = ShimDevice(seed, memory_limit)
    return Backend("cuda", device.xp, CudaKernels(device), device)
