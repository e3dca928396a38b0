"""Merge two tries level by level: the smaller one's values are searched in the larger one, which moves as it is.

Siblings of one parent are a run, and the runs of a level stand in the order of their parents. So a value of the
smaller trie has one place among all values of the larger one: within the run of its parent if the larger trie has
that parent, else where such a run would stand.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cpu_fallback.sort import Int64Array
from cpu_fallback.tries import CodeArray, prune
from cpu_fallback.vectorised.search import lower_bound

Trie = tuple[Sequence[CodeArray], Sequence[Int64Array], Int64Array | None]


def bounds(sizes: Int64Array) -> Int64Array:
    """Where each of consecutive lists of these sizes begins, and where the last one ends."""
    starts = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=starts[1:])
    return starts


def merge_tries(left: Trie, right: Trie) -> tuple[list[CodeArray], list[Int64Array], Int64Array | None]:
    """See `gpu_wcoj.kernels.protocol.Kernels.merge_tries`."""
    if len(left[0][-1]) < len(right[0][-1]):
        left, right = right, left
    values: list[CodeArray] = []
    offsets: list[Int64Array] = []
    sizes = np.array([len(left[0][0])]), np.array([len(right[0][0])])
    for level, (large, small) in enumerate(zip(left[0], right[0], strict=True)):
        starts = bounds(sizes[0])
        parent = np.repeat(np.arange(len(sizes[1])), sizes[1])
        place = lower_bound(large, starts[parent], starts[parent + 1], small)
        met = place < starts[parent + 1]
        met[met] = large[place[met]] == small[met]
        fresh = np.flatnonzero(~met)
        # The k-th value without counterpart stands behind `place` values of the larger trie and k of its own kind.
        to_small = np.empty(len(small), np.int64)
        to_small[fresh] = place[fresh] + np.arange(len(fresh))
        from_large = np.ones(len(large) + len(fresh), np.bool_)
        from_large[to_small[fresh]] = False
        to_large = np.flatnonzero(from_large)
        to_small[met] = to_large[place[met]]
        merged = np.empty(len(from_large), np.promote_types(large.dtype, small.dtype))
        merged[to_large] = large
        merged[to_small[fresh]] = small[fresh]
        values.append(merged)
        if level:
            offsets.append(bounds(sizes[0] + sizes[1] - np.bincount(parent[met], minlength=len(sizes[0]))))
        if level < len(left[1]):
            sizes = np.zeros(len(merged), np.int64), np.zeros(len(merged), np.int64)
            sizes[0][to_large] = np.diff(left[1][level])
            sizes[1][to_small] = np.diff(right[1][level])
    if left[2] is None and right[2] is None and not met.any():
        return values, offsets, None
    weights = np.zeros(len(values[-1]), np.int64)
    weights[to_large] = 1 if left[2] is None else left[2]
    weights[to_small] += 1 if right[2] is None else right[2]
    kept = weights != 0
    if not kept.all():
        values[-1], weights = values[-1][kept], weights[kept]
        if offsets:
            offsets[-1] = bounds(kept)[offsets[-1]]
    prune(values, offsets)
    return values, offsets, None if bool((weights == 1).all()) else weights
