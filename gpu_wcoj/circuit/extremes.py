"""Minimum or maximum of a group, looked up in an arrangement of (group, value, ...)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpu_wcoj.backend import Backend
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.zset.arrays import BoolArray, positions, stacked
from gpu_wcoj.zset.index import IndexedZSet

INITIAL_WINDOW = 4
"""Values of a group and batch in the first search window; it grows eightfold while no value is present."""

Batches = Sequence[IndexedZSet]


def rows_below(
    batches: Batches, prefix: Sequence[Int64Array], backend: Backend
) -> tuple[Int64Array, list[Int64Array], Int64Array]:
    """Return consolidated rows below each prefix: owner, remaining columns, weights.

    The owner is the position of the prefix. Without columns there is one prefix, that of all rows. If there are no
    rows, one empty remaining column is returned.
    """
    xp = backend.xp
    parts: list[list[Int64Array]] = []
    for batch in batches:
        if prefix:
            owner, columns_below, weights = batch.get_by_prefix(prefix)
        else:
            columns_below, weights = batch.columns(), batch.weight_column()
            owner = xp.zeros(len(weights), np.int64)
        parts.append([owner, *columns_below, weights])
    if not parts:
        nothing: Int64Array = xp.empty(0, np.int64)
        return nothing, [nothing], nothing
    columns = [xp.concatenate(each) for each in zip(*parts, strict=True)]
    (owner, *columns_below), weights = backend.kernels.consolidate(columns[:-1], columns[-1])
    return owner, columns_below, weights


def are_present(batches: Batches, columns: Sequence[Int64Array], backend: Backend) -> BoolArray:
    """Return a mask of the paths (group and value) that have a row of positive weight.

    No weight is negative.
    """
    xp = backend.xp
    total: Int64Array = xp.zeros(len(columns[0]), np.int64)
    batches = [batch for batch in batches if len(batch)]
    if _may_wrap(batches):
        owner, _, weights = rows_below(batches, columns, backend)
        total[owner[weights > 0]] = 1
        return total > 0
    if batches:
        records = [batch.records[: len(columns)] for batch in batches]
        located = backend.kernels.locate(records, [range(len(columns))] * len(batches), stacked(backend, columns))
        for batch, position in zip(batches, located, strict=True):
            total += xp.where(position >= 0, _sums_below(batch, len(columns) - 1, xp.maximum(position, 0)), 0)
    return total > 0


def extreme_values(
    batches: Batches, groups: Sequence[Int64Array], n: int, greatest: bool, backend: Backend, rank: Int64Array | None
) -> tuple[BoolArray, Int64Array]:
    """Return per group whether it has a row of positive weight, and the extreme value.

    O(log n) per batch and group, plus deleted values that are skipped. If values are texts, all values of the group
    are read.

    Parameters
    ----------
    groups
        Columns of `n` groups, the first columns of the batches; none for one group of all rows.
    rank
        Sort position per code of texts; None if values are not texts.
    """
    xp = backend.xp
    has_value: BoolArray = xp.zeros(n, np.bool_)
    best: Int64Array = xp.zeros(n, np.int64)
    waiting: Int64Array = xp.arange(n)
    batches = [batch for batch in batches if len(batch)]
    window = INITIAL_WINDOW if rank is None else 1 << 62
    while len(waiting):
        open_groups = [column[waiting] for column in groups]
        ranges = [_value_ranges(batch, open_groups, len(waiting), backend) for batch in batches]
        owner, value, horizon = _window_values(batches, ranges, open_groups, window, greatest, backend)
        is_final = value >= horizon[owner] if greatest else value <= horizon[owner]
        (final_rows,) = positions(backend, is_final)
        owner, value = owner[final_rows], value[final_rows]
        if rank is not None:
            order = backend.kernels.lexsort([owner, rank[value]])
            owner, value = owner[order], value[order]
        if len(owner):
            ends = owner[1:] != owner[:-1]
            edge = xp.ones(1, np.bool_)
            (chosen,) = positions(backend, xp.concatenate([ends, edge] if greatest else [edge, ends]))
            has_value[waiting[owner[chosen]]] = True
            best[waiting[owner[chosen]]] = value[chosen]
        more: BoolArray = xp.zeros(len(waiting), np.bool_)
        for begin, end in ranges:
            more |= end - begin > window
        (left,) = positions(backend, more & ~has_value[waiting])
        waiting = waiting[left]
        window *= 8
    return has_value, best


def _window_values(
    batches: Batches,
    ranges: Sequence[tuple[Int64Array, Int64Array]],
    groups: Sequence[Int64Array],
    window: int,
    greatest: bool,
    backend: Backend,
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Return present values in a window at one end of each range, and how far they are complete.

    The values are sorted by group.
    """
    xp = backend.xp
    level, n = len(groups), len(ranges[0][0]) if ranges else 1
    horizon: Int64Array = xp.full(n, -(1 << 63) if greatest else (1 << 63) - 1, np.int64)
    nothing: Int64Array = xp.empty(0, np.int64)
    owners, values, sums = [nothing], [nothing], [nothing]
    for batch, (begin, end) in zip(batches, ranges, strict=True):
        width = xp.minimum(end - begin, window)
        first = end - width if greatest else begin
        owner = xp.repeat(xp.arange(n), width)
        position = xp.arange(len(owner)) - xp.repeat(xp.cumsum(width) - width - first, width)
        owners.append(owner)
        values.append(batch.values[level][position].astype(np.int64))
        sums.append(_sums_below(batch, level, position))
        (cut,) = positions(backend, end - begin > window)
        edge = batch.values[level][(first if greatest else first + width - 1)[cut]].astype(np.int64)
        horizon[cut] = xp.maximum(horizon[cut], edge) if greatest else xp.minimum(horizon[cut], edge)
    columns = [xp.concatenate(owners), xp.concatenate(values)]
    if _may_wrap(batches):
        columns = backend.kernels.distinct_rows(columns)
        paths = [*(column[columns[0]] for column in groups), columns[1]]
        (present,) = positions(backend, are_present(batches, paths, backend))
        return columns[0][present], columns[1][present], horizon
    (owner, value), _ = backend.kernels.consolidate(columns, xp.concatenate(sums))
    return owner, value, horizon


def _value_ranges(
    batch: IndexedZSet, groups: Sequence[Int64Array], n: int, backend: Backend
) -> tuple[Int64Array, Int64Array]:
    """Return the begin and end offsets of the values of each group."""
    xp = backend.xp
    if not groups:
        return xp.zeros(n, np.int64), xp.full(n, len(batch.values[0]), np.int64)
    position = batch.locate(groups)
    has_group, node = position >= 0, xp.maximum(position, 0)
    offsets = batch.offsets[len(groups) - 1]
    return xp.where(has_group, offsets[node], 0), xp.where(has_group, offsets[node + 1], 0)


def _sums_below(batch: IndexedZSet, level: int, node: Int64Array) -> Int64Array:
    """Return the sum of the weights of the rows below nodes of a level."""
    begin, end = node, node + 1
    for offsets in batch.offsets[level:]:
        begin, end = offsets[begin], offsets[end]
    if batch.weights is None:
        return end - begin
    before: Int64Array | None = batch.__dict__.get("weights before")
    if before is None:
        before = batch.__dict__["weights before"] = batch.backend.kernels.exclusive_sum(batch.weights)
    return before[end] - before[begin]


def _may_wrap(batches: Batches) -> bool:
    """Return whether a sum of weights might leave int64."""
    return sum(batch.largest_weight * len(batch) for batch in batches) >= 1 << 63
