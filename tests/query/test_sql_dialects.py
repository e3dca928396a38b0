"""Differences of the dialects: answers of the same text in several of them."""

from __future__ import annotations

import datetime as dt
import math
import re
import unicodedata
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import gpu_wcoj as gw
from gpu_wcoj.errors import CalculationError, TypeMismatchError, UnsupportedError
from gpu_wcoj.functions import downcase, upcase
from gpu_wcoj.query.sql.coercion import BY_CHARACTER, FUNCTION_NAMES, INFINITE
from gpu_wcoj.query.sql.compiler import DIALECTS
from tests.helpers.long_tests import IS_LONG

DOUBLES = {"a": [1.5, 3.0, None], "b": [0.0, 2.0, 0.0]}
RAISING = [dialect for dialect in DIALECTS if dialect not in INFINITE]


@pytest.mark.parametrize("dialect", RAISING)
@pytest.mark.parametrize(("op", "shown"), [("/", "quotient"), ("%", "rest")])
def test_division_by_zero_of_doubles_is_an_error(dialect: str, op: str, shown: str):
    with pytest.raises(CalculationError, match=rf"{shown}\(1.5, 0.0\) has no value: it divides by zero"):
        gw.query(f"SELECT a {op} b AS q FROM r", r=DOUBLES, dialect=dialect)
    guarded = f"""
        SELECT CASE WHEN b <> 0 THEN a {op} b ELSE -1 END AS q FROM r WHERE b = 0 OR a {op} b >= 1
        UNION ALL SELECT a {op} b FROM r WHERE b > 0
        UNION ALL SELECT a {op} NULLIF(b, 0) FROM r
        UNION ALL SELECT a {op} 2e0 FROM r
    """
    found = gw.query(guarded, r=DOUBLES, dialect=dialect)
    values = (1.5, 1.5, 1.5, 0.75, 1.5) if op == "/" else (1.0, 1.0, 1.0, 1.5, 1.0)
    wanted = [-1.0, -1.0, *values, None, None, None]
    assert sorted(map(repr, (row[0] for row in found))) == sorted(map(repr, wanted))


@pytest.mark.parametrize("dialect", INFINITE)
def test_division_by_zero_of_doubles_is_infinite(dialect: str):
    ((row, _),) = gw.query("SELECT a / b AS q, a % b AS r FROM r WHERE a = 1.5e0", r=DOUBLES, dialect=dialect).rows(
        weights=True
    )
    assert row[0] == math.inf
    assert math.isnan(row[1])


def test_division_by_zero_of_integers_as_doubles():
    table = {"a": [1, 0]}
    for dialect in ("spark", "databricks", "bigquery"):
        with pytest.raises(CalculationError, match=r"quotient\(0.0, 0.0\) has no value"):
            gw.query("SELECT a / 0 AS x FROM r", r=table, dialect=dialect)
        assert gw.query("SELECT 1 / a AS x FROM r WHERE a > 0", r=table, dialect=dialect).rows(weights=True) == [
            ((1.0,), 1)
        ]
        assert gw.query("SELECT a / 0 AS x FROM r WHERE a > 1", r=table, dialect=dialect).rows(weights=True) == []
    assert gw.query("SELECT a / 0 AS x FROM r WHERE a > 0", r=table).rows(weights=True) == [((math.inf,), 1)]


@pytest.mark.parametrize("dialect", ["duckdb", "postgres", "spark"])
def test_rows_with_null_are_compared_column_by_column(dialect: str):
    """One different column makes rows differ, whatever null stands in another; DuckDB takes null for a value."""
    table = {"a": [1, 20, None, None], "b": [2, 2, 2, 5]}
    found = [
        row
        for row, _ in gw.query("SELECT a, b FROM r WHERE (a, b) <> (1, 2)", r=table, dialect=dialect).rows(weights=True)
    ]
    assert sorted(found, key=repr) == [(20, 2), *([(None, 2)] if dialect == "duckdb" else []), (None, 5)]


def test_a_view_goes_on_after_a_division_by_zero():
    view = gw.view("SELECT a / b AS q FROM r JOIN s USING (k)", r={"k": [1], "a": [1.0]}, s={"k": [1], "b": [2.0]},
                   dialect="spark")  # fmt: skip
    with pytest.raises(CalculationError, match=r"quotient\(1.0, 0.0\) has no value"):
        view.apply(s=[(1, 0.0)])
    assert view.apply(s=[(2, 0.0)]).rows() == []
    assert view.apply(s=[(1, 4.0)]).rows() == [((0.25,), 1)]
    text = view.explain(format="datalog")
    tables = {"r": [(1, 1.0)], "s": [(1, 2.0), (1, 4.0), (2, 0.0)]}
    assert gw.query(text, tables, bag=True).rows(weights=True) == view.snapshot().rows(weights=True)


