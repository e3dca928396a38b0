"""What a device's memory holds and what crosses its border, counted."""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.shim import build
from tests.shim.errors import ShimError, ShimOutOfMemoryError

GRAIN = 512
"""Allocations are accounted in steps of so many bytes, as CuPy's pool makes them."""
DEFAULT_LIMIT = 16 << 30


@dataclass
class Counts:
    """What happened on a device.

    Attributes
    ----------
    launches, kernels
        Kernels launched, in all and by name.
    reads, bytes_read
        Device-to-host transfers: `get`, `item`, `int`, `bool`, `tolist`, and what needs a size (boolean masks, ...).
    uploads, bytes_uploaded
        Host-to-device transfers.
    operations
        Array operations, each of which is a launch or more on a GPU.
    allocated, peak
        Bytes allocated; in `ShimDevice.counted`, since it began.
    """

    launches: int = 0
    kernels: Counter[str] = field(default_factory=Counter)
    reads: int = 0
    bytes_read: int = 0
    uploads: int = 0
    bytes_uploaded: int = 0
    operations: int = 0
    allocated: int = 0
    peak: int = 0


class Allocation:
    """Some bytes of the device; they are given back when nothing refers to them any more."""

    def __init__(self, memory: Memory, size: int, address: int) -> None:
        self.memory, self.size, self.address = memory, size, address
        self.__array_interface__ = {"data": (address, False), "shape": (size,), "typestr": "|u1", "version": 3}

    def __del__(self) -> None:
        self.memory.give_back(self)


class _Bytes:
    """The part of the map of what is written that belongs to an array: a byte for each of its bytes."""

    def __init__(self, address: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> None:
        self.__array_interface__ = {
            "data": (address, False), "shape": shape, "strides": strides, "typestr": "|u1", "version": 3
        }  # fmt: skip

    def array(self) -> npt.NDArray[np.uint8]:
        return np.asarray(self)


class Memory:
    """Accounted and guarded memory, and the counts of one device.

    Parameters
    ----------
    seed
        Of the garbage that new arrays hold.
    limit
        Bytes that can be allocated.
    """

    def __init__(self, seed: int, limit: int | None) -> None:
        self.library = build.memory()
        self.tracked = build.flavour() == "ptx"
        self.seed = seed
        self.limit = DEFAULT_LIMIT if limit is None else limit
        self.counts = Counts()
        self.counting = [self.counts]
        self.allocations = 0
        self.damaged: list[str] = []
        self.last_kernel = "no kernel"

    def allocate(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[np.generic]:
        """An array full of garbage."""
        dtype = np.dtype(dtype)
        size = int(np.prod(shape, dtype=object)) * dtype.itemsize if shape else dtype.itemsize
        if size == 0:
            return np.empty(shape, dtype)
        accounted = -(-size // GRAIN) * GRAIN
        if self.counts.allocated + accounted > self.limit:
            raise ShimOutOfMemoryError(
                f"out of memory allocating {accounted:,} bytes (allocated so far: {self.counts.allocated:,} bytes, "
                f"limit: {self.limit:,} bytes)"
            )
        self.allocations += 1
        address = self.library.shim_allocate(size, self.seed * 1_000_003 + self.allocations)
        if address is None:
            raise ShimOutOfMemoryError(f"the host has no {size:,} bytes left")
        for counts in self.counting:
            counts.allocated += accounted
            counts.peak = max(counts.peak, counts.allocated)
        return np.asarray(Allocation(self, size, address)).view(dtype).reshape(shape)

    def wrote(self, host: npt.NDArray[Any], key: Any = ...) -> None:
        """Note that the elements of an array at `key` hold values now; kernels note their own."""
        if not self.tracked or not host.size:
            return
        written = self.library.shim_written(host.__array_interface__["data"][0])
        if written is not None:  # memory of another library counts as written
            shape, strides = (*host.shape, host.itemsize), (*host.strides, 1)
            _Bytes(written, shape, strides).array()[key] = 1

    def share(self, host: npt.NDArray[Any]) -> None:
        """Let kernels touch memory of another library."""
        if self.tracked and host.size:
            self.library.shim_share(host.__array_interface__["data"][0], host.nbytes)

    def give_back(self, allocation: Allocation) -> None:
        """Free; a guard that was written over is remembered for the next `check`."""
        distance = self.library.shim_free(allocation.address)
        if distance:
            self.damaged.append(self._describe(distance, allocation.size, self.last_kernel))
        for counts in self.counting:
            counts.allocated -= -(-allocation.size // GRAIN) * GRAIN

    def check(self, after: str) -> None:
        """Raise if an array was written to beyond its ends."""
        if not self.damaged:
            address, size = ctypes.c_size_t(), ctypes.c_size_t()
            distance = self.library.shim_check(ctypes.byref(address), ctypes.byref(size))
            if not distance:
                return
            self.damaged.append(self._describe(distance, size.value, after))
        damaged, self.damaged = self.damaged, []
        raise ShimError("; ".join(damaged))

    @staticmethod
    def _describe(distance: int, size: int, after: str) -> str:
        side = f"{-distance} bytes before the start" if distance < 0 else f"at byte {distance - 1} after the end"
        return f"{after} wrote outside of an array of {size:,} bytes: {side}"

    def launched(self, kernel: str) -> None:
        """Count a launch."""
        self.last_kernel = kernel
        for counts in self.counting:
            counts.launches += 1
            counts.kernels[kernel] += 1

    def operated(self) -> None:
        """Count an array operation."""
        for counts in self.counting:
            counts.operations += 1

    def read(self, n_bytes: int) -> None:
        """Count a device-to-host transfer."""
        for counts in self.counting:
            counts.reads += 1
            counts.bytes_read += n_bytes

    def uploaded(self, n_bytes: int) -> None:
        """Count a host-to-device transfer."""
        for counts in self.counting:
            counts.uploads += 1
            counts.bytes_uploaded += n_bytes

    @contextmanager
    def counted(self) -> Iterator[Counts]:
        """Counts of what happens inside."""
        counts = Counts()
        self.counting.append(counts)
        try:
            yield counts
        finally:
            self.counting = [other for other in self.counting if other is not counts]
