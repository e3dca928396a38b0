"""What becomes of freed memory: enough of it is kept that the next tick does not touch new pages."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Mapping

RETAINED_BYTES = 256 << 20
"""So much at the end of the heap is not given back to the system."""

MAPPED_FROM = 32 << 20
"""Larger blocks are given back at once. glibc raises this bound by itself, up to here, as blocks are freed, and so what
a tick costs would hang on what was freed before it."""

SETTINGS = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_", "GLIBC_TUNABLES")
"""Variables of the environment by which users settle this."""

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3


def keep_freed(environment: Mapping[str, str] = os.environ) -> bool:
    """Tell glibc's allocator to keep that much, for the whole process; whether it was told.

    A tick frees what the next one asks for again: merged batches above all, tens of megabytes where many rows change.
    To touch a page anew costs several times what reading its values does.

    Parameters
    ----------
    environment
        Where the user may have said something else, which counts.

    Examples
    --------
    >>> keep_freed({"MALLOC_TRIM_THRESHOLD_": "0"})
    False
    """
    if not sys.platform.startswith("linux") or any(name in environment for name in SETTINGS):
        return False
    library = ctypes.CDLL(None)
    if not hasattr(library, "gnu_get_libc_version"):
        return False
    return bool(library.mallopt(_MMAP_THRESHOLD, MAPPED_FROM) and library.mallopt(_TRIM_THRESHOLD, RETAINED_BYTES))
