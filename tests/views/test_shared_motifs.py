"""Motifs as views of a connection: the matches of `find` after every tick, beside other views of the same tables."""

from __future__ import annotations

import random
from typing import Any

import pytest

import gpu_wcoj as gw
from gpu_wcoj.errors import ColumnError, UnknownRelationError, UsageError
from gpu_wcoj.query.motif import parse
from tests.helpers.motif_graphs import MOTIFS, condition, counted, edge, edges, graph, vertex, vertices

NUMBERED = ("(a)-[e]->(b); (c)-[e]->(d)", "(a)-[e]-(b); (c)-[e]->(d)", "(a)-[e]-(b); (b)-[e]-(c)")
"""Motifs in which two terms are the same edge."""

RING = "(a)-[t1]->(b); (b)-[t2]->(c); (c)-[t3]->(a)"


def matches_of(view: Any) -> Any:
    return counted(view.snapshot().to_arrow().to_pylist())


@pytest.mark.drawn("motif", share=2)
@pytest.mark.parametrize("motif", MOTIFS)
def test_matches_are_those_found_afresh_after_every_tick(motif: str) -> None:
    chance = random.Random(motif)
    nodes, lines = graph(chance)
    has_vertices = chance.random() < 0.7
    where = condition(chance, parse(motif), has_vertices) if chance.random() < 0.5 and "_" not in motif else None
    tables = {"transfers": edges(lines)} | ({"accounts": vertices(nodes)} if has_vertices else {})
    named: dict[str, Any] = {"edges": "transfers", "where": where} | ({"vertices": "accounts"} if has_vertices else {})
    connection = gw.connect(tables, bag=True)
    if motif in NUMBERED:
        with pytest.raises(UsageError, match="tells equal edges apart, in a connection"):
            connection.view(motif, **named)
        return
    view = connection.view(motif, **named)
    assert isinstance(view, gw.View)
    total = connection.view("SELECT count(*) FROM matches", name="total")
    seen = matches_of(view)
    ends = [one["id"] for one in nodes] or [1]
    for _ in range(5):
        gone = [chance.choice(lines)] if lines and chance.random() < 0.6 else []
        come = [edge(chance, ends) for _ in range(chance.randint(0, 2))]
        changes = {"transfers": edges([*gone, *come], [-1] * len(gone) + [1] * len(come))}
        for line in gone:
            lines.remove(line)
        lines += come
        if has_vertices and chance.random() < 0.5:
            number = chance.choice(ends)
            before = [one for one in nodes if one["id"] == number]
            after = [vertex(chance, number)] if not before else []
            nodes = [one for one in nodes if one["id"] != number] + after
            changes["accounts"] = vertices([*before, *after], [-1] * len(before) + [1] * len(after))
        change = view.apply(changes)
        for row, weight in zip(change.to_arrow().to_pylist(), [weight for _, weight in change.rows()], strict=True):
            row.pop("weight")
            (key,) = counted([row])
            seen[key] += weight
        found = gw.find(motif, vertices=vertices(nodes) if has_vertices else None, edges=edges(lines), where=where)
        assert matches_of(view) == counted(found.to_arrow().to_pylist()) == +seen, (motif, where)
        assert total.snapshot().rows() == [(len(found),)]
        assert view.snapshot().columns == found.columns
        assert view.count() == len(found)


def test_motifs_sql_and_datalog_share_the_tables() -> None:
    """Two motifs read the relation that SQL and Datalog read, and each other's matches; one tick changes all."""
    transfers = {"day": [1, 2, 3], "src": ["x", "y", "z"], "amount": [950, 990, 910], "dst": ["y", "z", "x"]}
    connection = gw.connect(transfers=transfers, bag=True)
    rings = connection.view(RING, edges="transfers", name="rings", where="t1.amount > 900", columns=["a.id", "t1"])
    pairs = connection.view("(a)-[e]->(b)", edges="transfers", name="pairs", columns=["b.id"])
    of_rings = connection.view('SELECT "a.id" AS who, count(*) AS n FROM rings GROUP BY "a.id"', name="of_rings")
    hops = connection.view("hop(a, c) :- transfers(_, a, _, b), transfers(_, b, _, c).")
    got: list[Any] = []
    rings.subscribe(got.append)
    assert rings.count() == 3
    assert connection.relations == ["transfers"]
    change = connection.apply(transfers={"day": [4], "src": ["x"], "amount": [1000], "dst": ["y"]})
    assert rings.count() == 6
    assert pairs.count() == 4
    assert hops.count() == 5
    assert sorted(of_rings.snapshot().rows()) == [("x", 2), ("y", 2), ("z", 2)]
    assert sum(weight for _, weight in change["rings"].rows()) == 3
    assert change["rings"].names[0] == "a.id"
    ((new, weight),) = [row for row in got[0].rows() if row[0][0] == "x"]
    assert (new[1], weight) == ({"day": 4, "src": "x", "amount": 1000, "dst": "y"}, 1)
    with pytest.raises(UsageError, match="another view reads it"):
        rings.close()
    of_rings.close()
    rings.close()
    assert pairs.apply(transfers={"day": [4], "src": ["x"], "amount": [1000], "dst": ["y"], "weight": [-1]}).net == -1


