"""Where an array lies, asked in machine code: several times cheaper than NumPy's own ways to tell."""

from __future__ import annotations

from cpu_fallback.cache import cached_njit


@cached_njit
def address_of(array):
    """Address of the first element of a contiguous array."""
    return array.ctypes.data
