"""The choice of the backend: the place of arrays and kernels. No other file chooses."""

from __future__ import annotations

import functools
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from gpu_wcoj.errors import BackendUnavailableError, UsageError, listed
from gpu_wcoj.kernels.protocol import Kernels
from gpu_wcoj.units import part_of

if TYPE_CHECKING:
    from gpu_wcoj.kernels.cuda.device import Device

BackendName = Literal["auto", "cpu", "cuda"]

BACKENDS: tuple[BackendName, ...] = get_args(BackendName)
"""The names of backends."""

_LOGGER = logging.getLogger("gpu_wcoj")


@dataclass(frozen=True, eq=False)
class Backend:
    """A place to compute: its name, its array module and its kernels.

    Attributes
    ----------
    device
        The device of `kernels`; None on the CPU.
    """

    name: str
    xp: Any
    kernels: Kernels
    device: Device | None = None

    def __repr__(self) -> str:
        return f"Backend({self.name!r}, {self.kernels.name})"

    def asarray(self, array: Any) -> Any:
        """Return the array in this backend's memory; it is copied only if it lives elsewhere."""
        if self.device is not None:
            return self.device.asarray(array)
        return array if isinstance(array, np.ndarray) else array.get()

    def to_host(self, array: Any) -> npt.NDArray[Any]:
        """Return the array as a NumPy array; waits for the device if it lives on one."""
        if self.device is not None:
            return self.device.to_host(array)
        return array if isinstance(array, np.ndarray) else array.get()


@functools.cache
def cpu_backend(compiled: bool | None = None) -> Backend:
    """Return the CPU backend: numba if installed and `compiled` is not False, else NumPy."""
    from cpu_fallback import load_kernels
    from cpu_fallback.tries import keep_freed

    keep_freed()
    return Backend("cpu", np, load_kernels(compiled))


@functools.cache
def _choose_automatically() -> BackendName:
    """Return ``"cuda"`` if it works here, else ``"cpu"``; log the choice and the reason."""
    from gpu_wcoj.kernels.cuda import detect

    if detect.count_driver_devices() == 0:
        _LOGGER.info("backend auto: the CPU, as there is no NVIDIA GPU")
        return "cpu"
    try:
        cupy = detect.import_cupy()
    except BackendUnavailableError as error:
        _LOGGER.warning("backend auto: the CPU, although there is an NVIDIA GPU. %s", " ".join(str(error).split()))
        return "cpu"
    _LOGGER.info("backend auto: the GPU, %s", detect.describe_device(cupy))
    return "cuda"


_cuda_backends: dict[int, Backend] = {}
"""The backend of each GPU that a program has used, by device index."""


def _cuda_backend(gpu_memory: float | str | None) -> Backend:
    """Return the backend of CuPy's current device; all programs of the process share it."""
    from gpu_wcoj.kernels.cuda.detect import import_cupy

    cupy = import_cupy()
    from gpu_wcoj.kernels.cuda.device import CupyDevice, limit_in_bytes, make_pool
    from gpu_wcoj.kernels.cuda.kernels import CudaKernels

    index = int(cupy.cuda.runtime.getDevice())
    if index not in _cuda_backends:
        device = CupyDevice(make_pool(cupy, gpu_memory))
        _cuda_backends[index] = Backend("cuda", device.xp, CudaKernels(device), device)
    elif gpu_memory is not None:
        present = _cuda_backends[index].device
        assert isinstance(present, CupyDevice)
        present.pool.restrict(limit_in_bytes(cupy, gpu_memory))
    return _cuda_backends[index]


def validate_backend(option: str, value: object) -> BackendName | Backend:
    """Return an option that must be a backend or the name of one.

    Raises
    ------
    UsageError
        If it is anything else.
    """
    if isinstance(value, Backend):
        return value
    for name in BACKENDS:
        if name == value:
            return name
    raise UsageError.invalid_value(option, value, f"one of {listed(BACKENDS)}")


def select_backend(name: BackendName | Backend = "auto", gpu_memory: float | str | None = None) -> Backend:
    """Return the backend of a name; ``"auto"`` is the GPU if there is one, else the CPU.

    Parameters
    ----------
    name
        ``"auto"``, ``"cpu"``, ``"cuda"``, or a backend.
    gpu_memory
        Maximum memory of the GPU for the process, in bytes (8000000000, ``"8GB"``) or as a share (0.5, ``"50%"``);
        None for all of it. Ignored on the CPU.

    Raises
    ------
    BackendUnavailableError
        If ``"cuda"`` is requested and does not work here; the message says what was found.
    UsageError
        For any other name, or an invalid amount of memory.

    Examples
    --------
    >>> select_backend("cpu").name
    'cpu'
    """
    if gpu_memory is not None:
        part_of(2**62, gpu_memory, "gpu_memory")  # validates the amount also on machines without a GPU
    chosen = validate_backend("backend", name)
    if isinstance(chosen, Backend):
        return chosen
    if chosen == "auto":
        chosen = _choose_automatically()
    return cpu_backend() if chosen == "cpu" else _cuda_backend(gpu_memory)
