"""Results are tables: rows repeat as in DuckDB, through every way in and out, before and after deletions."""

from __future__ import annotations

import datetime as dt
import pickle
import random
from collections import Counter
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import gpu_wcoj as gw
from gpu_wcoj import result as result_module
from gpu_wcoj.errors import (
    ColumnError,
    MemoryBudgetError,
    UnknownNameError,
    UnsupportedTypeError,
    UsageError,
    WeightError,
)
from tests.helpers.duckdb_judge import connect

SCHEMA = pa.schema({"k": pa.string(), "n": pa.int64(), "x": pa.float64(), "d": pa.date32()})
VALUES: dict[str, list[Any]] = {
    "k": ["a", "b", "é", "", None], "n": [-1, 0, 7, None], "x": [0.5, -2.0, None],
    "d": [dt.date(2026, 1, 2), dt.date(1969, 12, 31), None],
}  # fmt: skip
QUERIES = (
    "SELECT * FROM t", "SELECT k, x FROM t", "SELECT DISTINCT k, d FROM t", "SELECT n FROM t WHERE n >= 0",
    "SELECT k, count(*) AS c, sum(n) AS s FROM t GROUP BY k", "SELECT t.k, u.n FROM t JOIN t u ON t.n = u.n",
    "SELECT k FROM t UNION ALL SELECT k FROM t",
)  # fmt: skip
Rows = list[tuple[Any, ...]]


def drawn(chance: random.Random, size: int) -> Rows:
    return [tuple(chance.choice(values) for values in VALUES.values()) for _ in range(size)]


def table(rows: Rows) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else ([] for _ in SCHEMA)
    return pa.table([pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], SCHEMA)


def by_duckdb(query: str, rows: pa.Table) -> Rows:
    with connect() as connection:
        connection.register("t", rows)
        return connection.sql(query).fetchall()


def check(found: gw.Result, expected: Rows) -> None:
    """Compare every export of a result with the rows of a table."""
    wanted = Counter(expected)
    names = found.columns
    assert Counter(found) == Counter(found.rows()) == wanted
    assert len(found) == len(expected) == found.shape[0]
    assert bool(found) == bool(expected)
    assert found.shape[1] == len(names)
    assert Counter(tuple(row.values()) for row in found.to_dicts()) == wanted
    arrow = found.to_arrow()
    assert arrow.column_names == names
    for exported in (arrow, pa.table(found), found.to_polars().to_arrow(), pl.DataFrame(found).to_arrow()):
        assert Counter(zip(*(column.to_pylist() for column in exported.columns), strict=True)) == wanted
    frame = found.to_pandas().astype(object)
    frame = frame.where(frame.notna(), None)
    assert Counter(frame.itertuples(index=False, name=None)) == wanted
    arrays = found.to_numpy()
    assert list(arrays) == names
    assert {len(array) for array in arrays.values()} == {len(expected)}
    assert Counter(zip(*(array.tolist() for array in arrays.values()), strict=True)) == wanted
    with connect() as connection:
        connection.register("found", found)
        assert Counter(connection.sql("SELECT * FROM found").fetchall()) == wanted
    # as a Z-set
    assert dict(found.rows(weights=True)) == wanted == found.to_zset().to_dict()
    assert {tuple(row.values())[:-1]: row["weight"] for row in found.to_dicts(weights=True)} == wanted
    counted = found.to_arrow(weights=True)
    assert counted.column_names == [*names, "weight"]
    assert counted.schema.remove(len(names)) == arrow.schema
    assert counted["weight"].to_pylist() == found.to_numpy(weights=True)["weight"].tolist()
    assert len(counted) == len(wanted) == len(found.to_polars(weights=True)) == len(found.to_pandas(weights=True))
    # parts
    assert [len(found.head(n)) for n in (0, 1, 3, 10**6)] == [min(n, len(expected)) for n in (0, 1, 3, 10**6)]
    assert found.head(3).rows() == found.rows()[:3] == found.limit(3).rows()
    assert Counter(found.sort_by(*names, descending=True)) == wanted


