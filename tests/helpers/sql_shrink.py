"""The least of a case that still fails: fewer views, shorter queries, fewer ticks and rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import sqlglot
from sqlglot import expressions as sql

from tests.helpers.sql_comparison import Case

SECONDS = 30.0
"""Time limit for shrinking one case, in seconds."""


def shrunk(case: Case, fails: Callable[[Case], bool], seconds: float = SECONDS) -> Case:
    """Return a smaller case for which `fails` is still true, within `seconds`."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        smaller = next((candidate for candidate in _smaller(case) if time.monotonic() < end and fails(candidate)), None)
        if smaller is None:
            break
        case = smaller
    return case


def _smaller(case: Case) -> Iterator[Case]:
    for number in range(len(case.views) - 1, -1, -1):
        if len(case.views) > 1:
            yield replace(case, views=case.views[:number] + case.views[number + 1 :])
    for number, (name, body) in enumerate(case.views):
        for text in _shorter(body):
            yield replace(case, views=(*case.views[:number], (name, text), *case.views[number + 1 :]))
    script = list(case.script)
    for number in range(len(script)):
        if len(script) > 1:
            yield replace(case, script=[*script[:number], *script[number + 1 :]])
    for number, tick in enumerate(script):
        for name, changes in tick.items():
            half = len(changes) // 2
            cuts = [(0, half), (half, len(changes))] if half > 1 else []
            cuts += [(at, at + 1) for at in range(len(changes))]
            for low, high in cuts:
                fewer = {**tick, name: [*changes[:low], *changes[high:]]}
                yield replace(case, script=[*script[:number], fewer, *script[number + 1 :]])
    for table in case.tables:
        if not any(tick.get(table.name) for tick in script):
            without = [{name: rows for name, rows in tick.items() if name != table.name} for tick in script]
            others = tuple(candidate for candidate in case.tables if candidate != table)
            yield replace(case, tables=others, script=without)


def _shorter(text: str) -> Iterator[str]:
    """Queries with a part less, the large parts first."""
    tree = sqlglot.parse_one(text, dialect="duckdb")
    for node in tree.find_all(sql.Query):
        if node is not tree and not isinstance(node, sql.Subquery):
            yield node.sql("duckdb")
    count = sum(1 for _ in tree.walk())
    for index in range(count):
        for way in range(4):
            copy = tree.copy()
            node = next(candidate for position, candidate in enumerate(copy.walk()) if position == index)
            if not _cut(node, way):
                break
            found = copy.sql("duckdb")
            if len(found) < len(text):
                yield found


def _cut(node: sql.Expr, way: int) -> bool:
    """Take something out of a tree in place; False if there is no such way."""
    ways: list[Callable[[], object]] = []
    if isinstance(node, (sql.And, sql.Or, sql.SetOperation, sql.Add, sql.Sub, sql.Mul, sql.DPipe)) and node.parent:
        ways = [lambda: node.replace(node.this), lambda: node.replace(node.expression)]
    elif isinstance(node, (sql.Not, sql.Paren, sql.Neg, sql.Sum, sql.Min, sql.Max, sql.Avg)) and node.parent:
        ways = [lambda: node.replace(node.this)]
    elif isinstance(node, sql.SetOperation):
        ways = [lambda: None]
    elif isinstance(node, (sql.Where, sql.Having, sql.Group, sql.Join, sql.With, sql.CTE, sql.Distinct)):
        ways = [node.pop]
    elif isinstance(node, sql.Select) and len(node.expressions) > 1:
        ways = [child.pop for child in node.expressions]
    if way >= len(ways):
        return False
    ways[way]()
    return True
