"""Texts that broke a parser once, and some that nest deep or go on forever: read, or refused in words, and at once."""

from __future__ import annotations

import time

import pytest

from tests.fuzz.targets import CORPUS, ROOT, TARGETS, read, text_of

KEPT = [(path.parent.name, path) for path in sorted(CORPUS.glob("*/*")) if path.is_file()]
DEEP = {
    "datalog": ("(", "-", "h(", "{", "count : {", "min x : { r(x),", "h(x) :- r(x), x = ", "!", "1+", "cat(", "/*",
                "["),
    "sql": (
        "(", "SELECT (", "SELECT * FROM (", "NOT ", "- ", "CASE WHEN ", "a AND ", "1 + ", "WITH t AS (", "EXISTS (",
        "[", "SELECT 1 UNION ALL ", "SELECT a.", "COALESCE(", "{", "CREATE VIEW v AS ", "CAST(",
        "(SELECT * FROM t JOIN ", "a = (", "/*",
        "SELECT 1 FROM t WHERE a IN (SELECT 1 FROM t WHERE ", "x ILIKE ", "a::int", "t, ",
    ),
    "motif": ("(a)-[]->", "(a)-[]->(b);", "!", "(", "(a)-[e*9]->(b);", "(a)-[]->(b)\n(", "(a)-[]->(b)\nNOT ",
              "(a)-[]->(b)\na.n + ", "(a)-[e]-(b);"),
    "edn": ("[", "{", "#{", "(", "#_", "#a ", "^", "'", "[[] ", '"\\', "1", ":a/", "#inst "),
    "edn-query": ("[:find ", "[:find ?x :where (or ", "[:find ?x :where (not ", "[:find ?x :where [(+ ",
                  "[:find ?x :where [?x :a ?x] ", "(", "[:find ?x :where (or-join [?x] (and "),
    "transaction": ("[", "[[:db/add 1 :g/to ", "[{:db/id 1 :g/to ", "[[:db/add ", "{"),
}  # fmt: skip


@pytest.mark.parametrize(("name", "path"), KEPT, ids=[f"{name} {path.name}" for name, path in KEPT])
def test_what_broke_a_parser_breaks_it_no_more(name, path):
    read(name, text_of(path.read_bytes()))


@pytest.mark.drawn("name", "piece", share=3)
@pytest.mark.parametrize(("name", "piece"), [(name, piece) for name, pieces in DEEP.items() for piece in pieces])
def test_deep_and_long_texts(name, piece):
    began = time.process_time()
    for times in (101, 400):
        read(name, piece * times)
    assert time.process_time() - began < 10


def test_every_parser_is_fuzzed_from_texts_that_are_there():
    for target in TARGETS.values():
        for pattern in target.tests:
            assert [path for path in ROOT.glob(pattern) if path.is_file()], pattern
