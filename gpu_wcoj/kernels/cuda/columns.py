"""How launchers hand a table's columns to a kernel, and how many blocks they take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpu_wcoj.kernels.cuda.device import Device

N_DIRECT = 8
"""Columns that are parameters of a kernel; columns.cuh has the same number. Further ones take an upload."""
BLOCK = 256
TILE = 1024
"""Rows that a block of `BLOCK` threads sums up; passes.cuh has the same number."""
FEW = 1024
"""Rows that one block sorts in shared memory; rows.cu has the same number."""
WAVES = 8
"""Blocks a multiprocessor in grids that loop over their work."""


def column_arguments(device: Device, columns: Sequence[Any]) -> list[Any]:
    """The arguments for a kernel's `Columns`: contiguous columns, or None, then the addresses of further ones."""
    columns = [device.xp.ascontiguousarray(column) for column in columns]
    direct, further = columns[:N_DIRECT], columns[N_DIRECT:]
    more = device.asarray(np.array([column.data.ptr for column in further], np.int64)) if further else None
    return [*direct, *[None] * (N_DIRECT - len(direct)), more, len(columns)]


def looping_blocks(device: Device, n: int) -> int:
    """Blocks for n items that a grid loops over."""
    return min(-(-n // BLOCK), device.multiprocessors * WAVES)


def tiles(n: int) -> int:
    """How many tiles n rows take."""
    return -(-n // TILE)
