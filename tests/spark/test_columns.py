"""Columns go by name where both sides have names; those that differ in case alone are one to Spark."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'gpu_wcoj[spark]'")

import gpu_wcoj.spark as gws
from gpu_wcoj.errors import ColumnError, SchemaError, UsageError
from tests.spark.file_streams import write_stream

TWICE = "h(a, A) :- edge(a, A)."
AS_WEIGHT = "h(a, Weight) :- edge(a, Weight)."


@pytest.fixture
def edges(spark):
    return spark.createDataFrame([(1, 2), (3, 4)], "src bigint, dst bigint")


@pytest.mark.drawn("layout")
@pytest.mark.parametrize("layout", ["one", "hypercube"])
def test_an_answer_is_refused_before_it_is_worked_out(spark, edges, tmp_path, layout):
    with pytest.raises(
        UsageError, match=r"the columns 'a' and 'A' of output 'h' differ only in case.*\n.*caseSensitive"
    ):
        gws.join(spark, TWICE, {"edge": edges}, path=tmp_path / "out", layout=layout)
    with pytest.raises(UsageError, match="the columns 'Weight' and 'weight' of output 'h'"):
        gws.join(spark, AS_WEIGHT, {"edge": edges}, path=tmp_path / "out", layout=layout, bag=True)
    assert not (tmp_path / "out").exists()


@pytest.mark.drawn("layout")
@pytest.mark.parametrize("layout", ["one", "hypercube"])
def test_what_spark_can_tell_apart_is_answered(spark, edges, layout):
    rows = gws.join(spark, AS_WEIGHT, {"edge": edges}, layout=layout).collect()
    assert sorted(map(tuple, rows)) == [(1, 2), (3, 4)]
    assert gws.count(spark, TWICE, {"edge": edges}, layout=layout) == {"h": 2}
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        rows = gws.join(spark, TWICE, {"edge": edges}, layout=layout)
        assert rows.columns == ["a", "A"]
        assert sorted(map(tuple, rows.collect())) == [(1, 2), (3, 4)]
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


@pytest.mark.drawn("layout")
@pytest.mark.parametrize("layout", ["one", "hypercube"])
def test_a_view_that_writes_is_refused_before_it_starts(spark, tmp_path, layout):
    write_stream(tmp_path / "in", [])
    stream = spark.readStream.schema("src bigint, dst bigint").parquet(str(tmp_path / "in"))
    options = {"checkpoint": tmp_path / "checkpoint", "layout": layout}
    for program, named in ((TWICE, "'a' and 'A'"), (AS_WEIGHT, "'Weight' and 'weight'")):
        with pytest.raises(UsageError, match=f"the columns {named} of output 'h' differ only in case"):
            gws.maintain({"edge": stream}, program, output=tmp_path / "out", **options)
        gws.maintain({"edge": stream}, program, **options)
    assert not (tmp_path / "out").exists()


DECLARED = ".decl edge(src: int64, dst: int64)\nh(a, b) :- edge(a, b)."


@pytest.mark.drawn("layout")
@pytest.mark.parametrize("layout", ["one", "hypercube"])
def test_columns_of_a_join_go_by_declared_names(spark, edges, layout):
    turned = edges.select("dst", "src")
    for program in (DECLARED, "select src, dst from edge"):
        found = gws.join(spark, program, {"edge": turned}, layout=layout, bag=False)
        assert sorted(map(tuple, found.collect())) == [(1, 2), (3, 4)]
    numbered = spark.createDataFrame([(1, 2), (3, 4)])  # _1, _2
    assert sorted(map(tuple, gws.join(spark, DECLARED, {"edge": numbered}, layout=layout).collect())) == [
        (1, 2),
        (3, 4),
    ]
    with pytest.raises(ColumnError, match=r"relation 'edge' has no column 'dts'.*\n.*Did you mean 'dst'"):
        gws.join(spark, DECLARED, {"edge": edges.toDF("src", "dts")}, layout=layout)
    with pytest.raises(ColumnError, match="relation 'edge' has no column 'dts'"):
        gws.count(spark, DECLARED, {"edge": edges.toDF("src", "dts")}, layout=layout)


@pytest.mark.drawn("layout")
@pytest.mark.parametrize("layout", ["one", "hypercube"])
def test_a_stream_goes_on_from_its_table_by_names(spark, edges, tmp_path, layout):
    spark.createDataFrame([(6, 5)], "dst bigint, src bigint").write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema("dst bigint, src bigint").parquet(str(tmp_path / "in"))
    program = "h(a, b) :- edge(a, b)."
    options = {"checkpoint": tmp_path / "c", "output": tmp_path / "out", "layout": layout, "cells": 2}
    view = gws.maintain({"edge": [edges, stream]}, program, **options)
    view.start("availableNow")
    view.wait()
    found = gws.read_output(spark, tmp_path / "out").select("a", "b").collect()
    assert sorted(map(tuple, found)) == [(1, 2), (3, 4), (5, 6)]
    other = spark.readStream.schema("x bigint, src bigint").parquet(str(tmp_path / "in"))
    with pytest.raises(SchemaError, match="the stream of 'edge' has other columns .*'x bigint'"):
        gws.maintain({"edge": [edges, other]}, program, checkpoint=tmp_path / "c2")


def test_columns_of_a_view_go_by_declared_names(spark, edges, tmp_path):
    view = gws.maintain({"edge": edges.select("dst", "src")}, DECLARED, checkpoint=tmp_path / "c")
    view.load()
    assert view.relation("h").rows() == [((1, 2), 1), ((3, 4), 1)]
    view.close()
    with pytest.raises(ColumnError, match="relation 'edge' has no column 'x'"):
        gws.maintain({"edge": edges.toDF("x", "dst")}, DECLARED, checkpoint=tmp_path / "d")
