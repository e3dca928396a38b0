"""A table's columns as kernel arguments, and numbers of blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpu_wcoj.kernels.cuda.device import Device

N_DIRECT = 8
"""Columns passed as kernel parameters; further ones are uploaded. Same in columns.cuh."""
BLOCK = 256
"""Threads of a block."""
TILE = 1024
"""Rows that a block of `BLOCK` threads adds up. Same in passes.cuh."""
MAX_BLOCK_ROWS = 1024
"""Rows that one block sorts in shared memory. Same in rows.cu."""
WAVES = 8
"""Blocks a multiprocessor in grids that loop over their work."""


def column_arguments(device: Device, columns: Sequence[Any]) -> list[Any]:
    """Return the arguments for a kernel's `Columns`.

    Contiguous columns, or None, then the addresses of further ones.
    """
    columns = [device.xp.ascontiguousarray(column) for column in columns]
    direct, further = columns[:N_DIRECT], columns[N_DIRECT:]
    more = device.asarray(np.array([column.data.ptr for column in further], np.int64)) if further else None
    return [*direct, *[None] * (N_DIRECT - len(direct)), more, len(columns)]


def looping_blocks(device: Device, n: int) -> int:
    """Return the number of blocks for n items that a grid loops over."""
    return min(-(-n // BLOCK), device.multiprocessors * WAVES)


def tiles(n: int) -> int:
    """Return the number of tiles of n rows."""
    return -(-n // TILE)
