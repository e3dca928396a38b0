"""Matches that are kept up to date, against those found afresh after every tick; and changes that are refused."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

import gpu_wcoj as gw
from gpu_wcoj.errors import ColumnError, SchemaError, TypeMismatchError, UnsupportedError, UsageError
from gpu_wcoj.query.motif import parse
from tests.helpers.long_tests import IS_LONG
from tests.helpers.motif_graphs import MOTIFS, condition, edge, edges, frozen_row, graph, vertex, vertices
from tests.views.test_find import SEMANTICS

N_SCRIPTS = 300 if IS_LONG else 24


@pytest.mark.drawn("seed", share=2)
@pytest.mark.parametrize("seed", range(N_SCRIPTS))
def test_kept_matches_are_those_found_afresh(seed: int):
    chance = random.Random(seed)
    nodes, lines = graph(chance)
    has_vertices = chance.random() < 0.75
    text = chance.choice(MOTIFS)
    motif = parse(text)
    where = condition(chance, motif, has_vertices) if chance.random() < 0.5 else None
    fields = ("id", "size", "colour") if has_vertices else ("id",)
    every = [f"{one}.{name}" for one in motif.vertices for name in fields]
    every += [f"{one}.{name}" for one in motif.edges for name in ("src", "dst", "amount", "kind")]
    columns = None if chance.random() < 0.5 else chance.sample([*every, *motif.columns], k=2)
    options: dict[str, Any] = {"where": where, "semantics": chance.choice(SEMANTICS), "columns": columns}

    def given() -> dict[str, Any]:
        return {"vertices": vertices(nodes) if has_vertices else None, "edges": edges(lines)}

    def afresh() -> Counter[Any]:
        return Counter(map(frozen_row, gw.find(text, **given(), **options).to_arrow().to_pylist()))

    try:
        matcher = gw.Matcher(text, **given(), **options)
    except UnsupportedError as error:
        pytest.skip(str(error).splitlines()[0])
    state = afresh()
    for _ in range(6):
        of_nodes: list[tuple[dict[str, Any], int]] = []
        of_lines: list[tuple[dict[str, Any], int]] = []
        for _ in range(chance.randint(0, 2) if has_vertices else 0):
            if nodes and chance.random() < 0.6:
                old = nodes.pop(chance.randrange(len(nodes)))
                of_nodes.append((old, -1))
                if chance.random() < 0.7:  # the vertex stays, with other columns
                    nodes.append(vertex(chance, old["id"]))
                    of_nodes.append((nodes[-1], 1))
            else:
                nodes.append(
                    vertex(chance, chance.choice([at for at in range(20) if all(at != one["id"] for one in nodes)]))
                )
                of_nodes.append((nodes[-1], 1))
        for _ in range(chance.randint(0, 4)):
            if lines and chance.random() < 0.5:
                of_lines.append((lines.pop(chance.randrange(len(lines))), -1))
            else:
                lines.append(edge(chance, [one["id"] for one in nodes] or [1, 2]))
                of_lines.append((lines[-1], 1))
        chance.shuffle(of_nodes)
        chance.shuffle(of_lines)
        changed = matcher.apply(
            vertices=vertices(*zip(*of_nodes, strict=True)) if of_nodes else None,
            edges=edges(*zip(*of_lines, strict=True)) if of_lines else None,
        )
        rows = changed.to_arrow().to_pylist()
        weights = [row.pop(changed.weight_name) for row in rows]
        keys = list(map(frozen_row, rows))
        assert len(set(keys)) == len(keys) == len(changed)
        assert all(weights)
        for key, weight in zip(keys, weights, strict=True):
            state[key] += weight
        state = Counter({key: weight for key, weight in state.items() if weight})
        want = afresh()
        assert state == want
        assert Counter(map(frozen_row, matcher.matches().to_arrow().to_pylist())) == want
        assert matcher.count() == want.total()


def test_a_vertex_changes_by_its_row():
    people = {"id": [1, 2], "name": ["Ann", "Bo"], "age": [30, 40]}
    matcher = gw.Matcher("(a)-[]->(b)", vertices=people, edges={"src": [1], "dst": [2]}, columns=["a.id", "b.name"])
    change = {"id": [2, 2], "name": ["Bo", "Bob"], "age": [40, 41], "weight": [-1, 1]}
    assert matcher.apply(vertices=change).rows() == [((1, "Bo"), -1), ((1, "Bob"), 1)]
    # what nobody asks for changes nothing
    change = {"id": [1, 1], "name": ["Ann", "Anna"], "age": [30, 31], "weight": [-1, 1]}
    assert len(matcher.apply(vertices=change)) == 0
    assert matcher.matches().to_arrow().to_pylist() == [{"a.id": 1, "b.name": "Bob"}]


def test_columns_called_weight():
    lines = {"src": [1, 1], "dst": [2, 3], "weight": [5, 6]}
    matcher = gw.Matcher("(a)-[e]->(b)", edges=lines, where="e.weight > 5", columns=["e.weight"])
    assert matcher.apply(edges={"src": [1], "dst": [9], "weight": [7]}).rows() == [((7,), 1)]
    changed = matcher.apply(edges={"src": [1], "dst": [9], "weight": [7], "_weight": [-1]})
    assert changed.rows() == [((7,), -1)]
    assert changed.weight_name == "weight"
    matcher = gw.Matcher("(weight)-[]->()", edges={"src": [1], "dst": [2]}, columns=["weight"])
    assert matcher.apply(edges={"src": [3], "dst": [4]}).weight_name == "_weight"


def test_what_cannot_be_changed_is_refused_and_changes_nothing():
    people = {"id": [1, 2], "name": ["Ann", "Bo"]}
    matcher = gw.Matcher("(a)-[e]->(b)", vertices=people, edges={"src": [1, 1], "dst": [2, 2], "n": [5, 5]})
    before = matcher.matches().rows(weights=True)
    refused = [
        (
            {"edges": {"src": [1], "dst": [2], "n": [6], "weight": [-1]}},
            SchemaError, "cannot be deleted 1 times, it is present 0 times",
        ),
        (
            {"edges": {"src": [1], "dst": [2], "n": [5], "weight": [-3]}},
            SchemaError, "cannot be deleted 3 times, it is present 2 times",
        ),
        (
            {"vertices": {"id": [1], "name": ["Al"]}},
            SchemaError, "the inserted vertex 1 is already present",
        ),
        (
            {"vertices": {"id": [3, 3], "name": ["Al", "Bo"]}},
            SchemaError, "the inserted vertex 3 is .* inserted twice",
        ),
        (
            {"vertices": {"id": [1], "name": ["Al"], "weight": [-1]}},
            SchemaError, "cannot be deleted 1 times, it is present 0 times",
        ),
        ({"vertices": {"id": [None], "name": ["Al"]}}, SchemaError, "column 'id': row 0 is null"),
        ({"edges": {"src": [1], "dst": [None], "n": [5]}}, SchemaError, "column 'dst': row 0 is null"),
        ({"edges": {"src": [1], "dst": [2]}}, ColumnError, "has no column 'n'"),
        ({"edges": {"src": [1], "dst": [2], "n": [5], "m": [5]}}, ColumnError, "has no column 'm'"),
        ({"edges": {"src": [1], "dst": [2], "n": ["x"]}}, TypeMismatchError, "column 'n'"),
        (
            {"vertices": {"id": [3], "name": ["Cy"]}, "edges": {"src": [1], "dst": [2], "n": [6], "weight": [-1]}},
            SchemaError, "it is present 0 times",
        ),
        ({"nodes": people}, UsageError, "unknown table of a motif 'nodes'"),
    ]  # fmt: skip
    for change, error, message in refused:
        with pytest.raises(error, match=message):
            matcher.step(change)
        assert matcher.matches().rows(weights=True) == before
    assert len(matcher.apply(vertices={"id": [3], "name": ["Cy"]}, edges={"src": [3], "dst": [1], "n": [1]})) == 1
    alone = gw.Matcher("(a)-[e]->(b)", edges={"src": [1], "dst": [2]})
    with pytest.raises(UsageError, match="a change of vertices is not possible"):
        alone.apply(vertices={"id": [3]})


def test_a_tick_that_fails_within_the_program_changes_nothing():
    matcher = gw.Matcher(
        "(a)-[e]->(b)", edges={"src": [1], "dst": [2], "n": [2]}, where="10 / e.n > 1 AND 10 % e.n = 0"
    )
    before = matcher.matches().rows(weights=True)
    with pytest.raises(gw.errors.CalculationError):
        matcher.apply(edges={"src": [1, 1], "dst": [3, 2], "n": [0, 2], "weight": [1, -1]})
    assert matcher.matches().rows(weights=True) == before
    assert matcher.apply(edges={"src": [1, 1], "dst": [3, 2], "n": [5, 2], "weight": [1, -1]}).rows() == [
        (({"id": 1}, {"src": 1, "dst": 2, "n": 2}, {"id": 2}), -1),
        (({"id": 1}, {"src": 1, "dst": 3, "n": 5}, {"id": 3}), 1),
    ]


def test_rows_that_come_and_go_in_one_change_cancel():
    matcher = gw.Matcher("(a)-[]->(b)", edges={"src": [1], "dst": [2]}, columns=["b.id"])
    change = {"src": [7, 7, 1, 1], "dst": [8, 8, 2, 2], "weight": [-1, 1, 1, 2]}
    assert matcher.apply(edges=change).rows() == [((2,), 3)]
    assert matcher.apply(edges=gw.ZSet.from_dict({(1, 2): -4, (5, 6): 2}, ["src", "dst"])).rows() == [
        ((2,), -4),
        ((6,), 2),
    ]


def test_tables_begin_empty():
    for nothing in (
        {"src": [], "dst": [], "n": []},
        pa.table({name: pa.array([], pa.int64()) for name in ("src", "dst", "n")}),
        edges([]).select(["src", "dst", "amount"]).rename_columns(["src", "dst", "n"]),
    ):
        matcher = gw.Matcher("(a)-[e]->(b); (b)-[]->(a)", edges=nothing, where="e.n > 1")
        assert len(matcher.matches()) == matcher.count() == 0
        assert matcher.matches().to_arrow().num_rows == 0
        assert len(matcher.apply(edges={"src": [], "dst": [], "n": []})) == 0
        rows = {"src": [1, 2], "dst": [2, 1], "n": [1, 2]}
        assert [weight for _, weight in matcher.apply(edges=rows).rows()] == [1]
        assert [weight for _, weight in matcher.apply(edges={**rows, "weight": [-1, -1]}).rows()] == [-1]


def test_many_ticks_leave_no_rows_behind():
    matcher = gw.Matcher(
        "(a)-[e]->(b)", edges={"src": [0], "dst": [0], "tags": pa.array([["x"]])}, columns=["e.tags", "b"]
    )
    for at in range(1, 3001, 60):
        rows = {"src": list(range(at, at + 60)), "dst": [1] * 60, "tags": pa.array([["x", str(at)]] * 60)}
        assert sum(weight for _, weight in matcher.apply(edges=rows).rows()) == 60
        assert sum(weight for _, weight in matcher.apply(edges={**rows, "weight": [-1] * 60}).rows()) == -60
    assert matcher.count() == 1
    assert sum(map(len, matcher._edges.contents.blocks)) < 2048
    assert matcher.matches().rows(weights=True) == [((["x"], {"id": 0}), 1)]


def test_ids_hold_for_later_rows_too():
    matcher = gw.Matcher("(a)-[]->(b)", edges={"src": [1], "dst": [2]}, ids={"a": [1, 3, 3, None]}, columns=["a.id"])
    assert matcher.apply(edges={"src": [2, 3], "dst": [1, 1]}).rows() == [((3,), 1)]


def test_changes_come_as_a_mapping_too():
    people = {"id": [1, 2]}
    matcher = gw.Matcher("(a)-[]->(b)", vertices=people, edges={"src": [1], "dst": [2]}, columns=["a.id", "b.id"])
    assert matcher.apply({"edges": {"src": [2], "dst": [1]}}).rows() == [((2, 1), 1)]
    assert matcher.apply({"edges": {"src": [3], "dst": [1]}}, vertices={"id": [3]}).rows() == [((3, 1), 1)]
    assert matcher.apply_counted({"vertices": {"id": [3], "weight": [-1]}}) == -1
    matcher.load({"edges": {"src": [2], "dst": [2]}})
    assert matcher.apply({}).rows() == matcher.apply().rows() == []
    for apply in (matcher.apply, matcher.apply_counted, matcher.load):
        with pytest.raises(UsageError, match="unknown table of a motif 'nodes'"):
            apply({"nodes": people})
        with pytest.raises(UsageError, match="the table 'edges' is given twice"):
            apply({"edges": {"src": [2], "dst": [1]}}, edges={"src": [2], "dst": [1]})
        with pytest.raises(UsageError, match="the argument changes has the wrong type: got Table"):
            apply(pa.table({"src": [2], "dst": [1]}))
    assert matcher.matches().rows(weights=True) == [((1, 2), 1), ((2, 1), 1), ((2, 2), 1)]
