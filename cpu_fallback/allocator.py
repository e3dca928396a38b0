"""Settings of glibc's allocator that keep freed memory for the next tick."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Mapping

RETAINED_BYTES = 256 << 20
"""Bytes at the end of the heap that are not returned to the operating system."""

MAPPED_FROM = 32 << 20
"""Bytes of a block from which on it is mapped by itself and returned when freed. By default glibc raises this bound
while blocks are freed, up to this value, so the time of a tick would depend on earlier ones."""

SETTINGS = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_", "GLIBC_TUNABLES")
"""Environment variables with which users control the allocator."""

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3


def keep_freed(environment: Mapping[str, str] = os.environ) -> bool:
    """Tell glibc's allocator to keep freed memory of this process; return whether it was told.

    A tick frees memory that the next one allocates again: mainly merged batches, tens of megabytes if many rows change.
    Touching a new page takes several times as long as reading its values.

    Parameters
    ----------
    environment
        Environment variables; a setting of the user in them takes precedence.

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
