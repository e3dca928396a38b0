"""Both kinds of kernels on the CPU."""

from __future__ import annotations

import pytest

from gpu_wcoj.backend import Backend, cpu_backend


@pytest.fixture(params=["compiled", "numpy"])
def backend(request: pytest.FixtureRequest) -> Backend:
    return cpu_backend(request.param == "compiled")
