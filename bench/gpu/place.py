"""Where is measured: a backend with a device, its clock, its memory, and what is to be known of it."""

from __future__ import annotations

import gc
import os
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from bench.engine.machine import commit
from gpu_wcoj.backend import Backend, select_backend

LIBRARIES = ("numpy", "cupy-cuda13x", "cupy-cuda12x", "numba", "pyarrow", "cudf-cu13", "rmm-cu13", "pyxlog")


@dataclass(frozen=True)
class Timing:
    """Seconds of every repetition, the warm-up left out, and what the last one returned."""

    seconds: tuple[float, ...]
    result: Any

    @property
    def median(self) -> float:
        """The figure that is compared."""
        return statistics.median(self.seconds)

    def record(self) -> dict[str, object]:
        """The figure and its spread, for a report."""
        return {
            "seconds": self.median,
            "fastest": min(self.seconds),
            "slowest": max(self.seconds),
            "repetitions": len(self.seconds),
        }


@dataclass
class Place:
    """One device with its array module, and how time and memory are read there.

    Attributes
    ----------
    deadline
        `time.monotonic` at which the part has to be done; what has not begun by then is left out and said so.
    """

    backend: Backend
    deadline: float = field(default=float("inf"))

    @property
    def xp(self) -> Any:
        """The array module."""
        return self.backend.xp

    @property
    def is_cuda(self) -> bool:
        """Whether this is a GPU, and no stand-in for one."""
        return hasattr(self.xp, "cuda")

    @property
    def time_left(self) -> float:
        """Seconds to the deadline."""
        return self.deadline - time.monotonic()

    def synchronize(self) -> None:
        """Wait until the device has done all that it was asked for."""
        if self.is_cuda:
            self.xp.cuda.Device().synchronize()

    def wall(self, run: Callable[[], Any]) -> tuple[float, Any]:
        """Seconds by the wall clock of one call, from a device at rest to a device at rest, and what it returned."""
        self.synchronize()
        start = time.perf_counter()
        result = run()
        self.synchronize()
        return time.perf_counter() - start, result

    def timed(self, run: Callable[[], Any], repetitions: int = 7, warm_up: int = 2) -> Timing:
        """Repetitions of a call, by the device's events where there are some, else by the wall clock."""
        result = None
        for _ in range(warm_up):
            result = run()
        seconds = []
        for _ in range(repetitions):
            result = None
            taken, result = self._by_events(run) if self.is_cuda else self.wall(run)
            seconds.append(taken)
        return Timing(tuple(seconds), result)

    def _by_events(self, run: Callable[[], Any]) -> tuple[float, Any]:
        cuda = self.xp.cuda
        begin, end = cuda.Event(), cuda.Event()
        begin.record()
        result = run()
        end.record()
        end.synchronize()
        return cuda.get_elapsed_time(begin, end) / 1e3, result

    # memory

    def release(self) -> None:
        """Give back all memory that nothing uses."""
        gc.collect()
        if self.backend.device is not None:
            self.backend.device.release()

    def pool_bytes(self) -> tuple[int, int] | None:
        """Bytes in use, and bytes held of the device, in CuPy's pool; None where there is no such pool."""
        if type(getattr(self.backend.device, "pool", None)).__name__ != "CupyPool":
            return None
        pool = self.xp.get_default_memory_pool()
        return pool.used_bytes(), pool.total_bytes()

    def peak_bytes(self, run: Callable[[], Any]) -> tuple[dict[str, int] | None, Any]:
        """The most bytes in use while `run` ran, counted at every allocation, and what it returned."""
        self.release()
        at_start = self.pool_bytes()
        if at_start is None:
            return None, run()
        watch = _watch(self.xp, at_start[0])
        with watch:
            result = run()
            self.synchronize()
        at_end = self.pool_bytes() or (0, 0)
        return {"before": at_start[0], "peak": watch.peak, "after": at_end[0], "held": at_end[1]}, result

    # who is measured

    def described(self) -> dict[str, object]:
        """Date, commit, device, driver, versions."""
        found = {**host_described(), "backend": repr(self.backend)}
        if not self.is_cuda:
            return {**found, "device": "none: a stand-in on the host"}
        return {**found, **device_of(self.xp)}


def host_described() -> dict[str, object]:
    """Date, commit, processor and versions."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": "no git" if (name := commit()) == "unknown" else name,
        "processor": _processor(),
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "libraries": {name: version for name in LIBRARIES if (version := version_of(name))},
    }


def version_of(name: str) -> str | None:
    """The installed version of a distribution, or None."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def device_of(xp: Any) -> dict[str, object]:
    """Name, driver, runtime and size of the current device."""
    runtime = xp.cuda.runtime
    number = xp.cuda.Device().id
    properties = runtime.getDeviceProperties(number)
    name = properties["name"]
    return {
        "device": name.decode() if isinstance(name, bytes) else str(name),
        "compute_capability": xp.cuda.Device().compute_capability,
        "multiprocessors": properties["multiProcessorCount"],
        "device_memory": properties["totalGlobalMem"],
        "l2_cache": properties.get("l2CacheSize"),
        "driver": runtime.driverGetVersion(),
        "driver_name": _driver(),
        "cuda_runtime": runtime.runtimeGetVersion(),
    }


def find(kind: str = "cuda") -> Place:
    """The device of this machine.

    Raises
    ------
    BackendUnavailableError
        If there is none.
    """
    if kind not in ("cuda", "cpu"):
        raise ValueError(f"a place is 'cuda' or 'cpu', not {kind!r}")
    return Place(select_backend("cuda" if kind == "cuda" else "cpu"))


def _watch(xp: Any, in_use: int) -> Any:
    """A hook on CuPy's pool that keeps the most bytes in use."""

    class Watch(xp.cuda.MemoryHook):  # type: ignore[misc]  # a class of an array module that is chosen at run time
        name = "peak"

        def __init__(self) -> None:
            self.in_use = self.peak = in_use

        def malloc_postprocess(self, **given: Any) -> None:
            self.in_use += int(given["mem_size"])
            self.peak = max(self.peak, self.in_use)

        def free_postprocess(self, **given: Any) -> None:
            self.in_use -= int(given["mem_size"])

    return Watch()


def _processor() -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def _driver() -> str | None:
    path = Path("/proc/driver/nvidia/version")
    return path.read_text().splitlines()[0] if path.exists() else None
