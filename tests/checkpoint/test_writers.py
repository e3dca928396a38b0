"""Two writers: one waits or is fenced off, whatever it was doing when it was stopped."""

from __future__ import annotations

import os
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from gpu_wcoj import Program
from gpu_wcoj.checkpoint import Checkpoint, CheckpointOptions
from gpu_wcoj.checkpoint.folder import OsFolder
from gpu_wcoj.errors import BatchMismatchError, CheckpointError, LeaseLostError, UsageError
from tests.helpers.checkpoint_folders import HookedFolder, MemoryFolder
from tests.helpers.checkpoint_script import Reference, new_program, seen, ticks
from tests.helpers.long_tests import IS_LONG

SCRIPT = ticks(12)
TAKEOVER = CheckpointOptions(takeover=True)


@pytest.fixture(scope="module")
def reference() -> Reference:
    return Reference(SCRIPT)


def begun(path: Any, n: int = 3, **options: Any) -> tuple[Program, Checkpoint]:
    program = new_program()
    checkpoint = Checkpoint.open(path, program=program, **options)
    for number in range(n):
        program.step(SCRIPT[number])
        checkpoint.commit(number, query="q", rows=len(SCRIPT[number]), digest=str(number))
    return program, checkpoint


def test_a_second_writer_is_refused_and_told_by_whom(tmp_path: Path, reference: Reference) -> None:
    program, first = begun(tmp_path, owner="the first")
    with pytest.raises(CheckpointError, match="is open: the first"):
        Checkpoint.open(tmp_path, program=new_program())
    with pytest.raises(CheckpointError, match="is open: the first"):
        program.checkpoint(tmp_path)
    assert seen(Program.restore(tmp_path)) == reference.state(2)  # readers are free
    first.close()
    first.close()
    with pytest.raises(CheckpointError, match="is closed"):
        first.commit(3)
    again = new_program()
    with Checkpoint.open(tmp_path, program=again) as second:
        assert second.fence == 2
        second.restore(again)
        reference.resume(second, again)


def test_a_writer_that_was_taken_over_stops(tmp_path: Path, reference: Reference) -> None:
    program, first = begun(tmp_path, owner="the first")
    again = new_program()
    second = Checkpoint.open(tmp_path, program=again, owner="the second", options=TAKEOVER)
    second.restore(again)
    program.step(SCRIPT[3])
    with pytest.raises(
        LeaseLostError, match="taken over by the second, with fencing number 2;\n  this one is the first, with 1"
    ):
        first.commit(3, query="q", rows=len(SCRIPT[3]), digest="3")
    with pytest.raises(CheckpointError, match="takes no more commits"):
        first.commit(3, query="q", rows=len(SCRIPT[3]), digest="3")
    first.close()
    reference.resume(second, again, 6)  # which takes the lock now that it is free
    with pytest.raises(CheckpointError, match="is open: the second"):
        Checkpoint.open(tmp_path, program=new_program())
    reference.resume(second, again)


def test_a_writer_stopped_at_every_operation_and_woken(reference: Reference) -> None:
    """Another writer takes over between any two operations of a commit, and goes on for a while or not at all.

    Ordinarily it goes on at every other operation; at length, both ways are tried at each.
    """
    outcomes = set()
    for ways in ((0, 0), (3, 3)) if IS_LONG else ((0, 3),):
        at = 0
        while (outcome := stopped(reference, at, ways[at % 2])) is not None:
            outcomes.add(outcome)
            at += 1
        assert at > 20
    assert outcomes == {(False, 2), (False, 3), (True, 3)}


