"""Limits of ticks and queries: what exceeds them is refused, and the state is as before."""

from __future__ import annotations

import math
import random

import duckdb
import numpy as np
import pytest

import gpu_wcoj as gw
from gpu_wcoj import budget
from gpu_wcoj.budget import Budget
from gpu_wcoj.errors import IterationLimitError, MemoryBudgetError, RowBudgetError, TimeBudgetError, UsageError

HOPS = "hop(a, b, c) :- edge(a, b), edge(b, c)."
ENDS = "ends(a, c) :- edge(a, b), edge(b, c)."
BOTH = "both(a, b) :- edge(a, b), edge(b, a)."
SQL = "select e.src, f.dst from edge e, edge f where e.dst = f.src"


def edges(seed, n, values):
    chance = random.Random(seed)
    return sorted({(chance.randrange(values), chance.randrange(values)) for _ in range(n)})


def table(rows):
    return {"src": [a for a, _ in rows], "dst": [b for _, b in rows]}


def expected(text, rows):
    """The number of rows of an answer, by DuckDB."""
    with duckdb.connect() as connection:
        connection.execute("create table edge (src bigint, dst bigint)")
        if rows:
            connection.executemany("insert into edge values (?, ?)", rows)
        distinct = "distinct" if text == ENDS else ""
        return connection.execute(
            f"select count(*) from (select {distinct} e.src, f.dst from edge e, edge f where e.dst = f.src)"
        ).fetchone()[0]


@pytest.mark.parametrize("text", [HOPS, ENDS, SQL])
@pytest.mark.parametrize("seed", range(2))
def test_a_query_is_refused_from_one_row_above_its_limit_on(text, seed):
    rows = edges(seed, 60, 12)
    n = expected(text, rows)
    print(f"seed {seed}, {n} rows")
    assert len(gw.query(text, edge=table(rows), limit=n)) == n
    with pytest.raises(RowBudgetError, match=f"more rows than limit={n - 1} allows"):
        gw.query(text, edge=table(rows), limit=n - 1)


def test_repeated_rows_of_an_answer_count_as_often_as_they_occur():
    orders = {"cust": ["a", "a", "b"]}
    assert len(gw.query("select cust from orders", orders=orders, limit=3)) == 3
    with pytest.raises(RowBudgetError):
        gw.query("select cust from orders", orders=orders, limit=2)


@pytest.mark.parametrize("weight", [2**62, -(2**63)])
def test_limits_of_rows_hold_for_weights_whose_sum_leaves_int64(weight):
    program = gw.Program("h(x) :- v(x).", bag=True, limit=100, inputs=["v"])
    with pytest.raises(RowBudgetError):
        program.step({"v": [((x,), weight) for x in range(4)]})
    assert program.count("v") == 0


@pytest.mark.parametrize("text", [HOPS, ENDS, SQL])
def test_a_view_refuses_a_tick_of_too_many_rows_and_goes_on(text):
    chance = random.Random(3)
    limited = gw.view(text, edge=table([(0, 1)]), limit=9)
    free = gw.view(text, edge=table([(0, 1)]))
    there, refused = {(0, 1)}, 0
    for tick in range(25):
        drawn = {(chance.randrange(6), chance.randrange(6)) for _ in range(chance.choice([1, 2, 6]))}
        change = [(row, -1 if row in there else 1) for row in sorted(drawn)]
        rows = gw.ZSet.from_rows(change, ("src", "dst"))
        mark = free.program.mark()
        expected_change = free.apply(edge=rows)
        if sum(abs(weight) for _, weight in expected_change.rows()) <= 9:
            assert limited.apply(edge=rows).rows() == expected_change.rows(), tick
            there ^= drawn
            continue
        refused += 1
        with pytest.raises(RowBudgetError, match="Nothing was changed"):
            limited.apply(edge=rows)
        free.program.return_to(mark)
        assert limited.count("edge") == len(there)
    assert 0 < refused < 25


def test_work_that_takes_too_long_is_undone():
    rows = [(a, b) for a in range(80) for b in range(80)]  # 80 ** 6 walks
    view = gw.view(
        "h(a, d, f) :- edge(a, b), edge(b, c), edge(c, d), edge(d, e), edge(e, f).", edge=[(0, 1)], timeout=0.3
    )
    with pytest.raises(TimeBudgetError, match=r"timeout=0.3 seconds"):
        view.apply(edge=rows)
    assert view.program.last_tick.tick == 0
    assert view.snapshot("edge").rows() == [(0, 1)]
    assert view.apply(edge=[(1, 2), (2, 3), (3, 4), (4, 5)]).rows() == [((0, 3, 5), 1)]
    with pytest.raises(TimeBudgetError) as caught:
        gw.query("n(x + 1) :- n(x), x < 50000. n(x) :- s(x).", s=[(0,)], timeout=1e-6)
    assert isinstance(caught.value, TimeoutError)
    assert len(gw.query(HOPS, edge=rows[:10], timeout=60)) >= 0


