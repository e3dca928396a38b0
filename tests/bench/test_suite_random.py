"""Queries that chance writes: the strategies agree, with each other and with another engine."""

from __future__ import annotations

import pytest

pytest.importorskip("duckdb", reason="the extra 'bench' is not installed")

from bench.suite import chance, judge
from bench.suite.registry import STRATEGIES

SMALL = chance.Size(rows=400, most=20_000, change_rows=40, n_ticks=2, rounds=1, seconds=0.0)


@pytest.mark.drawn("seed")
@pytest.mark.parametrize("seed", [2, 5])
def test_strategies_agree_on_queries_that_chance_writes(seed, tmp_path):
    found = chance.comparison(seed, SMALL, 1, tmp_path)
    assert found.check.is_right, found.check.message
    assert found.check.by == ("duckdb", *STRATEGIES)
    assert set(found.cpu_seconds) == set(found.work) == set(STRATEGIES)
    assert found.ratio is not None


def test_another_engine_counts_what_chance_writes(tmp_path, monkeypatch):
    right = judge.number_by_duckdb
    counted = []

    def one_more(sql, *rest):
        counted.append(right(sql, *rest))
        return counted[-1] + (len(counted) == 2)

    monkeypatch.setattr(chance, "number_by_duckdb", one_more)
    found = chance.comparison(2, SMALL, 1, tmp_path)
    before, after = counted
    told = f"DuckDB counts {before} rows before all ticks and {after + 1} after them, the strategies {before, after}"
    assert (found.check.is_right, found.check.message) == (False, told)
    assert not any(found.cpu_seconds.values())


@pytest.mark.long
def test_queries_that_take_too_long_are_stopped_one_by_one():
    found = list(chance.comparisons([1, 2], chance.Size(), 1, 0.1, 0.0, lambda seed: None))
    assert [one.case.seed for one in found] == [1, 2]
    assert [one.stopped for one in found] == [dict.fromkeys(STRATEGIES, "stopped after 0.1 s")] * 2
    assert not any(one.ratio for one in found)
