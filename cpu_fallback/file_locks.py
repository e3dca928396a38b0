"""Locks on open files, between processes of one machine; they end with the process.

POSIX systems have `flock`, Windows has `msvcrt.locking`. A Python without either, as in a browser, has one process, and
every lock is free.
"""

from __future__ import annotations

import errno
import os
import time
from typing import Any

_fcntl: Any
_msvcrt: Any
try:
    import fcntl as _fcntl
except ImportError:  # Windows
    _fcntl = None
try:
    import msvcrt as _msvcrt
except ImportError:
    _msvcrt = None

LOCKED_BYTE = 1 << 30
"""Offset of the byte that is locked on Windows: behind any content, which others may then still read."""

PAUSE_SECONDS = 0.05
"""Seconds between two attempts where the system cannot wait for a lock itself."""


def lock_file(handle: int, waits: bool = False) -> bool:
    """Lock an open file for this process; return False if another one has locked it.

    Parameters
    ----------
    handle
        Descriptor of the file, open for writing.
    waits
        True to wait until it is free.

    Raises
    ------
    OSError
        If the file system has no locks.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryFile() as file:
    ...     lock_file(file.fileno())
    ...     unlock_file(file.fileno())
    True
    """
    if _fcntl is not None:
        try:
            _fcntl.flock(handle, _fcntl.LOCK_EX | (0 if waits else _fcntl.LOCK_NB))
        except OSError as error:
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                return False
            raise
        return True
    while _msvcrt is not None:
        os.lseek(handle, LOCKED_BYTE, os.SEEK_SET)
        try:
            _msvcrt.locking(handle, _msvcrt.LK_NBLCK, 1)
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EDEADLK):
                raise
            if not waits:
                return False
            time.sleep(PAUSE_SECONDS)
        else:
            break
    return True


def unlock_file(handle: int) -> None:
    """Release the lock of an open file.

    Closing the file does so, too, if no forked process has it.
    """
    if _fcntl is not None:
        _fcntl.flock(handle, _fcntl.LOCK_UN)
    elif _msvcrt is not None:
        os.lseek(handle, LOCKED_BYTE, os.SEEK_SET)
        _msvcrt.locking(handle, _msvcrt.LK_UNLCK, 1)
