"""Detection of a usable GPU, with the reasons if there is none."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from gpu_wcoj.errors import BackendUnavailableError

MIN_CUPY = (14, 1, 1)
"""The oldest version of CuPy that is supported.

Before 14.1, a sort without memory for its workspace returns wrong results, and `repeat` accepts no array."""
_INSTALL = (
    "Install the GPU's libraries with pip install 'gpu_wcoj[gpu]' (CUDA 13, NVIDIA driver 580 or newer) or\n"
    "  'gpu_wcoj[gpu-cuda12]' (CUDA 12, driver 525 or newer), or use backend='cpu'."
)
_MIN_CAPABILITY = {12: 70, 13: 75}
"""Least compute capability, times 10, by CUDA version.

The kernels need Volta (7.0), and CUDA 13 supports nothing below Turing (7.5)."""


def count_driver_devices() -> int:
    """Return the number of GPUs that NVIDIA's driver shows; 0 without a driver. Loads no CuPy."""
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
    """Return whether CuPy is installed, without loading it."""
    return importlib.util.find_spec("cupy") is not None


def import_cupy() -> Any:
    """Import CuPy and check that it can use a device.

    Raises
    ------
    BackendUnavailableError
        If CuPy is not installed or too old, or finds no driver, no device, or no NVRTC; the message has the versions.
    """
    if not has_cupy():
        raise _unavailable("CuPy is not installed", _INSTALL)
    try:
        import cupy
    except Exception as error:
        raise _unavailable(f"CuPy {_installed_version()} cannot be loaded: {_first_line(error)}", _INSTALL) from error
    if not hasattr(cupy, "__version__") or _parse_version(cupy.__version__) < MIN_CUPY:
        oldest = ".".join(map(str, MIN_CUPY))
        installed = getattr(cupy, "__version__", "of unknown version")
        raise _unavailable(f"CuPy is too old: got {installed}, expected {oldest} or newer", _INSTALL)
    runtime = cupy.cuda.runtime
    built_for = int(runtime.runtimeGetVersion())
    driver = int(runtime.driverGetVersion())
    installed = f"CuPy {cupy.__version__} for CUDA {format_version(built_for)}"
    if driver == 0:
        raise _unavailable(f"the NVIDIA driver is missing ({installed})", _DRIVER)
    installed += f", a driver for CUDA {format_version(driver)}"
    try:
        count = int(runtime.getDeviceCount())
    except runtime.CUDARuntimeError as error:
        if driver // 1000 < built_for // 1000:
            hint = "Update the driver, or install 'gpu_wcoj[gpu-cuda12]' for a driver of CUDA 12."
        else:
            hint = _describe_visible() + _DRIVER
        raise _unavailable(f"CuPy found no device, {_first_line(error)} ({installed})", hint) from error
    if count == 0:
        raise _unavailable(f"CuPy found no device ({installed})", _describe_visible() + _DRIVER)
    capability = str(cupy.cuda.Device().compute_capability)
    oldest_capability = _MIN_CAPABILITY.get(built_for // 1000, 75)
    if int(capability) < oldest_capability:
        raise _unavailable(
            f"the GPU's compute capability is too low: got {capability[:-1]}.{capability[-1]},"
            f" expected {oldest_capability // 10}.{oldest_capability % 10} or higher ({installed})",
            "Use backend='cpu', or select another GPU with CUDA_VISIBLE_DEVICES.",
        )
    try:
        cupy.cuda.nvrtc.getVersion()
    except Exception as error:
        raise _unavailable(
            f"NVRTC, which compiles the kernels, cannot be loaded: {_first_line(error)} ({installed})", _INSTALL
        ) from error
    return cupy


def describe_device(cupy: Any) -> str:
    """Return the current device's name and its driver's CUDA version, for messages."""
    runtime = cupy.cuda.runtime
    name = runtime.getDeviceProperties(int(runtime.getDevice()))["name"].decode()
    return f"{name}, driver for CUDA {format_version(int(runtime.driverGetVersion()))}"


_DRIVER = "Use backend='cpu', or run where an NVIDIA GPU and its driver are (nvidia-smi lists them)."


def _unavailable(problem: str, remedy: str) -> BackendUnavailableError:
    return BackendUnavailableError.with_parts(
        f"backend 'cuda' was requested, but {problem}", subject="backend", got="cuda", remedy=remedy
    )


def _describe_visible() -> str:
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    return "" if chosen is None else f"CUDA_VISIBLE_DEVICES is '{chosen}'. "


def _installed_version() -> str:
    for name in ("cupy-cuda13x", "cupy-cuda12x", "cupy"):
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return "(of unknown version)"


def _parse_version(text: str) -> tuple[int, ...]:
    digits = []
    for part in text.split(".")[:3]:
        leading = part[: len(part) - len(part.lstrip("0123456789"))]
        digits.append(int(leading or 0))
    return tuple(digits)


def format_version(cuda: int) -> str:
    """Format a CUDA version.

    Examples
    --------
    >>> format_version(13020)
    '13.2'
    """
    return f"{cuda // 1000}.{cuda % 1000 // 10}"


def _first_line(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip(" =")), type(error).__name__)
