"""A folder whose errors name the file, and that stops after an unknown disk state."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Generator
from contextlib import contextmanager

from gpu_wcoj.checkpoint.folder import Folder, NewFile
from gpu_wcoj.errors import CheckpointError, CheckpointWriteError

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
