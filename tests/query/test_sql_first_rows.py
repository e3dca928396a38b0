"""LIMIT, DISTINCT ON and QUALIFY against DuckDB, as queries and as views over ticks with deletions."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

import gpu_wcoj as gw
from gpu_wcoj.errors import ColumnError, SqlSyntaxError
from tests.helpers.duckdb_judge import connect

duckdb = pytest.importorskip("duckdb", reason="the extra 'bench' is not installed")

SORTED = [
    "SELECT k, v FROM t ORDER BY v DESC, k, w",
    "SELECT k, v, w FROM t ORDER BY 2 NULLS FIRST, k DESC, w LIMIT 9 OFFSET 2",
    "SELECT k FROM t ORDER BY w DESC LIMIT 12",
    "SELECT * FROM t ORDER BY w LIMIT 5",
    "SELECT v, w FROM t ORDER BY ALL LIMIT 4",
    "SELECT k, count(*) AS n FROM t GROUP BY k ORDER BY n DESC, k LIMIT 2",
    "SELECT k FROM t GROUP BY k ORDER BY count(*) DESC, k LIMIT 2",
    "SELECT k, sum(v) s FROM t GROUP BY k HAVING count(*) > 3 ORDER BY sum(v) DESC NULLS LAST, k LIMIT 2",
    "SELECT DISTINCT k FROM t ORDER BY k DESC LIMIT 3",
    "SELECT DISTINCT (k) FROM t ORDER BY k LIMIT 3",
    "SELECT DISTINCT ON (k) k, v, w FROM t ORDER BY k, w DESC",
    "SELECT k, w FROM t QUALIFY row_number() OVER (PARTITION BY k ORDER BY w DESC) <= 2 ORDER BY w",
    "SELECT k, w FROM t WHERE v > 5 QUALIFY 1 = row_number() OVER (PARTITION BY k ORDER BY w) ORDER BY k LIMIT 3",
    "SELECT k, v FROM t UNION ALL SELECT k, v + 1 FROM t ORDER BY v NULLS FIRST, k LIMIT 9",
    "SELECT k, v FROM t UNION SELECT k, v + 1 FROM t ORDER BY 2, 1 LIMIT 9",
    "WITH x AS (SELECT * FROM t WHERE v > 3) SELECT k, w FROM x ORDER BY w",
    "SELECT k, upper(k) u FROM t ORDER BY u DESC, w FETCH FIRST 3 ROWS ONLY",
    "SELECT k, w FROM t ORDER BY length(k), abs(w - 0.5) LIMIT 4",
    "SELECT k FROM t ORDER BY w LIMIT 0",
]
UNSORTED = [
    "SELECT a.k, b.v FROM (SELECT k, w FROM t ORDER BY w LIMIT 4) a JOIN t b ON a.k = b.k",
    "WITH top AS (SELECT k FROM t GROUP BY k ORDER BY sum(v) DESC, k LIMIT 2) SELECT t.* FROM t JOIN top USING (k)",
]


def drawn(chance, n):
    """Rows (k, v, w); w is distinct, so that DuckDB has no choice either."""
    return [
        (chance.choice(["a", "bb", "c", "é", None]), chance.choice([None, *range(30)]), chance.random())
        for _ in range(n)
    ]


def table(rows):

    columns = list(zip(*rows, strict=True)) if rows else [(), (), ()]
    types = {"k": pa.string(), "v": pa.int64(), "w": pa.float64()}
    return pa.table({name: pa.array(column, kind) for (name, kind), column in zip(types.items(), columns, strict=True)})


def by_duckdb(query, rows):
    with connect() as connection:
        connection.register("t", table(rows))
        return [tuple(row) for row in connection.sql(query).fetchall()]


@pytest.mark.parametrize("query", SORTED)
def test_a_query_returns_rows_in_order(query):
    rows = drawn(random.Random(query), 120)
    answer = gw.query(query, t=table(rows))
    assert answer.rows() == by_duckdb(query, rows)
    assert answer.to_arrow().num_rows == len(answer)


@pytest.mark.parametrize("query", [query for query in SORTED if "LIMIT" in query or "ON (" in query] + UNSORTED)
def test_a_view_keeps_the_first_rows(query):
    chance = random.Random(query)
    rows = drawn(chance, 60)
    view = gw.view(query, t=table(rows))
    for _ in range(8):
        gone = chance.sample(range(len(rows)), chance.choice([0, 3, len(rows) // 2]))
        come = drawn(chance, chance.choice([0, 1, 20]))
        changes = [(rows[index], -1) for index in gone] + [(row, 1) for row in come]
        rows = [row for index, row in enumerate(rows) if index not in gone] + come
        view.apply(t=changes)
        found = sorted(map(repr, view.snapshot()))
        assert found == sorted(map(repr, by_duckdb(query, rows)))


def test_rows_that_agree_are_ordered_by_their_columns():
    rows = [("b", 1), ("a", 1), (None, 1), ("a", 1)]
    data = {"k": [k for k, _ in rows], "v": [v for _, v in rows]}
    assert gw.query("SELECT * FROM t ORDER BY v LIMIT 3", t=data).rows() == [("a", 1), ("a", 1), ("b", 1)]
    assert sorted(gw.query("SELECT * FROM t LIMIT 3", t=data)) == [("a", 1), ("a", 1), ("b", 1)]


def test_equal_rows_of_an_ordered_answer_stand_apart():
    answer = gw.query("SELECT k FROM t ORDER BY w", t={"k": ["a", "b", "a"], "w": [1, 2, 3]})
    assert answer.to_arrow().to_pydict() == {"k": ["a", "b", "a"]}


@pytest.mark.parametrize(
    ("query", "error", "says"),
    [
        ("SELECT k FROM t ORDER BY 3 LIMIT 1", SqlSyntaxError, "ORDER BY names column 3, but the query selects 1"),
        ("SELECT k FROM t ORDER BY x LIMIT 1", ColumnError, "no column 'x'"),
        ("SELECT k FROM t UNION SELECT k FROM t ORDER BY x LIMIT 1", Exception, "x"),
    ],
)
def test_what_is_wrong_is_said(query, error, says):
    with pytest.raises(error, match=says):
        gw.query(query, t={"k": ["a"], "w": [1]})


def test_first_rows_of_texts_that_are_all_null():
    nulls = pa.table({"k": pa.array([None, None], pa.string()), "v": [2, 1]})
    view = gw.view("SELECT k, v FROM t ORDER BY k, v LIMIT 1", t=nulls)
    assert view.snapshot().rows() == [(None, 1)]
    view.apply(t=[(("a", 3), 1), ((None, 1), -1)])
    assert view.snapshot().rows() == [("a", 3)]


def test_texts_that_are_all_null_are_in_order():
    nulls = pa.table({"k": pa.array([None, None], pa.string()), "v": [2, 1]})
    assert gw.query("SELECT k, v FROM t ORDER BY k, v", t=nulls).rows() == [(None, 1), (None, 2)]
