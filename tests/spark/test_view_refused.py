"""Views that are refused: arguments that do not go together, a wrong row, Spark Connect."""

from __future__ import annotations

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'gpu_wcoj[spark]'")

import gpu_wcoj.spark as gws
from gpu_wcoj.errors import UnknownRelationError, UnsupportedError, UsageError
from tests.spark.file_streams import TRIANGLE, stream_of, write_stream


def test_what_does_not_go_together_is_refused_at_once(spark, tmp_path):
    edges = stream_of(spark, tmp_path)
    place = {"checkpoint": tmp_path / "checkpoint"}
    with pytest.raises(UsageError, match="at least one source"):
        gws.maintain({}, TRIANGLE, **place)
    with pytest.raises(UsageError, match="expected a mapping from relations to DataFrames"):
        gws.maintain([edges], TRIANGLE, **place)
    with pytest.raises(
        UsageError, match="relation 'edge' has a source of the wrong type(?s:.*)expected a Spark DataFrame"
    ):
        gws.maintain({"edge": [edges, None]}, TRIANGLE, **place)
    with pytest.raises(UnknownRelationError, match="unknown relation 'egde'.*\n.*Did you mean 'edge'"):
        gws.maintain({"egde": edges}, TRIANGLE, **place)
    with pytest.raises(UnknownRelationError, match="unknown relation 's' (?s:.*)Give a DataFrame for it"):
        gws.maintain({"r": edges}, "p(a) :- r(a, b), s(b).", **place)
    with pytest.raises(UnknownRelationError, match="unknown relation 'egde'"):
        gws.maintain({"edge": edges}, TRIANGLE, changes={"egde": "weight"}, **place)
    with pytest.raises(UsageError, match="unknown layout 'two'"):
        gws.maintain({"edge": edges}, TRIANGLE, changes="weight", layout="two", **place)
    with pytest.raises(UsageError, match="expected a path or a function"):
        gws.maintain({"edge": edges}, TRIANGLE, changes="weight", output=7, **place)
    with pytest.raises(UsageError, match="output='' is not allowed: expected a path"):
        gws.maintain({"edge": edges}, TRIANGLE, changes="weight", output="", **place)
    with pytest.raises(UsageError, match="expected a path of a local or mounted file system"):
        gws.maintain({"edge": edges}, TRIANGLE, changes="weight", output="s3://bucket/out", **place)
    with pytest.raises(UsageError, match="the Parquet files are not written by Spark"):
        gws.maintain({"edge": edges}, TRIANGLE, changes="weight", output="out", options={"x": "y"}, **place)
    view = gws.maintain({"edge": edges}, TRIANGLE, changes="weight", **place)
    for call in (lambda: view.program, view.wait):
        with pytest.raises(UsageError, match="has not been started"):
            call()
    for key, value, message in (
        ("spark.gpuWcoj.thread", "2", "unknown conf 'spark.gpuWcoj.thread'.*Did you mean 'spark.gpuWcoj.threads'"),
        ("spark.gpuWcoj.threads", "none", "spark.gpuWcoj.threads='none' is not allowed"),
        ("spark.gpuWcoj.backend", "gpu", "spark.gpuWcoj.backend='gpu' is not allowed"),
    ):
        spark.conf.set(key, value)
        try:
            with pytest.raises(UsageError, match=message):
                gws.maintain({"edge": edges}, TRIANGLE, changes="weight", **place)
        finally:
            spark.conf.unset(key)


def test_a_wrong_row_ends_the_query_and_leaves_the_state(spark, tmp_path):
    write_stream(
        tmp_path / "changes",
        [
            pa.table({"src": [1], "dst": [2], "weight": [1]}),
            pa.table({"src": [3], "dst": [4], "weight": pa.array([None], pa.int64())}),
        ],
    )
    view = gws.maintain(
        {"edge": stream_of(spark, tmp_path / "changes")}, "e(a, b) :- edge(a, b).",
        changes="weight", checkpoint=tmp_path / "checkpoint", output=tmp_path / "out",
    )  # fmt: skip
    view.start("availableNow")
    with pytest.raises(Exception, match="the column 'weight' of weights is null"):
        view.wait()
    assert gws.View.restore(tmp_path / "checkpoint").relation("e").rows() == [((1, 2), 1)]
    assert gws.read_output(spark, tmp_path / "out").count() == 1


def test_connect_is_refused(monkeypatch):
    class DataFrame:
        """Stands for one of Connect: the rule goes by the module."""

    DataFrame.__module__ = "pyspark.sql.connect.dataframe"
    with pytest.raises(UnsupportedError, match="over Spark Connect is not supported"):
        gws.maintain({"edge": DataFrame()}, TRIANGLE, checkpoint="somewhere")
