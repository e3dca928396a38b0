"""Columns that differ in case alone are one to Spark; this is said before any work is done."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'gpu_wcoj[spark]'")

import gpu_wcoj.spark as gws
from gpu_wcoj.errors import UsageError
from tests.spark.streams import write_stream

TWICE = "h(a, A) :- edge(a, A)."
AS_WEIGHT = "h(a, Weight) :- edge(a, Weight)."


@pytest.fixture
def edges(spark):
    return spark.createDataFrame([(1, 2), (3, 4)], "src bigint, dst bigint")


@pytest.mark.parametrize("layout", ["one", "hypercube"])
def test_an_answer_is_refused_before_it_is_worked_out(spark, edges, tmp_path, layout):
    with pytest.raises(UsageError, match=r"the columns 'a' and 'A' of output 'h' are one to Spark\.\n.*caseSensitive"):
        gws.join(spark, TWICE, {"edge": edges}, path=tmp_path / "out", layout=layout)
    with pytest.raises(UsageError, match="the columns 'Weight' and 'weight' of output 'h'"):
        gws.join(spark, AS_WEIGHT, {"edge": edges}, path=tmp_path / "out", layout=layout, bag=True)
    assert not (tmp_path / "out").exists()


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


@pytest.mark.parametrize("layout", ["one", "hypercube"])
def test_a_view_that_writes_is_refused_before_it_starts(spark, tmp_path, layout):
    write_stream(tmp_path / "in", [])
    stream = spark.readStream.schema("src bigint, dst bigint").parquet(str(tmp_path / "in"))
    options = {"checkpoint": tmp_path / "checkpoint", "layout": layout}
    for program, named in ((TWICE, "'a' and 'A'"), (AS_WEIGHT, "'Weight' and 'weight'")):
        with pytest.raises(UsageError, match=f"the columns {named} of output 'h' are one to Spark"):
            gws.maintain({"edge": stream}, program, output=tmp_path / "out", **options)
        gws.maintain({"edge": stream}, program, **options)
    assert not (tmp_path / "out").exists()
