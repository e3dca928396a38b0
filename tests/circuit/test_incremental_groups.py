"""Negation, calculations and aggregates when state is moved or restored."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

import gpu_wcoj as gw
from tests.helpers.kernel_kinds import Kind, lacking

TEXT = """
few(x, n) :- v(x), n = count : { r(x, _) }.
total(x, sum(y)) :- r(x, y).
share(x, mean(y)) :- r(x, y).
least(x, min(y)) :- r(x, y).
most(max(y)) :- r(_, y).
alone(x) :- v(x), !r(x, x), !total(x, 3).
next(x, z) :- r(x, y), z = y * 2 + 1, !r(x, z).
.output few .output total .output share .output least .output most .output alone .output next
"""
BAGS = pytest.mark.parametrize("bag", [False, True], ids=["set", "bag"])


def ticks(seed, n=10):
    """Insertions and deletions of rows that are there."""
    chance = random.Random(seed)
    state, script = {"r": [], "v": []}, []
    for _ in range(n):
        change = {}
        for name, width in (("r", 2), ("v", 1)):
            fresh = [tuple(chance.randrange(6) for _ in range(width)) for _ in range(chance.randrange(5))]
            gone = chance.sample(state[name], min(len(state[name]), chance.randrange(3)))
            for row in gone:
                state[name].remove(row)
            state[name] += fresh
            change[name] = [*((row, -1) for row in gone), *((row, 1) for row in fresh)]
        script.append(change)
    return script


def contents(program):
    return {name: program.relation(name).rows() for name in (*program.inputs, *program.heads)}


def stepped(program, tick):
    return {name: zset.rows() for name, zset in program.step(tick).items()}


@pytest.mark.drawn("bag")
@BAGS
def test_nulls_and_wider_types_that_turn_up_later(bag):
    for seed in range(5):
        script = ticks(seed)
        columns = {"a": [None, 1, None, 2], "b": [1, None, 2, 70_000]}
        late = {"r": pa.table({name: pa.array(column, pa.int64()) for name, column in columns.items()})}
        first, second = (gw.Program(TEXT, bag=bag, inputs=["r", "v"]) for _ in range(2))
        second.step(late)
        second.step({"r": _reversed(late["r"])})
        for tick in script[:5]:
            small = {name: _narrow(rows, 2 if name == "r" else 1) for name, rows in tick.items()}
            first.step(small)
            second.step(small)
        assert stepped(first, late) == stepped(second, late)
        for tick in script[5:]:
            assert stepped(first, tick) == stepped(second, tick)
            assert contents(first) == contents(second)


def _narrow(rows, width):
    columns = {f"c{i}": pa.array([row[i] for row, _ in rows], pa.int16()) for i in range(width)}
    return pa.table(columns | {"weight": pa.array([weight for _, weight in rows], pa.int64())})


def _reversed(table):
    return table.append_column("weight", pa.array([-1] * len(table), pa.int64()))


@pytest.mark.drawn("bag")
@BAGS
def test_checkpoints(bag, tmp_path):
    for seed in range(3):
        script = ticks(seed)
        program = gw.Program(TEXT, bag=bag)
        for tick_index, tick in enumerate(script[:6]):
            program.step(tick)
            if tick_index % 2:
                program.checkpoint(tmp_path / f"{seed} {bag}")
        again = gw.Program.restore(tmp_path / f"{seed} {bag}")
        assert contents(again) == contents(program)
        for tick in script[6:]:
            assert stepped(again, tick) == stepped(program, tick)
        assert contents(again) == contents(program)


@pytest.mark.drawn("bag")
@BAGS
def test_ticks_on_either_side(bag):
    why = lacking("shim")
    if why is not None:
        pytest.skip(why)
    script = ticks(7, 14)
    plain = gw.Program(TEXT, bag=bag)
    both = gw.Program(TEXT, bag=bag, backend=Kind("shim").backend(3), route=6)
    for tick in script:
        assert stepped(both, tick) == stepped(plain, tick)
    assert contents(both) == contents(plain)


@pytest.mark.drawn("bag")
@BAGS
def test_one_big_tick_is_the_same_rows_one_per_tick(bag):
    for seed in range(5):
        script = ticks(seed, 4)
        rows = {name: [pair for tick in script for pair in tick[name]] for name in ("r", "v")}
        together, single = (gw.Program(TEXT, bag=bag, inputs=["r", "v"]) for _ in range(2))
        together.step(rows)
        singles = [(name, pair) for name, pairs in rows.items() for pair in pairs]
        for name, pair in singles:
            single.step({name: [pair]})
        assert contents(together) == contents(single)


def test_larger_ones_equal_duckdb():
    duckdb = pytest.importorskip("duckdb")
    random = np.random.default_rng(11)
    edges = np.unique(np.minimum(random.zipf(1.4, (60_000, 2)), 3_000), axis=0)
    random.shuffle(edges)
    text = """
    open(a, b, c) :- e(a, b), e(b, c), !e(a, c), a < c.
    wedges(b, n) :- node(b), n = count : { open(_, b, _) }.
    far(a, max(z)) :- open(a, b, c), z = c * 3 - b % 7.
    average(mean(c)) :- open(_, _, c).
    .output open .output wedges .output far .output average
    """
    program = gw.Program(text)
    base, added = edges[:-3000], edges[-3000:]
    program.load({"e": base, "node": np.arange(1, 3_001).reshape(-1, 1)})
    gone = base[random.choice(len(base), 2_000, replace=False)]
    change = np.concatenate([added, gone])
    weights = np.repeat([1, -1], [len(added), len(gone)])
    program.step_counts({"e": pa.table({"a": change[:, 0], "b": change[:, 1], "weight": weights})})
    remaining = {tuple(row) for row in edges.tolist()} - {tuple(row) for row in gone.tolist()}
    table = pa.table({"a": [a for a, _ in remaining], "b": [b for _, b in remaining]})
    with duckdb.connect() as connection:
        connection.register("e", table)
        connection.execute(
            "create table w as select x.a, x.b, y.b c from e x join e y on x.b = y.a"
            " where x.a < y.b and not exists (select 1 from e z where z.a = x.a and z.b = y.b)"
        )
        queries = {
            "wedges": "select n, (select count(*) from w where b = n) from generate_series(1, 3000) t(n)",
            "far": "select a, max(c * 3 - b % 7) from w group by a",
            "average": "select avg(c) from w",
        }
        for name, query in queries.items():
            assert {row for row, _ in program.relation(name).rows()} == set(connection.execute(query).fetchall()), name
        assert program.count("open") == connection.execute("select count(*) from w").fetchone()[0]
