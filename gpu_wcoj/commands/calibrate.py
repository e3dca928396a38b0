"""The command ``gpu-wcoj calibrate``: measure which ticks are faster on the GPU."""

from __future__ import annotations

from typing import Literal

from gpu_wcoj.errors import UsageError


def calibrate(*, rows: int = 1_000_000, backend: Literal["auto", "cuda"] = "auto") -> None:
    """Measure the cost of a changed row and of a joined value on GPU and CPU, to route ticks.

    Parameters
    ----------
    rows
        Edges of the generated graph on which ticks are measured.
    backend
        The GPU; auto is the first one found.
    """
    from gpu_wcoj.backend import select_backend
    from gpu_wcoj.engine.calibrate import calibrate as measured
    from gpu_wcoj.routing.store import store

    if rows < 100:
        raise UsageError.invalid_value("--rows", rows, "an integer from 100 on")
    device, twin = select_backend(backend), select_backend("cpu")
    if device.device is None:
        raise UsageError("there is no GPU here, so every tick runs on the CPU.\n  There is nothing to measure.")
    calibration = measured(device, twin, rows)
    print(calibration)
    print(f"stored in {store(device, twin, calibration.model)}")
