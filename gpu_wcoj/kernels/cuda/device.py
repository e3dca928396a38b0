"""A device: its arrays by CuPy, its memory pool, and the launch of a kernel by name.

`CupyDevice` runs on a GPU. Any class with these methods can replace it: the launchers and the sources are the same.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import logging
import re
import time
from collections.abc import Sequence
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, Protocol

import cupy
import numpy as np
import numpy.typing as npt

from gpu_wcoj.errors import BackendUnavailableError, UsageError
from gpu_wcoj.kernels.cuda.detect import describe_device
from gpu_wcoj.units import format_bytes, part_of


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


# A table's columns as kernel arguments, and numbers of blocks.


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


# The CUDA C++ sources, each as one text with the package's headers inserted.
#
# A compiled source is cached by its text, so its headers have to be part of it.


_INCLUDE = re.compile(r'^[ \t]*#include "([\w]+\.cuh)"[^\n]*$', re.MULTILINE)

SOURCES = ("rows", "sums", "tries", "choosing", "merge", "plan", "extend", "alone")
"""Names of the source files with kernels, without suffix."""


@functools.cache
def source_text(name: str, folder: Traversable | None = None) -> str:
    """Return the file ``name.cu`` with each of the package's headers inserted once.

    `folder` is the folder of the file if it is not in the package.

    Examples
    --------
    >>> '#include "' in source_text("rows")
    False
    """
    place = files("gpu_wcoj.kernels.cuda") if folder is None else folder
    seen: set[str] = set()

    def expand(file_name: str) -> str:
        text = (place / file_name).read_text(encoding="utf-8")

        def put(match: re.Match[str]) -> str:
            header = match[1]
            if header in seen:
                return ""
            seen.add(header)
            line = text.count("\n", 0, match.start()) + 2
            return f'#line 1 "{header}"\n{expand(header)}\n#line {line} "{file_name}"'

        return _INCLUDE.sub(put, text)

    return f'#line 1 "{name}.cu"\n{expand(f"{name}.cu")}'


# Detection of a usable GPU, with the reasons if there is none.


# A device's memory pool: RMM's if it is installed, so that cuDF shares it, else CuPy's.
#
# An allocator that the user has set is not replaced.


_LOGGER = logging.getLogger("gpu_wcoj")
_ALIGNMENT = 256
"""Bytes of which the size of RMM's pools is a multiple."""

QUERY_INTERVAL = 1.0
"""Seconds between two queries of the driver's free memory.

Each takes a lock of the driver, and a tick should not wait for it."""


class Pool(Protocol):
    """A source of device memory.

    Attributes
    ----------
    out_of_memory
        The exception of a failed allocation.
    """

    @property
    def out_of_memory(self) -> type[BaseException]:
        """See the class."""
        ...

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
        self.out_of_memory: type[BaseException] = cupy.cuda.memory.OutOfMemoryError
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

    out_of_memory: type[BaseException] = MemoryError

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
    out_of_memory: type[BaseException] = MemoryError

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


# A GPU as a device: arrays of CuPy, and kernels that NVRTC compiles at their first launch.
#
# CuPy keeps compiled code in ``~/.cupy/kernel_cache`` (`CUPY_CACHE_DIR`), by a hash of the architecture, the options,
# NVRTC's version and the source; `source_text` inserts the headers of this package into the source, so that an edit of
# any of them changes the hash.


OPTIONS = ("-std=c++17",)
"""Compiler options of NVRTC."""
_NULL = np.uint64(0)
"""The null pointer as an argument, by value; not every version of CuPy accepts None for it."""


class CupyDevice:
    """CuPy's current device; see `Device`.

    Work is done in CuPy's current stream. After a change of the stream, the new one first waits for the work of the old
    one, so that a tick under ``with cupy.cuda.Stream(non_blocking=True)`` finds the state complete.

    Attributes
    ----------
    index
        The device's index, as in CuPy.
    description
        Name and driver version, for messages.
    pool
        The memory pool.

    Notes
    -----
    Transfers are CuPy's: uploads pass through pinned memory, downloads are copied into pageable memory. Allocating a
    pinned buffer costs more than it saves unless it is reused.
    """

    def __init__(self, pool: Pool) -> None:
        self.xp: Any = cupy
        self.pool = pool
        self.index = int(cupy.cuda.runtime.getDevice())
        self.description = describe_device(cupy)
        self.multiprocessors = int(cupy.cuda.Device(self.index).attributes["MultiProcessorCount"])
        self.out_of_memory: type[BaseException] = pool.out_of_memory
        self._functions: dict[tuple[str, str], Any] = {}
        self._stream = cupy.cuda.get_current_stream()

    def __repr__(self) -> str:
        return f"CupyDevice({self.index}: {self.description})"

    def launch(self, source: str, kernel: str, n_blocks: int, block: int, arguments: Sequence[Any]) -> None:
        """See `Device.launch`."""
        if n_blocks <= 0:
            return
        self._enter()
        function = self._functions.get((source, kernel))
        if function is None:
            function = self._functions[source, kernel] = self._compiled(source, kernel)
        function((n_blocks,), (block,), tuple(map(_argument, arguments)))

    def _compiled(self, source: str, kernel: str) -> Any:
        """Return the kernel, from a module that CuPy caches for the process and the device."""
        module = cupy.RawModule(code=source_text(source), options=OPTIONS, backend="nvrtc")
        try:
            return module.get_function(kernel)
        except (cupy.cuda.compiler.CompileException, RuntimeError, OSError) as error:
            raise BackendUnavailableError.with_parts(
                f"backend 'cuda': the kernel '{kernel}' of {source}.cu cannot be compiled or loaded"
                f" ({type(error).__name__})",
                subject="backend",
                got="cuda",
                remedy=str(error),
            ) from error

    def asarray(self, array: Any) -> Any:
        """See `Device.asarray`.

        Arrays of other libraries on this device are shared.
        """
        if not isinstance(array, cupy.ndarray):
            self._enter()
            array = cupy.asarray(array)
        else:
            self._follow_stream()
        if array.device.id != self.index:
            raise UsageError.mismatch(
                "an array",
                "is on a GPU other than the engine's",
                f"GPU {array.device.id}",
                f"GPU {self.index}",
                "Copy it to that GPU first; a program stays on the GPU that was current when it was created.",
            )
        return array

    def to_host(self, array: Any) -> npt.NDArray[np.generic]:
        """See `Device.to_host`."""
        self._follow_stream()
        host: npt.NDArray[np.generic] = array if isinstance(array, np.ndarray) else array.get()
        return host

    def free_bytes(self) -> int:
        """See `Device.free_bytes`."""
        return self.pool.free_bytes()

    def release(self) -> None:
        """See `Device.release`."""
        self.pool.release()

    def _follow_stream(self) -> None:
        """Make the current stream wait for the stream of the last work, if they differ."""
        stream = cupy.cuda.get_current_stream()
        if stream.ptr != self._stream.ptr:
            stream.wait_event(self._stream.record())
            self._stream = stream

    def _enter(self) -> None:
        current = cupy.cuda.runtime.getDevice()
        if current != self.index:
            raise UsageError.mismatch(
                "CuPy's current device",
                "differs from the engine's",
                f"GPU {current}",
                f"GPU {self.index}",
                f"Call it within `with cupy.cuda.Device({self.index})`; every new thread starts with GPU 0.",
            )
        self._follow_stream()


def _argument(value: Any) -> Any:
    """Convert an argument for CuPy: arrays are passed as pointers, Python integers as int64."""
    if isinstance(value, cupy.ndarray) or type(value) is int:
        return value
    return _NULL if value is None else int(value)
