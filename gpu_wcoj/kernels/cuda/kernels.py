"""The kernels of `gpu_wcoj.kernels.protocol` on a CUDA device.

Each launcher module has its CUDA C++ source beside it; launchers take the device as their first argument.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, Concatenate, NoReturn, ParamSpec, TypeVar

from gpu_wcoj.kernels.cuda import extend, tries
from gpu_wcoj.kernels.cuda.device import Device
from gpu_wcoj.kernels.protocol import Level, WalkKernels, Walks

P = ParamSpec("P")
R = TypeVar("R")


def _on_device(launch: Callable[Concatenate[Device, P], R]) -> Callable[Concatenate[CudaKernels, P], R]:
    """Return a launcher as a method, which passes the device of the kernels."""

    @wraps(launch)
    def kernel(self: CudaKernels, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return launch(self.device, *args, **kwargs)

    return kernel


class CudaKernels:
    """See `gpu_wcoj.kernels.protocol.Kernels`.

    Parameters
    ----------
    device
        The device that holds the arrays and runs the kernels.
    """

    name = "cuda"
    walker: WalkKernels | None = None
    begin_merge: Any = None
    measures_ranges = False
    walked_rows = 0

    def __init__(self, device: Device) -> None:
        self.device = device

    def fixpoint(self, walks: Walks, orders: Sequence[int]) -> NoReturn:
        """Raise: loops run vectorised on a device; see `walked_rows`."""
        raise NotImplementedError("loops run vectorised on a device")

    def maintenance(self, walks: Walks, states: Sequence[Sequence[Sequence[Level]]]) -> NoReturn:
        """Raise: loops run vectorised on a device; see `walked_rows`."""
        raise NotImplementedError("loops run vectorised on a device")

    lexsort = _on_device(tries.lexsort)
    run_starts = _on_device(tries.run_starts)
    distinct_rows = _on_device(tries.distinct_rows)
    consolidate = _on_device(tries.consolidate)
    held_rows = _on_device(tries.held_rows)
    segment_sums = _on_device(tries.segment_sums)
    exclusive_sum = _on_device(tries.exclusive_sum)
    hash_rows = _on_device(tries.hash_rows)
    build_levels = _on_device(tries.build_levels)
    index_rows = _on_device(tries.index_rows)
    rearrange = _on_device(tries.rearrange)
    expand_columns = _on_device(tries.expand_columns)
    describe = staticmethod(tries.describe)
    bytes_beside = staticmethod(tries.bytes_beside)
    merge_tries = _on_device(tries.merge_tries)
    locate = _on_device(tries.locate)
    weights_of = _on_device(tries.weights_of)
    count_children = _on_device(tries.count_children)
    widths = _on_device(tries.widths)
    narrowest = _on_device(tries.narrowest)
    extend_seeds = _on_device(extend.extend_seeds)
    prepare = _on_device(extend.prepare)
    count_common = _on_device(extend.count_common)
    fill_common = _on_device(extend.fill_common)
    fresh_values = _on_device(extend.fresh_values)
