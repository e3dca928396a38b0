"""Products and sums of weights that may leave int64: bounds of them, and exact ones."""

from __future__ import annotations

import numpy as np

from gpu_wcoj.backend import Backend
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.zset.arrays import exact_sum, numbers


def largest_magnitudes(backend: Backend, *columns: Int64Array) -> list[int]:
    """Return the largest magnitude of each column; 0 for an empty one. Waits once for a device."""
    ends = iter(numbers(backend, *(end for column in columns if len(column) for end in (column.max(), column.min()))))
    return [max(next(ends), -next(ends)) if len(column) else 0 for column in columns]


def multiply_exactly(left: Int64Array, right: Int64Array, backend: Backend, bound: int | None) -> Int64Array:
    """Multiply elementwise, as Python integers on the host if int64 might overflow.

    `bound` is an upper bound of the products' magnitudes, if there is one.
    """
    if left.dtype != object and right.dtype != object:
        if bound is not None and bound < 1 << 63:
            return left * right
        max_left, max_right = largest_magnitudes(backend, left, right)
        if max_left * max_right < 1 << 63:
            return left * right
    product: Int64Array = to_python(backend, left) * to_python(backend, right)
    return product


def to_python(backend: Backend, values: Int64Array) -> Int64Array:
    """Return the values as Python integers, on the host."""
    return backend.to_host(values).astype(object, copy=False)


def bound_magnitudes(values: Int64Array, bound: int | None, backend: Backend) -> int:
    """Return an upper bound of the sum of magnitudes of values that are at most `bound`.

    The values are read, which waits for a device, only if `bound` does not keep the sum far from leaving int64.
    """
    if values.dtype == object:
        return int(np.abs(values).sum())
    if bound is not None and bound * len(values) < 1 << 62:
        return bound * len(values)
    if backend.device is not None:
        return largest_magnitudes(backend, values)[0] * len(values)
    return int(np.abs(values.astype(np.float64)).sum() * (1 + 2.0**-20)) + 1


def exact_dot(counts: Int64Array, weights: Int64Array | None, backend: Backend) -> int:
    """Return the sum of counts times weights as an exact integer, from values that are exact."""
    if backend.device is None and len(counts) < 2:
        return sum(counts.tolist()) if weights is None else sum(counts.tolist()) * sum(weights.tolist())
    if counts.dtype != object:
        if weights is None:
            return exact_sum(backend, counts)
        max_count, max_weight = largest_magnitudes(backend, counts, weights)
        if max_count * max_weight * len(counts) < 1 << 63:
            return numbers(backend, (counts * weights).sum())[0]
    product = (
        to_python(backend, counts) if weights is None else to_python(backend, counts) * to_python(backend, weights)
    )
    return int(product.sum())
