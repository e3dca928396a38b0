"""Comparisons during a join: as bounds and exclusions of the variable being bound, or as a filter of bound rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from gpu_wcoj.join.path import Condition, Step
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.trace.arrangement import COMPARE

_LEAST, _MOST = -(1 << 63), (1 << 63) - 1
_NO_BOUND = np.empty(0, np.int64)


def bounds_of(step: Step, values: dict[str, Int64Array], n: int) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Inclusive bounds and excluded values of the step's variable for each of `n` prefixes.

    Conditions on text are left to `passes`. Bounds that nothing satisfies have the lower above the upper.
    """
    conditions = [condition for condition in step.conditions if not condition.textual]
    if not conditions:
        return _NO_BOUND, _NO_BOUND, np.empty((0, n), np.int64)
    excluded = [_column(condition, values, n) for condition in conditions if condition.op == "!="]
    ordered = [condition for condition in conditions if condition.op != "!="]
    matrix = np.array(excluded, np.int64).reshape(len(excluded), n)
    if not ordered:
        return _NO_BOUND, _NO_BOUND, matrix
    lower = np.full(n, _LEAST, np.int64)
    upper = np.full(n, _MOST, np.int64)
    impossible = np.zeros(n, np.bool_)
    for condition in ordered:
        other = _column(condition, values, n)
        if condition.op in ("<=", "="):
            upper = np.minimum(upper, other)
        if condition.op in (">=", "="):
            lower = np.maximum(lower, other)
        if condition.op == "<":
            impossible |= other == _LEAST
            upper = np.minimum(upper, np.maximum(other, _LEAST + 1) - 1)
        if condition.op == ">":
            impossible |= other == _MOST
            lower = np.maximum(lower, np.minimum(other, _MOST - 1) + 1)
    lower[impossible] = _MOST
    upper[impossible] = _LEAST
    return lower, upper, matrix


def passes(
    conditions: Sequence[Condition],
    values: dict[str, Int64Array],
    ranks: Callable[[str], Int64Array] | None,
) -> npt.NDArray[np.bool_]:
    """Which rows satisfy all conditions; text is compared by rank."""
    n = len(next(iter(values.values())))
    mask = np.ones(n, np.bool_)
    for condition in conditions:
        left, right = values[condition.variable], _column(condition, values, n)
        if condition.textual:
            assert ranks is not None
            rank = ranks(condition.family)
            left, right = rank[left], rank[right]
        mask &= COMPARE[condition.op](left, right)
    return mask


def _column(condition: Condition, values: dict[str, Int64Array], n: int) -> Int64Array:
    if isinstance(condition.other, str):
        return values[condition.other]
    return np.full(n, condition.other, np.int64)
