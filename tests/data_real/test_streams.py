"""Real streams of changes, through the command line, compared with recomputation from scratch."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

Run = Callable[..., tuple[list[dict], dict]]

EDGES = "e(a, b) :- edge(a, b), a < b. e(a, b) :- edge(b, a), a < b. "
TRIANGLE = EDGES + "triangle(a, b, c) :- e(a, b), e(b, c), e(a, c)."
INCLUDES = """
    triangle(a, b, c) :- include(a, b), include(b, c), include(a, c).
    path(a, b, c) :- include(a, b), include(b, c).
"""
Edge = tuple[str, str]


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.drawn("mode")
@pytest.mark.parametrize("mode", [[], ["--count"]], ids=["rows", "counted"])
def test_mathoverflow_in_500_ticks(shared_data: Path, run: Run, tmp_path: Path, mode: list[str]):
    names = pa_csv.ReadOptions(column_names=["src", "dst", "time"])
    spaced = pa_csv.ParseOptions(delimiter=" ")
    table = pa_csv.read_csv(shared_data / "streams" / "sx-mathoverflow.txt.gz", names, spaced)
    table = table.sort_by("time")  # the file is not quite in order
    ticks_of_rows = np.arange(table.num_rows) * 500 // table.num_rows
    pq.write_table(table.append_column("tick", pa.array(ticks_of_rows)), tmp_path / "stream.parquet")
    ticks, total = run(
        "-e", TRIANGLE, "--changes", f"edge={tmp_path / 'stream.parquet'}?columns=src,dst&tick=tick", *mode
    )
    assert len(ticks) == 500
    assert total["total"] == {"triangle": 1_403_919}
    changes = [tick["changes"]["triangle"] for tick in ticks]
    assert sum(change["inserted"] for change in changes) == 1_403_919
    assert all(change["deleted"] == 0 for change in changes)


def _batches(path: Path) -> list[list[tuple[int, str, str]]]:
    """The include stream: for every batch its rows (1 or -1, file, target) in order."""
    batches: dict[str, list[tuple[int, str, str]]] = {}
    with gzip.open(path, "rt") as lines:
        for line in lines:
            batch, _time, weight, file, target = line.rstrip("\n").split("\t")
            batches.setdefault(batch, []).append((int(weight), file, target))
    return list(batches.values())


def _apply(present: set[Edge], rows: Iterable[tuple[int, str, str]]) -> None:
    for weight, file, target in rows:
        (present.add if weight > 0 else present.discard)((file, target))


def test_includes_as_they_are(shared_data: Path, run: Run):
    path = shared_data / "streams" / "souffle_include_stream.tsv.gz"
    spec = f"include={path}?columns=3,4&weight=2&tick=0&sep=tab&header=no"
    ticks, total = run("-e", "both(a, b) :- include(a, b).", "--changes", spec)
    present: set[Edge] = set()
    batches = _batches(path)
    assert (len(batches), sum(weight < 0 for rows in batches for weight, _, _ in rows)) == (461, 13_604)
    for rows, tick in zip(batches, ticks, strict=True):
        before = set(present)
        _apply(present, rows)
        counts = {"inserted": len(present - before), "deleted": len(before - present)}
        assert tick["changes"] == {"both": counts}
    assert total["total"] == {"both": len(present)}
    assert len(present) == 6299


@pytest.mark.long
def test_patterns_of_includes_after_every_batch(shared_data: Path, run: Run, tmp_path: Path):
    """Targets are resolved to the files that they mean, since as they are no target is ever a file that includes."""
    batches = _batches(shared_data / "streams" / "souffle_include_stream.tsv.gz")
    files = {file for rows in batches for _, file, _ in rows}
    meant = {"/".join(file.split("/")[i:]): file for file in sorted(files) for i in range(file.count("/") + 1)}
    batches = [[(weight, file, meant.get(target, target)) for weight, file, target in rows] for rows in batches]
    with gzip.open(tmp_path / "stream.tsv.gz", "wt") as stream:
        for batch, rows in enumerate(batches):
            stream.writelines(f"{batch}\t{weight:+d}\t{file}\t{target}\n" for weight, file, target in rows)
    spec = f"include={tmp_path / 'stream.tsv.gz'}?columns=2,3&weight=1&tick=0&header=no"
    out = tmp_path / "out"
    _, total = run("-e", INCLUDES, "--changes", spec, "--output", out)
    assert total["ticks"] == 461

    present: set[Edge] = set()
    maintained: dict[str, set[tuple[str, ...]]] = {"triangle": set(), "path": set()}
    largest = {"triangle": 0, "path": 0}
    for tick, rows in enumerate(batches):
        _apply(present, rows)
        after: dict[str, list[str]] = {}
        for file, target in present:
            after.setdefault(file, []).append(target)
        paths = {(a, b, c) for a, b in present for c in after.get(b, ())}
        wanted = {"path": paths, "triangle": {path for path in paths if (path[0], path[2]) in present}}
        for name, answer in maintained.items():
            _apply_changes(answer, out / name / f"tick-{tick:09}.parquet")
            assert answer == wanted[name], (tick, name)
            largest[name] = max(largest[name], len(answer))
    assert min(largest.values()) > 10_000
    assert total["total"] == {name: len(answer) for name, answer in maintained.items()}


def _apply_changes(answer: set[tuple[str, ...]], path: Path) -> None:
    if not path.exists():  # a tick that changes nothing
        return
    table = pq.read_table(path)
    assert table.schema.types[:3] == [pa.string()] * 3
    *columns, weights, _ticks = table.to_pydict().values()
    for row, weight in zip(zip(*columns, strict=True), weights, strict=True):
        assert weight == (-1 if row in answer else 1)
        (answer.add if weight > 0 else answer.remove)(row)
