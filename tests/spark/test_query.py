"""Joins and counts of tables, once: what Spark joins itself, and what is said of what is missing."""

from __future__ import annotations

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'gpu_wcoj[spark]'")

import gpu_wcoj as gw
import gpu_wcoj.spark as gws
from gpu_wcoj.errors import UnknownRelationError, UsageError
from tests.spark.file_streams import TRIANGLE, assert_same, payments, stream_of


def test_once_counts_and_joins_what_spark_joins(spark, tmp_path):
    tables = payments(1, 2000, 300)
    edges = tables[0].filter(pa.compute.greater(tables[0]["weight"], 0)).drop_columns("weight")
    pq.write_table(edges, tmp_path / "edges.parquet")
    whole = spark.read.parquet(str(tmp_path / "edges.parquet"))
    for frame in (whole, whole.where("src != 7"), whole.select("dst", "src").select("src", "dst")):
        frame.createOrReplaceTempView("edge")
        joined = spark.sql(
            "SELECT x.src AS a, x.dst AS b, y.dst AS c FROM edge x JOIN edge y ON x.dst = y.src "
            "JOIN edge z ON z.src = x.src AND z.dst = y.dst"
        ).toArrow()
        assert joined.num_rows > 100
        assert gws.count(spark, TRIANGLE, {"edge": frame}) == {"triangle": joined.num_rows}
        assert_same(gws.join(spark, TRIANGLE, {"edge": frame}).toArrow(), joined)
    weights = spark.createDataFrame([("x", 1), ("x", 1), ("y", 2)], "name string, weight int")
    program = "n(a, w) :- r(a, w)."
    answer = gws.join(spark, program, {"r": weights}, bag=True, weights=True, path=tmp_path / "answer")
    assert sorted(map(tuple, answer.collect())) == [("x", 1, 2), ("y", 2, 1)]
    answer = gws.join(spark, program, {"r": weights}, bag=True)
    assert answer.columns == ["a", "w"]
    assert sorted(map(tuple, answer.collect())) == [("x", 1), ("x", 1), ("y", 2)]
    with pytest.raises(UsageError, match="weights=True and a set"):
        gws.join(spark, program, {"r": weights}, weights=True)
    nothing = gws.join(spark, "n(a, w) :- r(a, w).", {"r": weights.where("weight > 5")})
    assert (nothing.columns, nothing.dtypes[0][1], nothing.count()) == (["a", "w"], "string", 0)


def test_once_says_what_is_missing(spark, tmp_path):
    frame = spark.range(3).selectExpr("id AS a", "id AS b")
    with pytest.raises(UnknownRelationError, match="(?s)unknown relation 'edge'.*Give a DataFrame for it"):
        gws.join(spark, TRIANGLE, {})
    with pytest.raises(UnknownRelationError, match="Did you mean 'edge'"):
        gws.join(spark, TRIANGLE, {"edges": frame})
    with pytest.raises(UsageError, match="has the outputs 'p', 'q'.*\n.*output="):
        gws.join(spark, "p(a) :- edge(a, b). q(b) :- edge(a, b).", {"edge": frame})
    with pytest.raises(UnknownRelationError, match="unknown relation 'r'"):
        gws.join(spark, "p(a) :- edge(a, b).", {"edge": frame}, output="r")
    for ask in (gws.join, gws.count, gws.explain):
        for wrong in ({"edge": pd.DataFrame({"a": [1], "b": [2]})}, {"edge": [(1, 2)]}):
            with pytest.raises(
                UsageError, match="relation 'edge' has a source of the wrong type(?s:.*)expected a Spark DataFrame"
            ):
                ask(spark, TRIANGLE, wrong)
        with pytest.raises(UsageError, match="expected a mapping from relations to DataFrames"):
            ask(spark, TRIANGLE, frame)
    assert gw.query("p(a) :- edge(a, b).", edge=frame).rows(weights=True) == [((a,), 1) for a in range(3)]
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").touch()
    with pytest.raises(UsageError, match="holds files already"):
        gws.join(spark, "p(a) :- edge(a, b).", {"edge": frame}, path=tmp_path / "taken")
    with pytest.raises(UsageError, match="is a stream"):
        gws.count(spark, "p(a) :- edge(a, b).", {"edge": stream_of(spark, tmp_path, "a bigint, b bigint")})
