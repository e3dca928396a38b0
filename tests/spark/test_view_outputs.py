"""What views write: other formats than Parquet, several heads, and columns whose names are taken."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'gpu_wcoj[spark]'")

import gpu_wcoj.spark as gws
from gpu_wcoj.errors import OutputFileError, UnknownRelationError, UsageError
from gpu_wcoj.files.output import GROUP_ROWS
from gpu_wcoj.spark.output import AnswerFiles
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


@pytest.mark.parametrize("weights", [(1, 1), (1, 3)])
def test_threads_write_an_answer(tmp_path, weights):
    files = AnswerFiles(tmp_path, "answer", True, 2)
    for number in range(5):
        rows = np.arange(number * GROUP_ROWS // 2, (number + 1) * GROUP_ROWS // 2)
        files.add(pa.table({"a": rows, "weight": np.where(rows == 7, weights[1], weights[0])}))
    paths = files.finish()
    assert 1 <= len(paths) <= 2
    assert files.repeats is (weights != (1, 1))
    table = pa.concat_tables(pq.read_table(tmp_path / path) for path in paths)
    np.testing.assert_array_equal(np.sort(table["a"]), np.arange(5 * GROUP_ROWS // 2))
    assert table["weight"].to_numpy().sum() == len(table) + weights[1] - 1


def test_an_answer_that_fails_leaves_no_files(tmp_path):
    files = AnswerFiles(tmp_path, "answer", False, 2)
    rows = pa.table({"a": np.arange(GROUP_ROWS), "weight": np.ones(GROUP_ROWS, np.int64)})
    files.add(rows)
    files.discard()
    assert not list(tmp_path.glob("*/*"))
    (tmp_path / "file").touch()
    files = AnswerFiles(tmp_path, "file", False, 2)
    files.add(rows)
    with pytest.raises(OutputFileError, match="cannot be written"):
        files.finish()
    assert files.repeats is False
