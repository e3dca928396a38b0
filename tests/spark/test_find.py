"""Motifs in DataFrames of Spark, and in what has vertices and edges as a GraphFrame has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

import gpu_wcoj as gw
from gpu_wcoj.errors import ColumnError, UsageError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PEOPLE = [("a", "Alice", 34), ("b", "Bob", 36), ("c", "Charlie", 30), ("d", "David", 29), ("e", "Esther", 32)]
CALLS = [("a", "b", "friend"), ("b", "c", "follow"), ("c", "b", "follow"), ("e", "d", "friend"), ("d", "a", "friend"),
         ("a", "e", "friend")]  # fmt: skip


@dataclass
class Graph:
    """What a GraphFrame looks like from outside."""

    vertices: DataFrame
    edges: DataFrame


@pytest.fixture(scope="module")
def graph(spark: SparkSession) -> Graph:
    return Graph(
        spark.createDataFrame(PEOPLE, "id string, name string, age long"),
        spark.createDataFrame(CALLS, "src string, dst string, relationship string"),
    )


def test_a_graph_and_its_frames(graph: Graph):
    motif = "(a)-[e]->(b); (b)-[f]->(c); !(c)-[]->(a)"
    where = "a.age > 30.5 AND e.relationship = 'friend'"
    found = gw.find(motif, graph, where=where)
    tables = {
        "vertices": dict(zip(("id", "name", "age"), map(list, zip(*PEOPLE, strict=True)), strict=True)),
        "edges": dict(zip(("src", "dst", "relationship"), map(list, zip(*CALLS, strict=True)), strict=True)),
    }
    rows = gw.find(motif, where=where, **tables).to_arrow().to_pylist()
    assert rows
    by_edges = lambda row: (row["e"]["src"], row["e"]["dst"], row["f"]["dst"])  # noqa: E731
    assert sorted(found.to_arrow().to_pylist(), key=by_edges) == sorted(rows, key=by_edges)
    # and what Spark itself joins
    people, calls = graph.vertices, graph.edges
    joined = (
        people.alias("a").join(calls.alias("e"), _is("a.id", "e.src"))
        .join(people.alias("b"), _is("b.id", "e.dst")).join(calls.alias("f"), _is("f.src", "b.id"))
        .join(people.alias("c"), _is("c.id", "f.dst"))
        .join(calls.alias("g"), _is("g.src", "c.id") & _is("g.dst", "a.id"), "left_anti")
        .where(where)
    )  # fmt: skip
    want = sorted(tuple(row) for row in joined.selectExpr("a.id", "b.id", "c.name", "f.relationship").collect())
    flat = gw.find(motif, graph, where=where, columns=["a.id", "b.id", "c.name", "f.relationship"]).to_spark()
    assert sorted(tuple(row) for row in flat.collect()) == want


def _is(one: str, other: str):
    from pyspark.sql.functions import col

    return col(one) == col(other)


def test_matches_as_a_frame_of_spark(spark: SparkSession, graph: Graph):
    frame = gw.find("(a)-[e]->(b)", graph, where="a.name = 'Alice'").to_spark()
    assert frame.columns == ["a", "e", "b"]
    assert sorted(row["b"]["name"] for row in frame.collect()) == ["Bob", "Esther"]
    assert frame.where("e.relationship = 'friend' AND b.age > 33").select("b.id").collect()[0][0] == "b"
    assert gw.find("(a)", edges={"src": [1], "dst": [2]}).to_spark(spark).count() == 2


def test_kept_matches_of_frames(spark: SparkSession, graph: Graph):
    motif = "(a)-[e]->(b); (b)-[]->(a)"
    matcher = gw.Matcher(motif, vertices=graph.vertices, edges=graph.edges, columns=["a.name", "e.relationship"])
    assert matcher.count() == 2
    change = spark.createDataFrame(
        [("b", "a", "follow", 1), ("c", "b", "follow", -1)], "src string, dst string, relationship string, weight long"
    )
    # Bob follows Charlie no longer in a match, but Alice now: rows that are equal cancel
    assert sorted(matcher.apply(edges=change).rows()) == [(("Alice", "friend"), 1), (("Charlie", "follow"), -1)]
    assert sorted(matcher.matches().rows(weights=True)) == [(("Alice", "friend"), 1), (("Bob", "follow"), 1)]


def test_what_frames_of_spark_do_not_do(spark: SparkSession, graph: Graph):
    with pytest.raises(ColumnError, match="relation 'edges' has no column 'kind'"):
        gw.find("(a)-[e]->(b)", graph, columns=["e.kind"])
    stream = spark.readStream.format("rate").load().selectExpr("value AS src", "value AS dst")
    with pytest.raises(UsageError, match="a stream as the edges is not supported"):
        gw.find("(a)-[e]->(b)", edges=stream)