def stopped(reference: Reference, at: int, commits: int) -> tuple[bool, int] | None:
    """Whether the commit of batch 3 is acknowledged, and what the other writer finds; None if there is no such moment.

    The other writer takes over before the operation `at` of that commit, and makes some commits of its own.
    """
    memory = MemoryFolder()
    found: list[int] = []

    def hook(number: int, operation: str, name: str) -> None:
        if number == at and is_armed and not found:
            again = new_program()
            other = Checkpoint.open(memory, program=again, options=TAKEOVER)
            other.restore(again)
            assert other.last is not None
            found.append(other.last.batch)
            reference.resume(other, again, found[0] + 1 + commits)

    is_armed = False
    hooked = HookedFolder(memory, hook)
    program, first = begun(hooked, 3)
    program.step(SCRIPT[3])
    hooked.n, is_armed = 0, True
    try:
        first.commit(3, query="q", rows=len(SCRIPT[3]), digest="3")
        is_acknowledged = True
    except LeaseLostError:
        is_acknowledged = False
    if not found:
        return None
    last = new_program()
    final = Checkpoint.open(memory, program=last, options=TAKEOVER)
    final.restore(last)
    assert final.last is not None
    assert final.last.batch == found[0] + commits
    assert seen(last) == reference.state(found[0] + commits)
    return is_acknowledged, found[0]


