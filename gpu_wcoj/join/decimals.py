"""Checked arithmetic of decimals, which are int64 codes in units of 10^-scale.

Sums, differences and remainders are calculated in the result's scale, products in the sum of the scales; a result
outside int64 or the digits of its type has no value. Results are never rounded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpu_wcoj.backend import Backend
from gpu_wcoj.join.integers import INTEGER_OPERATIONS, Calculated, multiply
from gpu_wcoj.join.plan import Calculation
from gpu_wcoj.kernels.protocol import Int64Array

_MAX_INT64 = (1 << 63) - 1
"""The largest int64."""
_EXACT = 1 << 53
"""Magnitude up to which doubles represent every integer."""


def calculate_decimals(calculation: Calculation, arguments: Sequence[Int64Array], xp: Any) -> Calculated:
    """Return the codes of results, and a mask of failures.

    Examples
    --------
    >>> one = Calculation("z", "+", ("x", "y"), ("decimal", "integer"), "decimal", scales=(2, 0), scale=2, max_code=99999)
    >>> calculate_decimals(one, [np.array([150, 150]), np.array([1, 1000])], np)
    (array([   250, 100150]), array([False,  True]))
    """
    if calculation.op == "scale":
        return saturate(arguments[0], 10 ** (calculation.scale - calculation.scales[0]), xp), None
    failed: Any = False
    columns = list(arguments)
    natural = sum(calculation.scales)
    if calculation.op != "*":
        natural = calculation.scale
        for i, (column, scale) in enumerate(zip(arguments, calculation.scales, strict=True)):
            columns[i], lacks = _rescale(column, calculation.scale - scale, xp)
            failed = failed | lacks
    codes, lacks = INTEGER_OPERATIONS[calculation.op](xp, *columns)
    failed = failed | lacks
    codes, lacks = _rescale(codes, calculation.scale - natural, xp)
    return codes, failed | lacks | (codes > calculation.max_code) | (codes < -calculation.max_code)


def _rescale(codes: Int64Array, digits: int, xp: Any) -> tuple[Int64Array, Any]:
    if digits == 0:
        return codes, False
    return multiply(xp, codes, xp.full(len(codes), 10**digits, np.int64))


def saturate(codes: Int64Array, factor: int, xp: Any) -> Int64Array:
    """Convert codes to a finer scale, with saturation at int64, which keeps comparisons correct.

    Examples
    --------
    >>> saturate(np.array([12, -(10**18)]), 100, np)
    array([                1200, -9223372036854775807])
    """
    limit = _MAX_INT64 // factor
    within = xp.where((codes > limit) | (codes < -limit), 0, codes) * factor
    result: Int64Array = xp.where(codes > limit, _MAX_INT64, xp.where(codes < -limit, -_MAX_INT64, within))
    return result


def to_doubles(codes: Int64Array, scale: int, backend: Backend) -> Any:
    """Return the nearest double of each decimal.

    Examples
    --------
    >>> from gpu_wcoj.backend import cpu_backend
    >>> to_doubles(np.array([5, -1234]), 2, cpu_backend()).tolist()
    [0.05, -12.34]
    """
    values = codes.astype(np.float64)
    if scale == 0:
        return values
    values = values * float(10**-scale) if scale < 0 else values / float(10**scale)
    rounded = backend.to_host((codes > _EXACT) | (codes < -_EXACT))
    if bool(rounded.any()):  # rounding twice may differ from rounding once, as Python's integer quotient does
        host = backend.to_host(values).copy()
        by, times = 10 ** max(scale, 0), 10 ** max(-scale, 0)
        host[rounded] = [code * times / by for code in backend.to_host(codes)[rounded].tolist()]
        values = backend.asarray(host)
    return values
