"""The most memory that a process has had."""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path

_STATUS = Path("/proc/self/status")

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


def peak_bytes() -> int:
    """Of this process, since it was started; on Linux what it was forked from does not count."""
    if _STATUS.exists():
        for line in _STATUS.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
