"""Views: equal to the engine alone and to Spark's own joins, on streams, tables and both."""

from __future__ import annotations

import logging
import time

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'gpu_wcoj[spark]'")

import gpu_wcoj as gw
import gpu_wcoj.spark as gws
from gpu_wcoj.errors import TypeMismatchError, UnknownRelationError, UnsupportedError, UsageError
from tests.spark.streams import EDGE, TRIANGLE, alone, assert_same, net, payments, write_stream


def stream_of(spark, folder, schema=EDGE, files=1):
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", files).parquet(str(folder))


def run(view):
    view.start("availableNow")
    view.wait()
    return view


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
    with pytest.raises(UsageError, match="no source is a stream"):
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


def test_stop_lets_the_batch_finish_and_the_checkpoint_go(spark, tmp_path):
    write_stream(tmp_path / "changes", payments(30, 600, 100))
    seen = []

    def view():
        return gws.maintain(
            {"edge": stream_of(spark, tmp_path / "changes")}, TRIANGLE, changes="weight",
            checkpoint=tmp_path / "checkpoint", output=lambda changes, batch: seen.append((batch, changes)),
        )  # fmt: skip

    first = view()
    query = first.start()
    with pytest.raises(UsageError, match="is running on the checkpoint"):
        view().start()
    while len(seen) < 3:
        assert not query.awaitTermination(1)
    first.stop()
    assert not query.isActive
    assert first.failure is None
    assert [batch for batch, _ in seen] == list(range(-1, len(seen) - 1))
    run(view())
    assert [batch for batch, _ in seen] == list(range(-1, len(seen) - 1))
    # Where Spark had listed a file and not yet begun its batch, that file goes into the next one's.
    assert len(seen) in (30, 31)
    expected, _ = alone(TRIANGLE, [{"edge": table} for table in payments(30, 600, 100)], "triangle")
    assert_same(
        net(pa.concat_tables([changes["triangle"] for _, changes in seen])), net(expected.drop_columns("batch"))
    )


def test_no_batch_begins_between_the_last_one_and_the_end(spark, tmp_path):
    """Spark hears late of it that the view is to stop; what has begun by then would be cut short."""
    write_stream(tmp_path / "changes", payments(30, 600, 100))
    seen, before = [], []
    view = gws.maintain(
        {"edge": stream_of(spark, tmp_path / "changes")}, TRIANGLE, changes="weight",
        checkpoint=tmp_path / "checkpoint", output=lambda changes, batch: seen.append((batch, changes)),
    )  # fmt: skip
    query = view.start()
    while len(seen) < 2:
        assert not query.awaitTermination(1)

    class Late:
        def stop(self):
            before.append(len(seen))
            time.sleep(3)
            query.stop()

        def __getattr__(self, name):
            return getattr(query, name)

    view._query = Late()
    view.stop()
    assert before == [len(seen)]
    assert view.failure is None
    assert not query.isActive
    assert view.wait()


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
    with pytest.raises(UsageError, match="there are the outputs 'two', 'three'|there are the outputs 'three', 'two'"):
        gws.read_output(spark, tmp_path / "out")
    with pytest.raises(UnknownRelationError, match="no relation 'tow'"):
        gws.read_output(spark, tmp_path / "out", "tow")
    with pytest.raises(UsageError, match="Leave out one of the two"):
        gws.read_output(spark, tmp_path / "out", "two", state=True, since=0)
    with pytest.raises(UsageError, match="there is no output in"):
        gws.read_output(spark, tmp_path / "elsewhere")


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
    answer = gws.join(spark, "n(a, w) :- r(a, w).", {"r": weights}, bag=True, path=tmp_path / "answer")
    assert sorted(map(tuple, answer.collect())) == [("x", 1, 2), ("y", 2, 1)]
    nothing = gws.join(spark, "n(a, w) :- r(a, w).", {"r": weights.where("weight > 5")})
    assert (nothing.columns, nothing.dtypes[0][1], nothing.count()) == (["a", "w"], "string", 0)


