"""A GPU as a device: arrays of CuPy, and kernels that NVRTC compiles at their first launch.

CuPy keeps compiled code in ``~/.cupy/kernel_cache`` (`CUPY_CACHE_DIR`), by a hash of the architecture, the options,
NVRTC's version and the source; `source_text` inserts the headers of this package into the source, so that an edit of
any of them changes the hash.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cupy
import numpy as np
import numpy.typing as npt

from gpu_wcoj.errors import BackendUnavailableError, UsageError
from gpu_wcoj.kernels.cuda.finding import describe_device
from gpu_wcoj.kernels.cuda.memory import Pool
from gpu_wcoj.kernels.cuda.sources import source_text

OPTIONS = ("-std=c++17",)
"""Compiler options of NVRTC."""
_NULL = np.uint64(0)
"""The null pointer as an argument, by value; not every version of CuPy accepts None for it."""


class CupyDevice:
    """CuPy's current device; see `gpu_wcoj.kernels.cuda.device.Device`.

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
        # CuPy's error is a subclass; RMM raises MemoryError itself.
        self.out_of_memory: type[BaseException] = MemoryError
        self._functions: dict[tuple[str, str], Any] = {}
        self._stream = cupy.cuda.get_current_stream()

    def __repr__(self) -> str:
        return f"CupyDevice({self.index}: {self.description})"

    def launch(self, source: str, kernel: str, n_blocks: int, block: int, arguments: Sequence[Any]) -> None:
        """See `gpu_wcoj.kernels.cuda.device.Device.launch`."""
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
        """See `gpu_wcoj.kernels.cuda.device.Device.asarray`.

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
        """See `gpu_wcoj.kernels.cuda.device.Device.to_host`."""
        self._follow_stream()
        host: npt.NDArray[np.generic] = array if isinstance(array, np.ndarray) else array.get()
        return host

    def free_bytes(self) -> int:
        """See `gpu_wcoj.kernels.cuda.device.Device.free_bytes`."""
        return self.pool.free_bytes()

    def release(self) -> None:
        """See `gpu_wcoj.kernels.cuda.device.Device.release`."""
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
