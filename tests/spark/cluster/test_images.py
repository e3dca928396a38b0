"""States of cells that a worker maps, or catches up with, are those that it would load."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'gpu_wcoj[spark]'")

from gpu_wcoj import Program
from gpu_wcoj.checkpoint.manifest import Batch, Manifest
from gpu_wcoj.spark.cluster import images, worker
from gpu_wcoj.spark.cluster.worker import CellState, acquire_state, write_state

TEXT = """
hop(a, c) :- edge(a, b), edge(b, c), label(c, "red").
triangle(a, b, c) :- edge(a, b), edge(b, c), edge(a, c).
"""


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Images go to the folder of the test, and no state is in memory."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(images.tempfile, "gettempdir", lambda: str(tmp_path / "temporary"))
    monkeypatch.setattr(worker, "_cache", worker._cache.__class__())


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


def test_workers_that_take_turns(tmp_path: Path) -> None:
    """Two workers get the cell in a random order; one that was not there catches up or maps the state."""
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
        worker._cache.clear()
        if before is not None:
            worker._cache[root] = {(0, 0): before}
        state = acquire_state(root, 0, 0, entry, make)
        caught_up += before is not None and state.program is before.program and before.entry != entry
        if entry is not None:
            assert answers(state.program) == answers(alone)
        tick = random_tick(rnd, 3 if batch % 3 else 200)
        changes, expected = state.program.step(tick), alone.step(tick)
        assert {n: rows.to_dict() for n, rows in changes.items()} == {n: rows.to_dict() for n, rows in expected.items()}
        workers[turn], _ = write_state(root, batch, 0, 0, state)
        entry = workers[turn].entry
    assert caught_up
    assert entry is not None
    mapped = acquire_state(str(tmp_path), 0, 0, entry, make)
    (folder,) = (tmp_path / "temporary").glob("*/*")
    maps = Path("/proc/self/maps")
    assert not maps.exists() or str(folder) in maps.read_text()
    assert answers(mapped.program) == answers(alone)


@pytest.mark.parametrize("fault", ["no image", "no arrays", "short arrays", "no index text"])
def test_images_that_are_gone_or_damaged(tmp_path: Path, fault: str) -> None:
    program = make()
    program.step(random_tick(random.Random(3), 100))
    state, _ = write_state(
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


def test_old_images_are_removed(tmp_path: Path) -> None:
    root = str(tmp_path)
    state: CellState = acquire_state(root, 0, 0, None, make)
    rnd = random.Random(5)
    for batch in range(6):
        state.program.step(random_tick(rnd, 50))
        base = state.entry
        state, _ = write_state(root, batch, 0, 0, state)
        extra = {} if base is None else {"cells": {"0/0": [base.file, base.sha256]}}
        committed = (Batch(batch - 1),) if batch else ()
        manifest = Manifest(batch, "", 0, "", "", batch, ("", ""), committed, extra=extra)
        worker.cache_state(root, 0, 0, state, manifest)
        (folder,) = (tmp_path / "temporary").glob("*/*")
        assert len(list(folder.glob("image-*"))) <= 2
        assert len(list(folder.glob("batches-*"))) <= 8
    assert answers(acquire_state(root, 0, 0, state.entry, make).program) == answers(state.program)


def test_a_folder_that_others_may_read_is_not_used(tmp_path: Path) -> None:
    images.Images.of_cell(str(tmp_path), 0, 0)
    (above,) = (tmp_path / "temporary").iterdir()
    above.chmod(0o755)
    assert images.Images.of_cell(str(tmp_path), 0, 0) is None
