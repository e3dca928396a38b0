"""Names as each dialect folds and compares them, in every place where a text has them."""

from __future__ import annotations

import re

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import gpu_wcoj as gw
from gpu_wcoj.errors import ColumnError, GpuWcojError, SqlSyntaxError, UnknownRelationError
from gpu_wcoj.query.sql.compiler import DIALECTS, parse
from gpu_wcoj.zset.zset import ZSet
from tests.helpers.duckdb_judge import connect

LOWER = ("postgres", "materialize", "risingwave")
UPPER = ("snowflake",)
WITHOUT_CASE = ("duckdb", "spark", "databricks", "redshift", "bigquery", "trino", "presto", "athena")
BACKTICKS = ("spark", "databricks", "bigquery")

TABLES = {"t": {"src": [1, 2], "dst": [2, 3]}, "s": {"dst": [2, 3], "n": [20, 30]}}

RECURSION = """
    WITH RECURSIVE Walk AS (SELECT src AS x FROM t UNION SELECT t.dst FROM WALK AS w JOIN t ON w.X = t.src)
    SELECT x FROM walk
"""
PLACES = {
    # the text, with Q for the dialect's quotes; whether it is answered where quotes keep the case; and the answer
    "a column": ("SELECT SRC AS x FROM t", True, [1, 2]),
    "a quoted column": ("SELECT QsrcQ AS x FROM t", True, [1, 2]),
    "a quoted column in another case": ("SELECT QSrcQ AS x FROM t", False, [1, 2]),
    "an alias of a column": ("SELECT Foo AS x FROM (SELECT src AS foo FROM t) AS d", True, [1, 2]),
    "a quoted alias, unquoted": ("SELECT Foo AS x FROM (SELECT src AS QFooQ FROM t) AS d", False, [1, 2]),
    "a quoted alias, quoted": ("SELECT QFooQ AS x FROM (SELECT src AS QFooQ FROM t) AS d", True, [1, 2]),
    "an unquoted alias, quoted": ("SELECT QFoOQ AS x FROM (SELECT src AS FoO FROM t) AS d", False, [1, 2]),
    "an alias of a relation": ("SELECT E.src AS x FROM t AS e", True, [1, 2]),
    "a quoted name of a relation": ("SELECT QEdGeQ.src AS x FROM t AS EdGe", False, [1, 2]),
    "a WITH": ("WITH Part AS (SELECT src AS x FROM t) SELECT X AS x FROM PART", True, [1, 2]),
    "a quoted WITH": ("WITH QPartQ AS (SELECT src AS x FROM t) SELECT x FROM part", False, [1, 2]),
    "columns of a WITH": ("WITH p(Foo) AS (SELECT src FROM t) SELECT FOO AS x FROM p", True, [1, 2]),
    "quoted columns of a WITH": ("WITH p(QFooQ) AS (SELECT src FROM t) SELECT foo AS x FROM p", False, [1, 2]),
    "columns of an alias": ("SELECT d.FOO AS x FROM (SELECT src FROM t) AS d(Foo)", True, [1, 2]),
    "GROUP BY": ("SELECT SUM(dst) AS x FROM t GROUP BY SRC", True, [2, 3]),
    "GROUP BY an alias": ("SELECT src + 1 AS Foo, COUNT(*) AS x FROM t GROUP BY FOO", True, [2, 3]),
    "GROUP BY a quoted alias": ("SELECT src + 1 AS QFooQ, COUNT(*) AS x FROM t GROUP BY foo", False, [2, 3]),
    "HAVING": ("SELECT src AS x FROM t GROUP BY src HAVING SUM(DST) > 2", True, [2]),
    "ON": ("SELECT N AS x FROM t JOIN s ON T.DST = S.Dst", True, [20, 30]),
    "USING": ("SELECT n AS x FROM t JOIN s USING (DST)", True, [20, 30]),
    "USING, quoted": ("SELECT n AS x FROM t JOIN s USING (QDstQ)", False, [20, 30]),
    "NATURAL": ("SELECT n AS x FROM t NATURAL JOIN (SELECT dst AS Dst, n FROM s) AS u", True, [20, 30]),
    "a star": ("SELECT * FROM (SELECT src FROM t) AS d WHERE SRC > 1", True, [2]),
    "a star of a relation": ("SELECT D.* FROM (SELECT src FROM t) AS d", True, [1, 2]),
    "a set operation": ("SELECT FOO AS x FROM (SELECT src AS foo FROM t UNION ALL SELECT dst FROM t) AS d", True,
                        [1, 2, 2, 3]),
    "a subquery": ("SELECT src AS x FROM t WHERE EXISTS (SELECT 1 FROM s WHERE S.DST = T.SRC)", True, [2]),
    "a recursion": (RECURSION, True, [1, 2, 3]),
}  # fmt: skip


