"""Folders that views write to: what is somebody else's stays, and what would be half an output is refused."""

from __future__ import annotations

import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'gpu_wcoj[spark]'")

import gpu_wcoj.spark as gws
from gpu_wcoj.errors import CheckpointMismatchError
from tests.spark.file_streams import write_stream

SCHEMA = "a bigint, b bigint, weight bigint"
LAYOUTS = [{}, {"layout": "hypercube", "cells": 2}]


def run(spark, place, **options):
    stream = spark.readStream.schema(SCHEMA).parquet(str(place / "changes"))
    view = gws.maintain({"r": stream}, "h(x) :- r(x, _).", checkpoint=place / "checkpoint", **options)
    view.start("availableNow")
    view.wait()
    return view


def add(place, number):
    (place / "changes").mkdir(exist_ok=True)
    pq.write_table(pa.table({"a": [number], "b": [1], "weight": [1]}), place / "changes" / f"{number}.parquet")


@pytest.mark.drawn("output")
@pytest.mark.parametrize("options", LAYOUTS, ids=["one", "cells"])
@pytest.mark.parametrize("output", [".", "checkpoint"])
def test_files_of_others_stay(spark, tmp_path, options, output):
    mine = tmp_path / output / "mine" / "batch-1.parquet"
    mine.parent.mkdir(parents=True)
    pq.write_table(pa.table({"x": [1]}), mine)
    for number in range(3):
        add(tmp_path, number)
        view = run(spark, tmp_path, output=tmp_path / output, **options)
        assert view.answers == {"h": number + 1}
        left = tmp_path / output / "h" / ("batch-000000000009-000001-1.parquet")
        if not options:
            shutil.copy(mine, left)  # as an attempt leaves it that was not committed
    assert run(spark, tmp_path, output=tmp_path / output, **options).answers == {"h": 3}
    assert not left.exists()
    assert pq.read_table(mine).to_pydict() == {"x": [1]}
    assert len(list((tmp_path / "changes").glob("*.parquet"))) == 3
    rows = gws.read_output(spark, tmp_path / output, state=True).toArrow()
    assert sorted(rows["x"].to_pylist()) == [0, 1, 2]


@pytest.mark.parametrize("options", LAYOUTS, ids=["one", "cells"])
def test_batches_without_a_folder_are_in_none(spark, tmp_path, options):
    add(tmp_path, 1)
    assert run(spark, tmp_path, **options).answers == {"h": 1}
    add(tmp_path, 2)
    with pytest.raises(CheckpointMismatchError, match="taken in without a folder"):
        run(spark, tmp_path, output=tmp_path / "out", **options)
    assert run(spark, tmp_path, **options).answers == {"h": 2}


def test_a_file_that_is_named_twice_has_its_rows_twice(spark, tmp_path):
    write_stream(tmp_path / "c", [pa.table({"a": [1, 2], "b": [1, 2]}), pa.table({"a": [3], "b": [3]})])
    one = str(next((tmp_path / "c").glob("*.parquet")))
    for paths in ([tmp_path / "c", tmp_path / "c"], [tmp_path / "c", one], [one], [tmp_path / "c"]):
        rows = spark.read.parquet(*map(str, paths))
        found = gws.join(spark, "h(x) :- r(x, _).", {"r": rows}, bag=True)
        assert found.count() == rows.count()
