"""Fixtures of the planner's tests."""

from __future__ import annotations

import pytest

from gpu_wcoj import replanning as replanning_module
from gpu_wcoj.planner import feedback


@pytest.fixture
def eager(monkeypatch):
    """Plans are looked at after little work, and arrangements cost little."""
    monkeypatch.setattr(feedback, "FEWEST", 500)
    monkeypatch.setattr(feedback, "PER_ROW", 0.05)
    monkeypatch.setattr(feedback, "PER_ORDER", 0.0)
    monkeypatch.setattr(feedback, "SMALL_TICKS", 1)
    monkeypatch.setattr(replanning_module, "SORTING", 0.05)
