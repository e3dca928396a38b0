"""Files and folders named by a user: plain output files are replaced, others are written to."""

from __future__ import annotations

import errno
import os
import re
import shutil
import socket
import stat
import sys
import tempfile
from collections.abc import Generator, Hashable
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final

from gpu_wcoj.errors import OutputFileError, UsageError

_MAX_LINKS: Final = 40
"""Maximum number of symbolic links that are followed, the same as in Linux."""


HAS_FOLDER_HANDLES: Final = hasattr(os, "O_DIRECTORY") and os.open in os.supports_dir_fd
"""True if a folder can be opened: names are then relative to it, and can be forced to the disk."""


@contextmanager
def folder_handle(path: Path) -> Generator[int]:
    """Open a folder, if the system allows it."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield handle
    finally:
        os.close(handle)


def force(handle: int) -> None:
    """Force the content of an open file or folder to the disk."""
    if sys.platform == "darwin":  # fsync alone leaves the data in the drive's cache
        import fcntl

        fcntl.fcntl(handle, fcntl.F_FULLFSYNC)
    else:
        os.fsync(handle)


def force_names(path: Path) -> None:
    """Force the names of a folder to the disk, if a program can do that.

    Windows does it by itself.
    """
    if HAS_FOLDER_HANDLES:
        with folder_handle(path) as handle:
            force(handle)


_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/+")
"""Matches the beginning of a URL; one letter is a drive of Windows."""


def folder_path(
    path: object, name: str = "path", remedy: str = "Name a folder, such as /data/folder, where the store is mounted."
) -> Path:
    """Return the absolute path of a folder; a ``~`` at its start is the home folder.

    Raises
    ------
    UsageError
        If the argument `name` is not a path, or is the URL of a store, which is not a path of this machine.
    """
    text = os.fspath(path) if isinstance(path, (str, os.PathLike)) else None
    if not isinstance(text, str) or not text or "\0" in text:
        raise UsageError.invalid_value(name, path, "the path of a folder, as text or pathlib.Path")
    if _URL.match(text):
        raise UsageError.invalid_value(name, text, "a path of a local or mounted file system", remedy)
    return Path(os.path.expanduser(text)).absolute()


@contextmanager
def replacing(path: Path, remedy: str = "Name another file.") -> Generator[IO[bytes]]:
    """Open a file whose content becomes that of `path` when the block ends without an error.

    A plain or missing file is replaced by a rename: a reader sees the old or the new content, and an error leaves the
    old one. The mode stays, and the owner if the system allows it; other hard links to the file keep the old content.
    The target of a symbolic link is replaced. A pipe, a device, a socket or an open descriptor (``/dev/stdout``,
    ``/dev/fd/3``) is written to when the content is complete.

    Parameters
    ----------
    path
        Its folder is created if it is missing.
    remedy
        The remedy in the error message.

    Raises
    ------
    OutputFileError
        If it cannot be written, or is a folder.
    BrokenPipeError
        If `path` is a descriptor of this process whose reader has closed it.

    Examples
    --------
    >>> path = Path(tempfile.mkdtemp()) / "latest.csv"
    >>> with replacing(path) as file:
    ...     _ = file.write(b"1,2")
    >>> path.read_bytes()
    b'1,2'
    """
    descriptor = _descriptor(path)
    try:
        if descriptor is None:
            path.parent.mkdir(parents=True, exist_ok=True)
        status = _status(path) if descriptor is None else None
        if status is not None and stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        is_plain = descriptor is None and (status is None or stat.S_ISREG(status.st_mode))
        with _replaced(path, status) if is_plain else _copied(path, descriptor) as file:
            yield file
    except OSError as error:
        if isinstance(error, OutputFileError) or (isinstance(error, BrokenPipeError) and descriptor is not None):
            raise
        reason = error.strerror or str(error)
        raise OutputFileError.with_parts(
            f"'{path}' cannot be written: {reason}", subject=str(path), remedy=remedy
        ) from None


def identity(path: Path) -> Hashable:
    """Return a value that is equal for two paths to the same file; None for the null device.

    Examples
    --------
    >>> identity(Path("/tmp/../tmp/a")) == identity(Path("/tmp/a")), identity(Path(os.devnull))
    (True, None)
    """
    descriptor = _descriptor(path)
    with suppress(OSError):
        status = os.stat(path) if descriptor is None else os.fstat(descriptor)
        if stat.S_ISCHR(status.st_mode) and status.st_rdev == os.stat(os.devnull).st_rdev:
            return None
        return status.st_dev, status.st_ino
    return os.path.realpath(path)


def _status(path: Path) -> os.stat_result | None:
    """Return the status of the file behind all links; None if there is none."""
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def _descriptor(path: Path) -> int | None:
    """Return the descriptor of a path such as ``/dev/stdout``; None for other paths."""
    descriptor_folders = {
        "/dev/fd",
        "/proc/self/fd",
        f"/proc/{os.getpid()}/fd",
        os.path.realpath("/proc/thread-self/fd"),
    }
    for _ in range(_MAX_LINKS):
        folder = os.path.realpath(path.parent)
        if folder in descriptor_folders and path.name.isdecimal():
            return int(path.name)
        try:
            path = Path(folder, os.readlink(path))
        except OSError:
            return None
    return None


@contextmanager
def _replaced(path: Path, before: os.stat_result | None) -> Generator[IO[bytes]]:
    target = Path(os.path.realpath(path))
    if before is not None and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    temporary = target.parent / f".gpu_wcoj-{os.urandom(8).hex()}.tmp"
    flags = sum(getattr(os, flag, 0) for flag in ("O_CLOEXEC", "O_NOINHERIT", "O_BINARY"))  # the last two on Windows
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | flags, 0o666)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            if before is not None:
                _keep_access(file.fileno(), before)
        os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def _keep_access(handle: int, before: os.stat_result) -> None:
    if not hasattr(os, "fchown"):  # Windows
        return
    status = os.fstat(handle)
    if (status.st_uid, status.st_gid) != (before.st_uid, before.st_gid):
        with suppress(PermissionError):  # a file of another user: only the mode can be preserved
            os.fchown(handle, before.st_uid, before.st_gid)
    os.fchmod(handle, stat.S_IMODE(before.st_mode))


@contextmanager
def _copied(path: Path, descriptor: int | None) -> Generator[IO[bytes]]:
    """Yield a file that is copied, once complete, to a target that cannot be replaced or sought."""
    with tempfile.TemporaryFile() as complete:
        yield complete
        complete.seek(0)
        with _opened(path, descriptor) as file:
            shutil.copyfileobj(complete, file)


def _opened(path: Path, descriptor: int | None) -> IO[bytes]:
    if descriptor is not None:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        return os.fdopen(os.dup(descriptor), "wb")
    if stat.S_ISSOCK(path.stat().st_mode):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.connect(str(path))
            return connection.makefile("wb")
    return path.open("r+b" if stat.S_ISBLK(path.stat().st_mode) else "wb")
