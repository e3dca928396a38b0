"""Searches of many values at once, each in a separate range of one sorted array."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cpu_fallback.sort import Int64Array
from cpu_fallback.tries import CodeArray

_INT32 = np.iinfo(np.int32)


def ragged(sizes: Int64Array) -> tuple[npt.NDArray[np.intp], Int64Array]:
    """Return owner and place within the owner of every element of lists of these sizes.

    Examples
    --------
    >>> ragged(np.array([2, 0, 1]))
    (array([0, 0, 2]), array([0, 1, 0]))
    """
    owner = np.repeat(np.arange(len(sizes)), sizes)
    return owner, np.arange(len(owner)) - (np.cumsum(sizes) - sizes)[owner]


def lower_bound(values: CodeArray, low: Int64Array, high: Int64Array, targets: CodeArray) -> Int64Array:
    """Return, per i, the first position in ``[low[i], high[i])`` not below ``targets[i]``.

    It is ``high[i]`` if there is none.
    """
    return _bound(values, low, high, targets, np.less)


def upper_bound(values: CodeArray, low: Int64Array, high: Int64Array, targets: Int64Array) -> Int64Array:
    """Search like `lower_bound`, for the first value above ``targets[i]``."""
    return _bound(values, low, high, targets, np.less_equal)


def _bound(values: CodeArray, low: Int64Array, high: Int64Array, targets: CodeArray, before: np.ufunc) -> Int64Array:
    if len(values) == 0 or len(targets) == 0:
        return low
    for _ in range(max(0, int((high - low).max())).bit_length()):
        middle = (low + high) >> 1
        right = before(values[np.minimum(middle, len(values) - 1)], targets)
        right &= low < high
        low = np.where(right, middle + 1, low)
        high = np.where(right, high, middle)
    return low


def find(values: CodeArray, low: Int64Array, high: Int64Array, targets: Int64Array) -> Int64Array:
    """Return, per i, the position of ``targets[i]`` in ``[low[i], high[i])``, or -1."""
    return _matches(values, lower_bound(values, low, high, targets), high, targets)


def find_in_all(values: CodeArray, targets: Int64Array) -> Int64Array:
    """Return the position of each target in one sorted array, or -1."""
    keys = targets if values.dtype == np.int64 else np.clip(targets, _INT32.min, _INT32.max).astype(np.int32)
    return _matches(values, np.searchsorted(values, keys), np.int64(len(values)), targets)


def _matches(values: CodeArray, places: Int64Array, high: Int64Array | np.int64, targets: Int64Array) -> Int64Array:
    if len(values) == 0:
        return np.full(len(targets), -1, np.int64)
    is_match = places < high
    is_match &= values[np.minimum(places, len(values) - 1)] == targets
    return np.where(is_match, places, -1)
