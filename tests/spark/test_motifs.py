"""Motifs over DataFrames, on one engine and on cells, against their definition."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'gpu_wcoj[spark]'")

import gpu_wcoj as gw
import gpu_wcoj.spark as gws
from gpu_wcoj.errors import ColumnError, SchemaError, TypeMismatchError, UsageError
from gpu_wcoj.query.motif import parse
from gpu_wcoj.spark.schema import spark_schema
from tests.helpers.motif_graphs import (
    EDGES,
    MOTIFS,
    VERTICES,
    condition,
    counted,
    edge,
    edges,
    frozen_row,
    graph,
    vertex,
    vertices,
)
from tests.reference.motifs import matches
from tests.spark.file_streams import run, stream_of, write_stream

if TYPE_CHECKING:
    from pathlib import Path

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


def test_columns_of_all_types_arrive_as_they_are(spark: SparkSession, tmp_path: Path) -> None:
    """Columns that the engine does not support, and those of large tables, are looked up; others are in the join."""
    day = dt.date(2026, 1, 31)
    kind = "id string, score double, day date, code binary, tags array<int>"
    people = [("x", 1.5, day, None, [1, 2]), ("y", None, None, bytearray(b"12"), None)]
    spark.createDataFrame(people, kind).write.parquet(str(tmp_path / "small"))
    small = spark.read.parquet(str(tmp_path / "small"))
    large = (
        spark.range(200_000)
        .selectExpr("id % 2 AS n", "id")
        .selectExpr(
            "if(n = 0, 'x', 'y') AS src", "if(n = 0, 'y', 'x') AS dst", "id AS amount", "cast(id AS string) AS note"
        )
    )
    motif, where = "(a)-[e]->(b); (b)-[f]->(c)", "e.amount < 2 AND f.amount < 2 AND e.amount < f.amount"
    ways: list[tuple[DataFrame, dict[str, Any]]] = [
        (small, {"layout": "one"}), (small.drop("tags"), {"layout": "hypercube", "cells": 2}),
    ]  # fmt: skip
    for vertex_table, how in ways:
        frame = gws.find((vertex_table, large), motif, where=where, **how)
        (row,) = frame.collect()
        assert [tuple(row.a), tuple(row.b)] == [person[: len(vertex_table.columns)] for person in people]
        assert (tuple(row.e), tuple(row.f)) == (("x", "y", 0, "0"), ("y", "x", 1, "1"))
        assert frame.schema["a"].dataType == vertex_table.schema
    text = gws.explain(spark, motif, {"vertices": small, "edges": large}, where=where)
    assert "columns of 'a' are joined to the matches by id: column 'tags' has the type 'array<int>'" in text
    assert "columns of 'e' are joined to the matches by row number: Spark takes the edges for" in text
    assert "the join reads '_row', 'src', 'dst', 'amount' of the edges" in text
    text = gws.explain(spark, motif, {"vertices": small.drop("tags"), "edges": large}, columns=["a", "b.id"])
    assert "the join reads 'id', 'score', 'day', 'code' of the vertices" in text


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


@pytest.mark.parametrize("layout", ["one", pytest.param("hypercube", marks=pytest.mark.long)])
def test_wrong_graphs(spark: SparkSession, layout: Any) -> None:
    how: dict[str, Any] = {"layout": layout, "cells": None if layout == "one" else 2}
    nodes = spark.createDataFrame([(1, "x")], "id int, name string")
    lines = spark.createDataFrame([(1, 1, 5)], "src int, dst int, amount int")
    if layout == "one":  # before a layout is chosen
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
    with pytest.raises(UsageError, match="unknown option 'wher'"):
        gws.count(spark, "(a)-[e]->(b)", {"edges": lines}, wher="e.amount > 1")
    with pytest.raises(UsageError, match="unknown table of a motif 'edge'"):
        gws.count(spark, "(a)-[e]->(b)", {"edge": lines})
    with pytest.raises(UsageError, match="the option 'where' for a program that is not a motif"):
        gws.count(spark, "n(a) :- edges(a, b, c).", {"edges": lines}, where="e.amount > 1")


def test_five_hops_whose_binary_joins_have_a_billion_rows(spark: SparkSession, tmp_path: Path) -> None:
    """40,000 edges into a vertex and 40,000 out of it are 1.6 billion pairs, of which 40,000 are in a match."""
    size, hub = 40_000, 0
    first, second, third = (range(1 + layer * size, 1 + (layer + 1) * size) for layer in range(3))
    pairs = [(vertex, hub) for vertex in first] + [(hub, vertex) for vertex in second]
    for left, right in ((first, second), (second, third), (first, third)):
        pairs += zip(left, right, strict=True)
    src, dst = zip(*pairs, strict=True)
    pq.write_table(pa.table({"src": src, "dst": dst}), tmp_path / "edges.parquet")
    lines = spark.read.parquet(str(tmp_path / "edges.parquet"))
    assert lines.count() == 200_000
    motif = "(a)-[]->(b); (b)-[]->(c); (a)-[]->(c); (c)-[]->(d); (a)-[]->(d)"
    found = gws.find(lines, motif, layout="hypercube", cells=2)
    assert found.filter(f"b.id = {hub}").count() == found.count() == size


VIEWS = (
    "(a)-[e]->(b); (b)-[f]->(c); !(c)-[]->(a)",
    "(a)-[e]-(b); (b)-[]->(a)",
    "(a)-[e*1..2]->(b)",
    "(a)-[]->(b); (b)-[]->(c); (c)-[]->(a)",
)


@pytest.mark.parametrize("motif", VIEWS)
@pytest.mark.parametrize("layout", ["one", "hypercube"])
def test_a_view_has_the_matches_after_every_tick(spark: SparkSession, tmp_path: Path, motif: str, layout: Any) -> None:
    """Vertices from a table and then a stream, edges from a stream; each tick is a new start of the view."""
    chance = random.Random(f"{motif}{layout}")
    nodes = [vertex(chance, number) for number in range(5)]
    ends = [*range(5), 99]
    now = [edge(chance, ends) for _ in range(7)]
    kinds = {name: f"{_ddl(schema)}, weight bigint" for name, schema in (("v", VERTICES), ("e", EDGES))}
    table = spark.createDataFrame(vertices(nodes, [1] * len(nodes)), kinds["v"])
    write_stream(tmp_path / "v", [])
    write_stream(tmp_path / "e", [edges(now, [1] * len(now))])
    sources = {
        "vertices": [table, stream_of(spark, tmp_path / "v", kinds["v"])],
        "edges": stream_of(spark, tmp_path / "e", kinds["e"]),
    }
    how: dict[str, Any] = {"layout": layout, "cells": 2 if layout == "hypercube" else None, "changes": "weight"}
    for tick in range(1, 4):
        gone = [now.pop(chance.randrange(len(now))) for _ in range(2)]
        come = [edge(chance, ends) for _ in range(3)]
        now += come
        write_stream(tmp_path / "e", [edges(gone + come, [-1, -1, 1, 1, 1])], first=tick)
        before = nodes.pop(0)
        nodes.append(vertex(chance, before["id"]))
        write_stream(tmp_path / "v", [vertices([before, nodes[-1]], [-1, 1])], first=tick)
        kept = gws.maintain(sources, motif, checkpoint=tmp_path / "c", output=tmp_path / "out", **how)
        view = run(kept)
        want = counted(matches(motif, nodes, now))
        state: Counter[Any] = Counter()
        for row in gws.read_output(spark, tmp_path / "out", state=True).collect():
            match = row.asDict(recursive=True)
            weight = match.pop("weight")
            state[frozen_row(match)] += weight
        assert state == want, (motif, tick)
        assert view.answers == {"motif": want.total()}
    assert gws.View.restore(tmp_path / "c").count("motif") == want.total()


def _ddl(schema: Any) -> str:
    return ", ".join(f"{column.name} {column.dataType.simpleString()}" for column in spark_schema(schema))


def test_what_a_view_of_a_motif_delivers_and_asks(spark: SparkSession, tmp_path: Path) -> None:
    lines = [{"src": 1, "dst": 2, "amount": 5, "kind": "p"}] * 2
    write_stream(tmp_path / "e", [edges(lines, [1, 1]).append_column("tid", pa.array([1, 2]))])
    kind = f"{_ddl(EDGES)}, weight bigint, tid bigint"
    source, taken = stream_of(spark, tmp_path / "e", kind), []
    two, how = "(a)-[e]->(b); (a)-[f]->(b)", {"checkpoint": tmp_path / "c", "changes": "weight"}
    with pytest.raises(UsageError, match=r"(?s)tells edges with equal ends apart needs a column.*edge_id="):
        gws.maintain({"edges": source}, two, semantics="edges-distinct", **how)
    view = gws.maintain(
        {"edges": source}, two, semantics="edges-distinct", edge_id="tid", columns=["a.id", "e.tid", "f", "b"],
        output=lambda changes, batch: taken.append((batch, changes["motif"].to_pylist())), **how,
    )  # fmt: skip
    run(view)
    rows = [row for _, batch in taken for row in batch]
    assert sorted((row["a.id"], row["e.tid"], row["f"]["tid"], row["b"], row["weight"]) for row in rows) == [
        (1, 1, 2, {"id": 2}, 1), (1, 2, 1, {"id": 2}, 1),
    ]  # fmt: skip
    with pytest.raises(UsageError, match="unknown option of a motif 'ids'"):
        gws.maintain({"edges": source}, two, ids={"a": [1]}, **how)
    with pytest.raises(UsageError, match="unknown table of a motif 'edge'"):
        gws.maintain({"edge": source}, two, **how)
    with pytest.raises(ColumnError, match="no column 'tod'"):
        gws.maintain({"edges": source}, two, semantics="edges-distinct", edge_id="tod", **how)
    with pytest.raises(UsageError, match="the option 'edge_id' for a program that is not a motif"):
        gws.maintain({"edges": source}, "n(a) :- edges(a, b, c, d, e).", edge_id="tid", **how)
    assert not (tmp_path / "c2").exists()
