"""Views on cells, by `maintain`: started again, asked for what they do not do, on damaged files, with heavy values."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'gpu_wcoj[spark]'")

import gpu_wcoj.spark as gws
from gpu_wcoj import Program, ZSet, errors
from gpu_wcoj.engine.options import ProgramOptions
from gpu_wcoj.errors import CheckpointError, CheckpointMismatchError, GpuWcojError
from gpu_wcoj.spark.cluster import view as cells_view
from gpu_wcoj.spark.cluster.driver import CellOptions, CellRun
from tests.spark.cluster.test_answers import EDGE, TRIANGLE, Stream, alone, random_ticks, written

REACH = "far(a, c) :- edge(a, b), edge(b, c), a != c."


def view_of(spark: Any, place: Path, text: str = REACH, layout: Any = "hypercube", **options: Any) -> Any:
    stream = spark.readStream.schema(EDGE["edge"]).option("maxFilesPerTrigger", 1).parquet(str(place / "in" / "edge"))
    return gws.maintain(
        {"edge": stream},
        text,
        changes="weight",
        layout=layout,
        checkpoint=place / "ckpt",
        output=place / "out",
        **options,
    )


def run(view: Any) -> Any:
    view.start("availableNow")
    view.wait()
    return view


def assert_whole(place: Path, ticks: list[Any]) -> None:
    found = written(place / "out")
    assert sorted(found) == list(range(-1, len(ticks)))
    for batch, answers in enumerate(alone(REACH, ticks)):
        assert {row: n for row, n in found[batch]["far"].items() if n} == dict(answers["far"]), batch


def test_a_view_that_is_started_again(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = random_ticks(9, 4, 80, 20)
    ticks[0] = {"edge": []}  # an empty file is a batch, too
    stream = Stream(spark, tmp_path / "in", EDGE)
    for tick in ticks[:2]:
        stream.add(tick)
    view = run(view_of(spark, tmp_path))
    assert "far: drops variables" in view.explain()
    told: list[dict[str, Any]] = []

    # Spark forgets its last commit: the batch runs again, its rows read by Spark's tasks, and is passed over.
    monkeypatch.setattr(cells_view, "ROUTED_ROWS", 0)
    for name in ("1", ".1.crc"):
        (tmp_path / "ckpt" / "spark" / "commits" / name).unlink()
    again = view_of(spark, tmp_path)
    again.on_batch(told.append)
    stream.add(ticks[2])
    run(again)
    assert [(one["batch"], one["skipped"]) for one in told] == [(1, True), (2, False)]
    reported = {report["batchId"]: report["numInputRows"] for report in again.query.recentProgress}
    assert {batch: rows for batch, rows in reported.items() if rows} == {n: len(ticks[n]["edge"]) for n in (1, 2)}
    assert_whole(tmp_path, ticks[:3])
    assert again.answers == {"far": sum(sum(one["far"].values()) for one in alone(REACH, ticks[:3]))}

    # What it was made with, it is to be used with.
    with pytest.raises(CheckpointMismatchError, match="in its layout"):
        view_of(spark, tmp_path, layout="replicated").load()
    with pytest.raises(CheckpointError):
        view_of(spark, tmp_path, text=TRIANGLE).load()

    # A damaged file of a cell is noticed, and nothing is committed.
    runs = sorted((tmp_path / "ckpt" / "engine" / "cells").glob("archive-*"))
    whole = runs[-1].read_bytes()
    for file in runs:
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 1
        file.write_bytes(data)
    stream.add(ticks[3])
    broken = view_of(spark, tmp_path)
    with pytest.raises(Exception, match="Bad CRC-32|does not have the checksum that it was written with"):
        _run_on_another_machine(spark, broken, tmp_path / "tmp")
    for file in runs:
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 1
        file.write_bytes(data)
    assert runs[-1].read_bytes() == whole
    assert sorted(written(tmp_path / "out")) == [-1, 0, 1, 2]
    run(view_of(spark, tmp_path))
    assert_whole(tmp_path, ticks)


def _run_on_another_machine(spark: Any, view: Any, temporary: Path) -> None:
    """Run a view in workers that have no engine in memory and no image of a state on their disk.

    Spark keeps a worker for each environment.
    """
    temporary.mkdir()
    spark.sparkContext.environment["TMPDIR"] = str(temporary)
    try:
        run(view)
    finally:
        del spark.sparkContext.environment["TMPDIR"]


def test_heavy_values_of_tables(spark: Any, tmp_path: Path) -> None:
    """A hub's bindings are spread over all cells."""
    rnd = random.Random(4)
    rows = {(0, i) for i in range(1, 150)} | {(i, 0) for i in range(60, 180)}
    rows |= {(rnd.randrange(1, 160), rnd.randrange(1, 160)) for _ in range(100)}
    table = spark.createDataFrame(sorted(rows), "a int, b bigint")
    view = gws.maintain(
        {"edge": table}, "hop(a, b, c) :- edge(a, b), edge(b, c).", layout="hypercube", cells=4,
        checkpoint=tmp_path / "ckpt", output=tmp_path / "out", changes="append",
    )  # fmt: skip
    view.load()
    view.close()
    assert "where b is heavy" in view.explain()
    program = Program("hop(a, b, c) :- edge(a, b), edge(b, c).")
    expected = program.step({"edge": ZSet.from_rows(sorted(rows))})["hop"]
    assert written(tmp_path / "out")[-1]["hop"] == Counter(expected.to_dict())
    assert view.progress["skew"] < 2


