"""The folder of a checkpoint; every disk operation goes through it.

Tests put other folders in its place: one that fails or kills at the n-th operation, and one in memory that loses what
was not forced to the disk.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, runtime_checkable
from weakref import WeakSet

from cpu_fallback.file_locks import lock_file
from gpu_wcoj.destination import HAS_FOLDER_HANDLES, folder_handle, force, force_names
from gpu_wcoj.errors import CheckpointError, CheckpointWriteError

# Windows has none of the first three flags, and opens files as text without the last one.
_SAFELY = sum(getattr(os, flag, 0) for flag in ("O_NOFOLLOW", "O_CLOEXEC", "O_NOINHERIT", "O_BINARY"))
_CREATE = os.O_CREAT | os.O_EXCL | os.O_WRONLY | _SAFELY
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK)
_RENAME_NOREPLACE = 1
"""Flag of the system call renameat2."""


class NewFile(Protocol):
    """A file that is being written for the first time."""

    def write(self, data: bytes) -> None:
        """Append all of the data."""
        ...

    def sync(self) -> None:
        """Force the data to the disk. After an error the file's content is unknown; do not retry."""
        ...

    def close(self) -> None:
        """Close the file."""
        ...


@runtime_checkable
class Folder(Protocol):
    """Files in one folder, by plain names."""

    def prepare(self) -> None:
        """Create the folder, and force the new names to the disk."""
        ...

    def create(self, name: str) -> NewFile:
        """Create a file. `FileExistsError` if the name is taken."""
        ...

    def publish(self, temporary: str, name: str) -> None:
        """Give a file a second name atomically. `FileExistsError` if it is taken."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file; a missing file is accepted."""
        ...

    def sync(self) -> None:
        """Force the names of the folder to the disk."""
        ...

    def names(self) -> list[str]:
        """Return the names in the folder, sorted; none if the folder is missing."""
        ...

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        ...

    def lock(self, name: str) -> bool:
        """Lock a file, created if missing, until `unlock` or the process ends; False if locked."""
        ...

    def note(self, data: bytes) -> None:
        """Replace the content of the locked file; a hint that may be lost or torn."""
        ...

    def unlock(self) -> None:
        """Release the lock."""
        ...

    def shown(self, name: str) -> str:
        """Return the name of a file for messages."""
        ...


def write_whole(file: NewFile, data: bytes) -> None:
    """Write the complete content of a new file, force it to the disk, and close the file."""
    try:
        file.write(data)
        file.sync()
    finally:
        file.close()


class _OsFile:
    def __init__(self, handle: int) -> None:
        self._handle = handle

    def write(self, data: bytes) -> None:
        """See `NewFile.write`."""
        remaining = memoryview(data)
        while remaining:
            remaining = remaining[os.write(self._handle, remaining) :]

    def sync(self) -> None:
        """See `NewFile.sync`."""
        force(self._handle)

    def close(self) -> None:
        """See `NewFile.close`."""
        os.close(self._handle)


_holding: WeakSet[OsFolder] = WeakSet()
"""Folders with a lock: a forked process closes its copies, or the lock would outlive the process that took it."""


def _let_go() -> None:
    for folder in list(_holding):
        folder.unlock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)


class OsFolder:
    """A folder of the operating system.

    Names are opened relative to it and never followed through a symbolic link; files are for their owner only.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._locked: int | None = None

    def prepare(self) -> None:
        """See `Folder.prepare`."""
        self.names()  # refuses a file
        missing = [folder for folder in (self.path, *self.path.parents) if not folder.is_dir()]
        for folder in reversed(missing):
            folder.mkdir(mode=0o700, exist_ok=True)
            force_names(folder.parent)

    def create(self, name: str) -> NewFile:
        """See `Folder.create`."""
        with self._placed(name) as (place, where):
            return _OsFile(os.open(place, _CREATE, 0o600, **where))

    def publish(self, temporary: str, name: str) -> None:
        """See `Folder.publish`; without hard links it uses a rename that does not replace."""
        if not HAS_FOLDER_HANDLES:
            os.rename(self.path / temporary, self.path / name)  # does not replace on Windows
            return
        with folder_handle(self.path) as folder:
            try:
                os.link(temporary, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
                return
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
            _rename_without_replacing(folder, temporary, name)

    def remove(self, name: str) -> None:
        """See `Folder.remove`."""
        with self._placed(name) as (place, where), contextlib.suppress(FileNotFoundError):
            os.unlink(place, **where)

    def sync(self) -> None:
        """See `Folder.sync`."""
        force_names(self.path)

    def names(self) -> list[str]:
        """See `Folder.names`."""
        try:
            return sorted(os.listdir(self.path))
        except FileNotFoundError:
            return []
        except NotADirectoryError:
            raise CheckpointError(f"'{self.path}' is a file.\n  A checkpoint is a folder; name one.") from None

    def read(self, name: str) -> bytes:
        """See `Folder.read`."""
        with self._placed(name) as (place, where):
            handle = os.open(place, os.O_RDONLY | _SAFELY, **where)
        with os.fdopen(handle, "rb") as file:
            return file.read()

    def lock(self, name: str) -> bool:
        """See `Folder.lock`. The system releases the lock when the process ends."""
        with self._placed(name) as (place, where):
            handle = os.open(place, os.O_CREAT | os.O_RDWR | _SAFELY, 0o600, **where)
        try:
            if not lock_file(handle):
                os.close(handle)
                return False
        except OSError as error:
            os.close(handle)
            if error.errno in (errno.ENOTSUP, errno.ENOLCK, errno.ENOSYS):
                return True  # a file system without locks: fencing alone keeps writers apart
            raise
        self._locked = handle
        _holding.add(self)
        return True

    def note(self, data: bytes) -> None:
        """See `Folder.note`."""
        if self._locked is not None:
            os.lseek(self._locked, 0, os.SEEK_SET)
            os.write(self._locked, data)
            os.ftruncate(self._locked, len(data))

    def unlock(self) -> None:
        """See `Folder.unlock`."""
        if self._locked is not None:
            os.close(self._locked)
            self._locked = None

    def shown(self, name: str) -> str:
        """See `Folder.shown`."""
        return str(self.path / name)  # of "." it is the folder itself

    @contextmanager
    def _placed(self, name: str) -> Generator[tuple[str, dict[str, int]]]:
        """Yield a file's name and the options of the functions of `os` that find it in the folder."""
        if not HAS_FOLDER_HANDLES:
            yield str(self.path / name), {}
            return
        with folder_handle(self.path) as folder:
            yield name, {"dir_fd": folder}


