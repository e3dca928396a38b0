"""Exact sums of floats over groups, stored as words.

A float is an integer times 2^-1074, and so is a sum of floats. Its words are amounts at powers of 2^32. The words that
a row adds depend on the row only, so a sum does not depend on the order of its rows, and a deletion is exact. A sum is
rounded once, when it is read. Infinities and NaNs are counted in separate words.

All computation is on the host: rows are split into words in bulk, and the sums of changed groups are assembled one by
one.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from gpu_wcoj.backend import cpu_backend
from gpu_wcoj.data.column import float_codes, floats_of, without_zero_signs
from gpu_wcoj.kernels.protocol import Int64Array

INFINITY, MINUS_INFINITY, NAN = 1000, 1001, 1002
"""Words that count infinities and NaNs."""

MAX_WORD = 1 << 61
"""Amount of a word above which the words of a sum are normalised."""

_MASK = (1 << 32) - 1
"""The low 32 bits."""
_UNIT = 1 << 1074
"""The float 1.0 in units of 2^-1074."""

FloatArray = npt.NDArray[np.float64]
Contributions = tuple[Int64Array, Int64Array, Int64Array]
"""Columns of group, word and amount."""


def float_words(group: Int64Array, codes: Int64Array, width: int, weights: Int64Array) -> Contributions:
    """Return the amounts that rows add to the words of their groups, consolidated.

    Parameters
    ----------
    width
        Bytes of a float, 4 or 8.
    """
    values = floats_of(codes, width).astype(np.float64)
    if len(values) and max(int(weights.max()), -int(weights.min())) * len(values) >= 1 << 28:
        return _exact_words(group, values, weights)
    strange = [
        (group[mask], np.full(np.count_nonzero(mask), word), weights[mask])
        for mask, word in ((values == np.inf, INFINITY), (values == -np.inf, MINUS_INFINITY), (np.isnan(values), NAN))
    ]
    finite = np.isfinite(values)
    group, weights = group[finite], weights[finite]
    mantissa, exponent = np.frexp(values[finite])
    digits_of = np.ldexp(mantissa, 53).astype(np.int64)
    shift = exponent.astype(np.int64) + (1074 - 53)
    digits_of = digits_of >> np.maximum(-shift, 0)  # the digits of the smallest floats end with as many zeros
    shift = np.maximum(shift, 0)
    signed = np.where(digits_of < 0, -1, 1) * weights
    digits, bits, word = np.abs(digits_of).astype(np.uint64), (shift % 32).astype(np.uint64), shift // 32
    mask, half = np.uint64(_MASK), np.uint64(32)
    below, above = (digits & mask) << bits, (digits >> half) << bits
    amounts = (below & mask, (below >> half) + (above & mask), above >> half)
    parts = [(group, word + offset, amount.astype(np.int64) * signed) for offset, amount in enumerate(amounts)]
    contributions = [np.concatenate(each).astype(np.int64) for each in zip(*parts, *strange, strict=True)]
    (group, word), amount = cpu_backend().kernels.consolidate(contributions[:2], contributions[2])
    return group, word, amount


def _exact_words(group: Int64Array, values: FloatArray, weights: Int64Array) -> Contributions:
    """Compute `float_words` with Python integers, as int64 may overflow."""
    totals: dict[int, WordsByBit] = defaultdict(dict)
    for group_index, value, weight in zip(group.tolist(), values.tolist(), weights.tolist(), strict=True):
        if math.isfinite(value):
            above, below = value.as_integer_ratio()
            totals[group_index][0] = totals[group_index].get(0, 0) + above * (_UNIT // below) * weight
        else:
            word = NAN if math.isnan(value) else INFINITY if value > 0 else MINUS_INFINITY
            totals[group_index][word] = totals[group_index].get(word, 0) + weight
    rows = [
        (group_index, *pair)
        for group_index, words in sorted(totals.items())
        for pair in sorted(normalise_words(words).items())
    ]
    table = np.array(rows, np.int64).reshape(len(rows), 3).T
    return table[0], table[1], table[2]


WordsByBit = dict[int, int]
"""The words of one sum, exact."""


def normalise_words(words: Mapping[int, int]) -> WordsByBit:
    """Return the same sum with all words below 2^32 in magnitude and without zeros."""
    total = sum(amount << (32 * word) for word, amount in words.items() if word < INFINITY)
    result = {word: amount for word, amount in words.items() if word >= INFINITY and amount}
    remaining, word, sign = abs(total), 0, -1 if total < 0 else 1
    while remaining:
        if remaining & _MASK:
            result[word] = sign * (remaining & _MASK)
        remaining, word = remaining >> 32, word + 1
    return result


def float_sum_codes(sums: Sequence[Mapping[int, int]], counts: Sequence[int] | None = None) -> Int64Array:
    """Return the codes of sums as doubles, divided by `counts` if given.

    Examples
    --------
    >>> group = np.array([0, 0, 1])
    >>> words = float_words(group, float_codes(np.array([1.5, -0.25, 1e300])), 8, np.ones(3, np.int64))
    >>> sums = [{}, {}]
    >>> for position, word, amount in zip(*(each.tolist() for each in words), strict=True):
    ...     sums[position][word] = amount
    >>> floats_of(float_sum_codes(sums), 8)
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
