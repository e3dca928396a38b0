"""SQL that is refused: which error, where it points, and what it says to write instead."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Mapping

import pytest

import gpu_wcoj as gw
from gpu_wcoj.arrow import sql_expressions
from gpu_wcoj.errors import (
    BackendUnavailableError,
    ColumnError,
    GpuWcojError,
    SqlSyntaxError,
    TypeMismatchError,
    UnknownRelationError,
    UnsupportedError,
    UsageError,
)
from gpu_wcoj.query.sql import parse

TABLES: Mapping[str, Mapping[str, str | None]] = {
    "r": {"a": "int64", "b": "int64"},
    "s": {"b": "int64", "c": "int64"},
    "t": {"n": "string", "d": "date32[day]", "x": "double", "p": "bool"},
    "u": {"ts": "timestamp[us]", "d": "date32[day]"},
    "Q": {"Mixed": None},
}

UNSUPPORTED = [
    # what stands there, what the mark points at, what is said of it, what to write instead
    ("SELECT a FROM r LIMIT a", "a", "LIMIT and OFFSET of anything but a whole number are not", ""),
    ("SELECT a FROM r LIMIT 2.5", "2.5", "LIMIT and OFFSET of anything but a whole number are not", ""),
    ("SELECT a FROM r LIMIT 10%", "10", "LIMIT of a share, or WITH TIES, is not supported", "a number of rows"),
    ("SELECT a FROM r LIMIT 3000000000", "3000000000", "of more than 2,147,483,648 rows are not supported", ""),
    ("SELECT b.x FROM r", "b.x", "the field 'x' of the column 'b' is not supported", "Write b['x']"),
    ("SELECT r.b.x FROM r", "r.b.x", "names of more than relation and column", "Write the field as r.b['x']"),
    ("SELECT a FROM r OFFSET 2", "2", "OFFSET without LIMIT is not supported", "Write LIMIT too"),
    ("SELECT a FROM r ORDER BY a", "a", "ORDER BY without LIMIT is not supported", "sort what you read from it"),
    ("SELECT a FROM r UNION SELECT b FROM s ORDER BY 1", "1", "ORDER BY without LIMIT is not", "sort what you read"),
    (
        "SELECT a FROM r UNION SELECT b FROM s ORDER BY a + 1 LIMIT 1",
        "a + 1",
        "that is not selected is not",
        "Select it",
    ),
    ("SELECT DISTINCT a FROM r ORDER BY b LIMIT 1", "b", "that is not selected is not supported", "Select it too"),
    (
        "WITH RECURSIVE q(a) AS (SELECT a FROM r UNION (SELECT c FROM q JOIN s ON s.b = q.a LIMIT 1)) SELECT a FROM q",
        None,
        "LIMIT, DISTINCT ON and QUALIFY in a recursion are not supported",
        "",
    ),
    ("SELECT now() FROM r", "now()", "now gives other results for the same arguments", "does not follow the clock"),
    ("SELECT uuid() FROM r", None, "uuid", ""),
    ("SELECT a FROM r WHERE age(TIMESTAMP '2020-01-01') > INTERVAL 1 DAY", None, "age gives other results", ""),
    ("SELECT a FROM r WHERE unnest([a]) = 1", None, "unnest gives several rows", ""),
    ("SELECT round(Mixed) FROM Q", "Mixed", "needs the types of its columns, and that of 'Mixed'", "Declare the types"),
    ("SELECT median(Mixed) FROM Q", None, "needs the types of its columns", "Declare the types"),
    ("SELECT round(n) FROM t", None, "cannot be calculated", ""),
    ("SELECT read_text('x') FROM r", None, "read_text", ""),
    ("SELECT 1 FROM r, json_each('[1]') q", None, "is not supported in FROM", ""),
    ("SELECT a FROM r TABLESAMPLE 10%", "10", "TABLESAMPLE is not supported", "filter by a column"),
    ("SELECT a FROM r POSITIONAL JOIN s", "s", "POSITIONAL JOIN is not supported", "SEMI, ANTI and ASOF joins are"),
    ("SELECT * RENAME (a AS d) FROM r", None, "RENAME is not supported", ""),
    ("SELECT CURRENT_DATE FROM r", "CURRENT_DATE", "CURRENT_DATE is not supported", "does not follow the clock"),
    ("SELECT a, current_date, b FROM r", "current_date", "CURRENT_DATE is not supported", "does not follow the clock"),
    ("SELECT a FROM r WHERE localtime > TIME '10:00:00'", None, "localtime gives other results", "follow the clock"),
    (
        "SELECT localtimestamp FROM r",
        "localtimestamp",
        "localtimestamp gives other results",
        "does not follow the clock",
    ),
    ("SELECT CURRENT_TIME FROM r", "CURRENT_TIME", "current_time gives other results", "does not follow the clock"),
    ("SELECT RANDOM() FROM r", "RANDOM()", "RANDOM is not supported", "cannot be kept"),
    (
        "SELECT LENGHT(n) FROM t",
        "LENGHT(n)",
        r"unknown function 'LENGHT'. Did you mean 'LENGTH'\?",
        "Write a function of DuckDB.",
    ),
    ("SELECT a FROM r WHERE (a, b) > ANY (SELECT b, c FROM s)", None, "rows are only compared with ANY", ""),
    ("SELECT a FROM r WHERE (a, b) <> ALL (SELECT b, c FROM s)", None, "NOT IN of rows and a query", "NOT EXISTS"),
    ("SELECT a FROM r WHERE (a, b) NOT IN (SELECT b, c FROM s)", None, "NOT IN of rows and a query", "NOT EXISTS"),
    ("SELECT a FROM r WHERE a = ?", "a", "a parameter is not supported", "Write the value"),
    ("SELECT (a, b) FROM r", "a, b", "a row of values is not supported", "one by one"),
    ("SELECT a FROM main.r", "main.r", "names with a schema or catalog", "Name the relation alone"),
    ("SELECT r.a.b FROM r", "r.a.b", "names of more than relation and column", ""),
    ("SELECT a FROM READ_CSV('x.csv')", None, "the function .* is not supported in FROM", "Pass a table"),
    ("SELECT a FROM r PIVOT (SUM(b) FOR a IN (1) b IN (2))", None, "not supported by several columns", "FILTER"),
    ("SELECT * FROM r PIVOT (SUM(b), MAX(b) FOR a IN (1))", None, "without names", "Name each aggregate"),
    ("PIVOT r ON a USING SUM(b)", None, "PIVOT is not supported without values", "Write the values, as in ON k IN"),
    ("SELECT * FROM r UNPIVOT ((x, y) FOR n IN ((a, b)))", None, "anything but columns", "a SELECT for each column"),
    ("SELECT a INTO q FROM r", "q", "INTO is not supported", "CREATE VIEW"),
    ("CREATE TABLE q AS SELECT a FROM r", None, "CREATE TABLE is not supported", "Write CREATE VIEW name AS SELECT"),
    ("CREATE TEMP VIEW q AS SELECT a FROM r", None, "this kind of view is not supported", "Write CREATE VIEW"),
    ("INSERT INTO r VALUES (1, 2)", "INSERT", "INSERT is not supported", "takes changes by its method apply"),
    ("EXPLAIN SELECT a FROM r", "EXPLAIN", "EXPLAIN is not supported", "Call explain() of the answer"),
    ("SHOW TABLES", "SHOW", "SHOW is not supported", "Write DESCRIBE name for the columns"),
    (
        "WITH RECURSIVE q AS (SELECT a FROM r UNION ALL SELECT a FROM q) SELECT * FROM q",
        "q",
        "not a UNION but",
        "UNION",
    ),
    (
        "WITH RECURSIVE q AS (SELECT a FROM q) SELECT * FROM q",
        "q",
        "the recursion of 'q' is not a UNION",
        "WITH RECURSIVE",
    ),
    (
        "WITH RECURSIVE q AS (SELECT a FROM r UNION SELECT a FROM r WHERE NOT EXISTS (FROM q)) SELECT * FROM q",
        "q",
        "'q' is only read in the FROM of a SELECT",
        "",
    ),
    (
        "WITH RECURSIVE q AS (SELECT a FROM r UNION SELECT SUM(q.a) FROM q) SELECT * FROM q",
        "q",
        "without DISTINCT and aggregates",
        "",
    ),
    (
        "WITH RECURSIVE q AS (SELECT a FROM r UNION SELECT x.a FROM q x JOIN q y ON x.a = y.a) SELECT * FROM q",
        "q y",
        "'q' stands twice in a part of its recursion",
        "what the recursion begins with",
    ),
    (
        "WITH RECURSIVE q AS (SELECT a FROM r UNION SELECT a FROM q UNION SELECT a + 1 FROM q) SELECT * FROM q",
        "q",
        "'q' is read before its recursion begins",
        "first UNION (next UNION ALL next)",
    ),
    (
        "SELECT a FROM r WHERE EXISTS (SELECT 1 FROM s LEFT JOIN t ON s.b = r.a)",
        "r.a",
        "the column 'a' of the outer query cannot be used here",
        "Name it in WHERE",
    ),
    (
        "WITH RECURSIVE q AS (SELECT a FROM r UNION SELECT b FROM r LEFT JOIN q ON r.a = q.a) SELECT * FROM q",
        None,
        "outer joins are not supported in a recursion",
        "",
    ),
    (
        "WITH RECURSIVE q AS (SELECT a FROM r UNION (SELECT a FROM q EXCEPT SELECT b FROM r)) SELECT * FROM q",
        None,
        "EXCEPT is not supported in a recursion",
        "",
    ),
    ("SELECT a FROM r WHERE a IS 5", None, "IS is supported with NULL, TRUE and FALSE", ""),
    (
        "SELECT a FROM r WHERE " + " OR ".join(f"a IN (SELECT c FROM s WHERE b = {i})" for i in range(9)),
        None,
        "more than 128 rules",
        "a view of its own",
    ),
]

WRONG = [
    ("SELECT a FROM r QUALIFY 1 = 1", SqlSyntaxError, "1 = 1", "QUALIFY needs a window function"),
    ("SELECT a FROM r WHERE rank() OVER (ORDER BY a) = 1", SqlSyntaxError, None, "a window function cannot stand here"),
    ("SELECT rank() OVER w FROM r", UnknownRelationError, None, "w"),
    ("SELECT (SELECT b, c FROM s) FROM r", SqlSyntaxError, None, "a query as a value has one column"),
    ("SELECT SUM(MEDIAN(a)) FROM r", SqlSyntaxError, None, "an aggregate cannot stand in an aggregate"),
    ("SELECT 1 AS a FROM t" + " JOIN t" * 9, SqlSyntaxError, "JOIN", "have no ON or USING"),
    ("SELECT a FROM t WHERE t.$a IS NULL", SqlSyntaxError, None, "expected a name"),
    ("", SqlSyntaxError, None, "the text has no statement"),
    ("SELECT", SqlSyntaxError, None, "SELECT names no column"),
    ("SELECT a FRO r", SqlSyntaxError, "r", r"'r' cannot stand here after 'FRO'. Did you mean 'FROM'\?"),
    ("SELEC a FROM r", SqlSyntaxError, "FROM", r"Did you mean 'SELECT'\?"),
    ("SELECT a FROM r WHERE", SqlSyntaxError, "WHERE", "something is missing at 'WHERE'"),
    ("SELECT a FROM (SELECT b FROM r", SqlSyntaxError, "r", r"expected '\)' near 'r'"),
    ("SELECT a FROM r JOIN ON a = b", SqlSyntaxError, "ON", "expected the name of a relation after 'JOIN'"),
    ("SELECT a,, b FROM r", SqlSyntaxError, ",", "there is nothing before this comma"),
    ("SELECT 'abc FROM r", SqlSyntaxError, "'", "this text is not closed by a '"),
    ('SELECT "abc FROM r', SqlSyntaxError, '"', 'this name is not closed by a "'),
    ("SELECT a /* b FROM r", SqlSyntaxError, "/*", "this comment is not closed"),
    ("SELECT a FROM r JOIN s", SqlSyntaxError, "s", "this join has no condition; write ON or USING, or CROSS JOIN"),
    ("SELECT a FROM r NATURAL JOIN t", SqlSyntaxError, "t", "NATURAL JOIN have no column in common"),
    ("SELECT *", SqlSyntaxError, None, r"'\*' needs a FROM"),
    ("SELECT a FROM r WHERE * = 1", SqlSyntaxError, None, "stands for all columns"),
    (
        "SELECT a FROM r WHERE (a, b) IN ((1, 2), (1, 2, 3))",
        SqlSyntaxError,
        None,
        "a row of 2 is compared with one of 3",
    ),
    ("SELECT n FROM t WHERE d < DATE '9999-12-31' + INTERVAL '1' DAY", SqlSyntaxError, None, "invalid date"),
    ("SELECT a FROM r WHERE a IN (SELECT b FROM s UNION SELECT b, c FROM s)", SqlSyntaxError, None, "other numbers"),
    ("SELECT a FROM r x, r X", SqlSyntaxError, "r X", "'X' stands twice in FROM; give one of them another name"),
    ("SELECT b FROM r, s", SqlSyntaxError, "b", "the column 'b' stands for several; write which, as r.b"),
    ("SELECT a FROM r JOIN s USING (b, B)", SqlSyntaxError, "B", "USING names 'B' twice"),
    ("SELECT a, COUNT(*) FROM r", SqlSyntaxError, "a", "the column 'a' is neither grouped nor aggregated"),
    ("SELECT a + b FROM r GROUP BY a", SqlSyntaxError, "b", "the column 'b' is neither grouped"),
    ("SELECT a FROM r WHERE COUNT(*) > 1", SqlSyntaxError, "COUNT(*)", "an aggregate cannot stand here"),
    ("SELECT SUM(COUNT(*)) FROM r", SqlSyntaxError, "COUNT(*)", "an aggregate cannot stand in an aggregate"),
    ("SELECT 1 FROM r GROUP BY SUM(a)", SqlSyntaxError, "SUM(a)", "GROUP BY cannot name an aggregate"),
    ("SELECT a FROM r GROUP BY 5", SqlSyntaxError, "5", "GROUP BY 5: got 1 column"),
    ("SELECT SUM(*) FROM r", SqlSyntaxError, "SUM(*)", r"'\*' can only be counted"),
    ("SELECT a FROM r UNION SELECT b, c FROM s", SqlSyntaxError, "b, c FROM s", "UNION of 1 and 2 columns"),
    ("SELECT a FROM r WHERE a IN (SELECT b, c FROM s)", SqlSyntaxError, None, "1 column compared with a query of 2"),
    ("SELECT a FROM r WHERE (a, b) = (1, 2, 3)", SqlSyntaxError, None, "a row of 2 is compared with one of 3"),
    ("SELECT a FROM r WHERE a IN ()", SqlSyntaxError, None, "the list of IN is empty"),
    ("SELECT q.x FROM (SELECT a FROM r) q(x, y)", SqlSyntaxError, "q(x, y)", "got 2 names for 1 column"),
    (
        "WITH q AS (SELECT a FROM r), q AS (SELECT b FROM r) SELECT 1 FROM q",
        SqlSyntaxError,
        "q",
        "WITH names 'q' twice",
    ),
    ("VALUES (1), (2, 3)", SqlSyntaxError, "2, 3", "other numbers of columns"),
    ("CREATE VIEW r AS SELECT b FROM s", SqlSyntaxError, "r", "there is a relation 'r' already"),
    ("CREATE VIEW v(x) AS SELECT a, b FROM r", SqlSyntaxError, None, "got 1 name for 2 columns"),
    ('CREATE VIEW "v#1" AS SELECT a FROM r', SqlSyntaxError, '"v#1"', "cannot have a '#'"),
    ("SELECT a FROM r; SELECT b FROM r", SqlSyntaxError, "b FROM r", "two queries without a name"),
    ("SELECT 99999999999999999999 FROM r", SqlSyntaxError, "99999999999999999999", "outside int64"),
    ("SELECT n FROM t WHERE d < DATE '2020-13-01'", SqlSyntaxError, "'2020-13-01'", "'2020-13-01' is not a valid date"),
    ("SELECT x FROM r", ColumnError, "x", "relation 'r' has no column 'x'"),
    ("SELECT r.bb FROM r", ColumnError, "bb", "relation 'r' has no column 'bb'"),
    ("SELECT mixd FROM Q", ColumnError, "mixd", "Available columns: 'Mixed'. Did you mean 'Mixed'?"),
    ('SELECT "mixd" FROM Q', ColumnError, '"mixd"', "relation 'Q' has no column 'mixd'"),
    ("SELECT z FROM r, s", ColumnError, "z", r"unknown column 'z' in reach \(r, s\)"),
    ("SELECT a FROM r WHERE EXISTS (SELECT z FROM s)", ColumnError, "z", "unknown column 'z' in reach"),
    ("SELECT a FROM r JOIN s USING (a)", ColumnError, "a", "relation 's' has no column 'a'"),
    ("SELECT a FROM rr", UnknownRelationError, "rr", "unknown relation 'rr'"),
    ("SELECT q.a FROM r", UnknownRelationError, "q", "unknown relation 'q'"),
    ("SELECT q.* FROM r", UnknownRelationError, "q", "unknown relation 'q'"),
    ("SELECT a FROM r, t WHERE a = n", TypeMismatchError, None, "'int' and 'str' do not compare"),
    ("SELECT 1 FROM u x JOIN u y ON x.ts = y.d", TypeMismatchError, "x.ts = y.d", "this compares values of the types"),
    ("SELECT d FROM u WHERE ts IN (SELECT d FROM u)", TypeMismatchError, None, "this compares values of the types"),
    ("SELECT a FROM r JOIN t ON a = p", TypeMismatchError, None, "'int' and 'bool' do not compare"),
    ("SELECT -n FROM t", TypeMismatchError, "n", "this calculates with a value of type 'string'"),
    ("SELECT SUM(n) FROM t", TypeMismatchError, "SUM(n)", "SUM needs numbers: got type 'str'"),
    ("SELECT a FROM r WHERE a", TypeMismatchError, "a", "a condition must be a boolean: got type 'int64'"),
    ("SELECT a FROM r WHERE a < DATE '2020-01-01'", TypeMismatchError, None, "a date is compared with a value of type"),
]


def marked(error: GpuWcojError) -> str:
    """Return the text that the message marks."""
    lines = str(error).split("\n")
    at = next(i for i, line in enumerate(lines) if re.fullmatch(r" *~+", line))
    start = lines[at].index("~")
    return lines[at - 1][start : start + lines[at].count("~")]


@pytest.mark.parametrize(("text", "mark", "what", "instead"), UNSUPPORTED)
def test_unsupported(text: str, mark: str | None, what: str, instead: str):
    with pytest.raises((UnsupportedError, UnknownRelationError), match=what) as caught:
        parse(text, TABLES)
    assert instead in str(caught.value)
    assert re.search(r"\(line 1, column \d+\)", str(caught.value))
    assert mark is None or marked(caught.value) == mark


@pytest.mark.parametrize(("text", "kind", "mark", "what"), WRONG)
def test_wrong(text: str, kind: type[GpuWcojError], mark: str | None, what: str):
    with pytest.raises(kind, match=what) as caught:
        parse(text, TABLES)
    assert type(caught.value) is kind
    assert re.search(r"\(line 1, column \d+\)", str(caught.value))
    assert mark is None or marked(caught.value) == mark


def test_place_in_a_file():
    with pytest.raises(ColumnError) as caught:
        parse("SELECT a\nFROM r\nWHERE r.c = 1", TABLES, source="views.sql")
    assert str(caught.value) == (
        "relation 'r' has no column 'c' (line 3, column 9 of views.sql)\n"
        "  WHERE r.c = 1\n"
        "          ~\n"
        "  Available columns: 'a', 'b'."
    )


@pytest.mark.parametrize(
    "text",
    [
        "SELECT " + "(" * 5000 + "a" + ")" * 5000 + " FROM r",
        "SELECT " + "(" * 99 + "a" + ")" * 99 + " FROM r",
        "SELECT a FROM r WHERE " + "NOT " * 5000 + "a = 1",
        "SELECT " + "- " * 5000 + "a FROM r",
        "SELECT " + "+".join("a" * 3000) + " FROM r",
        "SELECT " + "CASE WHEN a = 1 THEN " * 500 + "1" + " END" * 500 + " FROM r",
        "SELECT * FROM " + "(SELECT * FROM " * 300 + "r" + ") q" * 300,
    ],
)
def test_what_nests_too_deep(text: str):
    with pytest.raises(SqlSyntaxError, match="deep"):
        parse(text, TABLES)


def test_queries_that_double_stay_small():
    views = ", ".join(
        f"v{i} AS (SELECT x.a, y.b FROM {f'v{i - 1}' if i else 'r'} x JOIN {f'v{i - 1}' if i else 'r'} y ON x.b = y.a)"
        for i in range(30)
    )
    rules = parse(f"WITH {views} SELECT * FROM v29", TABLES)
    assert sum(len(rule.atoms) for rule in rules.rules) < 300


def test_long_lists_are_relations():
    numbers = ", ".join(map(str, range(1000)))
    for negation in ("", "NOT "):
        rules = parse(f"SELECT a FROM r WHERE a {negation}IN ({numbers})", TABLES)
        assert len(rules.rules) == 1001


@pytest.mark.parametrize(
    ("text", "options", "what"),
    [
        (3, {}, r"the query has the wrong type: got int \(3\), expected text \(str\)"),
        ("SELECT a FROM r" + " " * 1_000_000, {}, "expected at most 1,000,000 bytes"),
        ("SELECT a FROM r", {"dialect": "duckbd"}, r"Did you mean 'duckdb'\?"),
    ],
)
def test_usage(text, options: dict[str, str], what: str):
    with pytest.raises(UsageError, match=what):
        parse(text, TABLES, **options)


def test_names_of_tables():
    with pytest.raises(UsageError, match="contains '#'"):
        parse("SELECT 1", {"a#1": ["x"]})
    with pytest.raises(SqlSyntaxError, match="a query without a name is 'answer', and so is a table"):
        parse("SELECT x FROM answer", {"answer": ["x"]})


@pytest.mark.parametrize(
    ("dialect", "text", "what"),
    [
        ("postgres", "SELECT AVG(a) FROM r", "AVG of int64 may be a decimal in the dialect 'postgres'"),
        ("spark", "SELECT AVG(Mixed) FROM Q", "AVG of an unknown type may be a decimal"),
        ("snowflake", "SELECT a / b FROM r", "'/' in the dialect 'snowflake' is not supported"),
        ("postgres", "SELECT Mixed / 2 FROM Q", r"\(not known, int64\)"),
    ],
)
def test_what_dialects_leave_open(dialect: str, text: str, what: str):
    with pytest.raises(UnsupportedError, match=what):
        parse(text, TABLES, dialect=dialect)


def test_without_sqlglot(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "sqlglot", None)
    with pytest.raises(BackendUnavailableError, match=r"pip install 'gpu_wcoj\[sql\]'"):
        parse("SELECT a FROM r", TABLES)


@pytest.mark.parametrize("expression", ["round(x)", "median(x)", "lag(x) OVER (ORDER BY x)", "x ** 2"])
def test_without_duckdb(expression: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "duckdb", None)
    monkeypatch.setattr(sql_expressions, "_state", threading.local())
    with pytest.raises(BackendUnavailableError, match=r"needs duckdb.*\n.*pip install 'gpu_wcoj\[sql\]'"):
        parse(f"SELECT {expression} AS y FROM t", {"t": {"x": f"decimal128({len(expression) + 1}, 2)"}})
    assert parse("SELECT x + 1 FROM t", TABLES).rules


@pytest.mark.parametrize(
    "text",
    ["SELECT n + 1 AS x FROM t", "SELECT n FROM t WHERE n = 1", "SELECT SUM(n) FROM t"],
)
def test_types_that_are_not_given_are_found_with_the_rows(text: str):
    program = gw.Program(parse(text, {"t": ["n"]}), bag=True, backend="cpu")
    with pytest.raises(TypeMismatchError):
        program.step({"t": [("x",)]})
