"""Answers of gw.query beside DuckDB's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

NEAR = 1e-9
"""Doubles may differ by this much of themselves: sums depend on the order of rows."""


def difference(ours: Sequence[tuple[Any, ...]], theirs: Sequence[tuple[Any, ...]], *, is_ordered: bool = False) -> str:
    """Return the first difference of two answers; empty if they agree.

    Without `is_ordered` rows are compared in any order.

    Examples
    --------
    >>> difference([(1, 0.1 + 0.2)], [(1, 0.3)]), difference([(1,)], [(2,)])
    ('', 'ours (1,), theirs (2,)')
    """
    if len(ours) != len(theirs):
        return f"{len(ours)} rows, not {len(theirs)}"
    pairs = zip(ours, theirs, strict=True)
    if all(_is_near(left, right) for left, right in pairs):
        return ""
    if is_ordered:
        left, right = next(pair for pair in zip(ours, theirs, strict=True) if not _is_near(*pair))
        return f"ours {left}, theirs {right}"
    for left, right in zip(sorted(ours, key=_key), sorted(theirs, key=_key), strict=True):
        if not _is_near(left, right):
            return f"ours {left}, theirs {right}"
    return ""


def _key(row: tuple[Any, ...]) -> tuple[tuple[tuple[bool, str], ...], tuple[tuple[bool, Any], ...]]:
    """Return a key that near rows share in its first part, but for values at the edge of rounding."""
    return tuple((value is None, _rounded(value)) for value in row), tuple(map(_exact, row))


def _exact(value: Any) -> tuple[bool, Any]:
    """Return a key that sorts exact numbers by value, which floats do not tell apart."""
    is_exact = isinstance(value, (int, Decimal)) and not isinstance(value, bool)
    return is_exact, Decimal(value) if is_exact else str(value)


def _rounded(value: Any) -> str:
    if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool):
        return f"{float(value) + 0.0:.6g}"  # no -0
    return str(value)


def _is_near(left: Any, right: Any) -> bool:
    if isinstance(left, (tuple, list)) and isinstance(right, (tuple, list)):
        return len(left) == len(right) and all(map(_is_near, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_is_near(left[key], right[key]) for key in left)
    if isinstance(left, float) or isinstance(right, float):
        if not all(isinstance(value, (int, float, Decimal)) for value in (left, right)):
            return False
        pair: list[Any] = [left, right]
        ours, theirs = (float(value) for value in pair)
        return (math.isnan(ours) and math.isnan(theirs)) or math.isclose(ours, theirs, rel_tol=NEAR, abs_tol=NEAR)
    return bool(left == right)
