"""Detection of the language of a text, and errors for ambiguous texts."""

from __future__ import annotations

from pathlib import PurePath

import pytest

import gpu_wcoj as gw
from gpu_wcoj.errors import DatalogSyntaxError, UnsupportedError, UsageError
from gpu_wcoj.query.languages import LANGUAGES, check_language, language_of, language_of_file

TEXTS = {
    "datalog": (
        "h(x) :- r(x).", ".decl r(x)\nh(x) :- r(x).", "% SELECT\nh(x) :- r(x).", "// (a)\nh(x) :- r(x).",
        "/* SELECT */ h(x) :- r(x).", "\ufeffh(x) :- r(x).", "", "  ", "selection(x) :- r(x).", "Without(x) :- r(x).",
        "created(1).", "tri(a) :- select(a).", "h", "?x", '"select"', "_select(x) :- r(x).",
        "values(x) :- r(x).", "use(x), set(x) :- r(x).", "load(1). h(x) :- load(x).", "table.rows(x) :- r(x).",
        "show\n(x) :- r(x).", "uses(x) :- r(x).",
    ),
    "sql": (
        "SELECT 1", "select\n*", "With t AS (SELECT 1) SELECT * FROM t", "create view v as select 1", "FROM t SELECT a",
        "-- h(x) :- r(x).\nSELECT 1", "/* (a)-[]->(b) */ SELECT 1", "(SELECT 1) UNION (SELECT 2)", "( ( select 1))",
        "(WITH t AS (SELECT 1) SELECT 1)", " \t\n\ufeffSELECT 1", "select", "SELECT*FROM t", 'WITH"t"AS (SELECT 1)',
        "(from t)x", "SELECT (a + 1) FROM t", "SELECT (a + 1) * 2 AS x FROM t", "select ( (a) ), (b) from t",
        "SELECT (')')", "SELECT (1", "WITH (a)",
        "PIVOT t ON k USING sum(v)", "unpivot t ON a, b INTO NAME n VALUE v", "PIVOT (SELECT 1) ON k USING sum(v)",
        "VALUES (1, 2), (3, 4)", "(VALUES (1))", "TABLE t", "DESCRIBE t", "SUMMARIZE t", "SHOW TABLES",
        "EXPLAIN SELECT 1", "INSERT INTO t VALUES (1)", "DELETE FROM t", "UPDATE t SET a = 1", "DROP TABLE t",
        "ATTACH 'x'", "COPY t TO 'x'", "SET x = 1", "PRAGMA x", "CALL f()", "USE x", "BEGIN", "VACUUM",
    ),
    "motif": (
        "(a)-[e]->(b)", "()-[e]->()", "!(a)-[]->(b); (b)-[]->(a)", "( a )-[]->(b)", "(select)-[]->(b)", "(1)-[]->(b)",
        "/* ring */ (a)-[]->(b)", "! (a)-[]->(b)", "(a)", "(\n)-[e]->()", "(größe)",
    ),
    "edn": ("{:find [?a] :where [[?a :b ?c]]}", "[:find ?a :where [?a :b ?c]]", "; SELECT\n[:find ?a]", "[", "{"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("language", "text"), [(language, text) for language, texts in TEXTS.items() for text in texts]
)
def test_the_beginning_tells(language, text):
    assert language_of(text) == language


@pytest.mark.parametrize(
    ("text", "named", "languages"),
    [
        ("select(x) :- r(x).", "'select' may be SQL, or a relation in Datalog", "language='sql' or language='datalog'"),
        ("select(1).", "'select' may be SQL", "language='datalog'"),
        ('select((1 + 2), ")(") :- r(1).', "'select' may be SQL", "language='datalog'"),
        ("with(x) :- r(x).", "'with' may be SQL", "language='datalog'"),
        ("\n\n /* a */ create\n(x) :- r(x).", "'create' may be SQL", "language='datalog'"),
        ("(a b)-[]->(c)", "may begin a motif, or SQL in parentheses", "language='motif' or language='sql'"),
        ("((a))", "may begin a motif", "language='motif'"),
        ("(1 + 2) AS x", "may begin a motif", "language='sql'"),
    ],
)
def test_what_does_not_tell_is_asked_for(text, named, languages):
    with pytest.raises(UsageError, match=named) as caught:
        language_of(text)
    assert languages in str(caught.value)
    assert "~" in str(caught.value)


def test_the_place_is_shown():
    with pytest.raises(UsageError) as caught:
        language_of("/* one\n*/  with (x) :- r(x).")
    assert str(caught.value) == (
        "'with' may be SQL, or a relation in Datalog (line 2, column 5)\n"
        "  */  with (x) :- r(x).\n"
        "      ~~~~\n"
        "  Say which: language='sql' or language='datalog'."
    )


def test_what_is_said_counts():
    assert gw.query("select(x) :- r(x, _).", language="datalog", r=[(1, 2)]).rows(weights=True) == [((1,), 1)]
    assert gw.query("SELECT (a + 1) AS b FROM r", language="sql", r={"a": [1, 1]}).rows(weights=True) == [((2,), 2)]


def test_languages_by_name():
    assert [check_language(language) for language in LANGUAGES] == list(LANGUAGES)
    with pytest.raises(UsageError, match=r"unknown language 'SQL': expected one of 'datalog', 'edn', 'motif', 'sql'"):
        check_language("SQL")
    with pytest.raises(UsageError, match="Did you mean 'datalog'"):
        gw.query("h(x) :- r(x).", language="datalogs", r=[(1,)])


@pytest.mark.parametrize(
    ("name", "language"),
    [("a.dl", "datalog"), ("a/b.SQL", "sql"), ("a.b.motif", "motif"), ("a.edn", "edn"), ("a", "datalog"),
     ("a.txt", "datalog"), (".sql", "datalog"), ("a.sql.dl", "datalog"), ("sql", "datalog")],
)  # fmt: skip
def test_languages_of_files(name, language):
    assert language_of_file(PurePath(name)) == language


@pytest.mark.parametrize("piece", ["(", "( ", "(a"])
def test_long_beginnings_are_shown_in_part(piece):
    text = piece * 100_000 + "?"
    with pytest.raises(UsageError) as caught:
        language_of(text)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("piece", ["/* */", " ", "/*", "!", "\n", "/* */\n"])
def test_long_beginnings_are_read_in_one_pass(piece):
    assert language_of(piece * 100_000) == "datalog"


@pytest.mark.parametrize("text", ["SELEC a FROM t", "PIVTO t ON a", "\nform t\nselect a", "/* x */ inser INTO t"])
def test_what_may_be_meant_as_sql_is_said(text):
    hint = "This is read as Datalog. If it is SQL, ask gpu_wcoj.query or view with language='sql'"
    with pytest.raises(DatalogSyntaxError, match=hint):
        gw.query(text, t={"a": [1]})


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("INSERT INTO t VALUES (1)", "a view takes changes by its method apply"),
        ("EXPLAIN SELECT a FROM t", "Call explain"),
        ("DROP TABLE t", "Write SELECT or CREATE VIEW name AS SELECT"),
        ("SET x = 1", "Write SELECT or CREATE VIEW name AS SELECT"),
    ],
)
def test_statements_that_are_no_queries_are_refused_as_sql(text, remedy):
    with pytest.raises(UnsupportedError, match=remedy):
        gw.query(text, t={"a": [1]})


def test_datalog_is_not_taken_for_sql():
    for text in ("h(x :- r(x).", "edge x, y", "tabe(x) :- r(x", "with(x)", "path of edges", "select_ x"):
        with pytest.raises(DatalogSyntaxError) as caught:
            gw.query(text, {"r": [(1,)]}, language="datalog")
        assert "If it is SQL" not in str(caught.value)
