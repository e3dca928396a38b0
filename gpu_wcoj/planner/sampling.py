"""Estimate statistics of rows that have no arrangement yet, in a few passes over them.

For every column, the sample holds the rows whose value's hash falls into a share of the hashes: it holds all rows of a
value or none, so the degree of a sampled value is exact, and a share of all values is sampled. Frequent values would
make that estimate unstable; some thousand rows drawn at random reveal them, and they are counted separately. The
frequency with which two drawn rows agree gives the number of rows that agree with a row that is met. Relations of up to
`EXACT_ROWS` rows are counted exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from gpu_wcoj.backend import Backend, cpu_backend
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.planner.facts import Columns, Facts
from gpu_wcoj.zset.arrays import BoolArray, is_host, positions

_Floats = npt.NDArray[np.float64]

EXACT_ROWS = 1 << 15
"""Rows: relations of at most this size are counted exactly."""
SHARE_ROWS = 1 << 14
"""Target sample size in rows per column; fewer for each if there are more than two columns."""
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""2^64 divided by the golden ratio: the upper bits of its multiples are evenly distributed."""
DRAWN_ROWS = 1 << 15
"""Rows drawn at random: half of them to find frequent values, half to count beside these."""
FREQUENT = 8
"""Occurrences among the former drawn rows from which on a value is counted separately."""
UNIQUE = 0.9
"""Share of rows: above this share of distinct pairs, degrees of a column are counted in rows."""
KEPT_ROWS = 1 << 11
"""Drawn rows that are kept as a sample for selections."""
BLOCK_ROWS = 1 << 14
"""Rows that are hashed at a time, so that they stay in the processor's cache."""


def sample_statistics(columns: Sequence[Int64Array], weights: Int64Array | None, backend: Backend) -> Facts:
    """Estimate the rows of positive weight. O(rows + columns^2); one device wait a column.

    Parameters
    ----------
    columns
        int64, in the host's memory, where they stay, or on the backend's device.
    weights
        There or on the host; None if all are positive.

    Examples
    --------
    >>> from gpu_wcoj.backend import select_backend
    >>> found = sample_statistics([np.array([1, 1, 1, 2]), np.array([5, 6, 7, 5])], None, select_backend("cpu"))
    >>> found.rows, found.values([0]), found.values([1]), found.below([0], 1)
    (4.0, 2.0, 3.0, 2.5)
    """
    chosen = None
    if weights is not None and not bool((weights > 0).all()):
        chosen = np.flatnonzero(weights > 0) if is_host(weights) else positions(backend, weights > 0)[0]
    if all(map(is_host, columns)):  # they are not moved for this
        chosen = chosen if chosen is None or is_host(chosen) else backend.to_host(chosen)
        backend = cpu_backend()
    columns = [backend.asarray(column) for column in columns]
    if chosen is not None:
        chosen = backend.asarray(chosen)
        columns = [column[chosen] for column in columns]
    n, width = len(columns[0]), len(columns)
    if n <= EXACT_ROWS:
        return _exact(np.stack([backend.to_host(column) for column in columns]))
    positions_drawn = backend.asarray(np.unique(np.random.default_rng(n).integers(0, n, DRAWN_ROWS)))
    drawn = np.stack([backend.to_host(column[positions_drawn]) for column in columns])
    one_of = n * max(width, 2) / (2 * SHARE_ROWS)
    return _facts([_part(column, columns, drawn, one_of, backend) for column in range(width)], float(n), drawn)


def _exact(rows: Int64Array) -> Facts:
    """Return exact statistics of the rows, one array row a column."""
    width, n = rows.shape
    numbered = [_numbered(column) for column in rows]
    distinct: dict[Columns, float] = {(column,): float(count) for column, (_, count) in enumerate(numbered)}
    met: dict[tuple[Columns, int], float] = {}
    for left, right in combinations(range(width), 2):
        (left_index, _), (place, n_values) = numbered[left], numbered[right]
        cells = _cells(left_index, place, n_values)
        distinct[left, right] = float(len(cells))
        for pair, beside in zip((((left,), right), ((right,), left)), np.divmod(cells, max(n_values, 1)), strict=True):
            degrees = np.bincount(beside)
            met[pair] = float(degrees @ degrees) / max(len(cells), 1)
    all_columns = tuple(range(width))
    if width > 2:
        distinct[all_columns] = float(len(_cells(numbered[0][0], *_numbered(_hashed(rows[1:])))))
    if width > 1:
        distinct[all_columns] = n * (distinct[all_columns] / n) if n else 0.0  # the same rounding as for estimated rows
    n_rows = distinct[all_columns]
    return Facts(n_rows, {key: min(count, n_rows) for key, count in distinct.items()}, met, rows)


