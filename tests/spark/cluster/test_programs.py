"""Programs of every kind on cells equal one engine: negation, calculations, nulls, facts, aggregates, SQL."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'gpu_wcoj[spark]'")

import pyarrow as pa

from bench.tpch.data import generated, generator, stream
from bench.tpch.queries import QUERIES as TPC_H
from bench.tpch.queries import columns_of
from gpu_wcoj import Program
from gpu_wcoj.errors import GpuWcojError
from gpu_wcoj.query.datalog import parse
from gpu_wcoj.query.ir import Rules
from gpu_wcoj.query.translation import read
from gpu_wcoj.spark.cluster.layout import choose
from gpu_wcoj.spark.cluster.plan import cell_plan
from gpu_wcoj.spark.sources import WEIGHT, as_change
from tests.spark.cluster.local_cells import LocalCells, Row
from tests.spark.cluster.random_programs import ARITIES, random_program, random_ticks

COLUMNS = {name: pa.schema([("a", pa.int64()), ("b", pa.int64())][:width]) for name, width in ARITIES.items()}
LAYOUTS: list[tuple[Literal["hypercube", "replicated"], int]] = [
    ("hypercube", 1), ("hypercube", 2), ("hypercube", 3), ("hypercube", 7),
    ("replicated", 1), ("replicated", 2), ("replicated", 3), ("replicated", 7),
]  # fmt: skip
N_RANDOM = 300 if "TEST_SPARK" in os.environ else 20
"""Random programs: all of them in ``make test-spark``, with other seeds each time."""


def answers_of_one_engine(program: Program, ticks: Sequence[dict[str, list[Row]]]) -> list[dict[str, Counter[Row]]]:
    """Return the changes of the outputs, tick by tick."""
    found = []
    for tick in ticks:
        changes = {}
        for name, rows in tick.items():
            schema = COLUMNS[name].append(pa.field(WEIGHT, pa.int64()))
            columns = list(zip(*rows, strict=True)) or [() for _ in schema]
            changes[name] = as_change(pa.table([pa.array(list(c), pa.int64()) for c in columns], schema=schema))
        found.append({name: Counter(rows.to_dict()) for name, rows in program.step(changes).items()})
    return found


def assert_equal(program: str | Rules, bag: bool, seed: int, layouts: Sequence[tuple[Any, int]], n: int = 3) -> None:
    """Compare cells with one engine after every tick."""
    alone = Program(program, bag=bag, backend="cpu")
    ticks = [{name: tick[name] for name in alone.inputs} for tick in random_ticks(random.Random(seed), n, bag)]
    expected = answers_of_one_engine(alone, ticks)
    for layout, cells in layouts:
        spread = LocalCells(program, {name: COLUMNS[name] for name in alone.inputs}, layout, cells, bag=bag)
        for i, tick in enumerate(ticks):
            assert spread.step(tick) == expected[i], f"seed {seed}, tick {i}, {layout} with {cells} cells:\n{program}"


def test_random_programs() -> None:
    """A program that the engine refuses, or a tick that it refuses, is left out."""
    compared = refused = 0
    first = random.randrange(1 << 30) if "TEST_SPARK" in os.environ else 0
    print("first seed", first)
    for seed in range(first, first + N_RANDOM):
        rnd = random.Random(seed)
        text, bag = random_program(rnd), rnd.random() < 0.4
        try:
            Program(text, backend="cpu", bag=bag)
        except GpuWcojError:
            refused += 1
            continue
        layouts = LAYOUTS if "TEST_SPARK" in os.environ else [LAYOUTS[(1, 5, 2, 6)[seed % 4]]]
        assert_equal(text, bag, seed, layouts)
        compared += 1
    assert compared > 3 * refused


QUERIES = [
    "SELECT e.a, count(*) n, sum(f.b) s, avg(e.b) m, min(f.b) x, count(DISTINCT f.b) d FROM e JOIN f ON e.b = f.a "  # noqa: ISC004  # one query
    "WHERE NOT EXISTS (SELECT 1 FROM g WHERE g.a = e.a) GROUP BY e.a HAVING count(*) > 1",
    "SELECT DISTINCT a FROM e",
    "SELECT a FROM e UNION SELECT a FROM g EXCEPT SELECT b FROM f",
    "SELECT a FROM e INTERSECT SELECT a FROM f",
    "SELECT a, b FROM e WHERE b > (SELECT avg(b) FROM f)",
    "SELECT a, sum(b) s FROM e GROUP BY a ORDER BY s DESC, a LIMIT 3",
    "SELECT e.a, f.b, e.b + f.b FROM e LEFT JOIN f ON e.b = f.a",
    "SELECT count(*), sum(b), max(a) FROM e",
    "SELECT a FROM e WHERE a IN (SELECT a FROM g) AND b NOT IN (SELECT b FROM f WHERE b IS NOT NULL)",
    "SELECT n, count(*) FROM (SELECT a, count(*) n FROM e GROUP BY a) GROUP BY n",
    "SELECT CASE WHEN a > 3 THEN 'x' ELSE 'y' END k, count(*) FROM e GROUP BY 1",
]


@pytest.mark.parametrize("query", QUERIES)
def test_sql(query: str) -> None:
    tables = {name: dict.fromkeys(schema.names, "int64") for name, schema in COLUMNS.items()}
    rules = read(query, "sql", tables=tables, dialect="duckdb").rules
    assert_equal(rules, True, len(query), [("hypercube", 3), ("replicated", 2)], n=2)


def stages_of(program: str | Rules, bag: bool = False) -> list[str]:
    alone = Program(program, bag=bag, backend="cpu")
    return [
        stage.kind for stage in cell_plan(alone.rules, alone.outputs, bag, choose(alone.rules, "hypercube", 4)).stages
    ]


@pytest.mark.parametrize(
    ("text", "stages"),
    [
        ("t(a, b) :- e(a, b), !f(b, _), !g(a).", ["join"]),
        ("t(a, b, c) :- e(a, b), c = a + b, f(c, _).", ["join"]),
        ("d(a, count()) :- e(a, b), f(b, _).", ["join", "group"]),
        ("n(a, c) :- g(a), c = sum v : { e(a, v), !f(v, _) }, c > 2.", ["join", "group"]),
        ("c(n) :- n = count : { e(_, _) }. p(a, b) :- e(a, b), c(n), b < n.", ["join", "group", "join", "owner"]),
    ],
)
def test_an_exchange_for_each_partition(text: str, stages: list[str]) -> None:
    """Negation needs no exchange of its own, and what reads groups by their keys no further one."""
    assert stages_of(text) == stages


@pytest.mark.parametrize(
    ("text", "stages"),
    [
        ("t(a, b) :- e(a, b). t(a, c) :- t(a, b), e(b, c).", ["group"]),
        ("t(a, b) :- e(a, b). t(a, c) :- t(a, b), t(b, c).", ["group"]),
        ("s(a, b) :- e(p, a), e(p, b). s(a, b) :- e(x, a), s(x, y), e(y, b).", ["group"]),
        ("c(a, min(a)) :- e(a, _), a != null. c(b, min(l)) :- c(a, l), e(a, b).", ["group"]),
        ("d(a, b, min(n)) :- e(a, b), n = 1. d(a, c, min(n)) :- d(a, b, m), e(b, c), n = m + 1, n < 9.", ["group"]),
        ("r(a) :- g(a). r(b) :- r(a), e(a, b), !f(a, b). u(a, b) :- e(a, b), !r(a).", ["group", "join"]),
        (
            "t(a, b) :- e(a, b). t(a, c) :- t(a, b), e(b, c). k(a, count()) :- t(a, b). m(a) :- k(a, n), n > 2, g(a).",
            ["group"],
        ),
    ],
)
def test_recursion(text: str, stages: list[str]) -> None:
    """A recursion that passes a column on is split by it; what reads it by that column is in the same stage."""
    assert stages_of(text) == stages
    assert_equal(text, False, len(text), [("hypercube", 3), ("replicated", 2)], n=4)


def test_a_recursion_is_split_by_the_column_that_it_passes_on() -> None:
    ring = {"e": [(i, (i + 1) % 40, 1) for i in range(40)]}
    linear = LocalCells("t(a, b) :- e(a, b). t(a, c) :- t(a, b), e(b, c).", {"e": COLUMNS["e"]}, "hypercube", 4)
    squared = LocalCells("t(a, b) :- e(a, b). t(a, c) :- t(a, b), t(b, c).", {"e": COLUMNS["e"]}, "hypercube", 4)
    assert linear.step(ring)["t"].total() == squared.step(ring)["t"].total() == 1600
    assert len(linear.programs) == 4
    assert all(200 < program.count("group.t") < 800 for program in linear.programs.values())
    assert len(squared.programs) == 1


@pytest.mark.parametrize("query", sorted(TPC_H))
def test_views_of_tpc_h(query: str) -> None:
    """Twenty refreshes on four cells; sums of decimals are exact, and q8 divides them as one engine does."""
    if generator() is None:
        pytest.skip("tpchgen-cli is not installed: pip install 'gpu_wcoj[bench]'")
    begin, refreshes = stream(generated(0.01), 20, seed=1)
    columns = columns_of(TPC_H[query])
    types = {name: {column: str(begin[name].schema.field(column).type) for column in columns[name]} for name in columns}
    rules = read(TPC_H[query], "sql", tables=types, dialect="duckdb").rules
    alone = Program(rules, bag=True, backend="cpu")
    names = {name: list(alone.declared[name]) for name in alone.inputs}
    spread = LocalCells(
        rules, {name: begin[name].select(names[name]).schema for name in names}, "hypercube", 4, bag=True
    )
    loads = {name: begin[name].select(names[name]) for name in names}
    ticks = [
        {
            name: rows.append_column("weight", pa.repeat(pa.scalar(1, pa.int64()), len(rows)))
            for name, rows in loads.items()
        },
        *(tick.changes({name: names[name] for name in names}) for tick in refreshes),
    ]
    for tick in ticks:
        expected = alone.step({name: as_change(rows) for name, rows in tick.items()})["answer"]
        assert spread.step(tick)["answer"] == Counter(expected.to_dict())
    assert alone.count("answer") > 0


def test_a_group_of_many_rows_is_summed_before_it_is_sent() -> None:
    """A cell sends one row for a group, with the number of its rows as the weight; heavy groups are in many cells."""
    tables = {name: dict.fromkeys(schema.names, "int64") for name, schema in COLUMNS.items()}
    rules = read("SELECT a, count(*) FROM e GROUP BY a", "sql", tables=tables, dialect="duckdb").rules
    spread = LocalCells(rules, {"e": COLUMNS["e"]}, "hypercube", 4, bag=True, heavy={0: {"a": [7]}})
    answer = spread.step({"e": [(7, b, 1) for b in range(1000)]})
    assert answer == {"answer": Counter({(7, 1000): 1})}
    sent = [n for (stage, _), n in spread.sent.items() if stage == 1]
    assert sum(sent) == 4
    assert max(n for (stage, _), n in spread.sent.items() if stage == 0) < 400


@pytest.mark.parametrize("op", ["count()", "sum(c)", "mean(c)", "min(c)", "max(c)"])
def test_bindings_of_a_group_over_sets_are_summed_before_they_are_sent(op: str) -> None:
    """A hub has 10,000 paths, and its cells send a row for each value of the group."""
    text = f"d(a, {op}) :- e(a, b), f(b, c). u(a, b) :- e(a, b), g(a)."
    assert_equal(text, False, len(text), [("hypercube", 3), ("replicated", 2)], n=6)
    text = text.split(" u(", maxsplit=1)[0]
    spread = LocalCells(text, {"e": COLUMNS["e"], "f": COLUMNS["f"]}, "hypercube", 4)
    spread.step({"e": [(7, b, 1) for b in range(100)], "f": [(b, c, 1) for b in range(100) for c in range(100)]})
    sent = sum(n for (stage, _), n in spread.sent.items() if stage == 1)
    assert sent <= (4 if op == "count()" else 400)


@pytest.mark.parametrize("op", ["count()", "sum(b)", "mean(b)"])
def test_rows_of_a_group_stage_are_summed_before_a_later_group(op: str) -> None:
    """The rows that the last head groups are derived in the cells of the first head's groups."""
    text = f"h(x, n) :- e(x, _), n = sum v : {{ e(x, v) }}, n > 2. m({op}) :- h(a, b), h(a, b)."
    assert_equal(text, False, 471, [("hypercube", 2), ("hypercube", 3), ("replicated", 2)], n=6)
    assert stages_of(text) == ["join", "group", "group"]


def test_bindings_without_a_group_are_counted_by_their_first_column() -> None:
    """Rows that are cut to no column would be as many as one."""
    assert_equal("d(count()) :- e(a, b), f(b, c).", False, 1, [("hypercube", 3), ("replicated", 2)], n=6)


def test_plans_say_how_groups_are_computed() -> None:
    rules = parse("d(a, count()) :- e(a, b), f(b, _).")
    shown = str(cell_plan(rules, ("d",), False, choose(rules, "hypercube", 4)))
    assert "stage 2: groups d" in shown
    assert "d: is in the cell of its group's keys" in shown
