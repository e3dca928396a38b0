"""The least or greatest value of a group, looked up in an arrangement of (group, value, ...)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpu_wcoj.backend import Backend
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.zset.arrays import BoolArray, positions, stacked
from gpu_wcoj.zset.index import IndexedZSet

WINDOW = 4
"""Values of a group and batch that are looked at first; eight times as many each time that none of them is there."""

Batches = Sequence[IndexedZSet]


def rows_below(
    batches: Batches, prefix: Sequence[Int64Array], backend: Backend
) -> tuple[Int64Array, list[Int64Array], Int64Array]:
    """The rows of all batches that begin with each prefix, consolidated: owner, the other columns, weights.

    Without columns there is one prefix, that of all rows. Without rows there is one other column.
    """
    xp = backend.xp
    parts: list[list[Int64Array]] = []
    for batch in batches:
        if prefix:
            owner, rest, weights = batch.get_by_prefix(prefix)
        else:
            rest, weights = batch.columns(), batch.weight_column()
            owner = xp.zeros(len(weights), np.int64)
        parts.append([owner, *rest, weights])
    if not parts:
        nothing: Int64Array = xp.empty(0, np.int64)
        return nothing, [nothing], nothing
    columns = [xp.concatenate(each) for each in zip(*parts, strict=True)]
    (owner, *rest), weights = backend.kernels.consolidate(columns[:-1], columns[-1])
    return owner, rest, weights


def are_held(batches: Batches, columns: Sequence[Int64Array], backend: Backend) -> BoolArray:
    """Which of these paths, a group and a value each, have a row of positive weight below; none has a negative one."""
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
    """Per group, whether it has a row of positive weight, and the least or greatest value of those.

    O(log) a batch and group, and dead values on the way. Where values are texts, all of the group's are looked at.

    Parameters
    ----------
    groups
        Columns of `n` groups, the batches' first ones; none for one group of all.
    rank
        Of texts, per code.
    """
    xp = backend.xp
    found: BoolArray = xp.zeros(n, np.bool_)
    best: Int64Array = xp.zeros(n, np.int64)
    waiting: Int64Array = xp.arange(n)
    batches = [batch for batch in batches if len(batch)]
    window = WINDOW if rank is None else 1 << 62
    while len(waiting):
        asked = [column[waiting] for column in groups]
        ranges = [_values_of(batch, asked, len(waiting), backend) for batch in batches]
        owner, value, horizon = _held_in_window(batches, ranges, asked, window, greatest, backend)
        known = value >= horizon[owner] if greatest else value <= horizon[owner]
        (kept,) = positions(backend, known)
        owner, value = owner[kept], value[kept]
        if rank is not None:
            order = backend.kernels.lexsort([owner, rank[value]])
            owner, value = owner[order], value[order]
        if len(owner):
            ends = owner[1:] != owner[:-1]
            edge = xp.ones(1, np.bool_)
            (at,) = positions(backend, xp.concatenate([ends, edge] if greatest else [edge, ends]))
            found[waiting[owner[at]]] = True
            best[waiting[owner[at]]] = value[at]
        more: BoolArray = xp.zeros(len(waiting), np.bool_)
        for begin, end in ranges:
            more |= end - begin > window
        (left,) = positions(backend, more & ~found[waiting])
        waiting = waiting[left]
        window *= 8
    return found, best


def _held_in_window(
    batches: Batches,
    ranges: Sequence[tuple[Int64Array, Int64Array]],
    groups: Sequence[Int64Array],
    window: int,
    greatest: bool,
    backend: Backend,
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Of the values at that end of each range, those that are held, sorted by group; and up to where all are known."""
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
        last = batch.values[level][(first if greatest else first + width - 1)[cut]].astype(np.int64)
        horizon[cut] = xp.maximum(horizon[cut], last) if greatest else xp.minimum(horizon[cut], last)
    columns = [xp.concatenate(owners), xp.concatenate(values)]
    if _may_wrap(batches):
        columns = backend.kernels.distinct_rows(columns)
        paths = [*(column[columns[0]] for column in groups), columns[1]]
        (held,) = positions(backend, are_held(batches, paths, backend))
        return columns[0][held], columns[1][held], horizon
    (owner, value), _ = backend.kernels.consolidate(columns, xp.concatenate(sums))
    return owner, value, horizon


def _values_of(
    batch: IndexedZSet, groups: Sequence[Int64Array], n: int, backend: Backend
) -> tuple[Int64Array, Int64Array]:
    """Where the values of each group begin and end."""
    xp = backend.xp
    if not groups:
        return xp.zeros(n, np.int64), xp.full(n, len(batch.values[0]), np.int64)
    position = batch.locate(groups)
    held, node = position >= 0, xp.maximum(position, 0)
    offsets = batch.offsets[len(groups) - 1]
    return xp.where(held, offsets[node], 0), xp.where(held, offsets[node + 1], 0)


def _sums_below(batch: IndexedZSet, level: int, node: Int64Array) -> Int64Array:
    """The sum of the weights of the rows below nodes of a level."""
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
    """Whether a sum of weights might leave int64."""
    return sum(batch.largest_weight * len(batch) for batch in batches) >= 1 << 63
