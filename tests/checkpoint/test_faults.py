"""Errors of the system at every operation, once and for ever: a typed error with the file's name, and no half state."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpu_wcoj.checkpoint import Checkpoint, CheckpointOptions
from gpu_wcoj.checkpoint import checkpoint as checkpoint_module
from gpu_wcoj.checkpoint.folder import OsFolder, WatchedFolder
from gpu_wcoj.errors import CheckpointError, CheckpointWriteError, UsageError
from tests.helpers.checkpoint_folders import HookedFolder, MemoryFolder
from tests.helpers.checkpoint_script import Reference, new_program, seen, ticks

SCRIPT = ticks(12)
OPTIONS = CheckpointOptions(most_runs=3)
SYNCS = ("sync", "sync file", "publish")


def failing(at: int, number: int, for_ever: bool, failed: list[str]) -> Callable[[int, str, str], None]:
    def hook(n: int, operation: str, name: str) -> None:
        if n == at or (for_ever and n > at):
            failed.append(operation)
            raise OSError(number, os.strerror(number))

    return hook


def nothing(n: int, operation: str, name: str) -> None:
    pass


@pytest.fixture(scope="module")
def reference() -> Reference:
    return Reference(SCRIPT)


def before_last(n: int) -> tuple[MemoryFolder, Any, Checkpoint]:
    """A checkpoint of some batches, and its program with one tick more."""
    memory = MemoryFolder()
    program = new_program()
    checkpoint = Checkpoint.open(memory, program=program, options=OPTIONS)
    for number in range(n):
        program.step(SCRIPT[number])
        checkpoint.commit(number, query="q", rows=len(SCRIPT[number]), digest=str(number))
    program.step(SCRIPT[n])
    return memory, program, checkpoint


@pytest.mark.drawn("number", "for_ever", each=True)
@pytest.mark.parametrize("for_ever", [False, True])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_every_call_of_a_commit_fails(reference: Reference, number: int, for_ever: bool) -> None:
    n = 8
    memory, program, checkpoint = before_last(n)
    state = program.subject.ledger.state
    at, is_done = 0, False
    fates = set()
    errors = []
    while not is_done:
        copy, failed = memory.copy(), []
        hooked = HookedFolder(copy, failing(at, number, for_ever, failed))
        checkpoint.versions.folder = WatchedFolder(hooked)
        manifests = list(checkpoint.manifests)
        try:
            checkpoint.commit(n, query="q", rows=len(SCRIPT[n]), digest=str(n))
            is_done = not failed
            fates.add("stored all the same")
        except CheckpointWriteError as error:
            errors.append(error)
            is_published = ("publish", f"manifest-{n + 1:012}.json") in hooked.log
            assert bool(checkpoint.folder.broken) == (failed[0] in SYNCS or is_published)
            if checkpoint.folder.broken:
                fates.add("abandoned")
                hooked.hook = nothing
                before = len(hooked.log)
                with pytest.raises(CheckpointError, match="takes no more commits"):
                    checkpoint.commit(n, query="q", rows=len(SCRIPT[n]), digest=str(n))
                assert not [one for one in hooked.log[before:] if one[0] in (*SYNCS, "write")]
            else:
                fates.add("tried again")
                hooked.hook = nothing
                left = {name for name in copy.names() if name.startswith("run")} - needed(manifests)
                assert not left or for_ever
                checkpoint.commit(n, query="q", rows=len(SCRIPT[n]), digest=str(n))
        checkpoint.versions.manifests = manifests
        program.subject.ledger.replace_state(state)
        again = new_program()
        reopened = Checkpoint.open(copy, program=again, options=OPTIONS)
        reopened.restore(again)
        assert reopened.last is not None
        assert reopened.last.batch in (n - 1, n)
        assert seen(again) == reference.state(reopened.last.batch)
        if at % 8 == 0:
            reference.resume(reopened, again)
        at += 1
    assert at > 20
    assert {error.errno for error in errors} == {number}
    assert all("checkpoint file 'memory/" in str(error) for error in errors)
    assert fates == {"stored all the same", "abandoned", "tried again"}


def needed(manifests: list[Any]) -> set[str]:
    return set().union(*(manifest.files for manifest in manifests))


@pytest.mark.drawn("number")
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EACCES])
def test_every_call_of_an_opening_fails(reference: Reference, number: int) -> None:
    memory, _, checkpoint = before_last(3)
    checkpoint.close()
    at = 0
    numbers = set()
    while True:
        copy, failed = memory.copy(), []
        try:
            again = new_program()
            Checkpoint.open(HookedFolder(copy, failing(at, number, False, failed)), program=again).restore(again)
            assert seen(again) == reference.state(2)
            if not failed:
                break
        except CheckpointWriteError as error:
            numbers.add(error.errno)
        again = new_program()
        reopened = Checkpoint.open(copy, program=again)
        reopened.restore(again)
        assert seen(again) == reference.state(2)
        at += 1
    assert at > 10
    assert numbers == {number}


def test_a_disk_that_is_really_full(tmp_path: Path, reference: Reference) -> None:
    """Every size of a small file system, mounted; where that is not allowed, the calls above stand for it."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small file system")
    mount = tmp_path / "small"
    mount.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(mount)], capture_output=True)
    if done.returncode:
        pytest.skip(f"mount says: {done.stderr.decode().strip()}")
    try:
        program = new_program()
        checkpoint = Checkpoint.open(mount / "checkpoint", program=program)
        last = -1
        message = ""
        while not message:
            program.step(SCRIPT[(last + 1) % len(SCRIPT)])
            try:
                checkpoint.commit(last + 1)
                last += 1
            except CheckpointWriteError as error:
                message = str(error)
        assert last > 0
        assert "No space left on device.\n  Make room on the disk, and commit again." in message
        subprocess.run(["mount", "-o", "remount,size=8m", str(mount)], check=True)
        checkpoint.commit(last + 1)
        checkpoint.close()
        again = new_program()
        with Checkpoint.open(mount / "checkpoint", program=again) as reopened:
            reopened.restore(again)
            assert reopened.last is not None
            assert reopened.last.batch == last + 1
            assert seen(again) == seen(program)
    finally:
        subprocess.run(["umount", str(mount)], check=True)