def test_a_checkpoint_keeps_the_columns_of_the_matches(tmp_path: Any) -> None:
    with gw.connect(edges={"src": [1, 2], "dst": [2, 3], "n": [5, 6]}, bag=True) as connection:
        view = connection.view("(a)-[e*1..2]->(b)")
        kept = view.snapshot().to_arrow()
        connection.checkpoint(tmp_path)
    again = gw.Connection.restore(tmp_path)
    restored = again.views["matches"]
    assert restored.snapshot().to_arrow().equals(kept)
    assert again.apply(edges={"src": [3], "dst": [1], "n": [7]})["matches"]
    found = gw.find("(a)-[e*1..2]->(b)", edges={"src": [1, 2, 3], "dst": [2, 3, 1], "n": [5, 6, 7]})
    assert matches_of(restored) == counted(found.to_arrow().to_pylist())
    alone = gw.View.restore(tmp_path)
    assert alone.snapshot().to_arrow().equals(kept)


def test_what_a_motif_of_a_connection_cannot_be_is_refused() -> None:
    connection = gw.connect(transfers={"src": [1], "dst": [2]}, bag=True)
    cases: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({}, UnknownRelationError, "unknown relation 'edges'.\n.*\n  Name the edges: edges='...'"),
        ({"edges": "transfer"}, UnknownRelationError, "Did you mean 'transfers'"),
        ({"edges": "transfers", "vertices": "people"}, UnknownRelationError, "Name the vertices: vertices='...'"),
        ({"edges": "transfers", "semantics": "edges-distinct"}, UsageError, "tells equal edges apart, in a connection"),
        ({"edges": "transfers", "ids": {"a": [1]}}, UsageError, "the option 'ids' for a motif is not supported"),
        ({"edges": "transfers", "wher": "a.id > 1"}, UsageError, "Did you mean 'where'"),
        ({"edges": "transfers", "outputs": ["x"]}, UsageError, "the option 'outputs' for a motif"),
        ({"edges": "transfers", "src": "from"}, gw.errors.SchemaError, "need a column 'from'"),
        ({"edges": "transfers", "columns": ["a.name"]}, ColumnError, "name"),
    ]
    motif = "(a)-[e]->(b); (b)-[f]->(a)"
    for options, kind, message in cases:
        with pytest.raises(kind, match=message):
            connection.view(motif, **options)
    assert not connection.views
    view = connection.view(motif, edges="transfers", name="both")
    assert view.apply(transfers={"src": [2], "dst": [1]}).net == 2
    with pytest.raises(UsageError, match="the query counts rows, as SQL does"):
        gw.connect(edges={"src": [1], "dst": [2]}, bag=False).view(motif)


def test_a_first_view_may_bring_its_tables() -> None:
    connection = gw.connect()
    view = connection.view("(a)-[]->(b)", edges={"src": [1], "dst": [2]}, vertices={"id": [1, 2], "name": ["x", "y"]})
    assert view.snapshot().rows() == [({"id": 1, "name": "x"}, {"id": 2, "name": "y"})]
    assert sorted(connection.relations) == ["edges", "vertices"]
    assert view.apply(vertices={"id": [2, 2], "name": ["y", "z"], "weight": [-1, 1]}).net == 0
    assert view.snapshot().rows() == [({"id": 1, "name": "x"}, {"id": 2, "name": "z"})]
