"""A circuit without a node, for the tests of this folder."""

from __future__ import annotations

import pytest

from gpu_wcoj import streams


@pytest.fixture
def circuit():
    return streams.Circuit(backend="cpu")
