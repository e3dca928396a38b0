"""Exact sums of integers over groups, as words of 128 bits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpu_wcoj.backend import Backend
from gpu_wcoj.data.column import float_codes
from gpu_wcoj.join.magnitudes import largest_magnitudes
from gpu_wcoj.kernels.protocol import Int64Array

_MASK = (1 << 32) - 1
"""The low 32 bits."""
_MIN_INT64 = -(1 << 63)
"""The smallest int64."""

Words = tuple[Int64Array, Int64Array]
"""Low and high words of integers of 128 bits, in two's complement."""


def sums_of_integers(values: Int64Array, weights: Int64Array, starts: Int64Array, backend: Backend) -> Words:
    """Return exact sums of values times weights over runs from `starts`, modulo 2^128."""
    xp = backend.xp
    n = len(values)
    if n == 0:
        return xp.empty(0, np.int64), xp.empty(0, np.int64)
    max_value, max_weight = largest_magnitudes(backend, values, weights)
    if max_value * max_weight * n < 1 << 63:
        low = _run_sums(values * weights, starts, backend)
        return low, low >> 63
    if max_weight * n < 1 << 30:
        high, low = (
            _run_sums((values >> 32) * weights, starts, backend),
            _run_sums((values & _MASK) * weights, starts, backend),
        )
        return add_words((high << 32, high >> 32), (low, low >> 63))
    exact = backend.to_host(values).astype(object) * backend.to_host(weights).astype(object)
    totals = np.add.reduceat(exact, backend.to_host(starts)).tolist()
    return to_words(totals, backend)


def _run_sums(values: Int64Array, starts: Int64Array, backend: Backend) -> Int64Array:
    before = backend.kernels.exclusive_sum(values)
    ends = backend.xp.concatenate([starts[1:], backend.xp.full(1, len(values), np.int64)])
    runs: Int64Array = before[ends] - before[starts]
    return runs


def add_words(left: Words, right: Words) -> Words:
    """Add modulo 2^128.

    There is a carry where the low word is less, unsigned, than the low word of a summand.
    """
    low = left[0] + right[0]
    carry = (low ^ _MIN_INT64) < (left[0] ^ _MIN_INT64)
    return low, left[1] + right[1] + carry


def to_words(numbers: Sequence[int], backend: Backend) -> Words:
    """Convert Python integers to words.

    The high word of an integer beyond 128 bits is clipped, so that it still counts as outside int64.
    """
    low = [(number + (1 << 63)) % (1 << 64) - (1 << 63) for number in numbers]
    high = [max(-(1 << 63), min((1 << 63) - 1, number >> 64)) for number in numbers]
    return backend.asarray(np.array(low, np.int64)), backend.asarray(np.array(high, np.int64))


def to_integers(words: Words, backend: Backend) -> list[int]:
    """Convert words to Python integers."""
    low, high = (backend.to_host(word).tolist() for word in words)
    return [(above << 64) + below % (1 << 64) for below, above in zip(low, high, strict=True)]


def means_of_integers(words: Words, counts: Int64Array, backend: Backend, units: float = 1) -> Int64Array:
    """Return the codes of sums divided by counts as doubles; both are rounded to doubles first.

    Parameters
    ----------
    units
        Units of the sums that make 1, for decimals.
    """
    low, high = words
    sums = low.astype(np.float64)
    beyond = backend.to_host(high != low >> 63)
    if bool(beyond.any()):
        host = backend.to_host(sums).copy()
        exact = to_integers((low[backend.asarray(beyond)], high[backend.asarray(beyond)]), backend)
        host[beyond] = [float(total) for total in exact]
        sums = backend.asarray(host)
    times = backend.xp.maximum(counts, 1).astype(np.float64) * float(units)
    return float_codes(sums / times, backend.xp)
