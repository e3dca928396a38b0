"""Views: equal to the engine alone and to Spark's own joins, on streams, tables and both."""

from __future__ import annotations

import json
import logging

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'gpu_wcoj[spark]'")

import gpu_wcoj.spark as gws
from gpu_wcoj.errors import UsageError
from tests.spark.file_streams import EDGE, TRIANGLE, alone, assert_same, payments, run, stream_of, write_stream


def test_changes_and_state_equal_the_engine_and_a_self_join(spark, tmp_path):
    tables = write_stream(tmp_path / "changes", payments(4, 3000, 400))
    view = run(
        gws.maintain(
            {"edge": stream_of(spark, tmp_path / "changes")}, TRIANGLE,
            changes="weight", checkpoint=tmp_path / "checkpoint", output=tmp_path / "out",
        )
    )  # fmt: skip
    expected, engine = alone(TRIANGLE, [{"edge": table} for table in tables], "triangle")
    assert expected.num_rows > 900
    assert (expected["weight"].to_numpy() < 0).sum() > 15
    assert_same(gws.read_output(spark, tmp_path / "out").toArrow(), expected)

    spark.read.schema(EDGE).parquet(str(tmp_path / "changes")).groupBy("src", "dst").sum("weight").where(
        "`sum(weight)` > 0"
    ).createOrReplaceTempView("edge")
    joined = spark.sql(
        "SELECT x.src AS a, x.dst AS b, y.dst AS c, 1L AS weight FROM edge x JOIN edge y ON x.dst = y.src "
        "JOIN edge z ON z.src = x.src AND z.dst = y.dst"
    )
    assert_same(gws.read_output(spark, tmp_path / "out", state=True).toArrow(), joined.toArrow())

    restored = gws.View.restore(tmp_path / "checkpoint")
    assert restored.count("triangle") == view.program.count("triangle") == engine.count("triangle") == joined.count()
    assert view.answers == {"triangle": joined.count()}
    later = gws.read_output(spark, tmp_path / "out", "triangle", since=2).toArrow()
    assert set(later["batch"].to_pylist()) == {3}


def test_a_view_goes_on_where_it_was(spark, tmp_path):
    tables = payments(4, 1000, 200)
    write_stream(tmp_path / "changes", tables[:2])

    def view():
        return gws.maintain(
            {"edge": stream_of(spark, tmp_path / "changes")}, TRIANGLE,
            changes="weight", checkpoint=tmp_path / "checkpoint", output=tmp_path / "out",
        )  # fmt: skip

    run(view())
    write_stream(tmp_path / "changes", tables[2:], first=2)
    second = run(view())
    assert second.progress["batch"] == 3
    expected, engine = alone(TRIANGLE, [{"edge": table} for table in tables], "triangle")
    assert_same(gws.read_output(spark, tmp_path / "out").toArrow(), expected)
    assert second.answers == run(view()).answers == {"triangle": engine.count("triangle")}


def test_streams_and_tables_of_several_types_are_one_tick_a_batch(spark, tmp_path):
    """Two streams with columns of different types, one in order, and a table that the engine reads by itself."""
    program = """
    flagged(person, name, city) :- knows(person, other), person(person, name, born), lives(other, city).
    """
    knows = [
        pa.table({"a": [1, 2], "b": [2, 3], "weight": [1, 1]}),
        pa.table({"a": [1, 3], "b": [2, 1], "weight": [-1, 1]}),
    ]
    lives = [
        pa.table({"other": [2, 3], "city": ["Ulm", None], "op": ["c", "c"], "at": [1, 2]}),
        pa.table({"other": [1, 1, 1], "city": ["Bonn"] * 3, "op": ["d", "c", "c"], "at": [9, 8, 10]}),
    ]
    person = pa.table({"person": [1, 2, 3], "name": ["Ada", "Bo", "Cy"], "born": [1.5, 2.5, float("nan")]})
    write_stream(tmp_path / "knows", knows)
    write_stream(tmp_path / "lives", lives)
    write_stream(tmp_path / "person", [person])
    view = run(
        gws.maintain(
            {
                "knows": stream_of(spark, tmp_path / "knows", "a bigint, b bigint, weight bigint"),
                "lives": stream_of(spark, tmp_path / "lives", "other bigint, city string, op string, at bigint"),
                "person": spark.read.parquet(str(tmp_path / "person")),
            },
            program, changes={"knows": "weight", "lives": "op", "person": "append"}, order_by={"lives": "at"},
            checkpoint=tmp_path / "checkpoint", output=tmp_path / "out",
        )
    )  # fmt: skip
    found = gws.read_output(spark, tmp_path / "out").toArrow()
    rows = sorted(zip(*found.to_pydict().values(), strict=True), key=str)
    assert rows == [
        (1, "Ada", "Ulm", -1, 1),
        (1, "Ada", "Ulm", 1, 0),
        (2, "Bo", None, 1, 0),
        (3, "Cy", "Bonn", 1, 1),
    ]
    assert view.program.count("flagged") == 2
    assert view.progress["rows"] == 5
    loaded = view.program.relation("person").to_arrow()
    assert loaded.schema.types[:3] == [pa.int64(), pa.string(), pa.float64()]
    from gpu_wcoj.checkpoint import Checkpoint

    with Checkpoint.open(tmp_path / "checkpoint" / "engine", program=gws.View.restore(tmp_path / "checkpoint")) as kept:
        assert kept.last is not None
        assert kept.last.extra["loaded"] == {"person": {"rows": 3, "directly": True}}
        assert [batch.batch for batch in kept.last.batches] == [-1, 0, 1]


