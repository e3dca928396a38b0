"""How large a piece may be where memory is a device's, and what happens when it is too large all the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from gpu_wcoj.backend import Backend
from gpu_wcoj.errors import DeviceMemoryError
from gpu_wcoj.zset.arrays import memory_error

_T = TypeVar("_T")

CHUNK_ROWS = 1 << 17
"""Rows of one piece on the CPU, unless the user says otherwise."""

PIECE_ROW_BYTES = 512
"""What a row of a piece takes, with the kernels' own room: its parent, value and weight, some ten bound variables, its
positions in some ten batches as found and as gathered, eight bytes each."""

SHARE = 4
"""A piece may take one part in so many of the free memory: a path holds a piece a level."""

FEWEST_ROWS, MOST_ROWS = 1 << 16, 1 << 25
"""Rows of one piece on a device, at least and at most."""

GIVE_UP_ROWS = 4096
"""Pieces are halved down to this where the device has no memory left."""


def rows_of_a_piece(backend: Backend) -> int:
    """Rows that a piece may have where the user has not said it: on a device as its free memory allows.

    Examples
    --------
    >>> from gpu_wcoj.backend import select_backend
    >>> rows_of_a_piece(select_backend("cpu"))
    131072
    """
    if backend.device is None:
        return CHUNK_ROWS
    return max(FEWEST_ROWS, min(MOST_ROWS, backend.device.free_bytes() // (SHARE * PIECE_ROW_BYTES)))


def with_memory(backend: Backend, rows: int, run: Callable[[int], _T], doing: str) -> _T:
    """``run(rows)``, again with half as many rows each time that the device has no memory left.

    Raises
    ------
    DeviceMemoryError
        If `GIVE_UP_ROWS` are too many still.
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
        if given_back and rows <= GIVE_UP_ROWS:  # outside the handler: what the failed call held is free by now
            raise memory_error(backend, doing)
        device.release()
        given_back = True
        rows = rows if rows <= GIVE_UP_ROWS else max(GIVE_UP_ROWS, rows // 2)