def test_made_folders_are_forced_to_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forced: list[str] = []
    fsync = os.fsync
    monkeypatch.setattr(
        os, "fsync", lambda handle: (forced.append(os.readlink(f"/proc/self/fd/{handle}")), fsync(handle))
    )
    OsFolder(tmp_path / "a" / "b").prepare()
    assert forced == [str(tmp_path), str(tmp_path / "a")]
    OsFolder(tmp_path / "a" / "b").prepare()
    assert len(forced) == 2


def test_a_new_file_is_forced_by_the_systems_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = OsFolder(tmp_path)
    forced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda handle: forced.append(os.readlink(f"/proc/self/fd/{handle}")))
    file = folder.create("x")
    file.write(b"data")
    file.sync()
    file.close()
    folder.publish("x", "y")
    folder.sync()
    assert forced == [str(tmp_path / "x"), str(tmp_path)]
    with pytest.raises(FileExistsError):
        folder.create("y")
    with pytest.raises(FileExistsError):
        folder.publish("x", "y")
    (tmp_path / "to elsewhere").symlink_to("/etc/hostname")
    for name in ("to elsewhere",):
        with pytest.raises(OSError, match="symbolic|exists"):
            folder.read(name)
    assert (tmp_path / "y").stat().st_mode & 0o777 == 0o600


def test_without_links_a_rename_publishes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any, **options: Any) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    program = new_program()
    with Checkpoint.open(tmp_path, program=program) as checkpoint:
        program.step(SCRIPT[0])
        checkpoint.commit(0)
    folder = OsFolder(tmp_path)
    folder.create("x").close()
    with pytest.raises(FileExistsError):
        folder.publish("x", "manifest-000000000001.json")
    assert "x" in folder.names()


class Interrupt:
    """Raise `KeyboardInterrupt` before a line of the module that orders the writes of a commit."""

    def __init__(self, at: int) -> None:
        self.at, self.n_lines = at, 0

    def __enter__(self) -> None:
        self._before = sys.gettrace()
        sys.settrace(self._calls)

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)

    def _calls(self, frame: Any, *_: Any) -> Any:
        return self._lines if frame.f_code.co_filename == checkpoint_module.__file__ else None

    def _lines(self, frame: Any, event: str, _: Any) -> Any:
        if event == "line":
            self.n_lines += 1
            if self.n_lines == self.at:
                raise KeyboardInterrupt
        return self._lines


@pytest.mark.slow  # some 150 commits, each interrupted at another line
def test_an_interrupt_before_any_line_of_a_commit_damages_nothing(reference: Reference) -> None:
    """The version before stands, or the new one with all of its files."""
    n = 3
    memory, program, checkpoint = before_last(n)
    manifests, state = list(checkpoint.manifests), program.subject.ledger.state
    at, outcomes = 0, set()
    while True:
        at += 1
        copy, interrupt = memory.copy(), Interrupt(at)
        checkpoint.versions.folder = WatchedFolder(copy)
        checkpoint.versions.manifests = manifests
        program.subject.ledger.replace_state(state)
        with contextlib.suppress(KeyboardInterrupt), interrupt:
            checkpoint.commit(n, query="q", rows=len(SCRIPT[n]), digest=str(n))
        if interrupt.n_lines < at:
            break
        with contextlib.suppress(CheckpointError):  # it may be unknown whether the commit was published
            checkpoint.commit(n, query="q", rows=len(SCRIPT[n]), digest=str(n))
            outcomes.add("repeated")
        again = new_program()
        reopened = Checkpoint.open(copy, program=again, options=OPTIONS)
        reopened.restore(again)
        assert reopened.last is not None
        assert reopened.last.batch in (n - 1, n)
        outcomes.add(str(reopened.last.batch - n))
        assert seen(again) == reference.state(reopened.last.batch)
        if at % 32 == 0:
            reference.resume(reopened, again)
    assert outcomes == {"repeated", "0"}  # nothing is published before the files are complete


def test_a_first_checkpoint_that_failed_is_not_restored_as_an_empty_program(tmp_path: Path) -> None:
    program = new_program()
    program.load(SCRIPT[0])
    with pytest.raises(UsageError):
        program.checkpoint(tmp_path / "state", extra={"no JSON": object()})
    with pytest.raises(CheckpointError, match="holds no state: no commit was completed"):
        type(program).restore(tmp_path / "state")
    program.checkpoint(tmp_path / "state")
    assert seen(type(program).restore(tmp_path / "state")) == seen(program)
