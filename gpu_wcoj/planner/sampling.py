"""Estimate what a planner wants to know of rows that nothing has been built of yet, in a few passes over them.

For every column, the rows whose value's hash falls into a share are looked at: of a value there are all of its rows or
none, so that what stands beside it is counted exactly, and of all values there is a share. Values that a large part of
the rows have would make that a matter of luck; a few thousand rows, drawn evenly, show them, and they are counted
apart. Up to `EXACT_ROWS` rows all are looked at, and everything is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpu_wcoj.backend import Backend
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.planner.facts import Columns, Facts
from gpu_wcoj.zset.arrays import BoolArray, is_host, positions

_Floats = npt.NDArray[np.float64]

EXACT_ROWS = 1 << 15
"""Of relations with no more rows, all are looked at."""
DRAWN_ROWS = 1 << 14
"""Rows that are drawn evenly: every other one of them to find frequent values, the others to count what these have."""
FREQUENT = 8
"""A value that so many of the former have is counted apart."""
KEPT_ROWS = 1 << 11
"""Drawn rows that are kept, to try selections on."""
BLOCK_ROWS = 1 << 14
"""Rows that are hashed at a time, so that they stay in the processor's cache."""


def sampled(columns: Sequence[Int64Array], weights: Int64Array | None, backend: Backend) -> Facts:
    """Estimates for the rows of positive weight. O(rows + columns^2), for a device waits once a column.

    Parameters
    ----------
    columns
        int64, in the host's memory or, if that is where the backend computes, a device's.
    weights
        There or on the host; None if all are positive.

    Examples
    --------
    >>> from gpu_wcoj.backend import select_backend
    >>> found = sampled([np.array([1, 1, 1, 2]), np.array([5, 6, 7, 5])], None, select_backend("cpu"))
    >>> found.rows, found.values([0]), found.values([1]), found.below([0], 1)
    (4.0, 2.0, 3.0, 2.5)
    """
    columns = [backend.asarray(column) for column in columns]
    if weights is not None and not bool((weights > 0).all()):
        there = np.flatnonzero(weights > 0) if is_host(weights) else positions(backend, weights > 0)[0]
        columns = [column[backend.asarray(there)] for column in columns]
    n, width = len(columns[0]), len(columns)
    if n <= EXACT_ROWS:
        rows = np.stack([backend.to_host(column) for column in columns])
        parts = [_Part(column, rows, 1.0, np.empty(0, np.int64)) for column in range(width)]
        return _facts(parts, float(n), rows)
    draw = np.random.default_rng(n).random(DRAWN_ROWS)
    at = backend.asarray(((np.arange(DRAWN_ROWS) + draw) * (n / DRAWN_ROWS)).astype(np.int64).clip(0, n - 1))
    drawn = np.stack([backend.to_host(column[at]) for column in columns])
    one_of = n * max(width, 2) / (2 * EXACT_ROWS)
    return _facts([_part(column, columns, drawn, one_of, backend) for column in range(width)], float(n), drawn)


@dataclass(frozen=True, eq=False)
class _Part:
    """The rows that one column's share brings.

    Attributes
    ----------
    rows
        One array row a column of the relation, those of frequent values left out.
    one_of
        How many times as many there are.
    frequent
        Values of the column that are counted apart, ascending.
    """

    column: int
    rows: Int64Array
    one_of: float
    frequent: Int64Array


def _part(column: int, columns: Sequence[Int64Array], drawn: Int64Array, one_of: float, backend: Backend) -> _Part:
    found, times = np.unique(drawn[column, ::2], return_counts=True)
    frequent = found[times >= FREQUENT]
    at = _in_share(columns[column], one_of, backend)
    if len(frequent):
        xp, values = backend.xp, columns[column][at]
        known = backend.asarray(frequent)
        near = xp.minimum(xp.searchsorted(known, values), len(frequent) - 1)
        (light,) = positions(backend, known[near] != values)
        at = at[light]
    return _Part(column, np.stack([backend.to_host(one[at]) for one in columns]), one_of, frequent)


def _in_share(values: Int64Array, one_of: float, backend: Backend) -> Int64Array:
    """Where the values stand whose hash falls into the share."""
    if backend.device is not None:
        return positions(backend, _is_in_share(values, one_of))[0]
    blocks = range(0, len(values), BLOCK_ROWS)
    found = [np.flatnonzero(_is_in_share(values[begin : begin + BLOCK_ROWS], one_of)) + begin for begin in blocks]
    return np.concatenate(found)


