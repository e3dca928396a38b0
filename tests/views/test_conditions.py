"""What ``where`` leaves of matches, against DuckDB over all of them."""

from __future__ import annotations

import datetime as dt
import random

import pyarrow as pa
import pytest

import gpu_wcoj as gw
from gpu_wcoj.query.motif import parse
from tests.helpers.long_tests import IS_LONG
from tests.helpers.motif_graphs import MOTIFS, condition, counted, edges, graph, schema_of, vertices
from tests.reference.motifs import matches
from tests.views.test_find import SEMANTICS

duckdb = pytest.importorskip("duckdb")

N_CONDITIONS = 2000 if IS_LONG else 100


def test_random_conditions_leave_what_duckdb_leaves():
    names = [motif for motif in MOTIFS if not motif.startswith("()")]
    connection = duckdb.connect()
    for seed in range(N_CONDITIONS):
        chance = random.Random(seed)
        nodes, lines = graph(chance)
        text, semantics, has_vertices = chance.choice(names), chance.choice(SEMANTICS), chance.random() < 0.8
        motif = parse(text)
        where = condition(chance, motif, has_vertices)
        every = list(matches(text, nodes if has_vertices else None, lines, semantics))
        connection.register("every", pa.Table.from_pylist(every, schema_of(motif, has_vertices)))
        want = connection.sql(f"SELECT * FROM every WHERE {where}").to_arrow_table().to_pylist()
        given = vertices(nodes) if has_vertices else None
        found = gw.find(text, vertices=given, edges=edges(lines), semantics=semantics, where=where)
        assert counted(found.to_arrow().to_pylist()) == counted(want), (seed, text, where, semantics)


def test_integers_beside_floats():
    lines = {"src": [1, 2, 3], "dst": [2, 3, 4], "n": [1, 2, 3], "x": [0.5, 2.0, 3.5]}
    for where, want in (
        ("e.n > 1.5", [2, 3]), ("e.n = e.x", [2]), ("e.n IN (1.0, 2.5)", [1]), ("e.x IN (2, 3)", [2]),
        ("e.x > 1", [2, 3]),
        ("e.n + e.x > 3.9", [2, 3]), ("e.n / 2 = 1.5", [3]), ("e.n / 2 = 1", [2]), ("-e.n < -1.5", [2, 3]),
        ("e.n BETWEEN 1.5 AND 2.5", [2]), ("e.n % 2 = 1", [1, 3]), ("e.n * 1.5 > 2.9", [2, 3]),
    ):  # fmt: skip
        found = gw.find("()-[e]->()", edges=lines, where=where, columns=["e.n"])
        assert [row for (row,) in found] == want, where


def test_dates_texts_and_truth_values():
    days = [dt.date(2024, 1, 30), dt.date(2024, 2, 1), None]
    lines = {
        "src": [1, 2, 3],
        "dst": [2, 3, 4],
        "day": pa.array(days),
        "ok": [True, False, None],
        "s": ["it's", "b", None],
    }
    for where, want in (
        ("e.day < '2024-02-01'", [1]), ("year(e.day) = 2024 AND month(e.day) = 2", [2]), ("day(e.day) = 30", [1]),
        ("e.ok", [1]), ("NOT e.ok", [2]), ("e.ok IS NULL", [3]), ("e.ok = FALSE", [2]), ("e.s = 'it''s'", [1]),
        ("e.s LIKE '_'", [2]), ("e.s NOT LIKE 'it%'", [2]), ("upper(e.s) = 'B'", [2]), ("length(e.s) > 1", [1]),
        ("e.day IS NULL OR e.ok", [1, 3]), ("TRUE", [1, 2, 3]), ("FALSE", []), ("1 = 1", [1, 2, 3]),
        ("1 > 2 OR e.ok", [1]),
        ("NOT (e.s IN (NULL))", []), ("e.s IN (NULL) OR e.src = 1", [1]), ("abs(e.src - 3) = 2", [1]),
    ):  # fmt: skip
        found = gw.find("()-[e]->()", edges=lines, where=where, columns=["e.src"])
        assert [row for (row,) in found] == want, where


def test_columns_and_elements_of_odd_names():
    lines = {"src": [1, 2], "dst": [2, 1], "a column": [5, 6], "order": [1, 2], "weight": [7, 8]}
    found = gw.find(
        "(1)-[count]->(not)", edges=lines,
        where="count.`a column` > 5 AND count.order = 2 AND count.weight = 8 AND 1.id = 2",
        columns=["1.id", "count.a column", "not", "count.weight"],
    )  # fmt: skip
    assert found.to_arrow().to_pylist() == [{"1.id": 2, "count.a column": 6, "not": {"id": 1}, "count.weight": 8}]


def test_elements_that_a_way_does_not_have_are_null():
    lines = {"src": [1, 2, 3], "dst": [2, 3, 4], "n": [1, 2, 3]}
    for where, want in (
        ("_e2.n > 0", {2}), ("_e2.n IS NULL", {1}), ("_ab1.id = 2", {2}), ("_e2.n IS NULL OR _e2.n > 2", {1, 2}),
        ("_hop = 1", {1}), ("_hop IN (1, 2)", {1, 2}), ("_hop + 1 = 3", {2}), ("_direction = 'out'", {1, 2}),
        ("_pattern = '(a)-[e*2]->(b)'", {2}), ("_direction = 'in'", set()),
    ):  # fmt: skip
        found = gw.find("(a)-[e*1..2]->(b)", edges=lines, where=where, columns=["_hop"])
        assert {row for (row,) in found} == want, where
