"""Wide queries: the counted work of planning grows with what a query has, not with its square or what it ignores."""

from __future__ import annotations

import random
from collections import Counter

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import gpu_wcoj as gw
from gpu_wcoj.backend import select_backend
from gpu_wcoj.planner import statistics
from gpu_wcoj.planner.cost import Estimator
from gpu_wcoj.planner.join_order import Chooser
from gpu_wcoj.planner.statistics import sample_statistics
from gpu_wcoj.query.ir import Constant

CPU = select_backend("cpu")


def counted(monkeypatch, owner, *names):
    """Count the calls of functions."""
    seen = Counter()

    def counting(name, function):
        def call(*arguments, **options):
            seen[name] += 1
            return function(*arguments, **options)

        return call

    for name in names:
        monkeypatch.setattr(owner, name, counting(name, getattr(owner, name)))
    return seen


def star(n):
    """Return a fact table joined with n dimensions, all of whose columns are listed."""
    listed = ", ".join(f"d{i}.b b{i}" for i in range(n))
    return f"SELECT f.id, {listed} FROM f" + "".join(f" JOIN d{i} ON f.k{i} = d{i}.a" for i in range(n))


def star_tables(n, rows, seed=0):
    draw = np.random.default_rng(seed)
    facts = {"id": np.arange(rows), **{f"k{i}": draw.integers(0, 3, rows) for i in range(n)}}
    return {
        "f": pa.table(facts),
        **{f"d{i}": pa.table({"a": draw.integers(0, 3, min(rows, 3)), "b": np.arange(min(rows, 3))}) for i in range(n)},
    }


def test_orders_of_empty_tables_are_not_compared(monkeypatch):
    work = []
    for n in (6, 12):
        with monkeypatch.context() as patch:
            seen = counted(patch, Estimator, "over")
            greedy = counted(patch, Chooser, "_greedy")
            gw.view(star(n), star_tables(n, 0), threads=1)
        assert greedy["_greedy"] == 0
        work.append(seen["over"])
    assert 0 < work[1] <= 4 * work[0]


@pytest.mark.parametrize("n_columns", [2, 16, 64])
def test_only_columns_and_pairs_that_are_asked_for_are_counted(monkeypatch, n_columns):
    draw = np.random.default_rng(1)
    columns = [draw.integers(0, 40, 300) for _ in range(n_columns)]
    seen = counted(monkeypatch, statistics, "_numbered", "_cells")
    facts = sample_statistics(columns, None, CPU)
    pairs = set(zip(columns[0].tolist(), columns[1].tolist(), strict=True))
    assert facts.values([1]) == len(set(columns[1].tolist()))
    assert facts.values([0, 1]) == len(pairs)
    assert facts.below([0], 1) > len(pairs) / 40
    assert seen["_numbered"] <= 3
    assert seen["_cells"] <= 2
    assert len(facts.with_pairs.met) == n_columns * (n_columns - 1)


def test_a_condition_is_not_compared_with_all_others(monkeypatch):
    work = []
    for n in (100, 200):
        text = "SELECT a FROM t WHERE " + " AND ".join(f"a % {i + 2} <> 1" for i in range(n))
        with monkeypatch.context() as patch:
            seen = counted(patch, Constant, "__eq__")
            gw.query(text, t={"a": [1, 0]}, language="sql")
        work.append(seen["__eq__"])
    assert 0 < work[1] <= 2.5 * work[0]


def test_answers_of_wide_queries_are_those_of_duckdb():
    """A star of 7 dimensions, some in LEFT JOINs, with 40 conditions: loaded, and after rows are deleted."""
    n, chance = 7, random.Random(2)
    tables = star_tables(n, 60)
    text = "SELECT f.id, " + ", ".join(f"d{i}.b + {i} b{i}" for i in range(n)) + " FROM f"
    text += "".join(f"{' LEFT' if i % 3 == 1 else ''} JOIN d{i} ON f.k{i} = d{i}.a" for i in range(n))
    text += " WHERE " + " AND ".join(f"f.id <> {i}" for i in range(0, 80, 2))
    view = gw.view(text, tables, language="sql", threads=1)
    for name in ("", "f", "d1", "d2"):
        if name:
            deleted = sorted(chance.sample(range(len(tables[name])), len(tables[name]) // 3))
            rows = tables[name].take(deleted)
            view.apply(**{name: rows.append_column("weight", pa.array([-1] * len(rows)))})
            tables[name] = tables[name].take([i for i in range(len(tables[name])) if i not in deleted])
        with duckdb.connect() as connection:
            for table, content in tables.items():
                connection.register(table, content)
            expected = Counter(connection.sql(text).fetchall())
        assert Counter(view.snapshot().rows()) == expected


def test_unread_columns_of_a_bag_cost_few_estimates(monkeypatch):
    """Every row of a bag counts, with columns that nothing reads: their order is not searched for."""
    work = []
    draw = np.random.default_rng(0)
    text = "SELECT d.x, e.x y, f.c1 FROM f, d, e WHERE f.d = d.id AND f.e = e.id AND f.c9 IS NULL"
    dimension = pa.table({"id": np.arange(2000), "x": draw.integers(0, 5, 2000)})
    for width in (10, 40):
        is_null = draw.random((width, 4000)) < 0.02
        columns = {f"c{i}": pa.array(draw.integers(0, 2 + i, 4000), mask=is_null[i]) for i in range(width)}
        facts = pa.table({"d": draw.integers(0, 2000, 4000), "e": draw.integers(0, 2000, 4000), **columns})
        tables = {"f": facts, "d": dimension, "e": dimension}
        with monkeypatch.context() as patch:
            seen = counted(patch, Estimator, "level")
            view = gw.view(text, tables, language="sql", backend="cpu")
            work.append(seen["level"])
        assert view.count() == len(registered(tables).sql(text).fetchall())
    assert 0 < work[1] <= 6 * work[0]


def registered(tables):
    """Return a connection of DuckDB that knows these tables."""
    connection = duckdb.connect()
    for name, table in tables.items():
        connection.register(name, table)
    return connection
