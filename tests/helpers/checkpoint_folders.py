"""Folders for tests: one that counts, fails or kills, and one in memory that loses its power."""

from __future__ import annotations

import errno
import os
import random
import signal
from collections.abc import Callable
from typing import Any

OPERATIONS = ("prepare", "create", "publish", "remove", "sync", "names", "read", "lock", "note")


class HookedFolder:
    """Passes every operation on, after it has told `hook` its number, name and subject; a file's operations too."""

    def __init__(self, folder: Any, hook: Callable[[int, str, str], None]) -> None:
        self.folder = folder
        self.hook = hook
        self.n = 0
        self.log: list[tuple[str, str]] = []

    def tell(self, operation: str, name: str) -> None:
        self.log.append((operation, name))
        number = self.n
        self.n += 1
        self.hook(number, operation, name)

    def create(self, name: str) -> Any:
        self.tell("create", name)
        return _HookedFile(self, name, self.folder.create(name))

    def __getattr__(self, operation: str) -> Any:
        function = getattr(self.folder, operation)
        if operation not in OPERATIONS:
            return function

        def call(*arguments: Any) -> Any:
            self.tell(operation, str(arguments[-1]) if arguments else "")
            return function(*arguments)

        return call


class _HookedFile:
    def __init__(self, folder: HookedFolder, name: str, file: Any) -> None:
        self.folder, self.name, self.file = folder, name, file

    def write(self, data: bytes) -> None:
        self.folder.tell("write", self.name)
        self.file.write(data[: len(data) // 2])
        self.folder.tell("rest of write", self.name)
        self.file.write(data[len(data) // 2 :])

    def sync(self) -> None:
        self.folder.tell("sync file", self.name)
        self.file.sync()

    def close(self) -> None:
        self.file.close()


CHANGING = ("create", "write", "rest of write", "publish", "remove", "note")
"""Operations that change files; a kill after any other leaves what a kill before it leaves."""


def kill_at(number: int, at_every: bool) -> Callable[[int, str, str], None]:
    """SIGKILL for this process before the operation of that number: of all, or of those that follow a change."""
    before, n = "note", -1

    def hook(at: int, operation: str, name: str) -> None:
        nonlocal before, n
        if at_every or before in CHANGING:
            n += 1
            if n == number:
                os.kill(os.getpid(), signal.SIGKILL)
        before = operation

    return hook


class _Inode:
    """A file's content as the system shows it, and as the disk has it for sure."""

    def __init__(self, now: bytes = b"", durable: bytes = b"") -> None:
        self.now, self.durable = now, durable

    def twin(self) -> _Inode:
        """The same content; only what has been forced to the disk is sure not to be written to any more."""
        return self if self.is_whole else _Inode(self.now, self.durable)

    @property
    def is_whole(self) -> bool:
        return self.now is self.durable and len(self.now) > 0

    def after_loss(self, rng: random.Random) -> _Inode:
        if self.is_whole:
            return self
        way = rng.randrange(5)
        if way == 0:
            left = self.durable
        elif way == 1:
            left = self.now
        elif way == 2:
            left = self.now[: rng.randrange(len(self.now) + 1)]
        elif way == 3:  # the size is there, the data is not
            kept = rng.randrange(len(self.now) + 1)
            left = self.now[:kept] + bytes(len(self.now) - kept)
        else:  # blocks in any order
            size = rng.choice([16, 64, 512])
            blocks = [self.now[at : at + size] for at in range(0, len(self.now), size)]
            left = b"".join(block if rng.random() < 0.5 else bytes(len(block)) for block in blocks)
        return _Inode(left, left)


class MemoryFolder:
    """A folder whose unforced data and names may be lost, torn or kept in any order when the power goes.

    Attributes
    ----------
    now, durable
        Names as the system shows them, and as the disk has them for sure.
    pending
        What has been done to names since they were forced: name, and the file or None if it was removed.
    """

    def __init__(self) -> None:
        self.now: dict[str, _Inode] = {}
        self.durable: dict[str, _Inode] = {}
        self.pending: list[tuple[str, _Inode | None]] = []
        self._locked = ""

    def copy(self) -> MemoryFolder:
        """As it is now, to lose its power or go on apart."""
        twins = {id(inode): inode.twin() for inode in self._inodes()}
        other = MemoryFolder()
        other._locked = self._locked
        other.now = {name: twins[id(inode)] for name, inode in self.now.items()}
        other.durable = {name: twins[id(inode)] for name, inode in self.durable.items()}
        other.pending = [(name, None if inode is None else twins[id(inode)]) for name, inode in self.pending]
        return other

    def _inodes(self) -> list[_Inode]:
        pending = [inode for _, inode in self.pending if inode is not None]
        return [*self.now.values(), *self.durable.values(), *pending]

    def after_loss(self, rng: random.Random) -> MemoryFolder:
        """What the disk may hold after a loss of power."""
        share = rng.choice([0.0, 1.0, 0.5, 0.8, 0.2])
        names = dict(self.durable)
        for name, inode in self.pending:
            if rng.random() < share:
                if inode is None:
                    names.pop(name, None)
                else:
                    names[name] = inode
        lost: dict[int, _Inode] = {id(inode): inode.after_loss(rng) for inode in names.values()}
        other = MemoryFolder()
        other.now = {name: lost[id(inode)] for name, inode in names.items()}
        other.durable = dict(other.now)
        return other

    def prepare(self) -> None:
        pass

    def create(self, name: str) -> Any:
        if name in self.now:
            raise FileExistsError(name)
        self._name(name, _Inode())
        return _MemoryFile(self.now[name])

    def _name(self, name: str, inode: _Inode | None) -> None:
        self.pending.append((name, inode))
        if inode is None:
            del self.now[name]
        else:
            self.now[name] = inode

    def publish(self, temporary: str, name: str) -> None:
        if name in self.now:
            raise FileExistsError(name)
        if temporary not in self.now:
            raise FileNotFoundError(errno.ENOENT, "No such file", temporary)
        self._name(name, self.now[temporary])

    def remove(self, name: str) -> None:
        if name in self.now:
            self._name(name, None)

    def sync(self) -> None:
        self.durable = dict(self.now)
        self.pending = []

    def names(self) -> list[str]:
        return sorted(self.now)

    def read(self, name: str) -> bytes:
        if name not in self.now:
            raise FileNotFoundError(name)
        return self.now[name].now

    def lock(self, name: str) -> bool:
        if name not in self.now:
            self._name(name, _Inode())
        self._locked = name
        return True

    def note(self, data: bytes) -> None:
        self.now[self._locked] = _replaced(self, self._locked, data)

    def unlock(self) -> None:
        pass

    def shown(self, name: str) -> str:
        return f"memory/{name}"


def _replaced(folder: MemoryFolder, name: str, data: bytes) -> _Inode:
    """The file with new content, in place: names that were forced to the disk hold it, too."""
    before = folder.now[name]
    after = _Inode(data, before.durable)
    if folder.durable.get(name) is before:
        folder.durable[name] = after
    folder.pending = [(one, after if inode is before else inode) for one, inode in folder.pending]
    return after


class _MemoryFile:
    def __init__(self, inode: _Inode) -> None:
        self._inode = inode

    def write(self, data: bytes) -> None:
        self._inode.now += data

    def sync(self) -> None:
        self._inode.durable = self._inode.now

    def close(self) -> None:
        pass
