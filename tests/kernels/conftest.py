"""Every kind of kernels that this machine has."""

from __future__ import annotations

import zlib

import pytest

from gpu_wcoj.backend import Backend
from tests.helpers.kernel_kinds import KINDS, Kind, needed


@pytest.fixture(params=KINDS, scope="module")
def kind(request: pytest.FixtureRequest) -> Kind:
    """Each kind in turn; one that this machine lacks is skipped, with what the engine says about it."""
    return needed(request.param)


@pytest.fixture
def backend(kind: Kind, request: pytest.FixtureRequest) -> Backend:
    """A backend of each kind, on a schedule that the test's name chooses."""
    return kind.backend(zlib.crc32(request.node.name.encode()))