def test_what_cells_do_not_do(spark: Any, tmp_path: Path) -> None:
    frame = spark.createDataFrame([], "a array<int>, b int, weight bigint")
    with pytest.raises(GpuWcojError, match="relation 'r', column 'a': type 'array<int>'"):
        CellRun.open("p(a) :- r(a, b).", {"r": frame.schema}, CellOptions(), checkpoint=tmp_path / "other")


def test_a_view_on_cells_has_the_interface_of_other_views(spark: Any, tmp_path: Path) -> None:
    frame = spark.createDataFrame([(1, 2), (2, 3), (2, 4)], "a bigint, b bigint")
    with gws.maintain({"edge": frame}, REACH, layout="hypercube", cells=2, checkpoint=tmp_path / "ckpt") as view:
        view.load()
        assert (view.is_closed, view.outputs, view.columns) == (False, ("far",), {"far": ["a", "c"]})
        assert sorted(view.rows()["far"]) == [(1, 3), (1, 4)]
        assert sorted(view.snapshot("edge").rows()) == [(1, 2), (2, 3), (2, 4)]
        assert (view.count(), view.count("edge")) == ({"far": 2}, 3)
        assert view.statistics() == view.program.statistics()
        with pytest.raises(errors.UnsupportedError, match=r"an option of explain\(\) for a view on cells"):
            view.explain(format="json")
    assert view.is_closed


def test_the_last_operation_on_a_row_wins(spark: Any, tmp_path: Path) -> None:
    rnd = random.Random(3)
    rows = [(rnd.randrange(8), rnd.randrange(8), rnd.choice((1, -1)), at) for at in range(300)]
    rnd.shuffle(rows)
    frame = spark.createDataFrame(rows, "a int, b int, weight int, version bigint")
    changes = gws.normalise(frame, "weight", order_by="version")
    with CellRun.open(
        REACH, {"edge": changes.schema}, CellOptions("hypercube", 3), checkpoint=tmp_path / "ckpt",
        output=tmp_path / "out",
    ) as cells:  # fmt: skip
        cells.load({"edge": changes})
    held = {(a, b): weight for a, b, weight, at in sorted(rows, key=lambda row: row[3])}
    (expected,) = alone(REACH, [{"edge": [(*row, 1) for row, weight in held.items() if weight > 0]}])
    assert written(tmp_path / "out")[-1]["far"] == expected["far"]