def _is_in_share(values: Int64Array, one_of: float) -> BoolArray:
    mixed = values.view(np.uint64) * np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(32)
    mixed *= np.uint64(0x94D049BB133111EB)
    found: BoolArray = mixed < np.uint64(int((1 << 64) / one_of))
    return found


def _facts(parts: Sequence[_Part], n: float, drawn: Int64Array) -> Facts:
    """All columns' parts together; `drawn` are the rows if those of the parts are all."""
    is_exact = parts[0].one_of == 1
    codes = [[np.unique(row, return_inverse=True) for row in part.rows] for part in parts]
    distinct: dict[Columns, float] = {}
    for part, own in zip(parts, codes, strict=True):
        distinct[part.column,] = part.one_of * len(own[part.column][0]) + len(part.frequent)
    rows = _distinct_rows(max(parts, key=lambda part: part.rows.shape[1]), n, drawn)
    met: dict[tuple[Columns, int], float] = {}
    pairs: dict[Columns, list[float]] = {}
    for part, own in zip(parts, codes, strict=True):
        keys, at = own[part.column]
        for other in range(len(parts)):
            if other == part.column:
                continue
            values, place = own[other]
            pair = np.unique(at * max(len(values), 1) + place)
            degrees = np.bincount(pair // max(len(values), 1), minlength=len(keys)).astype(np.float64)
            total, squares = part.one_of * degrees.sum(), part.one_of * (degrees**2).sum()
            if len(part.frequent):
                heavy, squared = _frequent_degrees(part, other, drawn, n, distinct[other,])
                total, squares = total + heavy.sum(), squares + squared.sum()
            met[(part.column,), other] = float(squares / total) if total else 0.0
            pairs.setdefault(tuple(sorted((part.column, other))), []).append(float(total))
    for both, found in pairs.items():
        distinct[both] = rows if len(parts) == 2 else min(sum(found) / len(found), rows)
    distinct[tuple(range(len(parts)))] = rows
    distinct = {key: min(count, rows) for key, count in distinct.items()}
    return Facts(rows, distinct, met, drawn if is_exact else drawn[:, :: DRAWN_ROWS // KEPT_ROWS])


def _distinct_rows(part: _Part, n: float, drawn: Int64Array) -> float:
    rows = part.rows
    if part.one_of == 1:
        return float(_n_distinct(rows))
    if rows.shape[1] >= DRAWN_ROWS // 8:
        return n * _n_distinct(rows) / float(rows.shape[1])
    count = np.array([drawn.shape[1]], np.float64)
    return float(min(_drawn_from(np.array([_n_distinct(drawn)], np.float64), count)[0], n))


def _n_distinct(rows: Int64Array) -> int:
    if not rows.shape[1]:
        return 0
    order = np.lexsort(rows)
    ordered = rows[:, order]
    return 1 + int((ordered[:, 1:] != ordered[:, :-1]).any(axis=0).sum())


def _frequent_degrees(part: _Part, other: int, drawn: Int64Array, n: float, most: float) -> tuple[_Floats, _Floats]:
    """Per frequent value, how many values of another column it has, and that squared: what chance adds is taken off.

    By the drawn rows that were not used to find the frequent values.
    """
    drawn = drawn[:, 1::2]
    near = np.minimum(np.searchsorted(part.frequent, drawn[part.column]), len(part.frequent) - 1)
    rows = np.flatnonzero(part.frequent[near] == drawn[part.column])
    at = near[rows]
    times = np.bincount(at, minlength=len(part.frequent)).astype(np.float64)
    values, place = np.unique(drawn[other][rows], return_inverse=True)
    pair = np.unique(at * max(len(values), 1) + place)
    found = np.bincount(pair // max(len(values), 1), minlength=len(part.frequent)).astype(np.float64)
    cells = np.clip(_drawn_from(found, times), 1.0, max(most, 1.0))
    scale = n / drawn.shape[1]
    degrees: _Floats = -cells * np.expm1(-times * scale / cells)
    varies = times * scale**2 * np.exp(-times * scale / cells) ** 2
    return degrees, np.maximum(degrees**2 - varies, degrees)


def _drawn_from(found: _Floats, times: _Floats) -> _Floats:
    """How many things there are if drawing one so many times has found so many different ones; infinite if all were."""
    low, high = found.copy(), np.full(len(found), 1e18)
    for _ in range(80):
        middle = np.sqrt(np.maximum(low, 0.5) * high)
        enough = -middle * np.expm1(-times / middle) >= found
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return np.where(found >= times, np.inf, high)
