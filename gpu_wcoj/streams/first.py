"""First rows of groups in a trace, found without reading whole groups."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpu_wcoj.data.column import Column
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.streams.device_context import NOTHING
from gpu_wcoj.streams.trace import Trace
from gpu_wcoj.zset.arrays import BoolArray, positions
from gpu_wcoj.zset.index import IndexedZSet
from gpu_wcoj.zset.zset import ZSet


def first_rows(trace: Trace, keys: Sequence[Column], k: int) -> ZSet:
    """Return the first `k` rows of positive weight per group, in the trace's order.

    Every batch is read from the beginning of a group, twice as far each time, until `k` rows are final: a row is final
    once every batch has been read beyond it. O(k + cancelled rows before them), times a logarithm.
    """
    layout, place = trace.layout, trace.place
    if layout is None or not trace.spine.batches:
        return NOTHING
    backend, xp = place.backend, place.xp
    mask, levels = layout.probe(keys, place, True)
    if mask is not None:
        (rows,) = positions(backend, mask)
        levels = [level[rows] for level in levels]
    if not len(levels[0]):
        return NOTHING
    n_prefix = len(levels)
    ranges = [_leaves(batch, levels) for batch in trace.spine.batches]
    group = xp.arange(len(levels[0]))
    finished_levels: list[list[Int64Array]] = []
    finished_weights: list[Int64Array] = []
    n_read = k
    while len(group):
        lower_levels, sums, owner, finished = _read(trace, ranges, group, n_prefix, n_read, k)
        (done,) = positions(backend, finished)
        (finished_rows,) = positions(backend, finished[owner])
        finished_levels.append(
            [level[group[owner[finished_rows]]] for level in levels] + [level[finished_rows] for level in lower_levels]
        )
        finished_weights.append(sums[finished_rows])
        if len(done) == len(group):
            break
        (open_,) = positions(backend, ~finished)
        group, n_read = group[open_], n_read * 2
    joined = [place.concatenated(parts) for parts in zip(*finished_levels, strict=True)]
    weights = place.concatenated(finished_weights)
    return place.made(layout.names, layout.columns(joined, place), weights)


def _leaves(batch: IndexedZSet, levels: Sequence[Int64Array]) -> tuple[Int64Array, Int64Array]:
    """Return the range of leaves of a batch below each prefix; empty if there are none."""
    node = batch.locate(levels)
    present = node >= 0
    xp = batch.backend.xp
    begin = xp.where(present, node, 0)
    end = xp.where(present, node + 1, 0)
    for offsets in batch.offsets[len(levels) - 1 :]:
        begin, end = offsets[begin], xp.where(present, offsets[end], offsets[begin])
    return begin, end


def _read(
    trace: Trace,
    ranges: Sequence[tuple[Int64Array, Int64Array]],
    group: Int64Array,
    n_prefix: int,
    n_rows_read: int,
    k: int,
) -> tuple[list[Int64Array], Int64Array, Int64Array, BoolArray]:
    """Return first rows of groups within `take` rows per batch, and a mask of complete groups.

    The rows are returned as levels, weights and owners.
    """
    backend, xp = trace.place.backend, trace.place.xp
    owners, weights = [], []
    levels: list[list[Int64Array]] = []
    read_limits: list[tuple[Int64Array, Int64Array]] = []
    n_read = 0
    for batch, (begins, ends) in zip(trace.spine.batches, ranges, strict=True):
        begin, end = begins[group], ends[group]
        width = xp.minimum(end - begin, n_rows_read)
        after = xp.cumsum(width)
        n_rows = int(after[-1])
        owner = xp.repeat(xp.arange(len(group)), width)
        leaf = xp.arange(n_rows) - (after - width)[owner] + begin[owner]
        owners.append(owner)
        weights.append(xp.ones(n_rows, np.int64) if batch.weights is None else batch.weights[leaf])
        levels.append(_levels_at(batch, leaf, n_prefix))
        unread = (end - begin) > width
        read_limits.append((unread, xp.where(unread, n_read + after - 1, 0)))
        n_read += n_rows
    joined = [xp.concatenate(parts) for parts in zip(*levels, strict=True)]
    owner, weight = xp.concatenate(owners), xp.concatenate(weights)
    if n_read == 0:
        return joined, weight, owner, xp.ones(len(group), np.bool_)
    keys = [owner, *joined]
    order = backend.kernels.lexsort(keys)
    starts = backend.kernels.run_starts([key[order] for key in keys])
    sums = backend.kernels.segment_sums(weight[order], starts)
    owner, joined = owner[order[starts]], [level[order[starts]] for level in joined]
    run = xp.searchsorted(starts, xp.arange(n_read), side="right") - 1
    place_of = xp.zeros(n_read, np.int64)
    place_of[order] = run
    threshold = xp.full(len(group), n_read, np.int64)
    for unread, position in read_limits:
        threshold = xp.minimum(threshold, xp.where(unread, place_of[position], n_read))
    counts = (sums > 0) & (xp.arange(len(starts)) <= threshold[owner])
    running = xp.cumsum(counts.astype(np.int64))
    bounds = xp.searchsorted(owner, xp.arange(len(group) + 1), side="left")
    before = xp.concatenate([xp.zeros(1, np.int64), running])[bounds]
    finished = (before[1:] - before[:-1] >= k) | (threshold == n_read)
    (first,) = positions(backend, counts & (running - before[owner] <= k))
    return [level[first] for level in joined], sums[first], owner[first], finished


def _levels_at(batch: IndexedZSet, leaf: Int64Array, n_prefix: int) -> list[Int64Array]:
    """Return the values of leaves below the prefix, level by level."""
    levels_below = [batch.values[-1][leaf].astype(np.int64)]
    node = leaf
    for depth in range(batch.depth - 2, n_prefix - 1, -1):
        node = batch.backend.xp.searchsorted(batch.offsets[depth], node, side="right") - 1
        levels_below.append(batch.values[depth][node].astype(np.int64))
    return levels_below[::-1] if batch.depth > n_prefix else []
