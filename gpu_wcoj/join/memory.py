"""The size of pieces on a device, and smaller ones after it runs out of memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from gpu_wcoj.backend import Backend
from gpu_wcoj.errors import DeviceMemoryError
from gpu_wcoj.zset.arrays import memory_error

_T = TypeVar("_T")

CHUNK_ROWS = 1 << 17
"""Rows a piece on the CPU, unless the user sets them."""

PIECE_ROW_BYTES = 512
"""Bytes that a row of a piece takes, including the kernels' buffers.

Its parent, value and weight, about ten bound variables, its positions in about ten batches as found and as gathered,
eight bytes each."""

MEMORY_DIVISOR = 4
"""A piece may take the free memory divided by this: a path holds a piece a level."""

MIN_PIECE_ROWS, MAX_PIECE_ROWS = 1 << 16, 1 << 25
"""Least and greatest number of rows of one piece on a device."""

GIVE_UP_ROWS = 4096
"""Rows down to which pieces are halved if the device runs out of memory."""


def choose_piece_rows(backend: Backend) -> int:
    """Return the rows of a piece if the user has not set them; on a device by its free memory.

    Examples
    --------
    >>> from gpu_wcoj.backend import select_backend
    >>> choose_piece_rows(select_backend("cpu"))
    131072
    """
    if backend.device is None:
        return CHUNK_ROWS
    return max(MIN_PIECE_ROWS, min(MAX_PIECE_ROWS, backend.device.free_bytes() // (MEMORY_DIVISOR * PIECE_ROW_BYTES)))


def run_within_memory(backend: Backend, rows: int, run: Callable[[int], _T], doing: str) -> _T:
    """Return ``run(rows)``, with half as many rows each time that the device runs out of memory.

    Raises
    ------
    DeviceMemoryError
        If memory is too small even for `GIVE_UP_ROWS` rows.
    """
    device = backend.device
    assert device is not None
    given_back = False
    while True:
        try:
            return run(rows)
        except device.out_of_memory as error:
            if isinstance(error, DeviceMemoryError):
                raise
        if given_back and rows <= GIVE_UP_ROWS:  # outside the handler: the memory of the failed call is free by now
            raise memory_error(backend, doing)
        device.release()
        given_back = True
        rows = rows if rows <= GIVE_UP_ROWS else max(GIVE_UP_ROWS, rows // 2)
