"""Merged prefixes: answers are as without them, and columns that only have to exist multiply no work."""

from __future__ import annotations

import random

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import gpu_wcoj as gw
from gpu_wcoj.engine.replicas import proposed_by
from gpu_wcoj.errors import WeightOverflowError
from gpu_wcoj.join import eliminate
from gpu_wcoj.join.settings import tune
from tests.helpers.comparison import check_scripts
from tests.helpers.join_patterns import PATTERNS

NOT_EXISTS = "NOT EXISTS (SELECT 1 FROM s q WHERE q.a = x2.b)"


@pytest.fixture
def any_prefixes(monkeypatch):
    """Prefixes are merged wherever two of them may be equal."""
    monkeypatch.setattr(eliminate.Merging, "_is_expensive", lambda *_: True)
    monkeypatch.setattr(eliminate.Merging, "_max_distinct", lambda *_: 2.0)


@pytest.mark.drawn("bag", "name", share=4)
@pytest.mark.usefixtures("any_prefixes")
@pytest.mark.parametrize("bag", [False, True])
@pytest.mark.parametrize("name", PATTERNS)
def test_changes_equal_recomputation(name, bag):
    with tune(max_tick_rows=-1):
        check_scripts(PATTERNS[name], range(2), bag=bag, backend="cpu")


def drawn_tables(chance, n_rows=60):
    """Three relations of few values, with duplicates."""
    columns = [[chance.randrange(8) for _ in range(n_rows)] for _ in range(6)]
    return {name: pa.table({"a": columns[2 * i], "b": columns[2 * i + 1]}) for i, name in enumerate("rst")}


@pytest.mark.usefixtures("any_prefixes")
@pytest.mark.parametrize("seed", range(6))
def test_queries_equal_duckdb(seed):
    chance = random.Random(seed)
    tables = drawn_tables(chance)
    sources = [chance.choice("rst") for _ in range(4)]
    joins = [f"x{chance.randrange(i)}.{chance.choice('ab')} = x{i}.{chance.choice('ab')}" for i in range(1, 4)]
    conditions = [
        *joins,
        chance.choice(["x1.a < 6", "x0.b <> x3.b", NOT_EXISTS]),
    ]
    heads = f"x{chance.randrange(4)}.a AS h, x{chance.randrange(4)}.b AS g"
    tail = f"FROM {', '.join(f'{name} x{i}' for i, name in enumerate(sources))} WHERE {' AND '.join(conditions)}"
    with duckdb.connect() as connection:
        for name, rows in tables.items():
            connection.register(name, rows)
        for select in (f"SELECT {heads}", f"SELECT DISTINCT {heads}"):
            text = f"{select} {tail}"
            expected = sorted(connection.sql(text).fetchall())
            for off in ((), ("merged prefixes",)):
                with tune(off=frozenset(off)):
                    answer = pa.table(gw.query(text, tables, backend="cpu"))
                assert sorted(zip(*(answer[name].to_pylist() for name in "hg"), strict=True)) == expected, (seed, text)


def hub_rows(n=4_000):
    """Rows of `left` lead to one of ten values, each of which has 400 rows of `right`."""
    row = np.arange(n)
    return {"left": np.stack([row, row % 10], 1), "right": np.stack([row % 10, row], 1)}


def answer_once(off=(), bag=False):
    """Return the answer to a query whose column k leads from 4 values of u to 10 of m, and its work."""
    row = np.arange(4_000)
    columns = {"left": (row % 4, row), "middle": (row, row % 10), "right": (row % 10, row)}
    rows = {name: np.stack(pair, 1) for name, pair in columns.items()}
    text = "h(u, v) :- left(u, k), middle(k, m), right(m, v)."
    with tune(off=frozenset(off)):
        program = gw.Program(text, single_tick=True, threads=1, backend="cpu", bag=bag)
    (answer,) = program.answer(rows).values()
    return answer, proposed_by(program.last_tick.work)


@pytest.mark.parametrize("bag", [False, True])
def test_what_only_has_to_exist_multiplies_nothing(bag):
    answer, work = answer_once({"load paths"}, bag=bag)
    expected, listed = answer_once({"load paths", "merged prefixes"}, bag=bag)
    assert answer == expected
    assert len(answer) == 8_000
    assert work < 30_000
    assert listed > 10 * work


@pytest.mark.parametrize("bag", [False, True])
def test_a_tick_and_its_opposite_leave_nothing(bag):
    with tune(off=frozenset({"projections"}), max_tick_rows=-1):
        program = gw.Program("h(v) :- left(u, k), right(k, v).", threads=1, backend="cpu", bag=bag)
    rows = hub_rows()
    program.step({"left": [], "right": rows["right"]})
    left = gw.ZSet.from_rows([(tuple(row), 1) for row in rows["left"].tolist()])
    change = program.step({"left": left})["h"]
    assert proposed_by(program.last_tick.work) < 20_000
    assert int(change.weights.sum()) == (1_600_000 if bag else 4_000)
    assert program.step({"left": -left})["h"] == -change


@pytest.mark.parametrize("weight", [1, -1])
def test_weights_that_leave_int64_are_refused(weight):
    keys = range(2_000)
    with tune(off=frozenset({"projections"})):
        program = gw.Program("h(v) :- left(u, k), right(k, v).", bag=True, backend="cpu")
    program.step({"left": [], "right": gw.ZSet.from_rows([((0, v), 1 << 30) for v in keys])})
    heavy = gw.ZSet.from_rows([((u, 0), weight << 32) for u in keys])
    with pytest.raises(WeightOverflowError):
        program.step({"left": heavy})
    change = program.step({"left": gw.ZSet.from_rows([((u, 0), weight) for u in keys])})["h"]
    assert change.to_dict() == {(v,): weight * 2_000 << 30 for v in keys}