def test_a_process_that_sleeps_through_a_takeover(tmp_path: Path, reference: Reference) -> None:
    child = os.fork()
    if child == 0:
        status = 1
        try:
            program, checkpoint = begun(tmp_path)
            os.kill(os.getpid(), signal.SIGSTOP)
            program.step(SCRIPT[3])
            try:
                checkpoint.commit(3, query="q", rows=len(SCRIPT[3]), digest="3")
            except LeaseLostError:
                status = 7
        finally:
            os._exit(status)
    _, status = os.waitpid(child, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    again = new_program()
    with pytest.raises(CheckpointError, match=f"is open: process {child} on"):
        Checkpoint.open(tmp_path, program=again)
    with Checkpoint.open(tmp_path, program=again, options=TAKEOVER) as second:
        second.restore(again)
        reference.resume(second, again, 6)
        os.kill(child, signal.SIGCONT)
        _, status = os.waitpid(child, 0)
        assert os.WEXITSTATUS(status) == 7
        reference.resume(second, again)


def test_a_killed_process_leaves_no_lock_not_even_by_its_children(tmp_path: Path) -> None:
    inner, outer = os.pipe()
    child = os.fork()
    if child == 0:
        kept = begun(tmp_path)
        grandchild = os.fork()
        if grandchild == 0:
            os.write(outer, str(os.getpid()).encode())
            time.sleep(60)
            os._exit(0)
        time.sleep(60)
        os._exit(len(kept))
    grandchild = int(os.read(inner, 20))
    assert not OsFolder(tmp_path).lock("lease")
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    try:
        folder = OsFolder(tmp_path)
        assert folder.lock("lease")
        folder.unlock()
    finally:
        os.kill(grandchild, signal.SIGKILL)
        os.close(inner)
        os.close(outer)


def test_batches_are_told_apart(tmp_path: Path) -> None:
    program, checkpoint = begun(tmp_path)
    manifest = checkpoint.last
    assert manifest is not None
    assert checkpoint.has(2, query="q", rows=len(SCRIPT[2]), digest="2")
    assert checkpoint.commit(2, query="q", rows=len(SCRIPT[2]), digest="2") is manifest
    assert checkpoint.commit(0, query="q", rows=len(SCRIPT[0]), digest="0") is manifest
    for given in ({"query": "p"}, {"rows": 99}, {"digest": "x"}):
        same = {"query": "q", "rows": len(SCRIPT[2]), "digest": "2"}
        with pytest.raises(
            BatchMismatchError, match=r"holds batch 2 of query 'q'.*\n.*what was given is batch 2"
        ) as one:
            checkpoint.commit(2, **(same | given))
        assert str(*given.values()) in str(one.value)
    with pytest.raises(BatchMismatchError, match="The next one must be 3"):
        checkpoint.commit(4, query="q")
    with pytest.raises(BatchMismatchError, match="Batches of another query"):
        checkpoint.commit(3, query="other")
    with pytest.raises(BatchMismatchError, match="older than the batches"):
        checkpoint.commit(-1, query="q")
    program.step(SCRIPT[3])
    with pytest.raises(CheckpointError, match="has taken in more"):
        checkpoint.commit(2, query="q", rows=len(SCRIPT[2]), digest="2")
    for wrong in ({"batch": True}, {"batch": -2}, {"batch": 3, "rows": -1}, {"batch": 3, "rows": 1.5}):
        with pytest.raises(UsageError, match="not allowed"):
            checkpoint.commit(**{"query": "q"} | wrong)
    for extra in ({"x": float("nan")}, {"x": object()}):
        with pytest.raises(UsageError, match="cannot be stored as JSON"):
            checkpoint.commit(3, query="q", extra=extra)
    checkpoint.commit(3, query="q", extra={"offsets": [1, None, {"ü": 2.5}]})
    assert checkpoint.last is not None
    assert checkpoint.last.extra == {"offsets": [1, None, {"ü": 2.5}]}
    checkpoint.last.extra["offsets"].append(7)  # whoever does that changes what he holds, and no file
    program.step(SCRIPT[4])
    checkpoint.commit(4, query="q")
    checkpoint.close()
    with Checkpoint.open(tmp_path, program=program) as again:
        assert again.last is not None
        assert again.last.batch == 4


def test_a_state_from_elsewhere_is_refused(tmp_path: Path) -> None:
    program, checkpoint = begun(tmp_path / "a")
    checkpoint.close()
    other = new_program()
    other.step(SCRIPT[0])
    with pytest.raises(BatchMismatchError, match="another query"):
        other.checkpoint(tmp_path / "a")
    program.checkpoint(tmp_path / "b")
    with pytest.raises(
        CheckpointError, match="does not come from .*, which another program or an interrupted commit has"
    ):
        other.checkpoint(tmp_path / "b")
    with pytest.raises(CheckpointError, match="does not come from the checkpoint"):
        Program.restore(tmp_path / "a").checkpoint(tmp_path / "b")
    with Checkpoint.open(tmp_path / "a", program=other) as opened:
        with pytest.raises(CheckpointError, match="has a state already"):
            opened.restore(other)
        with pytest.raises(CheckpointError, match="does not come from the checkpoint"):
            opened.commit(3, query="q")
    program = Program.restore(tmp_path / "a")  # the other one is kept in "b" now
    program.step(SCRIPT[3])
    with Checkpoint.open(tmp_path / "a", program=program) as opened:
        opened.commit(3, query="q")
    first, second = Program.restore(tmp_path / "a"), Program.restore(tmp_path / "a")
    first.step(SCRIPT[4])
    with Checkpoint.open(tmp_path / "a", program=first) as opened:
        opened.commit(4, query="q")
    second.step(SCRIPT[4])
    with (
        Checkpoint.open(tmp_path / "a", program=second) as opened,
        pytest.raises(CheckpointError, match="does not come"),
    ):
        opened.commit(5, query="q")


def test_batches_may_begin_at_minus_one_and_then_have_a_query(tmp_path: Path) -> None:
    program = new_program()
    with Checkpoint.open(tmp_path, program=program) as checkpoint:
        assert checkpoint.last is None
        program.step(SCRIPT[0])
        checkpoint.commit(-1)
        program.step(SCRIPT[1])
        checkpoint.commit(0, query="q")
        assert checkpoint.has(-1)
        with pytest.raises(BatchMismatchError, match="another query"):
            checkpoint.has(1)


def test_copies_of_a_checkpoint_that_went_on_apart_are_told_apart(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    program = Program("h(x, y) :- r(x, y).")
    program.step({"r": [(i, i) for i in range(100)]})
    program.checkpoint(first)
    shutil.copytree(first, second)
    one, other = Program.restore(first), Program.restore(second)
    one.step({"r": [(1000, 1000)]})
    one.checkpoint(first)
    other.step({"r": [(2000, 2000)]})
    other.checkpoint(second)
    other.step({"r": [(3000, 3000)]})
    with pytest.raises(CheckpointError, match="does not come from the checkpoint"):
        other.checkpoint(first)
    other.checkpoint(second)
    assert Program.restore(second).relation("h").rows() == other.relation("h").rows()
    assert len(Program.restore(first).relation("h")) == 101