@pytest.mark.parametrize("emit", [True, False])
def test_tables_alone_are_loaded_once_and_kept(spark, tmp_path, emit):
    edges = pa.table({"src": [1, 2, 1, 3], "dst": [2, 3, 3, 1]})
    write_stream(tmp_path / "edges", [edges])

    def view(frame):
        return gws.maintain(
            {"edge": frame}, TRIANGLE, checkpoint=tmp_path / "checkpoint", output=tmp_path / "out", emit_loaded=emit
        )

    frame = spark.read.parquet(str(tmp_path / "edges")).where("src < 3")
    first = view(frame)
    assert first.load().count("triangle") == 1
    first.close()
    assert first.answers == {"triangle": 1}
    out = gws.read_output(spark, tmp_path / "out").toArrow()
    assert out.num_rows == emit
    assert out.column_names == ["a", "b", "c", "weight", "batch"]
    again = view(frame)
    assert again.load().count("triangle") == 1
    again.close()
    assert gws.read_output(spark, tmp_path / "out").count() == emit
    with pytest.raises(UsageError, match="none of the sources is a stream"):
        again.start()


def test_progress_log_hint_and_confs(spark, tmp_path, caplog):
    write_stream(tmp_path / "changes", payments(2, 400, 100))
    spark.conf.set("spark.gpuWcoj.batchRows", "100")
    spark.conf.set("spark.gpuWcoj.threads", "1")
    try:
        with caplog.at_level(logging.INFO, logger="gpu_wcoj.spark"):
            view = run(
                gws.maintain(
                    {"edge": stream_of(spark, tmp_path / "changes")}, TRIANGLE,
                    changes="weight", checkpoint=tmp_path / "checkpoint",
                )
            )  # fmt: skip
    finally:
        spark.conf.unset("spark.gpuWcoj.batchRows")
        spark.conf.unset("spark.gpuWcoj.threads")
    assert view.program.threads == 1
    assert (view.is_closed, view.outputs, view.columns) == (True, ("triangle",), {"triangle": ["a", "b", "c"]})
    rows = view.snapshot()["triangle"].rows()
    assert rows == view.rows()["triangle"] == view.snapshot("triangle").rows() == view.program.rows()["triangle"]
    assert view.count() == {"triangle": len(rows)} == view.answers
    assert json.loads(view.explain(format="json"))["backend"]
    assert view.statistics() == view.program.statistics()
    progress = view.progress
    assert (progress["batch"], progress["skipped"]) == (1, False)
    assert set(progress["seconds"]) == {"read", "engine", "output", "checkpoint", "batch"}
    assert progress["changes"]["triangle"]["net"] == sum(
        (1, -1)[i] * n
        for i, n in enumerate((progress["changes"]["triangle"]["inserted"], progress["changes"]["triangle"]["deleted"]))
    )
    assert progress["state_bytes"] > 0
    assert progress["checkpoint_bytes"] > 0
    assert progress["spark"]["batchId"] == 1
    assert progress["spark"]["numInputRows"] == progress["rows"]
    assert "maxFilesPerTrigger" in progress["hint"]
    logged = [(record.batch, record.levelname) for record in caplog.records if hasattr(record, "batch")]
    assert logged == [(-1, "INFO"), (0, "INFO"), (0, "WARNING"), (1, "INFO"), (1, "WARNING")]


def test_restore_needs_no_spark(spark, tmp_path):
    """The state of a view is a program's, under its checkpoint."""
    write_stream(tmp_path / "changes", [pa.table({"src": [1, 2, 1], "dst": [2, 3, 3], "weight": [1, 1, 1]})])
    run(
        gws.maintain(
            {"edge": stream_of(spark, tmp_path / "changes")}, TRIANGLE,
            changes="weight", checkpoint=tmp_path / "checkpoint",
        )
    )  # fmt: skip
    import subprocess
    import sys

    code = (
        "import sys, gpu_wcoj as gw\n"
        "print(gw.Program.restore(sys.argv[1]).relation('triangle').rows(), 'pyspark' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "checkpoint" / "engine"], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[((1, 2, 3), 1)] False\n"
