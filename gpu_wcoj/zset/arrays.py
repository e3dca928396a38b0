"""Small operations on arrays of host or device, with as few waits for a device as possible.

What a size or a value of Python depends on has to come from the device, and everything launched before has to finish
first. So what is needed together is fetched together: one wait, whatever the number of rows.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gpu_wcoj.backend import Backend
from gpu_wcoj.budget import MEASURED_FROM, reserve
from gpu_wcoj.errors import DeviceMemoryError
from gpu_wcoj.kernels.protocol import Int64Array

if TYPE_CHECKING:
    from gpu_wcoj.kernels.cuda.device import Device

BoolArray = npt.NDArray[np.bool_]


def is_host(array: object) -> bool:
    """Return whether an array is a NumPy array."""
    return isinstance(array, np.ndarray)


def numbers(backend: Backend, *values: Any) -> list[int]:
    """Return arrays of one integer each as Python integers. Waits once.

    Examples
    --------
    >>> from gpu_wcoj.backend import select_backend
    >>> column = np.array([5, -7])
    >>> numbers(select_backend("cpu"), column.min(), column.max(), (column > 0).sum())
    [-7, 5, 1]
    """
    if backend.device is None:
        return [int(value) for value in values]
    if not values:
        return []
    return [int(number) for number in backend.to_host(backend.xp.concatenate([_single(value) for value in values]))]


def _single(value: Any) -> Any:
    return value.reshape(1).astype(np.int64, copy=False)


def positions(backend: Backend, *masks: BoolArray) -> list[Int64Array]:
    """Return the ascending positions where each mask is True. Waits once for all masks.

    Examples
    --------
    >>> from gpu_wcoj.backend import select_backend
    >>> positions(select_backend("cpu"), np.array([True, False, True]), np.array([False]))
    [array([0, 2]), array([], dtype=int64)]
    """
    if backend.device is None:
        return [np.flatnonzero(mask) for mask in masks]
    return backend.kernels.held_rows(masks)


def stacked(backend: Backend, columns: Sequence[Int64Array]) -> Int64Array:
    """Stack one or more int64 columns as the rows of a matrix.

    Examples
    --------
    >>> from gpu_wcoj.backend import select_backend
    >>> stacked(select_backend("cpu"), [np.array([1, 2]), np.array([3, 4])])
    array([[1, 2],
           [3, 4]])
    """
    matrix: Int64Array = np.array(columns, np.int64) if backend.device is None else backend.xp.stack(columns)
    return matrix


def joined_columns(parts: Sequence[Sequence[Int64Array]], xp: Any) -> list[Int64Array]:
    """Return the columns of all parts, one part after the other; of one part, as they are.

    Examples
    --------
    >>> joined_columns([[np.array([1]), np.array([2])], [np.array([3]), np.array([4])]], np)
    [array([1, 3]), array([2, 4])]
    """
    if len(parts) == 1:
        return list(parts[0])
    n_bytes = 8 * len(parts[0]) * (n_rows := sum(len(part[0]) for part in parts if part))
    if xp is np and n_bytes >= MEASURED_FROM:
        reserve(n_bytes, "gathering", n_rows)
    return [xp.concatenate(columns) for columns in zip(*parts, strict=True)]


def exact_sum(backend: Backend, values: Int64Array) -> int:
    """Return the sum as a Python integer; high and low halves are added separately. Waits once.

    Examples
    --------
    >>> from gpu_wcoj.backend import select_backend
    >>> exact_sum(select_backend("cpu"), np.full(4, (1 << 63) - 1)) == 4 * ((1 << 63) - 1)
    True
    """
    if backend.device is None and len(values) < 64:
        return sum(values.tolist())
    high, low = numbers(backend, (values >> 32).sum(), (values & 0xFFFFFFFF).sum())
    return (high << 32) + low


def within_memory(backend: Backend, doing: str) -> AbstractContextManager[None]:
    """Raise `DeviceMemoryError` if the block exhausts device memory; release the memory pool."""
    return _CPU if backend.device is None else _on_device(backend, backend.device, doing)


@contextmanager
def _on_device(backend: Backend, device: Device, doing: str) -> Generator[None]:
    try:
        yield
    except device.out_of_memory as error:
        if isinstance(error, DeviceMemoryError):
            raise
        raise memory_error(backend, doing) from error


_CPU = nullcontext()


def memory_error(backend: Backend, doing: str) -> DeviceMemoryError:
    """Return the error of exhausted device memory, with the number of free bytes."""
    device = backend.device
    assert device is not None
    device.release()
    return DeviceMemoryError(doing, device.free_bytes())
