"""SIGKILL at every operation on files: what is found then is the state after the last batch, or the one before."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpu_wcoj import Program
from gpu_wcoj.checkpoint import Checkpoint, CheckpointOptions
from gpu_wcoj.checkpoint.folder import OsFolder
from tests.helpers.answers import named
from tests.helpers.checkpoint_folders import HookedFolder, kill_at
from tests.helpers.checkpoint_script import answers, ticks
from tests.helpers.long_tests import IS_LONG

TEXT = "corner(a, label) :- edge(a, b), edge(b, c), name(c, label). both(a, b) :- edge(a, b), edge(b, a)."
SOAK = bool(os.environ.get("SOAK"))
TICKS = range(50 if SOAK else 30) if SOAK or IS_LONG else (1, 5, 9)
"""Ticks whose commits are killed; runs merge from the fifth on, and nulls turn up before the last."""
N_TICKS = TICKS[-1] + 1
SCRIPT = ticks(50 if SOAK or IS_LONG else 24)
for tick in SCRIPT:
    tick.pop("tag", None)
OPTIONS = CheckpointOptions(most_runs=4)
ONE_MORE, TO_END = (1, 1) if SOAK else (8, 100)
"""After every so many kills one tick follows, or all that are left; else the state is compared, and that is all."""


def new_program() -> Program:
    return Program(TEXT, keep=["both"], backend="cpu", threads=1, inputs=named(TEXT))


def stored(program: Program) -> dict[str, list[Any]]:
    return {name: program.relation(name).rows() for name in ("edge", "name", "corner", "both")}


def by_text(rows: list[Any]) -> list[Any]:
    return sorted(rows, key=repr)


@pytest.fixture
def place() -> Iterator[Path]:
    """In memory where the system has such a file system: a kill loses nothing that was written, forced or not."""
    base = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(dir=base if os.access(base, os.W_OK) else None))
    yield folder
    shutil.rmtree(folder)


def clone(source: Path, target: Path) -> None:
    """Another folder with the same files; only the lease is ever written to again."""
    target.mkdir()
    for name in os.listdir(source):
        (shutil.copy if name == "lease" else os.link)(source / name, target / name)


class Reference:
    def __init__(self) -> None:
        program = new_program()
        self.states = [stored(program)]
        self.answers = []
        for tick in SCRIPT:
            self.answers.append(answers(program, tick))
            self.states.append(stored(program))

    def check(self, folder: Path, batch: int, resumed: int) -> int:
        """Recover, which must give that batch or the next one; go on; return what was recovered."""
        program = new_program()
        with Checkpoint.open(folder, program=program, options=OPTIONS) as checkpoint:
            found = -1 if checkpoint.last is None else checkpoint.last.batch
            assert found in (batch, batch + 1)
            checkpoint.restore(program)
            for name, rows in stored(program).items():
                assert by_text(rows) == by_text(self.states[found + 1][name])
            for number in range(found + 1, min(len(SCRIPT), found + 1 + resumed)):
                assert answers(program, SCRIPT[number]) == self.answers[number]
                checkpoint.commit(number)
        assert not [name for name in os.listdir(folder) if name.endswith(".tmp")]
        return found


def killed(folder: Path, at: int, work: Any) -> bool:
    """Whether a process that does the work is killed at the operation, and not done before."""
    child = os.fork()
    if child == 0:
        try:
            work(HookedFolder(OsFolder(folder), kill_at(at, SOAK)))
            os._exit(0)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


def every_kill(folder: Path, place: Path, batch: int, reference: Reference, work: Any, total: list[int]) -> set[int]:
    """Kill the work at each of its operations, each time on a fresh copy of the folder."""
    outcomes = set()
    checked: dict[Any, int] = {}
    at = 0
    while True:
        copy = place / f"copy {at}"
        clone(folder, copy)
        is_killed = killed(copy, at, work)
        if is_killed:
            total[0] += 1
            resumed = len(SCRIPT) if total[0] % TO_END == 0 else int(total[0] % ONE_MORE == 0)
            left = frozenset((name, (copy / name).read_bytes()) for name in os.listdir(copy))
            if resumed or left not in checked:  # what is recovered depends on the files, and on nothing else
                checked[left] = reference.check(copy, batch, resumed) - batch
            outcomes.add(checked[left])
        shutil.rmtree(copy)
        if not is_killed:
            return outcomes
        at += 1


def test_a_kill_at_every_operation(place: Path) -> None:
    """Of fifty ticks, or, where this is not the soak test, of thirty or three; many of them merge runs."""
    reference = Reference()
    folder = place / "checkpoint"
    folder.mkdir()
    total = [0]
    program = new_program()

    def opening(hooked: HookedFolder) -> None:
        Checkpoint.open(hooked, program=program, options=OPTIONS)

    assert every_kill(folder, place, -1, reference, opening, total) == {0}
    checkpoint = Checkpoint.open(folder, program=program, options=OPTIONS)
    for number, tick in enumerate(SCRIPT[:N_TICKS]):
        program.step(tick)

        def work(hooked: HookedFolder, number: int = number) -> None:
            checkpoint.folder.folder = hooked
            checkpoint.commit(number)

        if number in TICKS:
            assert every_kill(folder, place, number - 1, reference, work, total) == {0, 1}
        checkpoint.commit(number)
    checkpoint.close()
    print(f"{total[0]} kills")
    assert total[0] > 14 * len(TICKS)

    def recovering(hooked: HookedFolder) -> None:
        again = new_program()
        Checkpoint.open(hooked, program=again, options=OPTIONS).restore(again)

    assert every_kill(folder, place, N_TICKS - 1, reference, recovering, total) == {0}


def test_twenty_restarts_in_a_row(tmp_path: Path) -> None:
    reference = Reference()
    for number in range(20):
        program = new_program()
        with Checkpoint.open(tmp_path, program=program) as checkpoint:
            assert checkpoint.fence == number + 1
            checkpoint.restore(program)
            assert answers(program, SCRIPT[number]) == reference.answers[number]
            checkpoint.commit(number)
        for _ in range(2):
            assert stored(Program.restore(tmp_path, threads=1)).keys() == reference.states[0].keys()
    for _ in range(20):
        with Checkpoint.open(tmp_path, program=new_program()) as checkpoint:
            assert checkpoint.last is not None
            assert checkpoint.last.batch == 19
    assert len([name for name in os.listdir(tmp_path) if name.startswith("manifest")]) == 2
    assert reference.check(tmp_path, 19, len(SCRIPT)) == 19