def _numbered(values: Int64Array) -> tuple[Int64Array, int]:
    """Return each value's index among the distinct values, and their number."""
    order = values.argsort()
    ascending = values[order]
    indices = np.zeros(len(values), np.int64)
    numbers = (ascending[1:] != ascending[:-1]).cumsum()
    indices[order[1:]] = numbers
    return indices, int(numbers[-1]) + 1 if len(numbers) else len(values)


def _cells(indices: Int64Array, place: Int64Array, n_values: int) -> Int64Array:
    """Return the distinct values of ``at * n_values + place``, ascending."""
    cells = indices * max(n_values, 1) + place
    cells.sort()
    return cells[_is_first(cells)]


def _is_first(values: Int64Array) -> BoolArray:
    """Return the mask of the first of equal values in a sorted array."""
    mask = np.empty(len(values), np.bool_)
    mask[:1] = True
    np.not_equal(values[1:], values[:-1], out=mask[1:])
    return mask


@dataclass(frozen=True, eq=False)
class _Part:
    """Rows in the sample of one column.

    Attributes
    ----------
    rows
        Sampled rows, one array row a column of the relation, without rows of frequent values.
    one_of
        Inverse of the sampled share.
    frequent
        Values of the column that are counted separately, ascending.
    drawn
        Positions, among every second drawn row, of rows with a frequent value, and the index of that value.
    n_keys, at
        Number of distinct values of the column among the rows, and the index of each row's value.
    """

    column: int
    rows: Int64Array
    one_of: float
    frequent: Int64Array
    drawn: tuple[Int64Array, Int64Array]
    n_keys: int
    at: Int64Array

    @classmethod
    def of(cls, column: int, rows: Int64Array, one_of: float, frequent: Int64Array, drawn: Int64Array) -> _Part:
        """Create a part from these rows."""
        indices, n_keys = _numbered(rows[column])
        matches = which = np.empty(0, np.int64)
        if len(frequent):
            near = np.minimum(np.searchsorted(frequent, drawn[column, 1::2]), len(frequent) - 1)
            matches = np.flatnonzero(frequent[near] == drawn[column, 1::2])
            which = near[matches]
        return cls(column, rows, one_of, frequent, (matches, which), n_keys, indices)


def _part(column: int, columns: Sequence[Int64Array], drawn: Int64Array, one_of: float, backend: Backend) -> _Part:
    candidates, times = np.unique(drawn[column, ::2], return_counts=True)
    frequent = candidates[times >= FREQUENT]
    rows_at = _in_share(columns[column], one_of, backend)
    if len(frequent):
        xp, values = backend.xp, columns[column][rows_at]
        frequent_values = backend.asarray(frequent)
        near = xp.minimum(xp.searchsorted(frequent_values, values), len(frequent) - 1)
        (light,) = positions(backend, frequent_values[near] != values)
        rows_at = rows_at[light]
    rows = np.stack([backend.to_host(values_of_column[rows_at]) for values_of_column in columns])
    return _Part.of(column, rows, one_of, frequent, drawn)


def _in_share(values: Int64Array, one_of: float, backend: Backend) -> Int64Array:
    """Return the positions of values whose hash is in the sampled share."""
    if backend.device is not None:
        return positions(backend, _is_in_share(values, one_of))[0]
    blocks = range(0, len(values), BLOCK_ROWS)
    matches = [np.flatnonzero(_is_in_share(values[begin : begin + BLOCK_ROWS], one_of)) + begin for begin in blocks]
    return np.concatenate(matches)


def _is_in_share(values: Int64Array, one_of: float) -> BoolArray:
    mask: BoolArray = values.view(np.uint64) * GOLDEN < np.uint64(int((1 << 64) / one_of))
    return mask


