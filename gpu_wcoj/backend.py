"""Where arrays live and kernels run; the one file that chooses."""

from __future__ import annotations

import functools
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from gpu_wcoj.errors import BackendUnavailableError, UsageError

if TYPE_CHECKING:
    from gpu_wcoj.kernels.cuda.device import Device
    from gpu_wcoj.kernels.protocol import Kernels

BackendName = Literal["auto", "cpu", "cuda"]

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
        """The array where this backend computes; copied only if it lives elsewhere."""
        if self.device is not None:
            return self.device.asarray(array)
        return array if isinstance(array, np.ndarray) else array.get()

    def to_host(self, array: Any) -> npt.NDArray[Any]:
        """The array as NumPy's; waits for the device if it lives on one."""
        return array if isinstance(array, np.ndarray) else array.get()


@functools.cache
def cpu_backend(compiled: bool | None = None) -> Backend:
    """The CPU's backend: numba where it is installed, NumPy alone elsewhere or if `compiled` is False."""
    from cpu_fallback import load_kernels

    return Backend("cpu", np, load_kernels(compiled))


def select_backend(name: BackendName | Backend = "auto") -> Backend:
    """The backend of that name.

    Raises
    ------
    BackendUnavailableError
        For ``"cuda"``: this version has no CUDA kernels.
    UsageError
        For any other name.

    Examples
    --------
    >>> select_backend("cpu").name
    'cpu'
    """
    if isinstance(name, Backend):
        return name
    if name in ("auto", "cpu"):
        return cpu_backend()
    if name == "cuda":
        raise BackendUnavailableError(
            "backend 'cuda' was requested, but this version of gpu_wcoj has CPU kernels only.\n"
            "  Use backend='cpu' or backend='auto'."
        )
    raise UsageError(f"backend {name!r} is not known. Allowed: 'auto', 'cpu', 'cuda'.")