def _rename_without_replacing(folder: int, source: str, target: str) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if not hasattr(library, "renameat2"):
        raise OSError(errno.ENOTSUP, "this file system has neither links nor a rename that does not replace", target)
    if library.renameat2(folder, os.fsencode(source), folder, os.fsencode(target), _RENAME_NOREPLACE) != 0:
        error_number = ctypes.get_errno()
        raise OSError(error_number, os.strerror(error_number), target)  # of EEXIST it is a FileExistsError


# A folder whose errors name the file, and that stops after an unknown disk state.


_FULL = (errno.ENOSPC, errno.EDQUOT)


class WatchedFolder:
    """A `Folder` that is `broken` after a failed `sync` or `publish`, names taken aside.

    What a failed sync has left on the disk cannot be known: the system may have dropped the data and call the next
    sync a success. So nothing is tried again; what is on the disk is found out by opening the checkpoint anew.

    Attributes
    ----------
    broken
        What has failed, or an empty text.
    """

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self.broken = ""

    def check(self) -> None:
        """Raise if it is broken."""
        if self.broken:
            raise CheckpointError(
                f"this checkpoint takes no more commits: {self.broken}.\n"
                "  Open it again with a new program, and restore: it holds the last batch that was committed."
            )

    @contextmanager
    def trying(
        self, doing: str, name: str, breaks: bool = False, expected: type[OSError] | None = None
    ) -> Generator[None]:
        """Add the file's name to errors of the system; other interruptions may break the folder."""
        self.check()
        path = self.folder.shown(name) if name else self.folder.shown(".")
        if breaks:
            self.broken = f"'{path}' was being {doing}, and it is not known whether that was done"
        try:
            yield
            self.broken = ""
        except OSError as error:
            if expected is not None and isinstance(error, expected):
                self.broken = ""
                raise
            if breaks:
                self.broken = f"'{path}' could not be {doing} ({_reason(error)})"
            advice = "Make room on the disk, and commit again." if error.errno in _FULL else "Look at the disk."
            if breaks:
                advice = "This batch is abandoned: open the checkpoint again with a new program, and restore."
            raise CheckpointWriteError(
                error.errno, f"checkpoint file '{path}' could not be {doing}: {_reason(error)}.\n  {advice}"
            ) from error

    def prepare(self) -> None:
        """See `Folder.prepare`."""
        with self.trying("made", ""):
            self.folder.prepare()

    def create(self, name: str) -> NewFile:
        """See `Folder.create`."""
        with self.trying("created", name):
            return _WatchedFile(self, name, self.folder.create(name))

    def publish(self, temporary: str, name: str) -> None:
        """See `Folder.publish`."""
        with self.trying("given its name", name, breaks=True, expected=FileExistsError):
            self.folder.publish(temporary, name)

    def remove(self, name: str) -> None:
        """See `Folder.remove`."""
        with self.trying("removed", name):
            self.folder.remove(name)

    def sync(self) -> None:
        """See `Folder.sync`."""
        with self.trying("forced to the disk", "", breaks=True):
            self.folder.sync()

    def names(self) -> list[str]:
        """See `Folder.names`."""
        with self.trying("listed", ""):
            return self.folder.names()

    def read(self, name: str) -> bytes:
        """See `Folder.read`."""
        with self.trying("read", name, expected=FileNotFoundError):
            return self.folder.read(name)

    def lock(self, name: str) -> bool:
        """See `Folder.lock`."""
        with self.trying("locked", name):
            return self.folder.lock(name)

    def note(self, data: bytes) -> None:
        """See `Folder.note`."""
        with self.trying("written", "lease"):
            self.folder.note(data)

    def unlock(self) -> None:
        """See `Folder.unlock`."""
        with contextlib.suppress(OSError):
            self.folder.unlock()

    def shown(self, name: str) -> str:
        """See `Folder.shown`."""
        return self.folder.shown(name)


class _WatchedFile:
    def __init__(self, folder: WatchedFolder, name: str, file: NewFile) -> None:
        self._folder = folder
        self._name = name
        self._file = file

    def write(self, data: bytes) -> None:
        """See `NewFile.write`."""
        with self._folder.trying("written", self._name):
            self._file.write(data)

    def sync(self) -> None:
        """See `NewFile.sync`."""
        with self._folder.trying("forced to the disk", self._name, breaks=True):
            self._file.sync()

    def close(self) -> None:
        """See `NewFile.close`."""
        self._file.close()


def _reason(error: OSError) -> str:
    return error.strerror or (os.strerror(error.errno) if error.errno else str(error))
