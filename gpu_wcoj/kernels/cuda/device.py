"""What the launchers ask of a device: an array module, and the launch of a kernel by name.

`CupyDevice` is the one that runs on a GPU. Whatever else has these few methods can take its place: the launchers and
the sources are the same.
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
        The array module: CuPy, or what stands in for it.
    multiprocessors
        Streaming multiprocessors; grids that loop over their work are a few times as large.
    out_of_memory
        What a failed allocation raises.
    description
        The device and what drives it, as far as it decides how fast it is.
    """

    xp: Any
    multiprocessors: int
    out_of_memory: type[BaseException]
    description: str

    def launch(self, source: str, kernel: str, n_blocks: int, block: int, arguments: Sequence[Any]) -> None:
        """Launch a kernel of the file `source` on `n_blocks` blocks of `block` threads, in the current stream.

        Arguments are device arrays, handed over as pointers to their first element, and Python integers, handed over
        as ``long long``; a kernel's parameters are of these two kinds only. None is the null pointer.
        A launch of no blocks does nothing.
        """
        ...

    def asarray(self, array: Any) -> Any:
        """The array on this device; one that is there already as it is, any other copied."""
        ...

    def to_host(self, array: Any) -> npt.NDArray[np.generic]:
        """The array as NumPy's; waits for the device."""
        ...

    def free_bytes(self) -> int:
        """Bytes that can still be allocated, what the pool holds unused counted in."""
        ...

    def release(self) -> None:
        """Give the memory that the pool holds unused back to the device."""
        ...