def test_upper_and_lower_of_every_character_are_those_of_duckdb():
    """Compare all characters that the Unicode of Python has; there is no difference with 14.0.

    Later versions of Unicode have cases of characters that have none in DuckDB.

    Ordinary runs compare every sixteenth of those beyond the first scripts.
    """
    codes = [*range(1, 0x3000), *range(0x3000, 0x110000, 1 if IS_LONG else 16)]
    chars = [chr(code) for code in codes if not 0xD800 <= code < 0xE000]
    with duckdb.connect() as connection:
        _ = connection.register("r", pa.table({"c": chars}))
        for row in connection.execute("SELECT c, UPPER(c), LOWER(c) FROM r").fetchall():
            is_newer = unicodedata.unidata_version != "14.0.0" and len(set(row)) == 1
            if not is_newer and all(unicodedata.category(char) != "Cn" for char in "".join(row)):
                assert (upcase(row[0]), downcase(row[0])) == row[1:], row
    cased = pa.table({"c": [char for char in chars if upcase(char) != downcase(char)]})
    text = "SELECT c, UPPER('ß' || c || 'a') AS u, LOWER('A' || c || 'Σ') AS l FROM r"
    found = gw.query(text, r=cased).to_zset().to_dict()
    assert found == {(char, f"ẞ{upcase(char)}A", f"a{downcase(char)}σ"): 1 for char in cased["c"].to_pylist()}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_upper_and_lower(dialect: str):
    words = {"s": ["ﬁ", "ΑΣ", "İx", "Abc", None]}
    found = (
        gw.query("SELECT UPPER(s) AS u, LOWER(s) AS l, UPPER('ﬁ') AS c FROM r", r=words, dialect=dialect)
        .to_zset()
        .to_dict()
    )
    if dialect in BY_CHARACTER:
        assert found == dict.fromkeys(
            [("ﬁ", "ﬁ", "ﬁ"), ("ΑΣ", "ασ", "ﬁ"), ("İX", "ix", "ﬁ"), ("ABC", "abc", "ﬁ"), (None, None, "ﬁ")], 1
        )
    else:
        assert found == dict.fromkeys(
            [("FI", "ﬁ", "FI"), ("ΑΣ", "ας", "FI"), ("İX", "i̇x", "FI"), ("ABC", "abc", "FI"), (None, None, "FI")], 1
        )


def test_upper_and_lower_are_printed_as_what_they_are():
    words = {"s": ["straße", "ΑΣ"]}
    for dialect in ("duckdb", "spark"):
        view = gw.view("SELECT UPPER(s) AS u, LOWER(s) AS l FROM r", r=words, dialect=dialect)
        assert gw.query(view.explain(format="datalog"), r=words, bag=True).rows(weights=True) == view.snapshot().rows(
            weights=True
        )
    assert gw.query("h(upper(s), upcase(s)) :- r(s).", r=[("straße",)]).rows(weights=True) == [
        (("STRASSE", "STRAẞE"), 1)
    ]
    narrow = gw.view("SELECT x.k FROM r x JOIN r y ON x.k = y.k WHERE UPPER(x.s) = 'A'", r={"k": [1], "s": ["a"]})
    assert ':- r(c0, c1), upcase(c1) = "A".' in narrow.explain(format="datalog")


FUNCTIONS = {
    "ABS(a)": 4, "LOWER(s)": "abc", "UPPER(s)": "ABC", "LENGTH(s)": 3, "SUBSTRING(s, 2, 2)": "Bc",
    "SUBSTR(s, 1, 2)": "aB",
    "YEAR(d)": 2020, "MONTH(d)": 2, "DAY(d)": 3, "YEAR(t)": 2021, "EXTRACT(YEAR FROM d)": 2020, "COALESCE(n, a)": -4,
    "NULLIF(a, -4)": None, "COUNT(*)": 1, "COUNT(n)": 0, "SUM(a)": -4, "MIN(s)": "aBc", "MAX(s)": "aBc", "a % 3": -1,
    "CAST(a AS DOUBLE PRECISION)": -4.0, "CAST(a AS BIGINT)": -4, "s || 'x'": "aBcx", "AVG(a * 0.5e0)": -2.0,
    "AVG(CAST(a AS DOUBLE PRECISION))": -4.0,
}  # fmt: skip


