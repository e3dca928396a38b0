"""Peak memory is the state, the change and one piece, however much passes through in between."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ROOT = Path(__file__).parents[2]
MOST = 2 << 30
"""Bytes over the state that a tick may take."""

WARM_UP = """
import json, sys
import numpy as np
import gpu_wcoj as gw
from bench.suite.memory import peak_bytes
from gpu_wcoj.datasets import rmat, undirected
from tests.helpers.join_patterns import PATTERNS

for text in (PATTERNS["4-clique"], "h(a, b, c) :- e(a, b), e(b, c)."):
    program = gw.Program(text, threads=1)
    for change in ([(1, 2), (1, 3), (1, 4), (2, 3), (2, 4)], [(3, 4)], [((3, 4), -1)]):
        program.step_counts({"e": change})
    program.step_pieces({"e": [(3, 4)]}, lambda name, piece: None)
"""

CLIQUES = """
chunk_rows = 100_000
edges = undirected(rmat())
program = gw.Program(PATTERNS["4-clique"], chunk_rows=chunk_rows, strategy="wcoj")  # which follows changes
before = peak_bytes()
count = program.step_counts({"e": {"a": edges[:, 0], "b": edges[:, 1]}})["h"]
paths = program.last_tick.work["h"][0].values()
survivors = max(int(counted[-1]) for path in paths for counted in path.values())
print(json.dumps({
    "count": count.inserted, "over": peak_bytes() - before - program.nbytes, "pieces": survivors // chunk_rows,
}))
"""

PRODUCT = """
n, ways = int(sys.argv[1]), sys.argv[2]
program = gw.Program("h(a, b, c) :- v(b), r(a, b), s(b, c).", threads=1, inputs=["r", "s", "v"])
program.step({"r": {"a": range(n), "b": [0] * n}, "s": {"b": [0] * n, "c": range(n)}})
before = peak_bytes()
if ways == "step_counts":
    count = program.step_counts({"v": [(0,)]})["h"]
else:
    count = program.step_pieces({"v": [(0,)]}, lambda name, piece: None)["h"]
print(json.dumps({"count": count.inserted, "over": peak_bytes() - before}))
"""


def measured(script, *arguments):
    """`script` in a process of its own, which has compiled the kernels before it begins."""
    return run("-c", WARM_UP + script, *arguments)


def run(*arguments):
    """The last line that a process of its own prints, as JSON."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.drawn("way")
@pytest.mark.parametrize("way", ["step_counts", "step_pieces"])
def test_one_prefix_with_ten_million_rows_takes_one_piece(way):
    """240 MB of rows pass through, below a single prefix."""
    found = measured(PRODUCT, 3200, way)
    assert found["count"] == 3200**2
    assert found["over"] < 64 << 20


THREADS = """
n, width = 4096, 80
program = gw.Program("h(a, b, c) :- v(b), r(a, b), s(b, c).", threads=2, inputs=["r", "s", "v"])
b, x = np.repeat(np.arange(n), width), np.tile(np.arange(width), n)
program.step({"r": {"a": x, "b": b}, "s": {"b": b, "c": x}})
before = peak_bytes()
count = program.step_pieces({"v": {"b": np.arange(n)}}, lambda name, piece: None)["h"]
print(json.dumps({"count": count.inserted, "over": peak_bytes() - before}))
"""


def test_threads_wait_for_their_pieces_to_be_taken():
    """630 MB of rows pass through two threads."""
    found = measured(THREADS)
    assert found["count"] == 4096 * 80**2
    assert found["over"] < 96 << 20


@pytest.mark.slow
@pytest.mark.long  # half a minute
def test_898_792_862_cliques_are_counted_in_pieces():
    found = measured(CLIQUES)
    assert found["count"] == 898_792_862
    assert found["pieces"] > 100
    assert found["over"] < MOST


@pytest.mark.long
@pytest.mark.slow
def test_50_million_rows_are_streamed_to_parquet(tmp_path):
    n, m = 8000, 6300
    tables = {
        "r": pa.table({"a": np.arange(n), "b": np.zeros(n, np.int64)}),
        "s": pa.table({"b": np.zeros(m, np.int64), "c": np.arange(m)}),
        "v": pa.table({"b": np.zeros(1, np.int64)}),
    }
    for name, table in tables.items():
        pq.write_table(table, tmp_path / f"{name}.parquet")
    inputs = [word for name in ("r", "s") for word in ("--input", f"{name}={tmp_path / name}.parquet")]
    program = "h(a, b, c) :- v(b), r(a, b), s(b, c)."
    total = run(
        *("-m", "gpu_wcoj.cli.main", "run", "-e", program, *inputs),
        *("--changes", f"v={tmp_path / 'v.parquet'}", "--output", tmp_path / "out", "--json"),
    )
    assert total["total"] == {"h": n * m}
    assert total["peak_rss_bytes"] < MOST
    found = np.zeros(n * m, np.bool_)
    n_rows = 0
    for file in sorted((tmp_path / "out" / "h").iterdir()):
        for batch in pq.ParquetFile(file).iter_batches(1 << 20, columns=["a", "b", "c", "weight"]):
            a, b, c, weight = (batch.column(i).to_numpy() for i in range(4))
            assert not b.any()
            assert (weight == 1).all()
            found[a * m + c] = True
            n_rows += len(a)
    assert n_rows == n * m > 50_000_000
    assert found.all()
