"""Drivers that are killed, stopped, started twice, or find other files than they left: each batch counts once."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'gpu_wcoj[spark]'")

import gpu_wcoj as gw
import gpu_wcoj.spark as gws
from gpu_wcoj.checkpoint import Checkpoint
from gpu_wcoj.errors import (
    BatchMismatchError,
    CheckpointDamagedError,
    CheckpointError,
    CheckpointMismatchError,
)
from gpu_wcoj.spark.sources import as_change
from tests.spark.file_streams import EDGE, TRIANGLE, alone, assert_same, payments, write_stream

DRIVER = Path(__file__).with_name("view_driver.py")


def start(folder: Path, **plan) -> subprocess.Popen:
    path = os.pathsep.join(filter(None, [str(DRIVER.parents[2]), os.environ.get("PYTHONPATH")]))
    return subprocess.Popen(
        [sys.executable, str(DRIVER), str(folder), json.dumps(plan)],
        env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def view_of(spark, folder: Path, changes: str = "changes", program: str = TRIANGLE):
    stream = spark.readStream.schema(EDGE).option("maxFilesPerTrigger", 1).parquet(str(folder / changes))
    return gws.maintain(
        {"edge": stream}, program, changes="weight", checkpoint=folder / "checkpoint", output=folder / "out"
    )


def finish(view):
    view.start("availableNow")
    view.wait()
    return view


def as_cut(folder: Path, tables: list[pa.Table]) -> list[pa.Table]:
    """The rows of each batch as Spark has cut the stream, every file in one batch.

    A driver that dies after the source has noted a file, and before the batch's offsets are, leaves a file that Spark
    takes into one batch with the next.
    """
    spark = folder / "checkpoint" / "spark"
    noted: dict[int, int] = {}
    for log in (spark / "sources" / "0").iterdir():
        if not log.name.startswith("."):
            entries = [json.loads(line) for line in log.read_text().splitlines()[1:]]
            noted |= {int(Path(one["path"]).stem): one["batchId"] for one in entries}
    assert sorted(noted) == list(range(len(tables)))
    ends = [
        json.loads((spark / "offsets" / str(batch)).read_text().splitlines()[-1])["logOffset"]
        for batch in sorted(int(path.name) for path in (spark / "offsets").iterdir() if path.name.isdecimal())
    ]
    starts = [-1, *ends[:-1]]
    return [
        pa.concat_tables([tables[file] for file, offset in sorted(noted.items()) if start < offset <= end])
        for start, end in zip(starts, ends, strict=True)
    ]


def assert_whole(spark, folder: Path, tables: list[pa.Table]) -> None:
    """Every batch is there once: the signed multiset of the output, the files, and the state."""
    batches = [{"edge": table} for table in as_cut(folder, tables)]
    expected, engine = alone(TRIANGLE, batches, "triangle")
    assert_same(gws.read_output(spark, folder / "out").toArrow(), expected)
    restored = gws.View.restore(folder / "checkpoint")
    assert restored.relation("edge") == engine.relation("edge")
    assert restored.relation("triangle") == engine.relation("triangle")
    written = {path.name for path in (folder / "out" / "triangle").iterdir()}
    assert len(written) == len(set(expected["batch"].to_pylist()))  # an output without rows has no file


@pytest.fixture(scope="module")
def done(spark, tmp_path_factory) -> tuple[Path, list[pa.Table]]:
    """A folder in which a view has run to the end of five batches, to be copied."""
    folder = tmp_path_factory.mktemp("done")
    tables = write_stream(folder / "changes", payments(5, 1500, 200))
    finish(view_of(spark, folder))
    assert_whole(spark, folder, tables)
    return folder, tables


@pytest.fixture
def copy(done, tmp_path):
    """Where the view of `done` has run, a folder of the same name for each test: Spark keeps absolute paths."""
    folder, tables = done
    saved = tmp_path / "saved"
    shutil.copytree(folder, saved)
    yield folder, tables
    shutil.rmtree(folder)
    shutil.copytree(saved, folder)


def test_kills_at_every_step_of_a_batch(spark, tmp_path):
    tables = write_stream(tmp_path / "changes", payments(6, 2000, 200))
    for batch, point in ((1, "middle"), (2, "outputs"), (3, "manifest"), (4, "commit")):
        driver = start(tmp_path, kill=point, batch=batch)
        _, errors = driver.communicate(timeout=120)
        assert driver.returncode == -signal.SIGKILL, errors
        whole = gws.read_output(spark, tmp_path / "out").toArrow()
        committed = batch + (point in ("manifest", "commit"))
        seen = batch + (point == "commit")
        expected, _ = alone(TRIANGLE, [{"edge": table} for table in tables[:seen]], "triangle")
        assert_same(whole, expected)  # readers see whole batches, whenever the driver died
        assert gws.View.restore(tmp_path / "checkpoint").last_tick.tick == committed  # tick 0 is that of the tables
        left = list((tmp_path / "out" / "triangle").glob(f"batch-{batch:012}-*"))
        assert len(left) == 1, point
    finish(view_of(spark, tmp_path))
    assert_whole(spark, tmp_path, tables)


def test_a_motif_survives_kills(spark, tmp_path):
    motif = "(a)-[e]->(b); (b)-[f]->(c); !(c)-[]->(a)"
    tables = write_stream(tmp_path / "changes", payments(4, 400, 60))
    for batch, point in ((1, "outputs"), (2, "manifest")):
        driver = start(tmp_path, kill=point, batch=batch, program=motif)
        _, errors = driver.communicate(timeout=120)
        assert driver.returncode == -signal.SIGKILL, errors
    stream = spark.readStream.schema(EDGE).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "changes"))
    folders = {"checkpoint": tmp_path / "checkpoint", "output": tmp_path / "out"}
    finish(gws.maintain({"edges": stream}, motif, changes="weight", **folders))
    matcher = gw.Matcher(motif, edges=tables[0].slice(0, 0).drop_columns("weight"))
    for table in tables:
        matcher.apply(edges=as_change(table).with_weight_name("weight").to_arrow())
    state = gws.read_output(spark, tmp_path / "out", state=True)
    rows = {(row.a.id, row.e.src, row.e.dst, row.b.id, row.f.dst, row.c.id): row.weight for row in state.collect()}
    expected: Counter[tuple[int, ...]] = Counter()
    for (a, e, b, f, c), weight in matcher.matches().rows(weights=True):
        expected[a["id"], e["src"], e["dst"], b["id"], f["dst"], c["id"]] += weight
    assert rows == expected
    assert len(rows) > 100


def test_a_batch_that_spark_forgot_is_passed_over(spark, copy):
    folder, tables = copy
    for name in ("4", ".4.crc"):
        (folder / "checkpoint" / "spark" / "commits" / name).unlink()
    view = finish(view_of(spark, folder))
    assert (view.progress["batch"], view.progress["skipped"]) == (4, True)
    assert_whole(spark, folder, tables)
    write_stream(folder / "changes", more := payments(1, 300, 50, seed=2), first=5)
    finish(view_of(spark, folder))
    assert_whole(spark, folder, [*tables, *more])


def test_a_batch_that_comes_again_with_other_rows_is_refused(spark, copy):
    folder, tables = copy
    for name in ("4", ".4.crc"):
        (folder / "checkpoint" / "spark" / "commits" / name).unlink()
    write_stream(folder / "changes", [payments(5, 1500, 200, seed=3)[4]], first=4)
    view = view_of(spark, folder)
    view.start("availableNow")
    with pytest.raises(
        BatchMismatchError, match=r"(?s)holds batch 4 of query.*given is batch 4.*Spark's checkpoint is"
    ):
        view.wait()
    view.close()
    assert_same(
        gws.read_output(spark, folder / "out").toArrow(),
        alone(TRIANGLE, [{"edge": table} for table in tables], "triangle")[0],
    )


def test_another_source_is_refused(spark, copy):
    folder, _ = copy
    write_stream(folder / "others", payments(1, 100, 50))
    with pytest.raises(CheckpointMismatchError, match=r"(?s)in its source of 'edge'.*changes.*others"):
        view_of(spark, folder, "others").start("availableNow")
    with pytest.raises(CheckpointMismatchError, match="in its program"):
        view_of(spark, folder, program="triangle(a, b, c) :- edge(a, b), edge(b, c), edge(c, a).").start()


@pytest.mark.parametrize("lost", ["spark", "engine"])
def test_one_of_the_two_checkpoints_deleted_is_refused(spark, copy, lost):
    folder, tables = copy
    shutil.rmtree(folder / "checkpoint" / lost)
    wanted = {
        "spark": (BatchMismatchError, "(?s)holds batch 4 of query.*is gone"),
        "engine": (CheckpointError, "is empty"),
    }
    error, message = wanted[lost]
    for _ in range(2):
        with pytest.raises(error, match=message):
            view_of(spark, folder).start("availableNow")
    assert gws.read_output(spark, folder / "out").count() == len(
        alone(TRIANGLE, [{"edge": table} for table in tables], "triangle")[0]
    )


def test_both_checkpoints_deleted_but_not_the_output_is_refused(spark, copy):
    folder, _ = copy
    shutil.rmtree(folder / "checkpoint")
    with pytest.raises(CheckpointMismatchError, match="in its checkpoint, and this folder holds its output"):
        view_of(spark, folder).start("availableNow")


def test_outputs_that_are_lost_or_cut_are_noticed(spark, copy):
    folder, _ = copy
    path = next((folder / "out" / "triangle").glob("batch-000000000002-*"))
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CheckpointDamagedError, match="has the wrong size"):
        gws.read_output(spark, folder / "out")
    path.unlink()
    with pytest.raises(CheckpointDamagedError, match="is missing"):
        gws.read_output(spark, folder / "out")
    (folder / "out" / "_batches" / "batch-000000000002.json").unlink()
    with pytest.raises(CheckpointDamagedError, match=r"batch-000000000002.json' is missing"):
        gws.read_output(spark, folder / "out")
    with pytest.raises(CheckpointDamagedError, match=r"batch-000000000002.json' is missing"):
        view_of(spark, folder).start("availableNow")


def test_a_second_driver_is_refused_and_may_take_over(spark, tmp_path):
    """The first one is stopped before a manifest, and woken when the second one is done."""
    tables = write_stream(tmp_path / "changes", payments(6, 1500, 200))
    driver = start(tmp_path, stop=3)
    try:
        deadline = time.monotonic() + 120
        while b"T" not in Path(f"/proc/{driver.pid}/stat").read_bytes().rpartition(b")")[2].split()[:1]:
            assert driver.poll() is None, driver.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.1)
        with pytest.raises(CheckpointError, match=rf"is open: process {driver.pid} of the Spark application"):
            view_of(spark, tmp_path).start("availableNow")
        view = view_of(spark, tmp_path)
        view.start("availableNow", takeover=True)
        view.wait()
        assert_whole(spark, tmp_path, tables)
        driver.send_signal(signal.SIGCONT)
        _, errors = driver.communicate(timeout=120)
        assert driver.returncode == 1
        assert "has been taken over" in errors
    finally:
        driver.kill()
        driver.wait()
    finish(view_of(spark, tmp_path))
    assert_whole(spark, tmp_path, tables)


def test_the_lease_is_let_go_when_a_query_ends(spark, copy):
    folder, _ = copy
    finish(view_of(spark, folder))
    with Checkpoint.open(folder / "checkpoint" / "engine", program=gws.View.restore(folder / "checkpoint")):
        pass


@pytest.mark.slow
@pytest.mark.skipif("SOAK_POINTS" not in os.environ, reason="make soak-spark runs it")
def test_soak(spark, tmp_path):
    """Kills at random times, SOAK_POINTS of them, in streams of twelve batches; SOAK_RECORD names a file to write."""
    import random

    begin = time.perf_counter()
    kills: list[dict[str, int]] = []
    seed = int(os.environ.get("SOAK_SEED", time.time_ns() % 100_000))
    chance, points = random.Random(seed), int(os.environ["SOAK_POINTS"])
    print(f"SOAK_SEED={seed}")
    killed = stream = 0
    while killed < points:
        folder = tmp_path / f"stream{stream}"
        tables = write_stream(folder / "changes", payments(12, 3000, 300, seed=seed + stream))
        for _ in range(min(5, points - killed)):
            driver = start(folder, after=chance.randrange(3), seconds=chance.uniform(0.0, 1.0))
            _, errors = driver.communicate(timeout=300)
            assert driver.returncode in (0, -signal.SIGKILL), (seed, errors)
            if driver.returncode == 0:
                break
            killed += 1
            kills.append({"stream": stream, "tick": gws.View.restore(folder / "checkpoint").last_tick.tick})
            print(f"kill {killed}: {kills[-1]}", flush=True)
        finish(view_of(spark, folder))
        assert_whole(spark, folder, tables)
        stream += 1
    if os.environ.get("SOAK_RECORD"):
        record(kills, seed, stream, time.perf_counter() - begin)


def record(kills: list[dict[str, int]], seed: int, streams: int, seconds: float) -> None:
    import datetime as dt
    import platform

    import pyspark

    commit = subprocess.run(
        ["git", "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, cwd=DRIVER.parents[2], check=False
    )
    found = {
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "commit": commit.stdout.strip(),
        "pyspark": pyspark.__version__,
        "python": platform.python_version(),
        "processors": os.cpu_count(),
        "seed": seed,
        "streams": streams,
        "batches": 12 * streams,
        "kills": kills,
        "seconds": round(seconds, 1),
        "outcome": "every batch is there once: the signed multiset of the output, the files, and the state",
    }
    Path(os.environ["SOAK_RECORD"]).write_text(json.dumps(found, indent=1) + "\n")