@pytest.mark.drawn("call", "dialect", each=True)
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("call", FUNCTIONS)
def test_functions_are_there_in_every_dialect(call: str, dialect: str):
    moment = dt.datetime(2021, 2, 3, 4)
    table = pa.table({
        "a": [-4], "n": pa.array([None], pa.int64()), "s": ["aBc"], "d": [dt.date(2020, 2, 3)], "t": [moment],
    })  # fmt: skip
    found = gw.query(f"SELECT {call} AS x FROM r", r=table, dialect=dialect)
    assert found.rows() == [(FUNCTIONS[call],)]


def test_length_is_of_texts():
    for dialect in ("snowflake", "bigquery"):
        assert gw.query("SELECT LENGTH(s) AS n FROM r", r={"s": ["größe", None]}, dialect=dialect).rows() == [
            (None,), (5,),
        ]  # fmt: skip
        view = gw.view("SELECT LENGTH(s) AS n FROM r", r={"s": [b"abc", "ä".encode(), None]}, dialect=dialect)
        assert sorted(view.snapshot().rows(), key=repr) == [(2,), (3,), (None,)]  # bytes
    with pytest.raises(TypeMismatchError, match="'LENGTH.s.' has a value of type 'bytes'"):
        gw.view("SELECT LENGTH(s) AS n FROM r", r={"s": [b"abc"]})
    with pytest.raises(UnsupportedError, match="'encoding' of LENGTH is not supported"):
        gw.view("SELECT LENGTH(s, 'utf8') AS n FROM r", r={"s": ["a"]}, dialect="postgres")
    year = gw.view("SELECT YEAR(s) AS n FROM r", r={"s": ["2020-01-01"]}, dialect="spark")
    assert year.snapshot().rows() == [(2020,)]


@pytest.mark.drawn("dialect", share=4)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_not_a_number_is_the_largest_and_equal_to_itself(dialect: str):
    table = {"x": [math.nan, math.inf, 1.0, None]}
    for condition, n in (("x = x", 3), ("x > 1", 2), ("x <> x", 0), ("x IN (SELECT x FROM r)", 3), ("NOT x <= 2", 2)):
        assert gw.query(f"SELECT COUNT(*) AS n FROM r WHERE {condition}", r=table, dialect=dialect).rows(
            weights=True
        ) == [((n,), 1)]
    ((row, _),) = gw.query("SELECT MAX(x) AS x FROM r", r=table, dialect=dialect).rows(weights=True)
    assert math.isnan(row[0])


def test_the_page_on_sql_names_the_functions():
    text = (Path(__file__).parents[2] / "docs" / "sql.md").read_text()
    named = re.findall("`([A-Z]+)`", text.split("keeps itself are")[1].split(".")[0])
    assert tuple(named) == FUNCTION_NAMES
    refused = ("SELECT random() FROM r", "SELECT now() FROM r", "SELECT a FROM r LIMIT a")
    for query in refused:
        with pytest.raises(UnsupportedError, match=r"\(line 1, column \d+\)"):
            gw.view(query, r={"a": [1], "b": [1]}, s={"a": [1], "b": [1]})


@pytest.mark.parametrize(
    ("dialect", "expression"),
    [
        ("spark", "percentile(x, 0.5)"),
        ("databricks", "CAST(x AS INT)"),
        ("snowflake", "CAST(x AS INT)"),
        ("spark", "dayofweek(d)"),
        ("spark", "weekday(d)"),
        ("bigquery", "EXTRACT(DAYOFWEEK FROM d)"),
        ("bigquery", "EXTRACT(WEEK FROM d)"),
        ("trino", "EXTRACT(DOW FROM d)"),
        ("spark", "SUBSTRING(s, 0, 2)"),
        ("snowflake", "kurtosis(x)"),
    ],
)
@pytest.mark.parametrize(
    "text", ["SELECT {} AS y FROM t", "WITH c AS (SELECT {} AS y, random() AS r FROM t) SELECT y FROM c"]
)
def test_what_duckdb_would_evaluate_in_another_way_is_refused(dialect, expression, text):
    t = pa.table({"x": [1.5, 2.5], "s": ["ab", "cd"], "d": pa.array([1, 2], pa.date32())})
    with pytest.raises(UnsupportedError, match=f"in the dialect '{dialect}' .* than DuckDB, which would evaluate it"):
        gw.query(text.format(expression), t=t, dialect=dialect)


def test_casts_of_fractions_round_in_postgres():
    assert gw.query("SELECT CAST(x AS INT) AS y FROM t", t={"x": [2.5, 3.5]}, dialect="postgres").rows() == [(2,), (4,)]
