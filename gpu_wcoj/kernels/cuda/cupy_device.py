"""The device that is a GPU: arrays of CuPy, kernels compiled by NVRTC when they are first launched.

CuPy keeps compiled code in ``~/.cupy/kernel_cache`` (`CUPY_CACHE_DIR`), by a hash of the architecture, the options,
NVRTC's version and the source; `source_text` puts our headers into the source, so an edit of any of them shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cupy
import numpy as np
import numpy.typing as npt

from gpu_wcoj.errors import BackendUnavailableError, UsageError
from gpu_wcoj.kernels.cuda.finding import description
from gpu_wcoj.kernels.cuda.memory import Pool
from gpu_wcoj.kernels.cuda.sources import source_text

OPTIONS = ("-std=c++17",)
_NULL = np.uint64(0)
"""The null pointer as an argument, by value; not every version of CuPy takes None for it."""


class CupyDevice:
    """CuPy's current device; see `gpu_wcoj.kernels.cuda.device.Device`.

    Work is done in CuPy's current stream. When that is another one than before, it first waits for what was begun in
    the one before, so that a tick under ``with cupy.cuda.Stream(non_blocking=True)`` finds the state complete.

    Attributes
    ----------
    index
        The device's number, as CuPy counts.
    description
        Its name and what its driver is for, for people.
    pool
        Where its memory comes from.

    Notes
    -----
    Transfers are CuPy's: what goes to the device passes through pinned memory, what comes back is copied into
    pageable memory. A pinned landing place costs more to allocate than it saves unless it is used again.
    """

    def __init__(self, pool: Pool) -> None:
        self.xp: Any = cupy
        self.pool = pool
        self.index = int(cupy.cuda.runtime.getDevice())
        self.description = description(cupy)
        self.multiprocessors = int(cupy.cuda.Device(self.index).attributes["MultiProcessorCount"])
        # CuPy's own error is one of these too; RMM raises the plain one.
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
        """The kernel, out of a module that CuPy holds once for the process and the device."""
        module = cupy.RawModule(code=source_text(source), options=OPTIONS, backend="nvrtc")
        try:
            return module.get_function(kernel)
        except (cupy.cuda.compiler.CompileException, RuntimeError, OSError) as error:
            raise BackendUnavailableError(
                f"backend 'cuda': the kernel '{kernel}' of {source}.cu cannot be compiled or loaded"
                f" ({type(error).__name__}).\n  {error}"
            ) from error

    def asarray(self, array: Any) -> Any:
        """See `gpu_wcoj.kernels.cuda.device.Device.asarray`; arrays of other libraries on this device are shared."""
        if not isinstance(array, cupy.ndarray):
            self._enter()
            array = cupy.asarray(array)
        else:
            self._follow_stream()
        if array.device.id != self.index:
            raise UsageError(
                f"an array lives on GPU {array.device.id}, and the engine computes on GPU {self.index}.\n"
                "  Copy it over first; a program stays on the GPU that was current when it was made."
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
        """Let the current stream wait for the one that the last work was done in, if that is another one."""
        stream = cupy.cuda.get_current_stream()
        if stream.ptr != self._stream.ptr:
            stream.wait_event(self._stream.record())
            self._stream = stream

    def _enter(self) -> None:
        current = cupy.cuda.runtime.getDevice()
        if current != self.index:
            raise UsageError(
                f"GPU {current} is CuPy's current device, and the engine computes on GPU {self.index}.\n"
                f"  Call it within `with cupy.cuda.Device({self.index})`; every new thread begins with GPU 0."
            )
        self._follow_stream()


def _argument(value: Any) -> Any:
    """An argument as CuPy passes it: arrays as pointers, Python's integers as int64."""
    if isinstance(value, cupy.ndarray) or type(value) is int:
        return value
    return _NULL if value is None else int(value)
