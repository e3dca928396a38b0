"""States of cells that a worker maps, or catches up with, are those that it would load."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'gpu_wcoj[spark]'")

from gpu_wcoj import Program
from gpu_wcoj.checkpoint.state import load
from gpu_wcoj.errors import CheckpointDamagedError
from gpu_wcoj.spark.cluster import images
from gpu_wcoj.spark.cluster import state as states
from gpu_wcoj.spark.cluster.state import CellState, acquire_state, write_state

TEXT = """
hop(a, c) :- edge(a, b), edge(b, c), label(c, "red").
triangle(a, b, c) :- edge(a, b), edge(b, c), edge(a, c).
"""


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Images go to the folder of the test, and no state is in memory."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(images.tempfile, "gettempdir", lambda: str(tmp_path / "temporary"))
    monkeypatch.setattr(states, "_cache", states._cache.__class__())


def make() -> Program:
    return Program(TEXT, backend="cpu", threads=1, inputs=["edge", "label"])


def random_tick(rnd: random.Random, rows: int) -> dict[str, Any]:
    edges = [(rnd.randrange(30), rnd.randrange(30), rnd.choice([1, 1, -1])) for _ in range(rows)]
    labels = [(rnd.randrange(30), rnd.choice(["red", "blue", None, f"new {rnd.random()}"]), 1) for _ in range(5)]
    return {
        "edge": {"a": [e[0] for e in edges], "b": [e[1] for e in edges], "weight": [e[2] for e in edges]},
        "label": {"n": [n for n, _, _ in labels], "s": [s for _, s, _ in labels], "weight": [w for *_, w in labels]},
    }


def answers(program: Program) -> dict[str, Any]:
    return {name: program.relation(name).to_dict() for name in ("edge", "label", "hop", "triangle")}


@pytest.mark.parametrize("max_archived", [None, 0, 3000, 1 << 20])
def test_workers_that_take_turns(max_archived: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two workers get the cell in a random order; one that was not there catches up or maps the state.

    Files go to archives up to a size, if there are archives.
    """
    monkeypatch.setattr(states, "MAX_ARCHIVED", max_archived)
    seed = random.randrange(1 << 30)
    print("seed", seed)
    rnd = random.Random(seed)
    root = str(tmp_path)
    alone = make()
    workers: list[CellState | None] = [None, None, None]
    entry = None
    caught_up = 0
    for batch in range(14):
        turn = rnd.randrange(3) if batch > 2 else batch
        before = workers[turn]
        states._cache.clear()
        if before is not None:
            states._cache[root] = {(0, 0): before}
        state = acquire_state(root, 0, 0, entry, make)
        caught_up += before is not None and state.program is before.program and before.entry != entry
        if entry is not None:
            assert answers(state.program) == answers(alone)
        tick = random_tick(rnd, 3 if batch % 3 else 200)
        changes, expected = state.program.step(tick), alone.step(tick)
        assert {n: rows.to_dict() for n, rows in changes.items()} == {n: rows.to_dict() for n, rows in expected.items()}
        archive = "" if max_archived is None else states.new_archive(batch, 1)
        state, _, files = write_state(root, batch, 0, 0, state, archive)
        if files:
            states.write_archive(root, archive, files)
        workers[turn], entry = state, state.entry
    assert caught_up
    assert entry is not None
    runs = states.read_entry(states.cells_folder(root), entry).runs
    names = os.listdir(tmp_path / "cells")
    in_folder = [name for name in (entry.file, *(run.file for run in runs)) if name.split("/")[-1] in names]
    assert (len(in_folder) == 0) == (max_archived == 1 << 20)
    assert (len(in_folder) == 1 + len(runs)) == (max_archived in (None, 0))
    loaded = make()
    load(loaded.subject, states.read_entry(states.cells_folder(root), entry), states.cells_folder(root), entry.file)
    assert answers(loaded) == answers(alone)
    mapped = acquire_state(str(tmp_path), 0, 0, entry, make)
    (folder,) = (tmp_path / "temporary").glob("*/*")
    maps = Path("/proc/self/maps")
    assert not maps.exists() or str(folder) in maps.read_text()
    assert answers(mapped.program) == answers(alone)


@pytest.mark.parametrize("fault", ["no image", "no arrays", "short arrays", "no index text"])
def test_images_that_are_gone_or_damaged(tmp_path: Path, fault: str) -> None:
    program = make()
    program.step(random_tick(random.Random(3), 100))
    state, *_ = write_state(
        str(tmp_path), 0, 0, 0, CellState(program, None, None, images.Images.of_cell(str(tmp_path), 0, 0))
    )
    (folder,) = (tmp_path / "temporary").glob("*/*")
    (index,), (arrays,) = folder.glob("image-*"), folder.glob("batches-*")
    if fault == "no image":
        index.unlink()
    elif fault == "no arrays":
        arrays.unlink()
    elif fault == "short arrays":
        arrays.write_bytes(arrays.read_bytes()[:100])
    else:
        index.write_text("{")
    assert state.entry is not None
    assert state.entry.file in index.name
    assert answers(acquire_state(str(tmp_path), 0, 0, state.entry, make).program) == answers(program)


@pytest.mark.parametrize("fault", ["missing", "torn", "changed"])
def test_archive_that_is_damaged(fault: str, tmp_path: Path) -> None:
    root = str(tmp_path)
    state: CellState = acquire_state(root, 0, 0, None, make)
    state.program.step(random_tick(random.Random(6), 50))
    archive = states.new_archive(0, 1)
    state, _, files = write_state(root, 0, 0, 0, state, archive)
    states.write_archive(root, archive, files)
    assert state.entry is not None
    path = tmp_path / "cells" / archive
    data = path.read_bytes()
    path.unlink()
    if fault != "missing":
        middle = len(data) // 2
        changed = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
        path.write_bytes(data[:middle] if fault == "torn" else changed)
    with pytest.raises(CheckpointDamagedError, match=archive):
        load(make().subject, states.read_entry(states.cells_folder(root), state.entry), states.cells_folder(root), "")


def test_old_images_are_removed(tmp_path: Path) -> None:
    root = str(tmp_path)
    state: CellState = acquire_state(root, 0, 0, None, make)
    rnd = random.Random(5)
    for batch in range(6):
        state.program.step(random_tick(rnd, 50))
        base = state.entry
        state, *_ = write_state(root, batch, 0, 0, state)
        states.cache_state(root, 0, 0, state, {} if base is None else {(0, 0): base}, batch)
        (folder,) = (tmp_path / "temporary").glob("*/*")
        assert len(list(folder.glob("image-*"))) <= 2
        assert len(list(folder.glob("batches-*"))) <= 8
    assert answers(acquire_state(root, 0, 0, state.entry, make).program) == answers(state.program)


def test_a_folder_that_others_may_read_is_not_used(tmp_path: Path) -> None:
    images.Images.of_cell(str(tmp_path), 0, 0)
    (above,) = (tmp_path / "temporary").iterdir()
    above.chmod(0o755)
    assert images.Images.of_cell(str(tmp_path), 0, 0) is None
