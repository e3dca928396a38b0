"""The address of an array, read in compiled code, which is several times faster than NumPy."""

from __future__ import annotations

from cpu_fallback.runtime import cached_njit


@cached_njit
def address_of(array):
    """Return the address of the first element of a contiguous array."""
    return array.ctypes.data
