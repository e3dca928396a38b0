"""Whether there is a GPU to compute on, and if not, what was found instead."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from gpu_wcoj.errors import BackendUnavailableError

OLDEST_CUPY = (14, 1, 1)
"""Before 14.1, a sort that finds no memory for its workspace answers wrongly, and `repeat` takes no array."""
_INSTALL = (
    "  Install the GPU's libraries with pip install 'gpu_wcoj[gpu]' (CUDA 13, NVIDIA driver 580 or newer) or\n"
    "  'gpu_wcoj[gpu-cuda12]' (CUDA 12, driver 525 or newer), or use backend='cpu'."
)
_OLDEST_CAPABILITY = {12: 70, 13: 75}
"""By version of CUDA: the kernels need Volta (7.0), and CUDA 13 has nothing below Turing (7.5)."""


def devices_of_driver() -> int:
    """How many GPUs NVIDIA's driver shows; 0 without a driver. Loads no CuPy."""
    name = {"linux": "libcuda.so.1", "win32": "nvcuda.dll"}.get(sys.platform)
    if name is None:
        return 0
    try:
        driver = ctypes.CDLL(name)
    except OSError:
        return 0
    count = ctypes.c_int(0)
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return 0
    return count.value


def has_cupy() -> bool:
    """Whether CuPy is installed; it is not loaded."""
    return importlib.util.find_spec("cupy") is not None


def import_cupy() -> Any:
    """CuPy, once it has shown a device that it can compute on.

    Raises
    ------
    BackendUnavailableError
        If it is not installed, too old, or finds no driver, no device, or no NVRTC: with all that was found.
    """
    if not has_cupy():
        raise _unavailable("CuPy is not installed", _INSTALL)
    try:
        import cupy
    except Exception as error:
        raise _unavailable(f"CuPy {_installed()} cannot be loaded: {_first_line(error)}", _INSTALL) from error
    if not hasattr(cupy, "__version__") or _numbers(cupy.__version__) < OLDEST_CUPY:
        oldest = ".".join(map(str, OLDEST_CUPY))
        found = getattr(cupy, "__version__", "of unknown version")
        raise _unavailable(f"CuPy {found} is too old, {oldest} is the oldest that does", _INSTALL)
    runtime = cupy.cuda.runtime
    built_for = int(runtime.runtimeGetVersion())
    driver = int(runtime.driverGetVersion())
    found = f"CuPy {cupy.__version__} for CUDA {shown_version(built_for)}"
    if driver == 0:
        raise _unavailable(f"there is no NVIDIA driver ({found})", "  " + _DRIVER)
    found += f", a driver for CUDA {shown_version(driver)}"
    try:
        count = int(runtime.getDeviceCount())
    except runtime.CUDARuntimeError as error:
        if driver // 1000 < built_for // 1000:
            hint = "  Update the driver, or install 'gpu_wcoj[gpu-cuda12]' for a driver of CUDA 12."
        else:
            hint = "  " + _visible() + _DRIVER
        raise _unavailable(f"CuPy found no device, {_first_line(error)} ({found})", hint) from error
    if count == 0:
        raise _unavailable(f"CuPy found no device ({found})", "  " + _visible() + _DRIVER)
    capability = str(cupy.cuda.Device().compute_capability)
    oldest_capability = _OLDEST_CAPABILITY.get(built_for // 1000, 75)
    if int(capability) < oldest_capability:
        raise _unavailable(
            f"the GPU has compute capability {capability[:-1]}.{capability[-1]}, and"
            f" {oldest_capability // 10}.{oldest_capability % 10} is the oldest that does ({found})",
            "  Use backend='cpu', or another GPU (CUDA_VISIBLE_DEVICES chooses).",
        )
    try:
        cupy.cuda.nvrtc.getVersion()
    except Exception as error:
        raise _unavailable(
            f"NVRTC, which compiles the kernels, cannot be loaded: {_first_line(error)} ({found})", _INSTALL
        ) from error
    return cupy


def description(cupy: Any) -> str:
    """The current device's name and what its driver is for, for people."""
    runtime = cupy.cuda.runtime
    name = runtime.getDeviceProperties(int(runtime.getDevice()))["name"].decode()
    return f"{name}, driver for CUDA {shown_version(int(runtime.driverGetVersion()))}"


_DRIVER = "Use backend='cpu', or run where an NVIDIA GPU and its driver are (nvidia-smi lists them)."


def _unavailable(what: str, hint: str) -> BackendUnavailableError:
    return BackendUnavailableError(f"backend 'cuda' was requested, but {what}.\n{hint}")


def _visible() -> str:
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    return "" if chosen is None else f"CUDA_VISIBLE_DEVICES is '{chosen}'. "


def _installed() -> str:
    for name in ("cupy-cuda13x", "cupy-cuda12x", "cupy"):
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return "(of unknown version)"


def _numbers(text: str) -> tuple[int, ...]:
    digits = []
    for part in text.split(".")[:3]:
        leading = part[: len(part) - len(part.lstrip("0123456789"))]
        digits.append(int(leading or 0))
    return tuple(digits)


def shown_version(cuda: int) -> str:
    """A version of CUDA as people write it.

    Examples
    --------
    >>> shown_version(13020)
    '13.2'
    """
    return f"{cuda // 1000}.{cuda % 1000 // 10}"


def _first_line(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip(" =")), type(error).__name__)
