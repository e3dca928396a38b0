"""Values that become heavy while a stream runs: found, split from the next batch on, and right throughout."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'gpu_wcoj[spark]'")

import gpu_wcoj.spark as gws
from gpu_wcoj.spark.cluster import driver
from tests.spark.cluster.test_answers import EDGE, Stream, Tick, alone, written

HOPS = """
hop(a, b, c) :- edge(a, b), edge(b, c).
ends(a, c) :- edge(a, b), edge(b, c), a != c.
.output hop
.output ends
"""


def ticks_with_a_hub(n: int, begins: int) -> list[Tick]:
    """Even rows at first; from tick `begins` on every other row has the node 0, and each tick deletes some."""
    rnd = random.Random(11)
    held: set[tuple[int, int]] = set()
    ticks = []
    for number in range(n):
        gone = set(rnd.sample(sorted(held), len(held) // 8))
        come = {(rnd.randrange(1, 400), rnd.randrange(1, 400)) for _ in range(120)}
        if number >= begins:
            come |= {(0, rnd.randrange(1, 400)) for _ in range(120)} | {(rnd.randrange(1, 400), 0) for _ in range(40)}
        come -= held
        held = held - gone | come
        ticks.append({"edge": [(*row, -1) for row in sorted(gone)] + [(*row, 1) for row in sorted(come)]})
    return ticks


def view_of(spark: Any, place: Path, adapt: str = "50") -> Any:
    stream = spark.readStream.schema(EDGE["edge"]).option("maxFilesPerTrigger", 1).parquet(str(place / "in" / "edge"))
    spark.conf.set("spark.gpuWcoj.cells.adapt", adapt)
    try:
        return gws.maintain(
            {"edge": stream}, HOPS, changes="weight", layout="hypercube", cells=4,
            checkpoint=place / "ckpt", output=place / "out",
        )  # fmt: skip
    finally:
        spark.conf.unset("spark.gpuWcoj.cells.adapt")


def run(view: Any) -> list[dict[str, Any]]:
    told: list[dict[str, Any]] = []
    view.on_batch(told.append)
    view.start("availableNow")
    view.wait()
    return told


def assert_whole(place: Path, ticks: list[Tick]) -> None:
    found = written(place / "out")
    assert sorted(found) == list(range(-1, len(ticks)))
    for batch, answers in enumerate(alone(HOPS, ticks)):
        for name, rows in answers.items():
            assert {row: n for row, n in found[batch][name].items() if n} == dict(rows), (batch, name)


def test_a_hub_that_comes_later_is_split(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = ticks_with_a_hub(7, 2)
    stream = Stream(spark, tmp_path / "in", EDGE)
    for tick in ticks[:5]:
        stream.add(tick)

    # The first attempt to move the state dies when the cells have written it, before anything is committed.
    inner = driver.CellRun._commit

    def dying(self: Any, frame: Any, batch: int, **how: Any) -> Any:
        if how.get("moved") is not None:
            raise RuntimeError("the driver is gone")
        return inner(self, frame, batch, **how)

    monkeypatch.setattr(driver.CellRun, "_commit", dying)
    view = view_of(spark, tmp_path)
    with pytest.raises(Exception, match="the driver is gone"):
        run(view)
    assert "is heavy" not in view.explain()
    before = max(written(tmp_path / "out"))
    assert 2 <= before < 4
    monkeypatch.undo()

    view = view_of(spark, tmp_path)
    told = run(view)
    assert told[0]["batch"] == before + 1
    assert 0 in told[0]["adapted"][0]["b"]
    assert told[0]["seconds"]["adapt"] > 0
    assert "where b is heavy" in view.explain()
    assert_whole(tmp_path, ticks[:5])

    # What was chosen later is kept, and goes on in another run.
    for tick in ticks[5:]:
        stream.add(tick)
    view = view_of(spark, tmp_path)
    assert "where b is heavy" in view.explain()
    told += run(view)
    assert [one["batch"] for one in told] == list(range(before + 1, 7))
    assert_whole(tmp_path, ticks)
    assert view.answers == {name: view.program.count(name) for name in ("hop", "ends")}
    restored = gws.View.restore(tmp_path / "ckpt")
    assert restored.count("edge") == view.count("edge") == len(view.relation("edge"))
    (tmp_path / "even").mkdir()
    (tmp_path / "in").rename(tmp_path / "even" / "in")
    even = view_of(spark, tmp_path / "even", "off")
    uneven = run(even)
    assert "is heavy" not in even.explain()
    assert uneven[-1]["load"][0]["largest"] > 1.3 * uneven[-1]["load"][0]["mean"]
    assert told[-1]["skew"] < uneven[-1]["skew"]


def test_even_rows_move_nothing(spark: Any, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path / "in", EDGE)
    ticks = ticks_with_a_hub(3, 3)
    for tick in ticks:
        stream.add(tick)
    told = run(view_of(spark, tmp_path, "10"))
    assert [one["adapted"] for one in told] == [{}, {}, {}, {}]
    assert_whole(tmp_path, ticks)