def tables_of(text: str) -> dict[str, dict[str, list[int]]]:
    """The tables that a text reads."""
    return {name: TABLES[name] for name in ("t", "s") if name == "t" or re.search(r"(FROM|JOIN) s\b", text)}


def spelled(text: str, dialect: str) -> str:
    return text.replace("Q", "`" if dialect in BACKTICKS else '"')


@pytest.mark.drawn("place", "dialect", each=True)
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("place", PLACES)
def test_every_place(place: str, dialect: str):
    text, is_answered, values = PLACES[place]
    text = spelled(text, dialect)
    tables = tables_of(text)
    if dialect == "bigquery":
        text = text.replace("UNION SELECT", "UNION DISTINCT SELECT")
    if is_answered or dialect in WITHOUT_CASE:
        rows = gw.query(text, tables, language="sql", dialect=dialect).rows(weights=True)
        assert sorted(row[-1] for row, weight in rows for _ in range(weight)) == sorted(
            values if "COUNT" not in text else [1, 1]
        )
    else:
        with pytest.raises((ColumnError, UnknownRelationError)):
            gw.query(text, tables, language="sql", dialect=dialect)


@pytest.mark.parametrize("place", PLACES)
def test_duckdb_answers_the_same(place: str):
    text = spelled(PLACES[place][0], "duckdb")
    with connect() as connection:
        for name, columns in TABLES.items():
            connection.register(name, pa.table(columns))
        found = connection.execute(text)
        names, rows = [column[0] for column in found.description], found.fetchall()
    answer = gw.query(text, tables_of(text), language="sql")
    assert sorted(answer) == sorted(rows)
    assert answer.columns == names


SHOWN = {  # Foo, and "Foo"
    **dict.fromkeys(WITHOUT_CASE, ("Foo", "Foo")), **dict.fromkeys(LOWER, ("foo", "Foo")),
    **dict.fromkeys(UPPER, ("FOO", "Foo")), "redshift": ("foo", "foo"),
}  # fmt: skip


