"""SQL that is refused: which error, where it points, and what it says to write instead."""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping

import pytest

import gpu_wcoj as gw
from gpu_wcoj.arrow import sql_expressions
from gpu_wcoj.errors import (
    BackendUnavailableError,
    TypeMismatchError,
)
from gpu_wcoj.query.sql import parse

TABLES: Mapping[str, Mapping[str, str | None]] = {
    "r": {"a": "int64", "b": "int64"},
    "s": {"b": "int64", "c": "int64"},
    "t": {"n": "string", "d": "date32[day]", "x": "double", "p": "bool"},
    "u": {"ts": "timestamp[us]", "d": "date32[day]"},
    "Q": {"Mixed": None},
}


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
