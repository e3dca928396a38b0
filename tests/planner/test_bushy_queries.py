"""Queries that chance wrote, their steps bracketed by chance: answers are DuckDB's."""

from __future__ import annotations

import random
from typing import Any

import pytest

from bench.suite.random_queries import random_query
from tests.helpers.long_tests import IS_LONG
from tests.helpers.random_duckdb_queries import N_TICKS, Judge, check, random_script, rows_for
from tests.helpers.random_plans import with_any_branches

N_QUERIES = 1000 if IS_LONG else 16


@pytest.mark.drawn("bag")
@pytest.mark.parametrize("bag", [False, True], ids=["set", "bag"])
@pytest.mark.parametrize("textual", [False, True], ids=["integers", "text"])
def test_any_branches(bag, textual, monkeypatch):
    chance = random.Random(f"{bag} {textual}")
    with_any_branches(monkeypatch, chance, orders=not textual)
    judge = Judge()
    queries = [
        one for one in map(random_query, range(bag, N_QUERIES, 1 if IS_LONG else 2)) if one.is_textual == textual
    ]
    for n_rows in sorted(set(map(rows_for, queries))):
        script = random_script(chance, n_rows, bag=bag, textual=textual, nulls=n_rows % 2 == 0)
        judge.load(script, [N_TICKS - 1], bag=bag, textual=textual)
        for number, query in enumerate(one for one in queries if rows_for(one) == n_rows):
            options: dict[str, Any] = {"threads": 1, "chunk_rows": (None, 1, 7)[number % 3], "replan": None}
            check(judge, query, script, [N_TICKS - 1], bag=bag, backend="cpu", **options)
    judge.connection.close()
