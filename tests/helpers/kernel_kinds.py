"""The kinds of kernels that tests run on, by name."""

from __future__ import annotations

import os
from dataclasses import dataclass

import pytest

from gpu_wcoj.backend import Backend, cpu_backend, select_backend
from gpu_wcoj.errors import BackendUnavailableError
from tests import shim

ALL_KINDS = ("numba", "numpy", "shim", "cuda")
N_SCHEDULES = 7
"""How many schedules of the shim are drawn from: ascending, descending, and some by chance."""


@dataclass(frozen=True)
class Kind:
    """One kind of kernels."""

    name: str

    def __repr__(self) -> str:
        return self.name

    @property
    def compiled(self) -> bool:
        """Whether these are numba's."""
        return self.name == "numba"

    @property
    def on_device(self) -> bool:
        """Whether arrays live on a device, or on what stands in for one."""
        return self.name in ("shim", "cuda")

    def backend(self, seed: int = 0, memory_limit: int | None = None) -> Backend:
        """A backend of this kind.

        Parameters
        ----------
        seed
            Chooses the shim's schedule; each call makes a device of its own.
        memory_limit
            Bytes that the shim can allocate.
        """
        if self.name == "shim":
            return shim.shim_backend(seed % N_SCHEDULES, memory_limit)
        return select_backend("cuda") if self.name == "cuda" else cpu_backend(self.name == "numba")


def lacking(name: str) -> str | None:
    """Why this machine has no such kernels; None if it has them."""
    if name == "shim":
        return shim.available()
    try:
        Kind(name).backend()
    except BackendUnavailableError as error:
        return str(error).splitlines()[0]
    return None


def needed(name: str) -> Kind:
    """The kind of that name; a machine without it skips the test, with what the engine says about it."""
    reason = lacking(name)
    if reason is not None:
        pytest.skip(reason)
    return Kind(name)


HAS_GPU_CASES = "GPU_WCOJ_TESTS_ON" in os.environ or lacking("cuda") is None
"""Whether tests have cases on a GPU: not where it is lacking, unless tests.gpu runs them on what stands in for it."""
KINDS = tuple(name for name in ALL_KINDS if name != "cuda" or HAS_GPU_CASES)
BACKENDS = ("cpu", "cuda") if HAS_GPU_CASES else ("cpu",)
QUICK_KINDS = pytest.mark.parametrize("kind", [name for name in KINDS if name != "numpy"], indirect=True)
"""Has a test take fixture `kind` without the slowest."""
