"""Replanning happens once enough work is wasted, and only then."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpu_wcoj import Program
from gpu_wcoj.circuit import circuit as adopting
from gpu_wcoj.engine import state as replanning_module
from gpu_wcoj.errors import UsageError
from gpu_wcoj.join.settings import tune
from gpu_wcoj.planner import replan
from tests.helpers.replanned_programs import RULE, proposed, run_both, stream, was_replanned


def test_a_stream_whose_skew_changes():
    """With nothing set otherwise: once as much is wasted as planning and arranging take, the waste ends."""
    with tune(off=frozenset({"recounts"})):
        program, fixed = Program(RULE, threads=1), Program(RULE, replan=None, threads=1)
    work, wasted = run_both(program, fixed, stream(10, 2, changes=2000))
    assert was_replanned(program)
    assert not was_replanned(fixed)
    assert 20 * work[-1] < wasted[-1]
    assert work[:4] == wasted[:4]
    assert program.explain().count("plan:") == 1


def test_ticks_that_list_all_rows_are_noticed_too():
    """Delta paths that are given up for all rows waste less, until the plan is made again."""
    options = {"backend": "cpu", "threads": 1}  # a device gives up no paths
    program, fixed = Program(RULE, **options), Program(RULE, replan=None, **options)
    work, wasted = run_both(program, fixed, stream(40, 2, changes=2000))
    assert was_replanned(program)
    assert max(wasted) < 400_000  # 760,000 along delta paths
    assert 2 * work[-1] < min(wasted[-4:])


@pytest.mark.parametrize("max_rows", [-1, 256], ids=["over batches", "in memtables"])
def test_small_ticks_are_noticed_too(max_rows, eager, monkeypatch):
    monkeypatch.setattr(replan, "SMALL_TICKS", 16)
    with tune(max_tick_rows=max_rows, max_memtable_rows=16):
        program, fixed = Program(RULE, threads=1), Program(RULE, replan=None, threads=1)
    work, wasted = run_both(program, fixed, stream(60, 2, n=2000, changes=4))
    assert was_replanned(program)
    assert 2 * sum(work[-8:]) < sum(wasted[-8:])


def test_a_stream_as_expected_is_left_alone(monkeypatch):
    looks = []
    made = replanning_module.replan

    def count(*given: Any) -> Any:
        looks.append(1)
        return made(*given)

    monkeypatch.setattr(replan, "FEWEST", 500)
    monkeypatch.setattr(replan, "PER_ORDER", 0.0)
    monkeypatch.setattr(replanning_module, "replan", count)
    program = Program("t(a, b, c) :- e(a, b), e(b, c), e(a, c).")
    numbers = np.random.default_rng(0)
    program.step({"e": np.unique(numbers.integers(0, 300, (5000, 2)), axis=0)})
    for _ in range(40):
        program.step({"e": numbers.integers(0, 300, (50, 2))})
    assert sum(looks) == 0
    assert not was_replanned(program)


def test_skew_that_swings_makes_no_plan_swing(monkeypatch):
    """Arranging rows for plans takes no more than what the ticks did, however often the skew turns."""
    built = []
    made = adopting.adopt

    def count(circuit: Any, other: Any) -> None:
        built.append(adopting.rows_to_build(circuit, other))
        made(circuit, other)

    monkeypatch.setattr("gpu_wcoj.engine.replicas.adopt", count)
    monkeypatch.setattr(replan, "FEWEST", 500)
    monkeypatch.setattr(replan, "PER_ORDER", 0.0)
    program = Program(RULE, threads=1)
    work = 0
    for tick in stream(1, 99, n=4000):
        program.step(tick)
    numbers = np.random.default_rng(1)
    for number in range(60):
        many, few = ("u", "v") if number // 3 % 2 else ("v", "u")
        rows = {"s": numbers.integers(0, [40, 10**6], (60, 2))}
        if number % 3 == 0:
            rows |= {many: [((i,), 1) for i in range(100)], few: [((i,), -1) for i in range(1, 100)]}
        program.step(rows)
        work += proposed(program)
    assert replan.SORTING * sum(built) <= work


@pytest.mark.parametrize("value", [1, 0, -2.0, float("nan"), float("inf"), True, "4", [4]])
def test_factors_that_make_no_sense(value):
    with pytest.raises(UsageError, match="replan="):
        Program(RULE, replan=value)