@pytest.mark.parametrize("dialect", DIALECTS)
def test_names_that_are_shown(dialect: str):
    for text, want in zip(("Foo", spelled("QFooQ", dialect)), SHOWN[dialect], strict=True):
        assert gw.query(f"SELECT src AS {text} FROM t", t=TABLES["t"], dialect=dialect).columns == [want]
        both = f"SELECT src AS {text} FROM t UNION ALL SELECT dst AS bar FROM t"
        assert gw.query(both, t=TABLES["t"], dialect=dialect).columns == [want]
        view = gw.view(f"CREATE VIEW {text} AS SELECT src FROM t", t=TABLES["t"], dialect=dialect)
        assert view.program.outputs == (want,)
        assert len(view.snapshot("fOO")) == 2  # calls in Python may spell it as they like
    # what was given is shown as it was given
    assert gw.query("SELECT sRC FROM t", t=TABLES["t"], dialect=dialect).columns == ["src"]
    assert gw.query("SELECT * FROM t", t={"Src": [1]}, dialect=dialect).columns == ["Src"]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_columns_that_differ_in_case_only(dialect: str):
    table = {"A": [1], "a": [2]}
    quoted = [spelled(f"SELECT Q{name}Q AS x FROM t", dialect) for name in "Aa"]
    if dialect in WITHOUT_CASE:
        for text in ("SELECT a AS x FROM t", "SELECT A AS x FROM t", *quoted):
            with pytest.raises(SqlSyntaxError, match="stands for 'A' and 'a'"):
                gw.query(text, t=table, dialect=dialect)
        with pytest.raises(SqlSyntaxError, match="Rename one of them"):
            gw.query("SELECT t.a AS x FROM t", t=table, dialect=dialect)
        return
    assert [gw.query(text, t=table, dialect=dialect).rows(weights=True) for text in quoted] == [
        [((1,), 1)],
        [((2,), 1)],
    ]
    unquoted = 2 if dialect in LOWER else 1
    for name in "Aa":
        assert gw.query(f"SELECT {name} AS x FROM t", t=table, dialect=dialect).rows(weights=True) == [((unquoted,), 1)]
    with pytest.raises(SqlSyntaxError, match="stands for 'aB' and 'Ab', and is neither. Quote the one that is meant"):
        gw.query("SELECT ab AS x FROM t", t={"aB": [1], "Ab": [2]}, dialect=dialect)
    shown = gw.query(spelled("SELECT a AS QxQ, a AS QXQ FROM t", dialect), t={"a": [1]}, dialect=dialect)
    assert shown.columns == ["x", "X"]


def test_tables_that_differ_in_case_only():
    tables = {"T": {"x": [1]}, "t": {"x": [2]}}
    for dialect, values in {"postgres": (2, 2, 1), "snowflake": (1, 1, 1), "bigquery": (1, 2, 1)}.items():
        texts = ("SELECT x FROM T", "SELECT x FROM t", spelled("SELECT x FROM QTQ", dialect))
        for text, value in zip(texts, values, strict=True):
            assert _answer(text, tables, dialect) == value
    for dialect in ("duckdb", "spark", "trino"):
        with pytest.raises(SqlSyntaxError, match="the relation 't' stands for 'T' and 't'"):
            _answer("SELECT x FROM t", tables, dialect)
    with pytest.raises(UnknownRelationError):
        _answer("SELECT x FROM Edges", {"edges": {"x": [1]}}, "bigquery")


def _answer(text: str, tables: dict[str, dict[str, list[int]]], dialect: str) -> int:
    """The value in the one table that a text reads."""
    rules = parse(text, {name: ["x"] for name in tables}, dialect=dialect)
    (name,) = rules.inputs
    return tables[name]["x"][0]


@pytest.mark.parametrize("dialect", [*LOWER, *UPPER])
def test_a_quoted_name_in_another_case_is_refused_with_the_one_that_is_there(dialect: str):
    with pytest.raises(UnknownRelationError, match="unknown relation .T.|unknown relation .t2."):
        gw.query(
            spelled(f"SELECT x FROM Q{'t2' if dialect in UPPER else 'T'}Q", dialect), t={"x": [1]}, dialect=dialect
        )
    with pytest.raises(ColumnError, match="has no column 'mixed'") as caught:
        gw.query('SELECT "mixed" FROM t', t={"Mixed": [1]}, dialect=dialect)
    assert "Did you mean 'Mixed'?" in str(caught.value)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_columns_of_later_changes(dialect: str):
    view = gw.view("SELECT src, dst FROM t", t={"src": [1], "dst": [2]}, dialect=dialect)
    change = {"DST": [3], "Src": [4], "weight": [1]}
    for at, rows in enumerate((change, pa.table(change), pd.DataFrame(change), pl.DataFrame(change))):
        assert view.apply(T=rows).rows() == [((4, 3), 1)], at
    gone = ZSet.from_rows([((3, 4), -4)], names=["DST", "SRC"])
    assert view.apply(t=gone).rows() == [((4, 3), -4)]
    with pytest.raises(GpuWcojError):
        view.apply(t={"source": [1], "dst": [1]})
    assert view.snapshot().rows(weights=True) == [((1, 2), 1)]
