"""Times of the same work that are far apart are taken again, in further processes."""

from __future__ import annotations

import pytest

pytest.importorskip("duckdb", reason="the extra 'bench' is not installed")

from bench.suite import again, chance, command
from bench.suite.catalogue import Spec, made, tiny
from bench.suite.harness import Limits, measured, record_of
from bench.suite.judge import Expected
from bench.suite.record import Document

HONEST = "tests.helpers.suite_contenders:Honest"
LIMITS = Limits(limit=20.0, budget=5.0, rounds=2)
TRIANGLE = Spec("triangle", "rmat", {"scale": 7, "edges": 500}, 20, "mixed", 2)


@pytest.mark.long
@pytest.mark.parametrize(("apart", "rounds"), [(0.0, (again.AGAIN + 1) * LIMITS.rounds), (1e9, LIMITS.rounds)])
def test_times_of_the_same_work_that_are_far_apart_are_taken_again(apart, rounds, tmp_path, monkeypatch):
    monkeypatch.setattr(again, "APART", apart)
    case = made(TRIANGLE)
    found, _ = measured(case, made(tiny(TRIANGLE)), ["wcoj", "auto", HONEST], LIMITS, Expected, lambda _: None)
    assert [len(run.rounds) for run in found] == [rounds, rounds, LIMITS.rounds]
    size = chance.Size(rows=400, most=20_000, change_rows=40, n_ticks=2, rounds=1, seconds=0.0)
    random = chance.comparison(3, size, 1, tmp_path)
    assert random.work_ratio == 1.0
    assert len(random.cpu_seconds["auto"]) == (again.AGAIN + 1 if rounds > LIMITS.rounds else 1)


@pytest.mark.long
@pytest.mark.parametrize("seconds", [0.0, 1e-9, 1e9])
def test_times_are_taken_again_as_long_as_that_is_allowed(seconds, monkeypatch, capsys):
    monkeypatch.setattr(again, "APART", 0.0)
    allowance, case = again.Allowance(seconds), made(TRIANGLE)
    found, _ = measured(case, made(tiny(TRIANGLE)), ["wcoj", "auto"], LIMITS, Expected, lambda _: None, allowance)
    times = 0 if seconds == 0 else 1 if seconds < 1 else again.AGAIN
    assert [len(run.rounds) for run in found] == [(1 + times) * LIMITS.rounds] * 2
    assert [run.about["notes"].get("taken again", "").startswith(f"{times} of ") for run in found] == [seconds < 1] * 2
    assert allowance.is_spent == (seconds < 1)
    command.conclude(Document({}, "quick", 1, tuple(record_of(run, case, 1, None, None) for run in found)))
    assert ("unsettled times of 1 cases were not taken again" in capsys.readouterr().out) == (seconds < 1)
