"""The device of these tests: a GPU with sizes to match, or the shim with small ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from gpu_wcoj.backend import Backend
from tests.helpers.kernel_kinds import Kind, lacking


@dataclass(frozen=True)
class Site:
    """Where a test runs.

    Attributes
    ----------
    limited
        ``with limited(n_bytes) as backend:`` a backend that can allocate so much more than what is in use.
    """

    name: str
    backend: Backend
    limited: Callable[[int], AbstractContextManager[Backend]]

    def sized(self, on_gpu: Any, on_shim: Any) -> Any:
        """One of two sizes."""
        return on_gpu if self.name == "cuda" else on_shim


@pytest.fixture(params=["shim", "cuda"])
def kind(request: pytest.FixtureRequest) -> str:
    """Each of the two; one that this machine lacks is skipped with the reason."""
    if reason := lacking(request.param):
        pytest.skip(reason)
    return str(request.param)


@pytest.fixture
def site(kind: str) -> Site:
    """A device."""
    backend = Kind(kind).backend()
    return Site(kind, backend, _limited_pool(backend) if kind == "cuda" else _limited_shim)


@contextmanager
def _limited_shim(n_bytes: int) -> Iterator[Backend]:
    yield Kind("shim").backend(0, n_bytes)


def _limited_pool(backend: Backend) -> Callable[[int], AbstractContextManager[Backend]]:
    @contextmanager
    def limited(n_bytes: int) -> Iterator[Backend]:
        pool = backend.xp.get_default_memory_pool()
        pool.free_all_blocks()
        pool.set_limit(size=pool.used_bytes() + n_bytes)
        try:
            yield backend
        finally:
            pool.set_limit(size=0)
            pool.free_all_blocks()

    return limited
