"""New values below groups of prefixes: portions of candidates, sorted, without known values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cpu_fallback.progress import PROBES, PROPOSALS, SUM_OF_MINIMA, SURVIVORS
from cpu_fallback.sort import Int64Array, distinct_rows
from cpu_fallback.vectorised.search import find, find_in_all, ragged

PORTION = 1 << 20
"""Candidates that are processed together, at most."""

_Ranges = tuple[Int64Array, Int64Array]
"""Per level and prefix, begin and end of the values below it."""


def fresh_values(
    levels: Sequence[Any], positions: Int64Array, starts: Int64Array,
    known: Sequence[Any], known_positions: Int64Array, work: Int64Array,
) -> tuple[Int64Array, Int64Array]:  # fmt: skip
    """See `gpu_wcoj.kernels.protocol.Kernels.fresh_values`."""
    n_groups = len(starts) - 1
    group = np.repeat(np.arange(n_groups), np.diff(starts))
    begin, end = _ranges(levels, positions)
    parts: list[list[Int64Array]] = []
    n_rows = n_distinct = 0
    for k, level in enumerate(levels):
        width = end[k] - begin[k]
        before = np.concatenate([np.zeros(1, np.int64), np.cumsum(width)])
        work[SUM_OF_MINIMA] += before[-1]
        work[PROPOSALS] += before[-1]
        for first in range(0, int(before[-1]), PORTION):
            stop = min(first + PORTION, int(before[-1]))
            some = slice(int(np.searchsorted(before, first, "right")) - 1, int(np.searchsorted(before, stop)))
            low = np.maximum(begin[k, some], begin[k, some] + first - before[:-1][some])
            high = np.minimum(end[k, some], begin[k, some] + stop - before[:-1][some])
            owner, place = ragged(high - low)
            values = level.values[low[owner] + place].astype(np.int64, copy=False)
            portion = distinct_rows([group[some][owner], values])
            parts.append(_drop_known(portion, known, known_positions, work))
            n_rows += len(parts[-1][0])
            if n_rows > PORTION + 2 * n_distinct:
                parts = [_unite(parts)]
                n_rows = n_distinct = len(parts[0][0])
    groups, values = _unite(parts) if parts else [np.empty(0, np.int64)] * 2
    work[SURVIVORS] += len(values)
    return np.searchsorted(groups, np.arange(n_groups + 1)).astype(np.int64, copy=False), values


def _ranges(levels: Sequence[Any], positions: Int64Array) -> _Ranges:
    begin, end = np.zeros(positions.shape, np.int64), np.zeros(positions.shape, np.int64)
    for k, level in enumerate(levels):
        if level.parent_offsets is None:
            end[k] = len(level.values)
        else:
            has_parent = positions[k] >= 0
            begin[k, has_parent] = level.parent_offsets[positions[k, has_parent]]
            end[k, has_parent] = level.parent_offsets[positions[k, has_parent] + 1]
    return begin, end


def _drop_known(
    rows: list[Int64Array], known: Sequence[Any], known_positions: Int64Array, work: Int64Array
) -> list[Int64Array]:
    """Return the rows (group, value) that no known level contains."""
    begin, end = _ranges(known, known_positions)
    for k, level in enumerate(known):
        group, values = rows
        work[PROBES] += len(group)
        if level.parent_offsets is None:
            is_known = find_in_all(level.values, values) >= 0
        else:
            is_known = find(level.values, begin[k, group], end[k, group], values) >= 0
        if is_known.any():
            rows = [group[~is_known], values[~is_known]]
    return rows


def _unite(parts: list[list[Int64Array]]) -> list[Int64Array]:
    """Return the distinct rows of all parts, sorted."""
    return distinct_rows([np.concatenate(columns) for columns in zip(*parts, strict=True)])
