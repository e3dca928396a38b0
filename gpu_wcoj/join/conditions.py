"""Comparisons during a join: bounds of the variable being bound, or a filter of bound rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_wcoj.backend import Backend
from gpu_wcoj.join.plan import Condition, Step
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.trace.arrangement import COMPARE
from gpu_wcoj.zset.arrays import stacked

_MIN_INT64, _MAX_INT64 = -(1 << 63), (1 << 63) - 1
_NO_BOUND = np.empty(0, np.int64)


def find_bounds(
    step: Step, values: dict[str, Int64Array], n: int, backend: Backend
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Return inclusive bounds and excluded values of the step's variable for `n` prefixes.

    Conditions on text are left to `condition_mask`. Bounds that no value satisfies have the lower above the upper.
    """
    xp = backend.xp
    no_bound = _NO_BOUND if backend.device is None else xp.empty(0, np.int64)
    if step.is_lookup:
        value = values[step.variable]
        return value, value, xp.empty((0, n), np.int64)
    conditions = [condition for condition in step.conditions if not condition.textual]
    excluded = [_column(condition, values, n, xp) for condition in conditions if condition.op == "!="]
    matrix = stacked(backend, excluded) if excluded else xp.empty((0, n), np.int64)
    ordered = [condition for condition in conditions if condition.op != "!="]
    if not ordered:
        return no_bound, no_bound, matrix
    lower = xp.full(n, _MIN_INT64, np.int64)
    upper = xp.full(n, _MAX_INT64, np.int64)
    impossible = xp.zeros(n, np.bool_)
    for condition in ordered:
        operand = _column(condition, values, n, xp)
        if condition.op in ("<=", "="):
            upper = xp.minimum(upper, operand)
        if condition.op in (">=", "="):
            lower = xp.maximum(lower, operand)
        if condition.op == "<":
            impossible |= operand == _MIN_INT64
            upper = xp.minimum(upper, xp.maximum(operand, _MIN_INT64 + 1) - 1)
        if condition.op == ">":
            impossible |= operand == _MAX_INT64
            lower = xp.maximum(lower, xp.minimum(operand, _MAX_INT64 - 1) + 1)
    return xp.where(impossible, _MAX_INT64, lower), xp.where(impossible, _MIN_INT64, upper), matrix


def condition_mask(
    conditions: Sequence[Condition],
    values: dict[str, Int64Array],
    ranks: Callable[[str], Int64Array] | None,
    xp: Any = np,
) -> npt.NDArray[np.bool_]:
    """Return a mask of the rows that satisfy all conditions; text is compared by rank.

    `xp` is the array module of values and ranks.
    """
    n = len(next(iter(values.values())))
    mask: npt.NDArray[np.bool_] = xp.ones(n, np.bool_)
    for condition in conditions:
        left, right = values[condition.variable], _column(condition, values, n, xp)
        if condition.textual:
            assert ranks is not None
            rank = ranks(condition.family)
            left, right = rank[left], rank[right]
        mask &= COMPARE[condition.op](left, right)
    return mask


def _column(condition: Condition, values: dict[str, Int64Array], n: int, xp: Any) -> Int64Array:
    if isinstance(condition.operand, str):
        return values[condition.operand]
    column: Int64Array = xp.full(n, condition.operand, np.int64)
    return column
