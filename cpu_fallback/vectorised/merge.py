"""Merging two tries level by level: the smaller one's values are searched in the larger one.

Siblings of one parent are a run, and the runs of a level are in the order of their parents. So a value of the smaller
trie has one place among all values of the larger one: within the run of its parent if the larger trie has that parent,
else at the place of such a run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cpu_fallback.sort import Int64Array
from cpu_fallback.tries import CodeArray, prune
from cpu_fallback.vectorised.search import lower_bound

Trie = tuple[Sequence[CodeArray], Sequence[Int64Array], Int64Array | None]


@dataclass(frozen=True, eq=False, slots=True)
class MergedLevel:
    """One level of the merged trie: values, places of both sources' values, and run bounds."""

    values: CodeArray
    from_large: npt.NDArray[np.intp]
    from_small: Int64Array
    bounds: Int64Array


def bounds(sizes: npt.NDArray[np.int64] | npt.NDArray[np.bool_]) -> Int64Array:
    """Return the begin of each of consecutive lists of these sizes, and the end of the last one."""
    starts = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=starts[1:])
    return starts


def merge_level(large: CodeArray, large_sizes: Int64Array, small: CodeArray, small_sizes: Int64Array) -> MergedLevel:
    """Merge the runs of two sources parent by parent; sizes are those of the parents' runs."""
    starts = bounds(large_sizes)
    parent = np.repeat(np.arange(len(small_sizes)), small_sizes)
    place = lower_bound(large, starts[parent], starts[parent + 1], small)
    met = place < starts[parent + 1]
    met[met] = large[place[met]] == small[met]
    fresh = np.flatnonzero(~met)
    # The k-th value without counterpart follows `place` values of the larger source and k values of this kind.
    from_small = np.empty(len(small), np.int64)
    from_small[fresh] = place[fresh] + np.arange(len(fresh))
    is_large = np.ones(len(large) + len(fresh), np.bool_)
    is_large[from_small[fresh]] = False
    from_large = np.flatnonzero(is_large)
    from_small[met] = from_large[place[met]]
    n = len(is_large)
    narrow = large.itemsize == small.itemsize == 4
    values: CodeArray = np.empty(n, np.int32) if narrow else np.empty(n, np.int64)
    values[from_large] = large
    values[from_small[fresh]] = small[fresh]
    both = np.bincount(parent[met], minlength=len(large_sizes))
    return MergedLevel(values, from_large, from_small, bounds(large_sizes + small_sizes - both))


def merge_tries(left: Trie, right: Trie) -> tuple[list[CodeArray], list[Int64Array], Int64Array | None]:
    """See `gpu_wcoj.kernels.protocol.Kernels.merge_tries`."""
    large, small = (left, right) if len(left[0][-1]) >= len(right[0][-1]) else (right, left)
    level = merge_level(large[0][0], np.array([len(large[0][0])]), small[0][0], np.array([len(small[0][0])]))
    values = [level.values]
    offsets: list[Int64Array] = []
    for depth in range(1, len(large[0])):
        large_sizes, small_sizes = np.zeros((2, len(level.values)), np.int64)
        large_sizes[level.from_large] = np.diff(large[1][depth - 1])
        small_sizes[level.from_small] = np.diff(small[1][depth - 1])
        level = merge_level(large[0][depth], large_sizes, small[0][depth], small_sizes)
        values.append(level.values)
        offsets.append(level.bounds)
    if large[2] is None and small[2] is None and len(level.values) == len(large[0][-1]) + len(small[0][-1]):
        return values, offsets, None
    weights = np.zeros(len(level.values), np.int64)
    weights[level.from_large] = 1 if large[2] is None else large[2]
    weights[level.from_small] += 1 if small[2] is None else small[2]
    nonzero = weights != 0
    if not nonzero.all():
        values[-1], weights = values[-1][nonzero], weights[nonzero]
        if offsets:
            offsets[-1] = bounds(nonzero)[offsets[-1]]
    prune(values, offsets)
    return values, offsets, None if bool((weights == 1).all()) else weights
