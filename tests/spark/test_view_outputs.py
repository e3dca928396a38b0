"""What views write: other formats than Parquet, several heads, and columns whose names are taken."""

from __future__ import annotations

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'gpu_wcoj[spark]'")

import gpu_wcoj.spark as gws
from gpu_wcoj.errors import UnknownRelationError, UsageError
from tests.spark.file_streams import TRIANGLE, alone, assert_same, payments, run, stream_of, write_stream


def test_other_formats_get_the_batch_beside_the_rows(spark, tmp_path):
    tables = write_stream(tmp_path / "changes", payments(2, 600, 100))
    run(
        gws.maintain(
            {"edge": stream_of(spark, tmp_path / "changes")}, TRIANGLE, changes="weight",
            checkpoint=tmp_path / "checkpoint", output=tmp_path / "out", format="json", options={"compression": "gzip"},
        )
    )  # fmt: skip
    expected, _ = alone(TRIANGLE, [{"edge": table} for table in tables], "triangle")
    schema = "a bigint, b bigint, c bigint, weight bigint, batch bigint"
    assert_same(spark.read.schema(schema).json(str(tmp_path / "out" / "triangle")).toArrow(), expected)
    assert list((tmp_path / "out" / "triangle").glob("*.json.gz"))


def test_outputs_of_several_heads_and_names_that_are_taken(spark, tmp_path):
    program = "two(a, c) :- edge(a, b), edge(b, c). three(weight, batch) :- edge(weight, b), edge(b, batch)."
    write_stream(tmp_path / "changes", [pa.table({"src": [1, 2], "dst": [2, 3], "weight": [1, 1]})])
    run(
        gws.maintain(
            {"edge": stream_of(spark, tmp_path / "changes")}, program, changes="weight",
            checkpoint=tmp_path / "checkpoint", output=tmp_path / "out",
        )
    )  # fmt: skip
    three = gws.read_output(spark, tmp_path / "out", "three")
    assert three.columns == ["weight", "batch", "_weight", "_batch"]
    assert [tuple(row) for row in three.collect()] == [(1, 3, 1, 0)]
    assert [tuple(row) for row in gws.read_output(spark, tmp_path / "out", "three", state=True).collect()] == [
        (1, 3, 1)
    ]
    with pytest.raises(UsageError, match="has the outputs ('two', 'three'|'three', 'two')"):
        gws.read_output(spark, tmp_path / "out")
    with pytest.raises(UnknownRelationError, match="unknown relation 'tow'"):
        gws.read_output(spark, tmp_path / "out", "tow")
    with pytest.raises(UsageError, match="Leave one of the two out"):
        gws.read_output(spark, tmp_path / "out", "two", state=True, since=0)
    with pytest.raises(UsageError, match="needs the output of a view"):
        gws.read_output(spark, tmp_path / "elsewhere")
