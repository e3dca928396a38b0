"""Ranks for every range, as if all levels were large."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

EVERYWHERE = {"RANKED_FROM": 1, "SHORTEST": 1, "BLOCKS_A_VALUE": 64.0, "ROOM": 64}
"""Thresholds of `cpu_fallback.ranges` that few ranges fall short of: those whose values lie far apart."""


@contextmanager
def everywhere() -> Iterator[None]:
    """Every range that spans little enough gets ranks meanwhile, however short."""
    ranked = pytest.importorskip("cpu_fallback.ranges", reason="numba is not installed")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in EVERYWHERE.items():
            patch.setattr(ranked, name, value)
        yield
