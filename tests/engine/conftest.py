"""Two backends for one program: where it keeps its state, and where the twin is."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace

import pytest

from gpu_wcoj.backend import Backend, cpu_backend
from gpu_wcoj.engine.replicas import REBUILD_SHARE, Router
from tests.helpers.kernel_kinds import Kind, lacking


@dataclass(frozen=True)
class Pair:
    """A primary backend and the twin's, as options of a program."""

    primary: Backend
    twin: Backend

    def options(self, **more: object) -> dict[str, object]:
        return {"backend": self.primary, "twin": self.twin, "threads": 1, **more}


@functools.cache
def pair_of(name: str) -> Pair | str:
    """The pair, or why it cannot be had."""
    if name == "numpy":
        return Pair(replace(cpu_backend(False), name="numpy"), cpu_backend())
    reason = lacking(name)
    return reason if reason is not None else Pair(Kind(name).backend(), cpu_backend())


@pytest.fixture(params=["numpy", "shim", "cuda"])
def pair(request: pytest.FixtureRequest) -> Pair:
    """NumPy's kernels beside the compiled ones, and the CUDA sources on the host or on a GPU beside them."""
    found = pair_of(request.param)
    if isinstance(found, str):
        pytest.skip(found)
    return found


@pytest.fixture
def sides(monkeypatch):
    """Lets a function of the tick's number say whether it runs on the twin; `keeps` a twin however far it is behind."""

    def follow(chooses, keeps=True):
        monkeypatch.setattr("gpu_wcoj.engine.replicas.REBUILD_SHARE", 1e9 if keeps else REBUILD_SHARE)
        number = iter(range(1 << 30))
        monkeypatch.setattr(Router, "prefers_twin", lambda self, work: chooses(next(number)))

    return follow
