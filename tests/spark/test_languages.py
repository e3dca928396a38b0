"""Queries in SQL and EDN over DataFrames and streams."""

from __future__ import annotations

from collections import Counter

import pytest

from gpu_wcoj.errors import UnknownRelationError, UsageError

gws = pytest.importorskip("gpu_wcoj.spark", reason="PySpark is not installed: pip install 'gpu_wcoj[spark]'")

TRIANGLE = (
    "select e.src a, f.src b, g.src c from edges e, edges f, edges g "
    "where e.dst = f.src and f.dst = g.src and g.dst = e.src"
)
PAIRS = """
    SELECT p.name, count(*) AS n, sum(o.price) AS total
    FROM people p LEFT JOIN orders o ON p.id = o.person GROUP BY p.name
"""
PEOPLE = [(1, "Ada"), (2, "Bo"), (3, None)]
ORDERS = [(1, 10), (1, 5), (3, 7), (None, 1)]


def rows_of(frame):
    return Counter(tuple(row) for row in frame.collect())


@pytest.mark.parametrize("layout", ["one", pytest.param("hypercube", marks=pytest.mark.long)])
def test_a_join_in_sql_is_that_of_spark(spark, layout):
    edges = spark.createDataFrame([(i, (i * k) % 11) for i in range(11) for k in (2, 3, 7)], "src bigint, dst bigint")
    edges.createOrReplaceTempView("edges")
    options = {"layout": layout} if layout == "one" else {"layout": layout, "cells": 2}
    found = gws.join(spark, TRIANGLE, {"edges": edges}, **options)
    assert found.columns == ["a", "b", "c"]
    rows = rows_of(found)
    assert rows == rows_of(spark.sql(TRIANGLE))
    assert gws.count(spark, TRIANGLE, {"edges": edges}, **options) == {"answer": rows.total()}


def test_outer_joins_and_groups_over_dataframes(spark):
    frames = {
        "people": spark.createDataFrame(PEOPLE, "id bigint, name string"),
        "orders": spark.createDataFrame(ORDERS, "person bigint, price bigint"),
    }
    for name, frame in frames.items():
        frame.createOrReplaceTempView(name)
    found = gws.join(spark, PAIRS, frames)
    assert rows_of(found) == rows_of(spark.sql(PAIRS))


def test_edn_over_dataframes(spark):
    edges = spark.createDataFrame([(1, 2), (2, 3), (2, 4)], "src bigint, dst bigint")
    found = gws.join(spark, "[:find ?a ?c :where [$edges ?a ?b] [$edges ?b ?c]]", {"edges": edges})
    assert rows_of(found) == Counter([(1, 3), (1, 4)])


def test_a_motif_and_a_wrong_table_are_refused(spark):
    edges = spark.createDataFrame([(1, 2)], "src bigint, dst bigint")
    with pytest.raises(UsageError, match=r"gpu_wcoj\.spark\.find"):
        gws.join(spark, "(a)-[e]->(b)", {"edges": edges})
    with pytest.raises(UnknownRelationError, match="Did you mean 'edges'"):
        gws.count(spark, "SELECT src FROM edgs", {"edges": edges})


def test_a_stream_keeps_a_view_in_sql(spark, tmp_path):
    changes = "src bigint, dst bigint, weight bigint"
    where = str(tmp_path / "changes")
    text = TRIANGLE.replace("select", "create view ring as select distinct", 1)

    def put(rows):
        spark.createDataFrame(rows, changes).coalesce(1).write.mode("append").parquet(where)

    batches = [
        [(1, 2, 1), (2, 3, 1), (3, 1, 1), (3, 1, 1)],
        [(3, 1, -1), (3, 4, 1), (4, 2, 1)],  # one of two stays
        [(3, 1, -1), (4, 1, 1), (1, 3, 1)],
    ]
    kept: Counter[tuple[int, ...]] = Counter()
    for batch in batches:
        spark.createDataFrame(batch, changes).coalesce(1).write.mode("append").parquet(where)
        for src, dst, weight in batch:
            kept[src, dst] += weight
        stream = spark.readStream.schema(changes).parquet(where)
        view = gws.maintain(
            {"edges": stream}, text, changes="weight", checkpoint=tmp_path / "state", output=tmp_path / "out"
        )
        view.start("availableNow")
        view.wait()
        edges = set(+kept)
        expected = {(a, b, c) for a, b in edges for d, c in edges if b == d and (c, a) in edges}
        answers: Counter[tuple[int, ...]] = Counter()
        for a, b, c, weight, _ in map(tuple, gws.read_output(spark, tmp_path / "out").collect()):
            answers[a, b, c] += weight
        assert {row: weight for row, weight in answers.items() if weight} == dict.fromkeys(expected, 1)
        assert view.answers == {"ring": len(expected)}
        assert len(expected) >= 3
