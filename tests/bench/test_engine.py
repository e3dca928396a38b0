"""The benchmark runs on a small graph, and its own checks have teeth."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("graphblas", reason="the extra 'bench' is not installed")

from bench.engine import graph, measure, reference, rival, rows, streams
from bench.engine.queries import CLIQUE, CYCLE, DIAMOND, TRIANGLE

ROOT = Path(__file__).parents[2]
COMPLETE = np.array([(a, b) for a in range(5) for b in range(a + 1, 5)])
QUERIES = [(TRIANGLE, 10), (CLIQUE, 5), (DIAMOND, 30), (CYCLE, 15)]
by_name = pytest.mark.parametrize(("query", "count"), QUERIES, ids=[query.name for query, _ in QUERIES])


@by_name
def test_graphblas_counts_the_complete_graph_of_five(query, count):
    assert reference.recount(query, COMPLETE) == count


@by_name
def test_duckdb_counts_the_complete_graph_of_five(query, count):
    assert rival.run_from_empty(query, COMPLETE, 60).counts == (count,)


@by_name
def test_engine_counts_the_complete_graph_of_five(query, count):
    assert streams.run_from_empty(query, COMPLETE)[1] == count


def test_duckdb_is_interrupted_at_the_limit():
    dense = np.array([(a, b) for a in range(400) for b in range(a + 1, 400)])
    result = rival.run_from_empty(CLIQUE, dense, 0.2)
    assert result.seconds == ()
    assert result.stopped == "interrupted after 0.2 s"


def test_a_wrong_count_is_refused(monkeypatch):
    small = graph.generate(7, 600, 1)
    monkeypatch.setattr(measure, "recount", lambda query, edges: len(edges))
    row = replace(rows.ROWS[0], n_ticks=2, tick_rows=10)
    with pytest.raises(streams.CountError, match="triangle: GraphBLAS's recount is 20, the engine counts"):
        measure.measure(row, small, 60, rivals=False)


def test_unknown_rows_are_named(tmp_path):
    command = [sys.executable, "-m", "bench.engine", "--rows", "square", "--output", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1
    assert "There is no row square. The rows are: triangle-1k," in done.stderr


@pytest.mark.long
def test_whole_run_on_a_small_graph(tmp_path):
    command = [sys.executable, "-m", "bench.engine", "--scale", "9", "--edges", "4000", "--output", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (path,) = tmp_path.glob("engine-*-scale9.json")
    document = json.loads(path.read_text())
    assert [row["name"] for row in document["rows"]] == [row.name for row in rows.ROWS]
    for row in document["rows"]:
        assert row["output_rows"] > 0
        assert any(check.startswith("equals GraphBLAS's recount") for check in row["checks"])
    assert set(document["machine"]) >= {"date", "commit", "processor", "cores", "memory", "python", "libraries"}
