"""Exact sums of floats over groups, as words that add up.

A float is an integer times 2^-1074, and so is a sum of them. Its words are amounts at powers of 2^32: what a row adds
to them follows from the row alone, so a sum is the same whatever the order of its rows, and what is deleted leaves no
trace. It is rounded once, when it is read. Infinities and NaNs are counted in words of their own.

All of it is on the host: rows are taken apart many at a time, the sums of changed groups put together one by one.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from gpu_wcoj.backend import cpu_backend
from gpu_wcoj.column import float_codes, floats_of, without_zero_signs
from gpu_wcoj.kernels.protocol import Int64Array

INFINITY, MINUS_INFINITY, NAN = 1000, 1001, 1002
"""Words that count what is no finite float."""

FULL = 1 << 61
"""Where an amount is larger, the words are written anew."""

_MASK = (1 << 32) - 1
_UNIT = 1 << 1074

FloatArray = npt.NDArray[np.float64]
Contributions = tuple[Int64Array, Int64Array, Int64Array]
"""Group, word, and amount."""


def words_of_floats(group: Int64Array, codes: Int64Array, width: int, weights: Int64Array) -> Contributions:
    """What rows add to the words of their groups, equal ones together.

    Parameters
    ----------
    width
        Bytes of a float, 4 or 8.
    """
    values = floats_of(codes, width).astype(np.float64)
    if len(values) and max(int(weights.max()), -int(weights.min())) * len(values) >= 1 << 28:
        return _one_by_one(group, values, weights)
    strange = [
        (group[mask], np.full(np.count_nonzero(mask), word), weights[mask])
        for mask, word in ((values == np.inf, INFINITY), (values == -np.inf, MINUS_INFINITY), (np.isnan(values), NAN))
    ]
    finite = np.isfinite(values)
    group, weights = group[finite], weights[finite]
    mantissa, exponent = np.frexp(values[finite])
    whole = np.ldexp(mantissa, 53).astype(np.int64)
    shift = exponent.astype(np.int64) + (1074 - 53)
    whole = whole >> np.maximum(-shift, 0)  # the digits of the smallest floats end with as many zeros
    shift = np.maximum(shift, 0)
    signed = np.where(whole < 0, -1, 1) * weights
    digits, bits, word = np.abs(whole).astype(np.uint64), (shift % 32).astype(np.uint64), shift // 32
    mask, half = np.uint64(_MASK), np.uint64(32)
    below, above = (digits & mask) << bits, (digits >> half) << bits
    amounts = (below & mask, (below >> half) + (above & mask), above >> half)
    parts = [(group, word + at, amount.astype(np.int64) * signed) for at, amount in enumerate(amounts)]
    found = [np.concatenate(each).astype(np.int64) for each in zip(*parts, *strange, strict=True)]
    (group, word), amount = cpu_backend().kernels.consolidate(found[:2], found[2])
    return group, word, amount


def _one_by_one(group: Int64Array, values: FloatArray, weights: Int64Array) -> Contributions:
    """`words_of_floats` where products of words and weights may leave int64."""
    totals: dict[int, Words] = defaultdict(dict)
    for own, value, weight in zip(group.tolist(), values.tolist(), weights.tolist(), strict=True):
        if math.isfinite(value):
            above, below = value.as_integer_ratio()
            totals[own][0] = totals[own].get(0, 0) + above * (_UNIT // below) * weight
        else:
            word = NAN if math.isnan(value) else INFINITY if value > 0 else MINUS_INFINITY
            totals[own][word] = totals[own].get(word, 0) + weight
    rows = [(own, *pair) for own, words in sorted(totals.items()) for pair in sorted(written(words).items())]
    found = np.array(rows, np.int64).reshape(len(rows), 3).T
    return found[0], found[1], found[2]


Words = dict[int, int]
"""The words of one sum, exact."""


def written(words: Mapping[int, int]) -> Words:
    """The same sum in words below 2^32 in magnitude, none 0."""
    total = sum(amount << (32 * word) for word, amount in words.items() if word < INFINITY)
    found = {word: amount for word, amount in words.items() if word >= INFINITY and amount}
    rest, word, sign = abs(total), 0, -1 if total < 0 else 1
    while rest:
        if rest & _MASK:
            found[word] = sign * (rest & _MASK)
        rest, word = rest >> 32, word + 1
    return found


def codes_of_floats(sums: Sequence[Mapping[int, int]], counts: Sequence[int] | None = None) -> Int64Array:
    """The codes of sums as doubles; divided by `counts` where given.

    Examples
    --------
    >>> group = np.array([0, 0, 1])
    >>> words = words_of_floats(group, float_codes(np.array([1.5, -0.25, 1e300])), 8, np.ones(3, np.int64))
    >>> sums = [{}, {}]
    >>> for own, word, amount in zip(*(each.tolist() for each in words), strict=True):
    ...     sums[own][word] = amount
    >>> floats_of(codes_of_floats(sums), 8)
    array([1.25e+000, 1.00e+300])
    """
    values = [_rounded(words) for words in sums]
    if counts is not None:
        values = [value / count if count else value for value, count in zip(values, counts, strict=True)]
    codes: Int64Array = without_zero_signs(float_codes(np.array(values, np.float64)))
    return codes


def _rounded(words: Mapping[int, int]) -> float:
    strange = {word for word, amount in words.items() if word >= INFINITY and amount}
    if NAN in strange or {INFINITY, MINUS_INFINITY} <= strange:
        return math.nan
    if strange:
        return math.inf if INFINITY in strange else -math.inf
    total = sum(amount << (32 * word) for word, amount in words.items())
    try:
        return total / _UNIT
    except OverflowError:
        return math.inf if total > 0 else -math.inf
