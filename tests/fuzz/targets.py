"""What is fuzzed: for each language a function of a text, out of which only errors of this package may come."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpu_wcoj.datoms import Database
from gpu_wcoj.errors import GpuWcojError
from gpu_wcoj.query import edn, languages, motif, translation
from gpu_wcoj.query.datalog import parse
from gpu_wcoj.query.desugar import desugar
from gpu_wcoj.query.ir import Rules
from gpu_wcoj.query.motif import compile as motifs
from gpu_wcoj.query.printer import as_datalog

ROOT = Path(__file__).parents[2]
CORPUS = Path(__file__).parent / "corpus"
"""Texts that broke a parser once, in a folder for each."""


@dataclass(frozen=True)
class Target:
    """A parser, and what its fuzzing starts from.

    Attributes
    ----------
    run
        Reads a text.
    tests
        Files of tests whose texts are the seeds: patterns of their paths in the sources.
    words
        Pieces that texts are likely to be made of.
    """

    run: Callable[[str], None]
    tests: tuple[str, ...]
    words: tuple[str, ...]


def _datalog(text: str) -> None:
    rules = parse(text)
    assert parse(str(rules)) == rules
    assert parse(as_datalog(rules)) == rules
    desugar(rules)


def _printed(rules: Rules) -> None:
    """What came of a text is a program, which can be printed and read again."""
    try:
        again = parse(as_datalog(rules))
        desugar(rules)
    except GpuWcojError as error:
        raise AssertionError(f"the rules are no program: {error}\n{rules}") from error
    assert len(again.rules) == len(rules.rules)


TABLES = {
    "t": {"a": "int64", "b": "string", "c": "double", "d": "date32[day]", "e": "bool", "f": "decimal128(9, 2)"},
    "s": {"a": "int64", "g": "string", "h": None},
    "edges": {"src": "int64", "dst": "int64"},
    "edge": {"src": None, "dst": None},
}
ATTRIBUTES = {
    ":a": edn.Attribute("long"), ":to": edn.Attribute("ref"), ":name": edn.Attribute("string", unique=True),
    ":color": edn.Attribute("keyword"), ":x": edn.Attribute("double"), ":ok": edn.Attribute("boolean"),
    ":at": edn.Attribute("instant"),
}  # fmt: skip


def _sql(text: str) -> None:
    dialect = ("duckdb", "duckdb", "postgres", "spark")[len(text) % 4]
    _printed(translation.read(text, "sql", tables=TABLES, dialect=dialect).rules)


def _edn(text: str) -> None:
    form = edn.read(text)
    edn.to_python(form)
    assert str(form)


def _edn_query(text: str) -> None:
    sources = {
        "$": edn.Datoms(ATTRIBUTES),
        **{name: edn.Relation(name, tuple(own), tuple(own.values())) for name, own in TABLES.items()},
    }
    n_arguments = text.partition(":in")[2][:20].count("?")
    _printed(edn.parse(text, sources, arguments=(5, ["x", "y"])[:n_arguments]).rules)


def _transaction(text: str) -> None:
    database = Database(schema={":g/to": {":db/valueType": ":db.type/ref", ":db/cardinality": ":db.cardinality/many"}})
    before = len(database)
    try:
        database.transact(text)
    except GpuWcojError:
        assert len(database) == before
        raise


def _motif(text: str) -> None:
    """A motif on the first line, and what it is to satisfy on the others."""
    first, _, where = text.partition("\n")
    graph = motifs.Graph(("id", "name", "n"), ("src", "dst", "amount", "text"))
    semantics = motifs.SEMANTICS[len(text) % 3]
    _printed(motifs.compile_motif(motif.parse(first), where=where or None, semantics=semantics, graph=graph).rules)


def _language(text: str) -> None:
    assert languages.language_of(text) in languages.LANGUAGES


TARGETS: Final[Mapping[str, Target]] = {
    "datalog": Target(
        _datalog,
        ("tests/query/test_datalog*.py", "tests/helpers/recursive_programs.py", "tests/program/test_language.py"),
        (
            ":-", ".decl ", ".input ", ".output ", "count : { ", "sum ", "min(", "max(", "mean ", "not ", "!", "!=",
            "<=", "null", "x?", "true", "false", "cat(", "substr(", "strlen(", "/*", "*/", "//", "0.5m", "year(",
            "like(", "timestamp[us]", "decimal(9, 2)", ": int64", '"a"', "_", "h(x) :- r(x).", "\\u00e9",
            ";", "(", ")", ".type T = ", "[x, nil]", "$A(x)", " | ", "<: symbol", ".comp C<T> : D { ", "}",
            ".init c = C<T>",
            "c.r(x)", ".override r", "range(0, x, 2)", " band ", "bnot ", "^", "0xff", "5u", "to_string(", "as(x, T)",
            "eqrel", ".printsize ", ".test h 3", "?x", "h()",
        ),
    ),
    "sql": Target(
        _sql,
        ("tests/query/test_sql*.py", "tests/helpers/sql_*.py", "tests/views/test_view.py", "bench/lsqb/sql.py"),
        (
            "SELECT ", " FROM ", " WHERE ", " JOIN ", "LEFT JOIN ", "FULL JOIN ", " ON ", " USING (", "NATURAL ",
            " GROUP BY ", " HAVING ", "COUNT(*)", "SUM(", "MIN(", "AVG(", "DISTINCT ", " UNION ", " UNION ALL ",
            " EXCEPT ", " INTERSECT ", "EXISTS (", "NOT ", " IN (", "BETWEEN ", " IS NULL", "CASE WHEN ", " THEN ",
            " ELSE ", " END", "WITH ", "RECURSIVE ", " AS ", "CREATE VIEW ", "COALESCE(", "LIKE ", "VALUES (",
            "INTERVAL ", "DATE '", "CAST(", " OR ", " AND ", "edges", "src", "dst", "t", "s", "a", "b", "NULL", "TRUE",
            "ORDER BY ", "LIMIT ", " OVER (", "FILTER (WHERE ", "::int", "EXTRACT(year FROM ", '"', "'", "--", "/*",
        ),
    ),
    "motif": Target(
        _motif,
        ("tests/query/test_motif.py", "tests/views/test_*.py", "tests/views/test_view.py"),
        (
            "(a)", "-[e]->", "<-[", "]-", "]->", "; ", "!", "()", "*2", "*1..3", "..", "\n", "a.name", "e.amount",
            " AND ", " OR ", "NOT ", " IN (", "BETWEEN ", " IS NULL", "'x'", " > ", " = ", "TRUE", "`",
            "(a)-[e]->(b)\ne.amount > 5",
        ),
    ),
    "edn": Target(
        _edn,
        ("tests/query/test_edn*.py", "tests/helpers/edn_queries.py", "tests/datoms/test_transaction*.py"),
        ("[", "]", "{", "}", "#{", "(", ")", "#inst ", "#uuid ", "#_", "\\newline", ":a/b", "nil", "true", "1N", "1.5M",
         '"', ";", ",", "##Inf", "'", "^", "@", "\\u0041", "+", "-", "/", "1e5", "0x1"),
    ),
    "edn-query": Target(
        _edn_query,
        ("tests/query/test_edn*.py", "tests/helpers/edn_queries.py", "tests/datoms/test_subscriptions.py",
         "tests/views/test_view.py"),
        (
            "[:find ", ":where ", ":in $ ", ":with ", ":keys ", "?x", "?y", "[?x :a ?y]", "[?x :to ?y]", "(count ?x)",
            "(sum ?x)", "(or ", "(or-join [?x] ", "(not ", "(not-join [?x] ", "(and ", "[(> ?x 5)]", "[(+ ?x 1) ?y]",
            "[(ground [1 2]) [?x ...]]", "[$edges ?a ?b]", "(edges ?a ?b)", "%", ":rules ", "(r ?x ?y)", "...", "_",
            " . ", ":name", ":color", '"x"', "[[?x ?y]]", "[(str ?x) ?y]", "(distinct ?x)", "[:find ?x :where [?x :a]]",
        ),
    ),
    "transaction": Target(
        _transaction,
        ("tests/datoms/test_transaction*.py", "tests/datoms/test_changes.py", "tests/datoms/test_schema.py"),
        ("[[:db/add ", "[:db/retract ", "[:db/retractEntity ", "{:db/id ", ":g/to", ":name ", "#db/id", '"tmp"', "-1",
         "[:name \"x\"]", "#inst \"2026-01-01\"", "#uuid ", "1.5", "true", "nil", "[[:db/add 1 :g/to 2]]"),
    ),
    "language": Target(
        _language, ("tests/query/test_languages.py",), ("select", "with", "/*", "*/", "--", "(", "!(", "[:find")
    ),
}  # fmt: skip


def text_of(data: bytes) -> str:
    """Any bytes as a text: what is no UTF-8 becomes halves of surrogate pairs."""
    return data.decode("utf-8", "surrogateescape")


def read(name: str, text: str) -> None:
    """Give a text to a target; what is wrong with it may be said in errors of this package only."""
    try:
        TARGETS[name].run(text)
    except GpuWcojError as error:
        _worded(error)


def _worded(error: GpuWcojError) -> None:
    shown = str(error)
    if not shown.strip() or len(shown) > 20_000:
        raise AssertionError(f"an error of {len(shown)} characters") from error
