"""The most memory that a process and those that it has started have had."""

from __future__ import annotations

import os
import resource
import sys
from contextlib import suppress
from pathlib import Path

SHARE = 0.6
"""Of the machine's memory, what a contender may have that is held to a share."""


def held_bytes() -> int:
    """What that share is in bytes.

    Examples
    --------
    >>> held_bytes() > 10_000_000
    True
    """
    return int(SHARE * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))


def forget_peak() -> None:
    """Let the most be what there is now, of this process and those that it has started; where Linux lets it be."""
    for pid in _own():
        with suppress(OSError):
            Path(f"/proc/{pid}/clear_refs").write_text("5")


def peak_bytes() -> int:
    """Of this process and those that it has started, each one's most since `forget_peak` added up.

    Elsewhere than on Linux of this process alone, since it was started.

    Examples
    --------
    >>> forget_peak()
    >>> taken = bytes(range(256)) * 100_000
    >>> del taken
    >>> peak_bytes() > 25_000_000
    True
    """
    found = [most for most in map(_most, _own()) if most is not None]
    if found:
        return sum(found)
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _own() -> list[int]:
    """This process, and those that it has started, these too; none where the system does not tell their memory."""
    if not Path("/proc/self/status").exists():
        return []
    import psutil

    return [os.getpid(), *(one.pid for one in psutil.Process().children(recursive=True))]


def _most(pid: int) -> int | None:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return None