def test_once_says_what_is_missing(spark, tmp_path):
    frame = spark.range(3).selectExpr("id AS a", "id AS b")
    with pytest.raises(UnknownRelationError, match="no relation 'edge'.*\n.*relations given are: none"):
        gws.join(spark, TRIANGLE, {})
    with pytest.raises(UnknownRelationError, match="Did you mean 'edge'"):
        gws.join(spark, TRIANGLE, {"edges": frame})
    with pytest.raises(UsageError, match="has the outputs 'p', 'q'.*\n.*output="):
        gws.join(spark, "p(a) :- edge(a, b). q(b) :- edge(a, b).", {"edge": frame})
    with pytest.raises(UnknownRelationError, match="no relation 'r'"):
        gws.join(spark, "p(a) :- edge(a, b).", {"edge": frame}, output="r")
    for ask in (gws.join, gws.count, gws.explain):
        for wrong in ({"edge": pd.DataFrame({"a": [1], "b": [2]})}, {"edge": [(1, 2)]}):
            with pytest.raises(UsageError, match="given for relation 'edge' is of type(?s:.*)no DataFrame of Spark"):
                ask(spark, TRIANGLE, wrong)
        with pytest.raises(UsageError, match="a mapping from relations to them is allowed"):
            ask(spark, TRIANGLE, frame)
    with pytest.raises(TypeMismatchError, match="which is no table(?s:.*)gpu_wcoj.spark.join"):
        gw.query(TRIANGLE, edge=frame)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").touch()
    with pytest.raises(UsageError, match="holds files already"):
        gws.join(spark, "p(a) :- edge(a, b).", {"edge": frame}, path=tmp_path / "taken")
    with pytest.raises(UsageError, match="is a stream"):
        gws.count(spark, "p(a) :- edge(a, b).", {"edge": stream_of(spark, tmp_path, "a bigint, b bigint")})


def test_what_does_not_go_together_is_refused_at_once(spark, tmp_path):
    edges = stream_of(spark, tmp_path)
    place = {"checkpoint": tmp_path / "checkpoint"}
    with pytest.raises(UsageError, match="nothing is given to read"):
        gws.maintain({}, TRIANGLE, **place)
    with pytest.raises(UsageError, match="a mapping from relations to them is allowed"):
        gws.maintain([edges], TRIANGLE, **place)
    with pytest.raises(UsageError, match="given for relation 'edge' is of type(?s:.*)no DataFrame of Spark"):
        gws.maintain({"edge": [edges, None]}, TRIANGLE, **place)
    with pytest.raises(UnknownRelationError, match="no relation 'egde'.*\n.*Did you mean 'edge'"):
        gws.maintain({"egde": edges}, TRIANGLE, **place)
    with pytest.raises(UsageError, match="the program reads 's', and no DataFrame"):
        gws.maintain({"r": edges}, "p(a) :- r(a, b), s(b).", **place)
    with pytest.raises(UnknownRelationError, match="no relation 'egde'"):
        gws.maintain({"edge": edges}, TRIANGLE, changes={"egde": "weight"}, **place)
    with pytest.raises(UsageError, match="no layout 'two'"):
        gws.maintain({"edge": edges}, TRIANGLE, changes="weight", layout="two", **place)
    with pytest.raises(UsageError, match="neither a path nor a function"):
        gws.maintain({"edge": edges}, TRIANGLE, changes="weight", output=7, **place)
    with pytest.raises(UsageError, match="output='' is no path"):
        gws.maintain({"edge": edges}, TRIANGLE, changes="weight", output="", **place)
    with pytest.raises(UsageError, match="is not a path of a local or mounted file system"):
        gws.maintain({"edge": edges}, TRIANGLE, changes="weight", output="s3://bucket/out", **place)
    with pytest.raises(UsageError, match="have no meaning for the Parquet files"):
        gws.maintain({"edge": edges}, TRIANGLE, changes="weight", output="out", options={"x": "y"}, **place)
    view = gws.maintain({"edge": edges}, TRIANGLE, changes="weight", **place)
    for call in (lambda: view.program, view.wait):
        with pytest.raises(UsageError, match="has not been started"):
            call()
    for key, value, message in (
        ("spark.gpuWcoj.thread", "2", "no conf 'spark.gpuWcoj.thread'.*\n.*Did you mean 'threads'"),
        ("spark.gpuWcoj.threads", "none", "the conf 'spark.gpuWcoj.threads' is 'none'"),
        ("spark.gpuWcoj.backend", "gpu", "the conf 'spark.gpuWcoj.backend' is 'gpu'"),
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
    with pytest.raises(UnsupportedError, match="over Spark Connect there is none here"):
        gws.maintain({"edge": DataFrame()}, TRIANGLE, checkpoint="somewhere")


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
