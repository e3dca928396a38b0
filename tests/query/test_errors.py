"""Syntax errors in every language: place, marked text, expectation, nearest name."""

from __future__ import annotations

import pytest

import gpu_wcoj as gw
from gpu_wcoj.errors import (
    DatalogSyntaxError,
    EdnSyntaxError,
    GpuWcojError,
    MotifSyntaxError,
    QuerySyntaxError,
    SqlSyntaxError,
)
from gpu_wcoj.query import motif
from gpu_wcoj.query.motif import compile_motif
from gpu_wcoj.query.translation import read

TABLES = {"edges": {"src": "int64", "dst": "int64"}, "people": {"id": "int64", "name": "string"}}
EDGES = {"src": [1], "dst": [2]}
PEOPLE = {"id": [1, 2], "name": ["a", "b"]}

MISTAKES = [
    # language, text, what stands in the message, line and column of the mark, what is marked
    ("datalog", "h(x) :-\n  r(x y).", "expected", 2, 7, "y"),
    ("datalog", "h(x) :- r(x)", "expected", 1, 13, ""),
    ("datalog", "h(x) :- r(x), x == 3.", "write '='", 1, 17, "=="),
    ("datalog", "h(x) :- r('x').", "double quotes", 1, 11, "'"),
    ("datalog", ".declare r(x)\nh(x) :- r(x).", "Did you mean '.decl'", 1, 1, ".declare"),
    ("datalog", ".decl r(x: int46)\nh(x) :- r(x).", "Did you mean 'int64'", 1, 12, "int46"),
    ("datalog", "p(x) :- r(x).\np(x, y) :- s(x, y).", "has 1 column", 2, 1, "p(x, y)"),
    ("datalog", "h(x) :- r(x), x = @f(x).", "'@' calls a functor of C++", 1, 19, "@"),
    ("datalog", "h(x) :- r(x), !h(x).", "negat", 1, 16, "h(x)"),
    ("datalog", 'h(x) :- r(x), like(x, "a%").', "the function is 'like(x, \"a%\") = true'", 1, 15, 'like(x, "a%")'),
    ("datalog", 'h(n) :- n = count : { r(x), !like(x, "a%") }.', "= true", 1, 30, 'like(x, "a%")'),
    ("sql", "SELECT src\n FROM edge", "Did you mean 'edges'", 2, 7, "edge"),
    ("sql", "SELECT e.sorce FROM edges e", "no column 'sorce'", 1, 10, "sorce"),
    ("sql", "SELECT x.src FROM edges e", "x", 1, 8, "x"),
    ("sql", "SELECT src FROM edges WHERE ROW_NUMBER() OVER (ORDER BY dst) = 1", "window", 1, None, None),
    ("sql", "SELECT src FROM edges WHERE (src = 1", "", 1, None, None),
    ("sql", "SELECT src\nFROM edges\nWHERE src ===", "", 3, None, None),
    ("sql", "DELETE FROM edges", "", 1, None, None),
    ("motif", "(a)-[e]->(b", "expected ')'", 1, 12, ""),
    ("motif", "(a)-[e]>(b)", "expected", 1, None, None),
    ("motif", "(a)-[e]->(b);\n(e)-[f]->(d)", "'e'", 2, None, None),
    ("motif", "()-[]->()", "", 1, None, None),
    ("motif", "!(a)-[e]->(b)", "", 1, None, None),
    ("edn", "[:find ?a\n :where [$edge ?a _]]", "Did you mean", 2, 9, None),
    ("edn", "[:find ?a :where [$edges ?a _]", "", 1, None, None),
    ("edn", "[:find ?a :where [$edges ?a _]]]", "", 1, 32, "]"),
    ("edn", "[:find ?a :wher [$edges ?a _]]", "Did you mean ':where'", 1, 11, ":wher"),
    ("edn", "[:find ?b :where [$edges ?a _]]", "?b", 1, None, None),
    ("edn", "[:find (cuont ?a) :where [$edges ?a _]]", "count", 1, None, None),
    ("edn", "[:find ?a :where [$edges ?a _] [(foo ?a)]]", "foo", 1, None, None),
    ("edn", "[:find ?a :where (not [$edges ?a _])]", "?a", 1, None, None),
]
CLASSES = {"datalog": DatalogSyntaxError, "sql": SqlSyntaxError, "motif": MotifSyntaxError, "edn": EdnSyntaxError}


def refused(language, text, source="<text>"):
    with pytest.raises(GpuWcojError) as caught:
        _read(language, text, source)
    return caught.value


def _read(language, text, source):
    if language == "motif":
        compile_motif(motif.parse(text, source=source))
    else:
        read(text, language, tables=TABLES, source=source)


@pytest.mark.parametrize(("language", "text", "what", "line", "column", "marked"), MISTAKES)
def test_what_is_wrong_is_shown_in_its_place(language, text, what, line, column, marked):
    message = str(refused(language, text))
    assert what in message, message
    assert f"line {line}, column {'' if column is None else column}" in message, message
    lines = message.split("\n")
    markers = [i for i, line in enumerate(lines) if line.strip() and set(line.strip()) == {"~"}]
    assert markers, message
    shown, marker = lines[markers[0] - 1], lines[markers[0]]
    assert shown.strip(), message
    if marked:
        start = marker.index("~")
        assert shown[start : start + len(marked)] == marked, message
        assert marker.count("~") == len(marked), message


@pytest.mark.parametrize("language", CLASSES)
def test_errors_of_syntax_are_of_one_kind_and_name_their_source(language):
    texts = {"datalog": "h(x) :- r(x", "sql": "SELECT FROM WHERE", "motif": "(a)-[", "edn": "[:find"}
    error = refused(language, f"\n{texts[language]}" if language != "motif" else texts[language], source="here.txt")
    assert isinstance(error, CLASSES[language])
    assert isinstance(error, (QuerySyntaxError, SyntaxError))
    assert error.filename == "here.txt"
    assert error.lineno == (1 if language == "motif" else 2)
    assert "here.txt" in str(error)


@pytest.mark.parametrize(
    ("text", "wrong", "right"),
    [
        ("SELECT src FROM edge", "edge", "edges"),
        ("h(x) :- edges(x, _).", None, None),
        ("[:find ?a :where [$edge ?a _]]", "edge", "edges"),
        ("h(x) :- edge(x, _).", "edge", "edges"),
    ],
)
def test_the_nearest_relation_is_named_through_the_facade(text, wrong, right):
    if wrong is None:
        assert gw.query(text, edges=EDGES).rows(weights=True) == [((1,), 1)]
        return
    for ask in (gw.query, gw.view):
        with pytest.raises(GpuWcojError, match=wrong) as caught:
            ask(text, edges=EDGES)
        assert right in str(caught.value)


def test_the_nearest_column_of_a_motif_is_named():
    with pytest.raises(GpuWcojError, match="Did you mean 'name'"):
        gw.find("(a)-[]->(b)", vertices=PEOPLE, edges=EDGES, where="a.nam = 'a'")
    with pytest.raises(GpuWcojError, match="expected one of aa, b"):
        gw.find("(aa)-[]->(b)", vertices=PEOPLE, edges=EDGES, where="ab.name = 'a'")
