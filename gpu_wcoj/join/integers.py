"""Checked arithmetic of int64, many rows at once: results and masks of failures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.zset.arrays import BoolArray

Calculated = tuple[Int64Array, BoolArray | None]
"""The codes, and a mask of failures; failed rows have codes that follow from the arguments."""


def add(xp: Any, left: Int64Array, right: Int64Array) -> Calculated:  # noqa: ARG001  # called as the others are
    """Return ``left + right``."""
    result = left + right
    return result, ((left ^ result) & (right ^ result)) < 0


def subtract(xp: Any, left: Int64Array, right: Int64Array | None = None) -> Calculated:
    """Return ``left - right``; for one argument, ``-left``."""
    if right is None:
        left, right = xp.zeros(len(left), np.int64), left
    result = left - right
    return result, ((left ^ right) & (left ^ result)) < 0


def multiply(xp: Any, left: Int64Array, right: Int64Array) -> Calculated:
    """Return ``left * right``.

    Overflow shows in the sign up to a magnitude of 2^64, and in a float product beyond.
    """
    result = left * right
    about = left.astype(np.float64) * right.astype(np.float64)
    large = xp.abs(about)
    return result, (large > 1.5 * 2.0**63) | ((large > 2.0**62) & ((result < 0) != (about < 0)))


def divide(xp: Any, left: Int64Array, right: Int64Array) -> Calculated:
    """Return ``left / right``, truncated towards 0."""
    failed = (right == 0) | ((right == -1) & (left == -(1 << 63)))
    by = xp.where(failed, 1, right)
    result = left // by
    return result + ((result * by != left) & ((left < 0) != (by < 0))), failed


def remainder(xp: Any, left: Int64Array, right: Int64Array) -> Calculated:
    """Return ``left % right``, with the sign of `left`."""
    failed = right == 0
    by = xp.where(failed | (right == -1), 1, right)
    result = left - left // by * by
    return xp.where((result != 0) & ((left < 0) != (by < 0)), result - by, result), failed


def absolute(xp: Any, values: Int64Array) -> Calculated:
    """Return ``abs(values)``."""
    return xp.abs(values), values == -(1 << 63)


INTEGER_OPERATIONS: dict[str, Callable[..., Calculated]] = {
    "+": add,
    "-": subtract,
    "*": multiply,
    "/": divide,
    "%": remainder,
    "quotient": divide,
    "rest": remainder,
    "abs": absolute,
}