@pytest.mark.parametrize("query", QUERIES)
def test_views_equal_duckdb_after_every_tick(query: str):
    chance = random.Random(query)
    rows = drawn(chance, 25)
    view = gw.view(query, t=table(rows))
    schema = None
    for tick in range(4):
        if tick:
            gone = rows if tick == 3 else chance.sample(rows, len(rows) // 2)
            come = [] if tick == 3 else drawn(chance, 10)
            kept = Counter(rows)
            kept.subtract(gone)
            rows = [*kept.elements(), *come]
            change = view.apply(t=[*((row, -1) for row in gone), *((row, 1) for row in come)])
            assert change.to_arrow().column_names[-1] == "weight"
        found = view.snapshot()
        check(found, by_duckdb(query, table(rows)))
        schema = schema or found.to_arrow().schema
        assert found.to_arrow().schema == schema  # it does not depend on the rows
        assert view.count() == len(found)


WAYS_IN = {
    "rows": lambda rows: [tuple(row.values()) for row in rows.to_pylist()],
    "dictionary": pa.Table.to_pydict,
    "NumPy": lambda rows: np.array(
        [tuple(row.values()) for row in rows.to_pylist()], [("k", "U3"), ("n", "i8"), ("x", "f8"), ("d", "M8[D]")]
    ),
    "pandas": lambda rows: rows.to_pandas(types_mapper=pd.ArrowDtype),
    "Polars": pl.from_arrow,
    "Arrow": lambda rows: rows,
    "DuckDB": lambda rows: duckdb.from_arrow(rows),
    "a result": lambda rows: gw.query("select * from t", t=rows),
}


@pytest.mark.parametrize("way", WAYS_IN)
def test_queries_equal_duckdb_through_every_way_in(way: str):
    chance = random.Random(way)
    for size in (0, 1, 40):
        rows = drawn(chance, size)
        if way == "NumPy":
            rows = [row for row in rows if None not in row]
        if way in ("rows", "dictionary"):  # whose values tell their types
            rows.append(("a", 1, 0.5, dt.date(2026, 1, 2)))
        names = ["c0", "c1", "c2", "c3"] if way == "rows" else SCHEMA.names
        data = table(rows)
        found = gw.query(f"SELECT {', '.join(names)} FROM t", t=WAYS_IN[way](data))
        check(found, by_duckdb("SELECT * FROM t", data))


@pytest.mark.parametrize("names", [["n"], ["k", "x"], ["d", "n", "k"], ["x", "d"]])
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("nulls_first", [False, True])
def test_rows_are_sorted_as_in_duckdb(names: list[str], descending: bool, nulls_first: bool):
    rows = drawn(random.Random(f"{names} {descending}"), 40)
    query = f"SELECT {', '.join(names)} FROM t"
    direction = f" {'DESC' if descending else 'ASC'} NULLS {'FIRST' if nulls_first else 'LAST'}"
    expected = by_duckdb(f"{query} ORDER BY {', '.join(name + direction for name in names)}", table(rows))
    found = gw.query(query, t=table(rows)).sort_by(*names, descending=descending, nulls_first=nulls_first)
    assert found.rows() == expected
    assert found.head(7).rows() == expected[:7]
    assert found.sort_by().rows() == expected
    each = [descending] * len(names)
    assert found.sort_by(*names, descending=each, nulls_first=nulls_first).rows() == expected


def test_an_order_is_kept_by_exports_and_parts():
    found = gw.query("SELECT k FROM t ORDER BY n DESC", t={"k": ["a", "b", "a"], "n": [1, 2, 3]})
    assert found.rows() == [("a",), ("b",), ("a",)]
    assert found.to_polars()["k"].to_list() == found.to_numpy()["k"].tolist() == ["a", "b", "a"]
    assert found.head(2).rows() == [("a",), ("b",)]
    assert found.rows(weights=True) == [(("a",), 2), (("b",), 1)]  # a Z-set has no order
    assert found.to_zset() == gw.ZSet.from_rows([("a",), ("b",), ("a",)])


def test_matches_are_tables():
    edges = {"src": [1, 1, 2], "dst": [2, 2, 1], "n": [5, 5, None]}
    found = gw.find("(a)-[e]->(b)", edges=edges, columns=["a.id", "e.n"])
    check(found, [(1, 5), (1, 5), (2, None)])
    assert found.sort_by("a.id", descending=True).rows() == [(2, None), (1, 5), (1, 5)]
    whole = gw.find("(a)-[e]->(b)", edges=edges)
    assert whole.rows(weights=True)[0] == (({"id": 1}, {"src": 1, "dst": 2, "n": 5}, {"id": 2}), 2)
    assert len(whole.head(1).to_pandas()) == 1
    with pytest.raises(UnsupportedTypeError):
        whole.sort_by("a")
    check(gw.find("(a)-[]->(b)", edges=[(1, 2), (1, 2)], columns=["a.id", "b.id"]), [(1, 2), (1, 2)])


def test_a_row_of_negative_weight_is_in_no_table():
    found = gw.query("SELECT a FROM t", t=gw.ZSet.from_rows([((1,), -2), ((2,), 1)], ["a"]))
    for read in (len, list, gw.Result.rows, gw.Result.to_arrow, gw.Result.to_numpy, gw.Result.to_dicts, pa.table):
        with pytest.raises(
            WeightError, match=r"positive weight only, and the row \(1,\) has the weight -2.*\n.*weights=True"
        ):
            read(found)
    with pytest.raises(WeightError):
        _ = found.shape
    assert found.rows(weights=True) == [((1,), -2), ((2,), 1)]
    assert found.to_polars(weights=True).rows() == [(1, -2), (2, 1)]
    assert repr(found).splitlines()[0] == "2 rows, 1 column, some of negative weight"
    assert "weight" in repr(found)


def test_more_rows_than_memory_holds_are_refused_before(monkeypatch: pytest.MonkeyPatch):
    found = gw.Result(gw.ZSet.from_rows([(("x", 1), 10**18), (("y", 2), 3)], ["k", "n"]))
    assert len(found) == found.shape[0] == 10**18 + 3
    for read in (gw.Result.rows, gw.Result.to_arrow, gw.Result.to_numpy, gw.Result.to_dicts, gw.Result.to_pandas):
        with pytest.raises(MemoryBudgetError, match="1,000,000,000,000,000,003 rows.*\n.*2 distinct rows with weights"):
            read(found)
    assert found.head(2).rows() == [("x", 1), ("x", 1)]
    assert found.sort_by("n", descending=True).head(4).rows() == [("y", 2)] * 3 + [("x", 1)]
    assert repr(found).splitlines()[0] == "1,000,000,000,000,000,003 rows, 2 columns"
    assert next(iter(found)) == ("x", 1)
    huge = gw.Result(gw.ZSet.from_rows([((1,), 2**62), ((2,), 2**62), ((3,), 2**62)]))
    assert huge.shape == (3 * 2**62, 1)
    assert huge.head(2**62 + 1).rows(weights=True) == [((1,), 2**62), ((2,), 1)]
    few = gw.query("SELECT a FROM t", t={"a": [1, 1, 2]})
    monkeypatch.setattr(result_module, "available_memory", lambda: 20)
    with pytest.raises(MemoryBudgetError, match="the result has 3 rows, which need 24 B of memory or more, and 20 B"):
        few.rows()


def test_names_of_columns_and_weights():
    found = gw.query("SELECT weight FROM t", t={"weight": [5, 5]})
    assert found.to_arrow().to_pydict() == {"weight": [5, 5]}
    assert found.to_arrow(weights=True).to_pydict() == {"weight": [5], "_weight": [2]}
    assert found.to_dicts(weights=True) == [{"weight": 5, "_weight": 2}]


def test_what_is_not_there():
    found = gw.query("SELECT a FROM t", t={"a": [1]})
    for name, advice in (
        ("df", "to_pandas"),
        ("collect", "rows"),
        ("filter", "in the query"),
        ("colunms", "'columns'"),
    ):
        with pytest.raises(UnknownNameError, match=f"a result has no '{name}'.\n.*{advice}"):
            getattr(found, name)
    assert not hasattr(found, "fetchall")
    with pytest.raises(ColumnError, match="the result has no column 'b'"):
        found.sort_by("b")
    with pytest.raises(UsageError, match="n=-1 is not allowed: expected an integer from 0 on"):
        found.head(-1)
    with pytest.raises(UsageError, match="descending has the wrong length: got 2, expected 1"):
        found.sort_by("a", descending=[True, False])
    with pytest.raises(UsageError, match="needs a session"):
        found.to_spark()


def test_copies_and_looks():
    found = gw.query("SELECT a, b FROM t", t={"a": [1] * 12, "b": [1.0] * 12})
    assert pickle.loads(pickle.dumps(found)).rows() == found.rows()
    lines = repr(found).splitlines()
    assert lines[0] == "12 rows, 2 columns"
    assert lines[3] == "│ int │ float │"
    assert lines[5] == "│   1 │   1.0 │"
    assert repr(found).count("…") == 2
    assert "<p>12 rows, 2 columns</p>" in found._repr_html_()
