"""The command ``gpu-wcoj calibrate``: measures which ticks are faster on the GPU of this machine."""

from __future__ import annotations

from typing import Literal

from gpu_wcoj.errors import UsageError


def calibrate(*, rows: int = 1_000_000, backend: Literal["auto", "cuda"] = "auto") -> None:
    """Measure what a changed row and a joined value cost on the GPU and on the CPU; programs route ticks by it.

    Parameters
    ----------
    rows
        Edges of the generated graph on which ticks are measured.
    backend
        Which GPU: auto is the one that is found.
    """
    from gpu_wcoj.backend import select_backend
    from gpu_wcoj.routing.calibrate import calibrate as measured
    from gpu_wcoj.routing.store import store

    if rows < 100:
        raise UsageError(f"--rows is {rows}.\n  It is 100 or more.")
    device, twin = select_backend(backend), select_backend("cpu")
    if device.device is None:
        raise UsageError("there is no GPU here, so every tick runs on the CPU.\n  There is nothing to measure.")
    found = measured(device, twin, rows)
    print(found)
    print(f"stored in {store(device, twin, found.model)}")
