"""A device's memory pool: RMM's if it is installed, so that cuDF shares it, else CuPy's.

An allocator that the user has set is not replaced.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import time
from typing import Any, Protocol

from gpu_wcoj.errors import UsageError
from gpu_wcoj.units import format_bytes, part_of

_LOGGER = logging.getLogger("gpu_wcoj")
_ALIGNMENT = 256
"""Bytes of which the size of RMM's pools is a multiple."""

QUERY_INTERVAL = 1.0
"""Seconds between two queries of the driver's free memory.

Each takes a lock of the driver, and a tick should not wait for it."""


class Pool(Protocol):
    """A source of device memory."""

    @property
    def limit(self) -> int | None:
        """Bytes that may be in use at most; None for the device's memory."""
        ...

    def free_bytes(self) -> int:
        """Return the bytes that can still be allocated, including unused memory of the pool."""
        ...

    def release(self) -> None:
        """Return unused memory of the pool to the device, if possible."""
        ...

    def restrict(self, limit: int) -> None:
        """Set the limit, or raise `UsageError` if it cannot be set any more."""
        ...


class DriverMemory:
    """The driver's free memory for a growing pool: queried rarely, and estimated in between.

    The estimate follows the pool's growth. Allocations of other processes show a little later.
    """

    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy
        self._asked = float("-inf")
        self._left = 0

    def free_bytes(self, pool_bytes: int) -> int:
        """Return the free bytes, now that the pool holds `pool_bytes` bytes."""
        now = time.monotonic()
        if now - self._asked >= QUERY_INTERVAL:
            self._asked, self._left = now, _free_on_device(self._cupy) + pool_bytes
        return max(0, self._left - pool_bytes)

    def forget(self) -> None:
        """Query the driver next time."""
        self._asked = float("-inf")


class CupyPool:
    """A memory pool of CuPy, its default one or the user's."""

    def __init__(self, cupy: Any, pool: Any) -> None:
        self._pool = pool
        self._driver = DriverMemory(cupy)

    @property
    def limit(self) -> int | None:
        """The current limit, which the environment may have set."""
        return int(self._pool.get_limit()) or None

    def free_bytes(self) -> int:
        """See `Pool.free_bytes`."""
        free = self._driver.free_bytes(int(self._pool.total_bytes())) + int(self._pool.free_bytes())
        limit = self.limit
        return free if limit is None else max(0, min(free, limit - int(self._pool.used_bytes())))

    def release(self) -> None:
        """See `Pool.release`."""
        self._pool.free_all_blocks()
        self._driver.forget()

    def restrict(self, limit: int) -> None:
        """See `Pool.restrict`; possible at any time."""
        self._pool.set_limit(size=limit)


class RmmPool:
    """A pool of RMM that both CuPy and cuDF allocate from.

    A limit is allocated in one piece at once, so the pool is never fragmented. Without one the pool starts with half of
    the free memory, which is RMM's default, and grows.
    """

    def __init__(self, cupy: Any, rmm: Any, limit: int | None) -> None:
        self.limit = None if limit is None else limit // _ALIGNMENT * _ALIGNMENT
        self._driver = DriverMemory(cupy)
        try:
            self._pool = rmm.mr.PoolMemoryResource(rmm.mr.CudaMemoryResource(), self.limit, self.limit)
        except MemoryError:
            request = "the pool" if limit is None else f"gpu_memory of {format_bytes(limit)}"
            raise UsageError.with_parts(
                f"{request} cannot be allocated: {format_bytes(_free_on_device(cupy))} of the GPU's memory are free",
                subject="gpu_memory",
                got=limit,
                remedy="Request less, or end other processes that use this GPU.",
            ) from None
        self._counted = rmm.mr.StatisticsResourceAdaptor(self._pool)
        rmm.mr.set_current_device_resource(self._counted)

    def free_bytes(self) -> int:
        """See `Pool.free_bytes`."""
        pool_bytes = int(self._pool.pool_size())
        unused = pool_bytes - int(self._counted.allocation_counts.current_bytes)
        return unused if self.limit is not None else unused + self._driver.free_bytes(pool_bytes)

    def release(self) -> None:
        """See `Pool.release`; RMM's pools keep their memory."""
        self._driver.forget()

    def restrict(self, limit: int) -> None:
        """See `Pool.restrict`."""
        if limit // _ALIGNMENT * _ALIGNMENT != self.limit:
            now = "no limit" if self.limit is None else f"a limit of {format_bytes(self.limit)}"
            raise UsageError.with_parts(
                f"gpu_memory of {format_bytes(limit)} is set too late: RMM's pool was created with {now}",
                subject="gpu_memory",
                got=limit,
                remedy="Pass the same gpu_memory to the first program of the process, or none to later ones.",
            )


class ForeignPool:
    """Memory from an allocator that the user has set; its size is unknown."""

    limit: int | None = None

    def __init__(self, cupy: Any) -> None:
        self._driver = DriverMemory(cupy)

    def free_bytes(self) -> int:
        """See `Pool.free_bytes`."""
        return self._driver.free_bytes(0)

    def release(self) -> None:
        """See `Pool.release`; left to the allocator."""
        self._driver.forget()

    def restrict(self, limit: int) -> None:
        """See `Pool.restrict`."""
        raise UsageError.with_parts(
            f"gpu_memory of {format_bytes(limit)} cannot be set: the process has set its own allocator for CuPy",
            subject="gpu_memory",
            got=limit,
            remedy="Limit that allocator, or omit gpu_memory.",
        )


def make_pool(cupy: Any, gpu_memory: float | str | None) -> Pool:
    """Return the pool of the current device, with a limit if `gpu_memory` is given."""
    limit = None if gpu_memory is None else limit_in_bytes(cupy, gpu_memory)
    default = cupy.get_default_memory_pool()
    allocator = cupy.cuda.get_allocator()
    if allocator != default.malloc:
        owner = getattr(allocator, "__self__", None)
        pool: Pool = CupyPool(cupy, owner) if isinstance(owner, cupy.cuda.MemoryPool) else ForeignPool(cupy)
        _LOGGER.info("backend cuda: CuPy's allocator has been set already, and stays: %r", allocator)
    elif importlib.util.find_spec("rmm") is None:
        pool = CupyPool(cupy, default)
    else:
        pool = _share_with_cudf(cupy, limit)
    if limit is not None:
        pool.restrict(limit)
    return pool


def limit_in_bytes(cupy: Any, gpu_memory: float | str) -> int:
    """Return the option `gpu_memory` as bytes of the current device."""
    return part_of(int(cupy.cuda.runtime.memGetInfo()[1]), gpu_memory, "gpu_memory")


def _share_with_cudf(cupy: Any, limit: int | None) -> Pool:
    """Make RMM's pool CuPy's allocator; a resource that the user has set is used instead."""
    rmm = importlib.import_module("rmm")
    present = rmm.mr.get_current_device_resource()
    if type(present) is rmm.mr.CudaMemoryResource:
        pool: Pool = RmmPool(cupy, rmm, limit)
    else:
        _LOGGER.info("backend cuda: RMM's memory resource has been set already, and stays: %r", present)
        pool = ForeignPool(cupy)
    cupy.cuda.set_allocator(importlib.import_module("rmm.allocators.cupy").rmm_cupy_allocator)
    return pool


def _free_on_device(cupy: Any) -> int:
    return int(cupy.cuda.runtime.memGetInfo()[0])
