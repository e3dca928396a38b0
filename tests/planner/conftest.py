"""Fixtures of the planner's tests."""

from __future__ import annotations

import pytest

from gpu_wcoj.engine import state as replanning_module
from gpu_wcoj.planner import replan


@pytest.fixture
def eager(monkeypatch):
    """Plans are looked at after little work, and arrangements cost little."""
    monkeypatch.setattr(replan, "FEWEST", 500)
    monkeypatch.setattr(replan, "PER_ROW", 0.05)
    monkeypatch.setattr(replan, "PER_ORDER", 0.0)
    monkeypatch.setattr(replan, "SMALL_TICKS", 1)
    monkeypatch.setattr(replanning_module, "SORTING", 0.05)
