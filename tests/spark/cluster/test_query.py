"""One answer by engines on the executors: what one engine gives, whatever the layout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'gpu_wcoj[spark]'")

import gpu_wcoj.spark as gws
from gpu_wcoj.errors import UsageError
from tests.spark.file_streams import TRIANGLE, assert_same, payments

TWO = "far(a, c) :- edge(a, b), edge(b, c). triangle(a, b, c) :- edge(a, b), edge(b, c), edge(a, c)."
DRIVER = Path(__file__).parents[1] / "query_driver.py"


@pytest.fixture(scope="module")
def edges(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    (table,) = payments(1, 950, 100)
    rows = table.filter(pa.compute.greater(table["weight"], 0)).drop_columns("weight")
    hub = pa.table({"src": [0] * 900 + list(range(1, 41)), "dst": [*range(101, 1001), *[0] * 40]})
    path = tmp_path_factory.mktemp("edges") / "edges.parquet"
    pq.write_table(pa.concat_tables([rows, hub]), path)
    return spark.read.parquet(str(path))


@pytest.mark.parametrize(("layout", "cells"), [("hypercube", 4), ("hypercube", 3), ("replicated", 3)])
def test_answers_of_cells(spark: Any, edges: Any, layout: Any, cells: int) -> None:
    for name in ("far", "triangle"):
        expected = gws.join(spark, TWO, {"edge": edges}, output=name, layout="one").toArrow()
        found = gws.join(spark, TWO, {"edge": edges}, output=name, layout=layout, cells=cells)
        assert_same(found.toArrow().select(expected.column_names), expected)
        assert expected.num_rows > 300
        files = {Path(file).parent for file in found.inputFiles()}
        assert {path.name for path in files} == {name}
    counted = gws.count(spark, TWO, {"edge": edges}, layout=layout, cells=cells)
    assert counted == gws.count(spark, TWO, {"edge": edges}, layout="one")
    text = gws.explain(spark, TWO, {"edge": edges}, layout=layout, cells=cells)
    assert text.startswith(f"layout {layout}, {cells} cells: as asked for")
    assert ("where b is heavy" in text) == (layout == "hypercube")


@pytest.mark.parametrize("layout", ["hypercube", "replicated"])
def test_bags_names_and_nothing(spark: Any, layout: Any) -> None:
    rows = [("x", 1), ("x", 1), ("y", 2), (None, 3)]
    frame = spark.createDataFrame(rows, "name string, weight int")
    text = ".decl r(name, weight)\nn(name, weight) :- r(name, weight)."
    frames = {"r": frame.select("weight", "name")}
    repeated = gws.join(spark, text, frames, bag=True, layout=layout, cells=2)
    assert repeated.columns == ["name", "weight"]
    assert Counter(map(tuple, repeated.collect())) == Counter(rows)
    answer = gws.join(spark, text, frames, bag=True, weights=True, layout=layout, cells=2)
    assert answer.columns == ["name", "weight", "_weight"]
    assert Counter(map(tuple, answer.collect())) == {("x", 1, 2): 1, ("y", 2, 1): 1, (None, 3, 1): 1}
    assert gws.count(spark, text, {"r": frame}, bag=True, layout=layout, cells=2) == {"n": 4}
    nothing = gws.join(spark, text, {"r": frame.where("weight > 5")}, layout=layout, cells=2)
    assert (nothing.columns, nothing.dtypes[0][1], nothing.count()) == (["name", "weight"], "string", 0)


def test_one_machine_has_one_engine(spark: Any, edges: Any) -> None:
    assert gws.explain(spark, TRIANGLE, {"edge": edges}).startswith(
        "layout one, in the driver: Spark runs on this machine alone"
    )
    assert " s in one engine and at 0.5 s in 2 cells\n" in gws.explain(spark, TRIANGLE, {"edge": edges})
    with pytest.raises(UsageError, match="unknown layout 'two'"):
        gws.count(spark, TRIANGLE, {"edge": edges}, layout="two")  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.skipif("TEST_SPARK" not in os.environ, reason="starts a cluster; make test-spark runs it")
def test_a_cluster_chooses_by_cost(spark: Any, edges: Any, tmp_path: Path) -> None:
    pq.write_table(edges.toArrow(), tmp_path / "edges.parquet")
    path = os.pathsep.join(filter(None, [str(DRIVER.parents[2]), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, str(DRIVER), str(tmp_path)],
        env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["small"].startswith("layout one, in the driver: the answer is estimated at")
    assert told["large"].startswith("layout hypercube, 8 cells: on a grid a cell would hold 25%")
    assert told["clique"].startswith("layout replicated, 2 cells: on a grid a cell would hold")
    expected = gws.count(spark, TRIANGLE, {"edge": edges})
    assert told["count"] == told["rows"] == expected["triangle"]
