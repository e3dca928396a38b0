"""The protocol of a device: an array module, and the launch of a kernel by name.

`CupyDevice` runs on a GPU. Any class with these methods can replace it: the launchers and the sources are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt


class Device(Protocol):
    """One device.

    Attributes
    ----------
    xp
        The array module: CuPy, or a replacement.
    multiprocessors
        Streaming multiprocessors; grids that loop over their work are a few times as large.
    out_of_memory
        The exception of a failed allocation.
    description
        The device and its driver, as far as they determine its speed.
    """

    xp: Any
    multiprocessors: int
    out_of_memory: type[BaseException]
    description: str

    def launch(self, source: str, kernel: str, n_blocks: int, block: int, arguments: Sequence[Any]) -> None:
        """Launch a kernel of the file `source` in the current stream.

        It runs on `n_blocks` blocks of `block` threads.

        Arguments are device arrays, passed as pointers to their first element, and Python integers, passed as ``long
        long``; a kernel's parameters are of these two kinds only. None is the null pointer. A launch of no blocks does
        nothing.
        """
        ...

    def asarray(self, array: Any) -> Any:
        """Return the array on this device; copied unless it is there already."""
        ...

    def to_host(self, array: Any) -> npt.NDArray[np.generic]:
        """Return the array as a NumPy array; waits for the device."""
        ...

    def free_bytes(self) -> int:
        """Return the bytes that can still be allocated, including unused memory of the pool."""
        ...

    def release(self) -> None:
        """Return unused memory of the pool to the device."""
        ...