def test_a_state_above_its_maximum_is_undone():
    rows = edges(5, 20_000, 5000)
    needed = gw.view(BOTH, edge=rows).program.nbytes
    view = gw.view(BOTH, edge=rows[:100], memory=needed // 2)
    with pytest.raises(MemoryBudgetError, match=r"indexing 19,\d+ rows needs .* more than memory="):
        view.apply(edge=rows)
    assert view.count("edge") == 100
    assert gw.view(BOTH, edge=rows, memory=2 * needed).count("edge") == len(rows)


def test_rows_that_cannot_fit_are_refused_before_they_are_indexed():
    rows = edges(8, 20_000, 5000)
    with pytest.raises(MemoryBudgetError, match=r"indexing 19,\d+ rows needs .* more than memory=1.0 KB"):
        gw.query(BOTH, edge=rows, memory=1000)


def test_small_ticks_do_not_grow_beyond_the_maximum():
    rows = edges(6, 6000, 2000)
    view = gw.view(ENDS, edge=rows[:10], memory=60_000)
    n_applied = 10
    while n_applied < len(rows):
        try:
            view.apply(edge=rows[n_applied : n_applied + 50])
        except MemoryBudgetError:
            break
        n_applied += 50
    assert view.count("edge") == n_applied < len(rows)
    assert view.program.nbytes <= 60_000


def test_rows_of_an_answer_are_refused_before_they_fill_the_memory():
    rows = [(a, b) for a in range(60) for b in range(60)]
    with pytest.raises(MemoryBudgetError, match=r"deriving 'h': .* needs .* more than memory=3.0 MB allows"):
        gw.query("h(a, b, c, d) :- edge(a, b), edge(b, c), edge(c, d).", edge=rows, memory="3MB")


def test_iterations_of_a_query():
    text = "n(x + 1) :- n(x), x < 50. n(x) :- s(x)."
    assert len(gw.query(text, s=[(0,)], iterations=60)) == 51
    with pytest.raises(IterationLimitError, match="after 20 iterations"):
        gw.query(text, s=[(0,)], iterations=20)


def test_a_snapshot_has_the_limits_too():
    view = gw.view(HOPS, edge=edges(7, 60, 12), limit=3)
    with pytest.raises(RowBudgetError, match="'hop' has more rows than limit=3"):
        view.snapshot()
    assert view.count() > 3


def test_nothing_is_limited_outside_of_the_work():
    budget = Budget(seconds=1e-9, nbytes=1, rows=1)
    budget.check_time()
    budget.check_rows("h", 5)
    budget.check_state(5)
    with budget.running(), pytest.raises(TimeBudgetError):
        budget.check_time()
    budget.check_time()


@pytest.mark.parametrize(
    "option", [{"limit": 0}, {"limit": True}, {"timeout": 0}, {"timeout": "1s"}, {"memory": "lots"}, {"memory": 0}]
)
def test_limits_that_are_not_allowed(option):
    with pytest.raises(UsageError, match="is not allowed|is not an amount"):
        gw.query(HOPS, {"edge": [(1, 2)]}, **option)


def test_small_ticks_go_on_in_a_process_that_holds_much_memory(monkeypatch):
    monkeypatch.setattr(budget, "default_limit", lambda: 1)
    monkeypatch.setattr(budget._process, "measured_at", -math.inf)
    program = gw.Program("h(a, c) :- e(a, b), e(b, c).")
    assert program.step({"e": [(1, 2), (2, 3)]})["h"].to_dict() == {(1, 3): 1}
    rows = np.stack([np.arange(8192), np.zeros(8192, np.int64)], axis=1)
    with pytest.raises(MemoryBudgetError, match=r"more than the default memory="):
        gw.query("h(a, b) :- e(a, x), e(b, x).", e=rows)
    monkeypatch.setattr(budget._process, "measured_at", -math.inf)  # later
    assert program.step({"e": [(3, 4)]})["h"].to_dict() == {(2, 4): 1}
