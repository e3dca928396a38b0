"""Every kind of kernels that this machine has."""

from __future__ import annotations

import shutil
import zlib
from pathlib import Path

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


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache folder into which a copy of `cpu_fallback`, gone since, has compiled what `test_cache.SEARCH` calls."""
    from tests.kernels.test_cache import copy_package, search

    place = copy_package(tmp_path_factory.mktemp("place"))
    cache = place.with_name(f"{place.name} cache")
    assert search(place, NUMBA_CACHE_DIR=cache) == (["[[3, -1]]", "compiled"], "")
    shutil.rmtree(place)
    return cache