def test_values_that_are_equal_meet(spark: Any, tmp_path: Path) -> None:
    """Types that widen into one another, nulls and zeros with a sign are hashed as the engine compares them."""
    left = spark.sql(
        "SELECT CAST(id AS smallint) AS n, CAST(id / 4 AS decimal(8, 2)) AS d,"
        " DATE'2020-01-01' + CAST(id AS int) AS day,"
        " IF(id = 3, null, CAST(id AS string)) AS s, IF(id % 2 = 0, 0.0D, -0.0D) AS z FROM range(12)"
    )
    right = spark.sql(
        "SELECT id AS n, CAST(id / 4 AS decimal(12, 4)) AS d, DATE'2020-01-01' + CAST(id AS int) AS day,"
        " IF(id = 3, null, CAST(id AS string)) AS s, 0.0D AS z FROM range(4, 20)"
    )
    text = "same(n, d, y, s, z, k) :- l(n, d, y, s, z), r(k, d, y, s, z), r(n, d, y, s, z)."
    frames = {"l": gws.normalise(left, "append"), "r": gws.normalise(right, "append")}
    answers = {}
    for layout in ("hypercube", "replicated"):
        place = tmp_path / layout
        schemas = {name: frame.schema for name, frame in frames.items()}
        with CellRun.open(
            text, schemas, CellOptions(layout, 4), checkpoint=place / "ckpt", output=place / "out"
        ) as cells:  # fmt: skip
            cells.load(frames)
        answers[layout] = written(place / "out")[-1]["same"]
    program = Program(text)
    expected = program.step({name: frame.toArrow() for name, frame in (("l", left), ("r", right))})
    assert len(expected["same"]) == 8
    assert answers["hypercube"] == answers["replicated"] == Counter(expected["same"].to_dict())


def test_zeros_have_a_sign_where_they_have_one_in_one_process(spark: Any, tmp_path: Path) -> None:
    """What one stage passes on is compared in the next, and has no sign then in the first one either."""
    rows = [(k, -0.0 if k % 2 else 0.0, -0.0 if k % 3 else 0.0) for k in range(6)]
    left = spark.createDataFrame(rows, "k bigint, x double, y double")
    right = spark.createDataFrame([(-0.0, 0), (0.0, 1)], "x double, z bigint")
    text = "h(k, x, y) :- l(k, x, y). o(k, x, y, z) :- h(k, x, y), r(x, z)."
    frames = {"l": gws.normalise(left, "append"), "r": gws.normalise(right, "append")}
    program = Program(text, outputs=["h", "o"])
    expected = program.step({name: frame.toArrow() for name, frame in (("l", left), ("r", right))})
    want = {name: sorted(map(repr, rows.to_dict())) for name, rows in expected.items()}
    assert [sum("-0.0" in row for row in rows) for rows in want.values()] == [4, 8]  # of y, and none of x
    for layout in ("hypercube", "replicated"):
        place = tmp_path / layout
        schemas = {name: frame.schema for name, frame in frames.items()}
        with CellRun.open(
            text, schemas, CellOptions(layout, 4, program=ProgramOptions(outputs=["h", "o"])),
            checkpoint=place / "ckpt", output=place / "out",
        ) as cells:  # fmt: skip
            cells.load(frames)
        found = written(place / "out")[-1]
        assert {name: sorted(map(repr, rows)) for name, rows in found.items()} == want


@pytest.mark.parametrize(("layout", "cells"), [("hypercube", 8), ("replicated", 3)])
def test_wiki_vote(spark: Any, shared_data: Path, tmp_path: Path, layout: Any, cells: int) -> None:
    """Four fifths as a table, the rest as a stream; the triangles of the whole are known."""
    rows = np.loadtxt(shared_data / "graphs" / "wiki-Vote.txt.gz", dtype=np.int64, comments="#")
    first = int(len(rows) * 0.8)
    kind = pa.schema([("a", pa.int64()), ("b", pa.int64())])
    table = spark.createDataFrame(pa.table([rows[:first, 0], rows[:first, 1]], schema=kind))
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table([rows[first:, 0], rows[first:, 1]], schema=kind), tmp_path / "in" / "rest.parquet")
    stream = spark.readStream.schema("a bigint, b bigint").parquet(str(tmp_path / "in"))
    changes, more = gws.normalise(table, "append"), gws.normalise(stream, "append")
    with CellRun.open(
        TRIANGLE, {"edge": changes.schema}, CellOptions(layout, cells), checkpoint=tmp_path / "ckpt",
        output=tmp_path / "out",
    ) as run_:  # fmt: skip
        run_.load({"edge": changes})
        writer = run_.frame({"edge": more}).writeStream.foreachBatch(run_.commit)
        query = writer.option("checkpointLocation", str(tmp_path / "spark")).trigger(availableNow=True).start()
        query.awaitTermination()
        assert run_.progress["batch"] == 0
        assert run_.answers == {"triangle": gws.read_output(spark, tmp_path / "out").count()}
    program = Program(TRIANGLE, backend="cpu")
    expected = program.step_counts({"edge": pa.table([rows[:, 0], rows[:, 1]], schema=kind)})["triangle"].net
    assert run_.answers == {"triangle": expected}
    assert expected > 500_000
