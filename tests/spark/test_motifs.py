"""Motifs over DataFrames, on one engine and on cells, against their definition."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'gpu_wcoj[spark]'")

import gpu_wcoj as gw
import gpu_wcoj.spark as gws
from gpu_wcoj.errors import ColumnError, SchemaError, TypeMismatchError, UsageError
from gpu_wcoj.query.motif import parse
from gpu_wcoj.spark.motifs import MAX_CARRIED
from gpu_wcoj.spark.schema import spark_schema
from tests.helpers.motif_graphs import EDGES, MOTIFS, VERTICES, condition, counted, edges, graph, vertices
from tests.reference.motifs import matches

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SEMANTICS = ("homomorphism", "edges-distinct", "nodes-distinct")
RING = "(a)-[t1]->(b); (b)-[t2]->(c); (c)-[t3]->(a)"


@dataclass
class Graph:
    """What a GraphFrame looks like from outside."""

    vertices: DataFrame
    edges: DataFrame


def frames(spark: SparkSession, nodes: Any, lines: Any) -> Graph:
    return Graph(
        spark.createDataFrame(vertices(nodes), spark_schema(VERTICES)),
        spark.createDataFrame(edges(lines), spark_schema(EDGES)),
    )


def rows_of(frame: DataFrame) -> Counter[Any]:
    return counted(row.asDict(recursive=True) for row in frame.collect())


@pytest.mark.parametrize("motif", MOTIFS)
@pytest.mark.parametrize("layout", ["one", "hypercube"])
def test_every_form_by_its_definition(spark: SparkSession, motif: str, layout: Any) -> None:
    chance = random.Random(f"{motif}{layout}")
    nodes, lines = graph(chance)
    semantics = chance.choice(SEMANTICS)
    tables = frames(spark, nodes, lines)
    has_vertices = chance.random() < 0.7
    how: dict[str, Any] = {"layout": layout, "cells": 2 if layout == "hypercube" else None, "semantics": semantics}
    found = gws.find(tables if has_vertices else tables.edges, motif, **how)
    want = counted(matches(motif, nodes if has_vertices else None, lines, semantics))
    assert rows_of(found) == want, (motif, semantics)
    assert found.columns == gw.find(motif, vertices=vertices(nodes), edges=edges(lines)).columns


@pytest.mark.parametrize("seed", range(6))
def test_random_conditions_leave_what_gw_find_leaves(spark: SparkSession, seed: int) -> None:
    chance = random.Random(seed)
    nodes, lines = graph(chance)
    motif = chance.choice(["(a)-[e]->(b)", "(a)-[e]->(b); (b)-[f]->(c)", "(a)-[e]-(b)", "(a)-[e]->(b); (c)-[e]->(d)"])
    where = condition(chance, parse(motif), True)
    tables = frames(spark, nodes, lines)
    want = gw.find(motif, vertices=vertices(nodes), edges=edges(lines), where=where).to_arrow().to_pylist()
    assert rows_of(gws.find(tables, motif, where=where)) == counted(want), (seed, motif, where)
    total = gws.count(spark, motif, {"vertices": tables.vertices, "edges": tables.edges}, where=where)
    assert total == {"motif": len(want)}


def test_what_is_behind_it_is_spark_s(spark: SparkSession) -> None:
    people = spark.createDataFrame([(1, "DE"), (2, "CH"), (3, "DE")], "id int, country string")
    transfers = spark.createDataFrame(
        [(1, 2, 950, 1), (2, 3, 990, 2), (3, 1, 910, 3), (3, 1, 910, 3), (1, 3, 5, 4)],
        "src bigint, dst int, amount int, time int",
    )
    rings = gws.find((people, transfers), RING, where="t1.amount > 900 AND t2.time > t1.time")
    assert rings.columns == ["a", "t1", "b", "t2", "c", "t3"]
    assert rings.schema["a"].dataType == people.schema
    assert rings.schema["t1"].dataType == transfers.schema
    counts = rings.filter("a.country = 'DE'").groupBy("b.id").count().collect()
    assert sorted(map(tuple, counts)) == [(2, 2)]
    assert rings.limit(1).count() == 1
    assert rings.select("c.*").columns == ["id", "country"]


def test_columns_of_all_types_arrive_as_they_are(spark: SparkSession) -> None:
    """Columns that the engine does not support, and many columns, are looked up; others travel with the pattern."""
    day = dt.date(2026, 1, 31)
    narrow = spark.createDataFrame(
        [("x", 1.5, day, None), ("y", None, None, b"12")], "id string, score double, day date, code binary"
    )
    many = ", ".join(f"c{i} int" for i in range(MAX_CARRIED + 1))
    lines = [("x", "y", [1, 2], *range(MAX_CARRIED + 1)), ("y", "x", None, *[None] * (MAX_CARRIED + 1))]
    wide = spark.createDataFrame(lines, f"src string, dst string, tags array<int>, {many}")
    text = gws.explain(spark, "(a)-[e]->(b)", {"vertices": narrow, "edges": wide})
    assert "columns of 'e' are joined to the matches by row number: column 'tags' has the type 'array<int>'" in text
    assert "the join reads 'id', 'score', 'day', 'code' of the vertices" in text
    (row,) = gws.find((narrow, wide), "(a)-[e]->(b)", where="e.c0 = 0").collect()
    assert row.a.asDict() == {"id": "x", "score": 1.5, "day": day, "code": None}
    assert tuple(row.e) == lines[0]
    assert bytes(row.b.code) == b"12"
    flipped = gws.find((wide.selectExpr("src AS id", "*"), narrow.selectExpr("id AS src", "'y' AS dst", "*")),
                       "(a)-[e]->(b); (a)-[*1..2]->(c)")  # fmt: skip
    assert "columns of 'a' are joined to the matches by id" in gws.explain(
        spark, "(a)-[e]->(b)", {"vertices": wide.selectExpr("src AS id", "*"), "edges": wide}
    )
    assert {str(tuple(row.a)[1:]) for row in flipped.collect()} == set(map(str, lines))


def test_odd_names(spark: SparkSession) -> None:
    nodes = spark.createDataFrame([(1, 2, 3)], "`the id` int, `a.b` int, `weight` int")
    lines = spark.createDataFrame([(1, 1, 5, 6)], "`from.it` int, `to` int, id int, `weight` int")
    keys = {"id": "the id", "src": "from.it", "dst": "to"}
    (row,) = gws.find((nodes, lines), "(weight)-[id]->(b)", **keys).collect()
    assert row.asDict(recursive=True) == {
        "weight": {"the id": 1, "a.b": 2, "weight": 3}, "b": {"the id": 1, "a.b": 2, "weight": 3},
        "id": {"from.it": 1, "to": 1, "id": 5, "weight": 6},
    }  # fmt: skip
    chosen = gws.find((nodes, lines), "(weight)-[id]->(b)", columns=["weight.a.b", "id.weight"], **keys)
    assert (chosen.columns, [tuple(row) for row in chosen.collect()]) == (["weight.a.b", "id.weight"], [(2, 6)])
    with pytest.raises(UsageError, match="the columns 'a' and 'A' of output 'the matches' differ only in case"):
        gws.find(lines, "(a)-[]->(A)", **keys)


def test_ids_restrict_vertices(spark: SparkSession) -> None:
    lines = spark.createDataFrame([("x", "y"), ("y", "z")], "src string, dst string")
    for ids in (["x", "q", "x"], spark.createDataFrame([("x",), ("x",)], "name string")):
        assert [row.b.id for row in gws.find(lines, "(a)-[]->(b)", ids={"a": ids}).collect()] == ["y"]
        assert gws.count(spark, "(a)-[]->(b)", {"edges": lines}, ids={"a": ids}) == {"motif": 1}


@pytest.mark.parametrize("layout", ["one", "hypercube"])
def test_wrong_graphs(spark: SparkSession, layout: Any) -> None:
    how: dict[str, Any] = {"layout": layout, "cells": None if layout == "one" else 2}
    nodes = spark.createDataFrame([(1, "x")], "id int, name string")
    lines = spark.createDataFrame([(1, 1, 5)], "src int, dst int, amount int")
    with pytest.raises(ColumnError, match="relation 'edges' has no column 'kind'"):
        gws.find((nodes, lines), "(a)-[e]->(b)", columns=["e.kind"], **how)
    with pytest.raises(SchemaError, match=r"(?s)no column 'amunt' \(line 1.*Did you mean 'amount'"):
        gws.find((nodes, lines), "(a)-[e]->(b)", where="e.amunt > 1", **how)
    with pytest.raises(SchemaError, match="the edges need a column 'src', which is missing: got 'id', 'name'"):
        gws.find((nodes, nodes), "(a)-[e]->(b)", **how)
    with pytest.raises(SchemaError, match="the vertices need a column 'id'"):
        gws.find((lines, lines), "(a)-[e]->(b)", **how)
    with pytest.raises(TypeMismatchError, match="edges"):
        gws.find((nodes.selectExpr("name AS id"), lines), "(a)-[e]->(b)", **how)
    with pytest.raises(SchemaError, match=r"the edges, column 'dst': .* is null"):
        gws.find((nodes, lines.unionAll(spark.createDataFrame([(1, None, 2)], lines.schema))), "(a)-[e]->(b)", **how)
    with pytest.raises(SchemaError, match="the vertices have several rows of the id 1: got 2, expected 1"):
        gws.find((nodes.unionAll(nodes), lines), "(a)-[e]->(b)", **how)


def test_what_find_does_not_take(spark: SparkSession) -> None:
    lines = spark.createDataFrame([(1, 1, 5)], "src int, dst int, amount int")
    with pytest.raises(UsageError, match="the graph has the wrong type: got str"):
        gws.find("(a)-[e]->(b)", lines)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="'edges' has a source of the wrong type"):
        gws.find(Graph(lines, {"src": [1], "dst": [2]}), "(a)-[e]->(b)")  # type: ignore[arg-type]
    stream = spark.readStream.format("rate").load().selectExpr("value AS src", "value AS dst")
    with pytest.raises(UsageError, match=r"(?s)is a stream.*Use maintain for streams"):
        gws.find(stream, "(a)-[e]->(b)")
    with pytest.raises(UsageError, match="unknown option 'layuot'"):
        gws.find(lines, "(a)-[e]->(b)", layuot="one")
    with pytest.raises(UsageError, match="unknown option of a motif 'wher'"):
        gws.count(spark, "(a)-[e]->(b)", {"edges": lines}, wher="e.amount > 1")
    with pytest.raises(UsageError, match="unknown table of a motif 'edge'"):
        gws.count(spark, "(a)-[e]->(b)", {"edge": lines})
    with pytest.raises(UsageError, match="the option 'where' for a program that is not a motif"):
        gws.count(spark, "n(a) :- edges(a, b, c).", {"edges": lines}, where="e.amount > 1")