def _facts(parts: Sequence[_Part], n: float, drawn: Int64Array) -> Facts:
    """Combine the parts of all columns."""
    distinct: dict[Columns, float] = {}
    for part in parts:
        distinct[part.column,] = part.one_of * part.n_keys + len(part.frequent)
    rows = _distinct_rows(max(parts, key=lambda part: part.rows.shape[1]), n, drawn)
    met: dict[tuple[Columns, int], float] = {}
    pairs: dict[Columns, float] = {}
    for part in parts:
        agreeing = _agreeing(drawn[part.column], n)
        for other_column in range(len(parts)):
            if other_column == part.column:
                continue
            total, squares = _beside(part, part.rows[other_column], drawn[other_column], n, distinct[other_column,])
            met[(part.column,), other_column] = squares / total if total else 0.0
            if total > UNIQUE * n:
                met[(part.column,), other_column] = agreeing
            both = tuple(sorted((part.column, other_column)))
            pairs[both] = pairs.get(both, 0.0) + total / 2
    distinct.update(pairs)
    distinct[tuple(range(len(parts)))] = rows
    distinct = {key: min(count, rows) for key, count in distinct.items()}
    return Facts(rows, distinct, met, drawn[:, :: DRAWN_ROWS // KEPT_ROWS])


def _beside(part: _Part, values: Int64Array, drawn: Int64Array, n: float, max_values: float) -> tuple[float, float]:
    """Return the number of values of another column beside a part's values, and its squares.

    Parameters
    ----------
    values, drawn
        The other column of the part's rows, and of the drawn rows.
    max_values
        Maximum number of distinct values of the other column.
    """
    degrees = _degrees(part.at, *_numbered(values), part.n_keys)
    total, squares = part.one_of * float(degrees.sum()), part.one_of * float((degrees**2).sum())
    if len(part.frequent):
        heavy, squared = _frequent_degrees(part, drawn, n, max_values)
        total, squares = total + float(heavy.sum()), squares + float(squared.sum())
    return total, squares


def _degrees(indices: Int64Array, place: Int64Array, n_values: int, n_keys: int) -> _Floats:
    """Return, per key, the number of distinct values beside it."""
    return np.bincount(_cells(indices, place, n_values) // max(n_values, 1), minlength=n_keys).astype(np.float64)


def _agreeing(values: Int64Array, n: float) -> float:
    """Return the mean number of the n rows that agree with a row in a column, by drawn rows."""
    _, times = np.unique(values, return_counts=True)
    return 1 + (n - 1) * float((times * (times - 1.0)).sum()) / (len(values) * (len(values) - 1.0))


def _distinct_rows(part: _Part, n: float, drawn: Int64Array) -> float:
    """Return the estimated number of distinct rows among n."""
    other_columns = [column for column in range(len(drawn)) if column != part.column]
    if not other_columns:
        return part.one_of * part.n_keys + len(part.frequent)
    total, _ = _beside(part, _hashed(part.rows[other_columns]), _hashed(drawn[other_columns]), n, 1e18)
    n_sampled = part.one_of * part.rows.shape[1]
    if len(part.frequent):
        n_sampled += len(part.drawn[0]) * n / len(drawn[0, 1::2])
    return n * min(1.0, total / n_sampled) if n_sampled else 0.0


def _hashed(rows: Int64Array) -> Int64Array:
    """Return one value a column of this array, equal for equal columns."""
    if len(rows) == 1:
        only: Int64Array = rows[0]
        return only
    mixed = np.zeros(rows.shape[1], np.uint64)
    for row in rows:
        mixed = (mixed ^ mixed >> np.uint64(29)) * np.uint64(0xBF58476D1CE4E5B9) + row.view(np.uint64) * GOLDEN
        mixed ^= mixed >> np.uint64(32)
    return mixed.view(np.int64)


def _frequent_degrees(part: _Part, values: Int64Array, n: float, max_values: float) -> tuple[_Floats, _Floats]:
    """Return estimated degrees of frequent values, and their squares without sampling noise.

    Uses the drawn rows that were not used to find the frequent values.
    """
    rows, value_index = part.drawn
    times = np.bincount(value_index, minlength=len(part.frequent)).astype(np.float64)
    n_found = _degrees(value_index, *_numbered(values[1::2][rows]), len(part.frequent))
    cells = np.clip(_drawn_from(n_found, times), 1.0, max(max_values, 1.0))
    scale = n / len(values[1::2])
    degrees: _Floats = -cells * np.expm1(-times * scale / cells)
    varies = times * scale**2 * np.exp(-times * scale / cells) ** 2
    return degrees, np.maximum(degrees**2 - varies, degrees)


def _drawn_from(n_found: _Floats, times: _Floats) -> _Floats:
    """Return the population sizes for which so many draws find so many distinct values.

    A size is infinite if all draws were distinct.
    """
    low, high = n_found.copy(), np.full(len(n_found), 1e18)
    for _ in range(80):
        middle = np.sqrt(np.maximum(low, 0.5) * high)
        enough = -middle * np.expm1(-times / middle) >= n_found
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return np.where(n_found >= times, np.inf, high)
