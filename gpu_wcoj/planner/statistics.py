"""Exact statistics of an arrangement: distinct prefixes per level, degrees, heavy hitters.

The largest batch of a spine is counted once, on first use, and the result is cached with the batch: that costs a few
passes over its offsets, less than the merge that created it. The smaller batches are merged separately, and their
effect is added: the rows that appear and disappear, the prefixes that gain and lose children by that, and the prefixes
that appear and disappear by that, level by level from the last to the first. That costs O(rows of the smaller batches),
which are a small share of the largest by the merge policy; a tick counts nothing unless statistics are requested.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpu_wcoj.backend import Backend
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.trace.arrangement import Arrangement
from gpu_wcoj.zset.arrays import exact_sum, numbers, positions
from gpu_wcoj.zset.index import IndexedZSet

HEAVIEST = 16
"""Maximum number of heavy hitters, in prefixes per level."""
SPARE = 256
"""Further prefixes that are kept with a batch, so that some may lose their rank without a new search."""


@dataclass(frozen=True)
class Degrees:
    """Numbers of children of the prefixes that end at one level.

    Attributes
    ----------
    prefixes
        Number of prefixes; each has a child.
    children
        Number of children of all prefixes.
    squares
        Sum over the prefixes of their squared number of children.
    histogram
        Entry i: number of prefixes with at least 2^i and fewer than 2^(i + 1) children. The last entry is not 0.
    heaviest
        (prefix, children) of the prefixes with the most children, at most `HEAVIEST`; ties by the smaller prefix.
    """

    prefixes: int
    children: int
    squares: int
    histogram: tuple[int, ...]
    heaviest: tuple[tuple[tuple[int, ...], int], ...]

    @property
    def mean(self) -> float:
        """Mean number of children of a prefix."""
        return self.children / self.prefixes if self.prefixes else 0.0

    @property
    def met(self) -> float:
        """Mean number of children of a prefix, each prefix weighted by its number of children."""
        return self.squares / self.children if self.children else 0.0

    @property
    def largest(self) -> int:
        """Largest number of children of a prefix."""
        return self.heaviest[0][1] if self.heaviest else 0


@dataclass(frozen=True)
class TrieStatistics:
    """Statistics of one arrangement.

    Attributes
    ----------
    distinct
        Per level, the number of distinct prefixes; the last is the number of rows, whatever their weights.
    degrees
        Degrees per level, without the last.
    """

    distinct: tuple[int, ...]
    degrees: tuple[Degrees, ...]

    @property
    def rows(self) -> int:
        """Rows of the state."""
        return self.distinct[-1]


def measure(arrangement: Arrangement) -> TrieStatistics:
    """Return the statistics of the committed state, cached until it changes.

    Examples
    --------
    >>> import numpy as np
    >>> from gpu_wcoj.backend import select_backend
    >>> from gpu_wcoj.trace.arrangement import ArrangementKey, PhaseRows
    >>> edges = Arrangement(ArrangementKey("edge", (0, 1)), select_backend("cpu"))
    >>> edges.receive_delta([PhaseRows([np.array([1, 1, 1, 2]), np.array([5, 6, 7, 5])], 1)])
    >>> edges.commit()
    >>> found = measure(edges)
    >>> found.distinct, found.degrees[0].histogram, found.degrees[0].heaviest, found.degrees[0].met
    ((2, 4), (1, 1), (((1,), 3), ((2,), 1)), 2.5)
    """
    cache: dict[str, TrieStatistics] = arrangement.spine.__dict__
    if "statistics" not in cache:
        cache["statistics"] = statistics_of(arrangement.spine.batches, len(arrangement.key.order))
    return cache["statistics"]


def statistics_of(batches: Sequence[IndexedZSet], depth: int) -> TrieStatistics:
    """Return the statistics of the sum of tries of one order and depth, the largest first."""
    if not batches:
        return TrieStatistics((0,) * depth, (Degrees(0, 0, 0, (), ()),) * (depth - 1))
    base, *smaller = batches
    counted = _counted(base)
    if not smaller:
        degrees = tuple(counted_level.degrees(base, level) for level, counted_level in enumerate(counted))
        return TrieStatistics(tuple(map(len, base.values)), degrees)
    change = smaller[0]
    for batch in smaller[1:]:
        change = change.merge(batch)
    return _changed(base, counted, change)


@dataclass(eq=False)
class _Counted:
    """Degrees of one level of a batch.

    Attributes
    ----------
    at_least
        Entry i: number of prefixes with at least 2^i children.
    nodes, counts
        The positions of the prefixes with the most children, and their numbers of children, largest first.
    """

    prefixes: int
    children: int
    squares: int
    at_least: tuple[int, ...]
    nodes: Int64Array
    counts: Int64Array

    def degrees(self, batch: IndexedZSet, level: int) -> Degrees:
        nodes = self.nodes[:HEAVIEST]
        heaviest = zip(
            _prefixes(batch, level, nodes), batch.backend.to_host(self.counts[:HEAVIEST]).tolist(), strict=True
        )
        return Degrees(self.prefixes, self.children, self.squares, _buckets(self.at_least), tuple(heaviest))


def _counted(batch: IndexedZSet) -> list[_Counted]:
    """Return the degrees of all levels but the last, cached with the batch."""
    counted: list[_Counted] | None = batch.__dict__.get("degrees")
    if counted is None:
        counted = []
        for offsets in batch.offsets:
            degree = offsets[1:] - offsets[:-1]
            nodes = _largest_positions(batch.backend, degree, HEAVIEST + SPARE)
            squares, at_least = _moments(batch.backend, degree)
            counted.append(
                _Counted(len(degree), int(len(degree) and offsets[-1]), squares, at_least, nodes, degree[nodes])
            )
        batch.__dict__["degrees"] = counted
    return counted


def _moments(backend: Backend, degree: Int64Array) -> tuple[int, tuple[int, ...]]:
    """Return the sum of squares, and the numbers of degrees from 2^i on.

    O(n log of the largest).
    """
    if not len(degree):
        return 0, ()
    (largest,) = numbers(backend, degree.max())
    at_least = numbers(backend, *((degree >= 1 << i).sum() for i in range(largest.bit_length())))
    return exact_sum(backend, degree * degree), tuple(at_least)


def _largest_positions(backend: Backend, degree: Int64Array, n: int) -> Int64Array:
    """Return the positions of the n largest numbers, largest first, then by position.

    O(size log of the largest).
    """
    (order,) = positions(backend, degree > 0)
    if len(order) > n:
        low, high = 0, numbers(backend, degree.max())[0]  # n or more are larger than low, fewer than n than high
        while high - low > 1:
            middle = (low + high) // 2
            if numbers(backend, (degree > middle).sum())[0] < n:
                high = middle
            else:
                low = middle
        above, equal = positions(backend, degree > high, degree == high)
        order = backend.xp.concatenate([above, equal[: n - len(above)]])
    chosen: Int64Array = order[backend.kernels.lexsort([-degree[order], order])]
    return chosen


def _prefixes(batch: IndexedZSet, level: int, nodes: Int64Array) -> list[tuple[int, ...]]:
    """Return the prefixes that end at some positions of a level."""
    return list(zip(*(column.tolist() for column in columns_at(batch, level, nodes)), strict=True))


def columns_at(batch: IndexedZSet, level: int, nodes: Int64Array) -> list[Int64Array]:
    """Return the prefixes at these positions as columns, on the host. O(n log rows)."""
    backend = batch.backend
    columns = []
    for depth in range(level, -1, -1):
        columns.append(backend.to_host(batch.values[depth][nodes]))
        if depth:
            nodes = backend.xp.searchsorted(batch.offsets[depth - 1], nodes, side="right") - 1
    return columns[::-1]


def _buckets(at_least: Sequence[int]) -> tuple[int, ...]:
    buckets = [more - fewer for more, fewer in zip(at_least, [*at_least[1:], 0], strict=True)]
    while buckets and not buckets[-1]:
        buckets.pop()
    return tuple(buckets)


def _changed(base: IndexedZSet, counted: Sequence[_Counted], change: IndexedZSet) -> TrieStatistics:
    """Return the statistics of a counted batch plus a smaller one. O(rows of the smaller one)."""
    backend, xp = base.backend, base.backend.xp
    columns = change.columns()
    positions_in_base = base.locate(columns) if len(base) and len(change) else xp.full(len(change), -1, np.int64)
    is_held = positions_in_base >= 0
    weight = is_held.astype(np.int64)
    if base.weights is not None and len(base):
        weight *= base.weights[xp.maximum(positions_in_base, 0)]
    step = (weight + change.weight_column() != 0).astype(np.int64) - is_held.astype(np.int64)
    distinct, degrees = [len(base) + numbers(backend, step.sum())[0]], []
    for level in range(base.depth - 2, -1, -1):
        (moved,) = positions(backend, step != 0)
        columns = [column[moved] for column in columns[: level + 1]]
        starts = backend.kernels.run_starts(columns)
        sums = backend.kernels.exclusive_sum(step[moved])
        ends = xp.concatenate([starts[1:], xp.full(min(1, len(starts)), len(moved), np.int64)])
        columns = [column[starts] for column in columns]
        positions_in_base = base.locate(columns) if len(base) and len(starts) else xp.full(len(starts), -1, np.int64)
        node, offsets = xp.maximum(positions_in_base, 0), base.offsets[level]
        old = (
            xp.where(positions_in_base >= 0, offsets[node + 1] - offsets[node], 0)
            if len(base)
            else xp.zeros(len(positions_in_base), np.int64)
        )
        new = old + sums[ends] - sums[starts]
        step = (new > 0).astype(np.int64) - (old > 0).astype(np.int64)
        degrees.append(_updated(base, level, counted[level], _Touched(columns, positions_in_base, old, new)))
        distinct.append(degrees[-1].prefixes)
    return TrieStatistics(tuple(distinct[::-1]), tuple(degrees[::-1]))


@dataclass(frozen=True, eq=False)
class _Touched:
    """Prefixes of one level whose children change, ascending, with old and new degrees."""

    columns: Sequence[Int64Array]
    at: Int64Array
    old: Int64Array
    new: Int64Array


def _updated(base: IndexedZSet, level: int, counted: _Counted, touched: _Touched) -> Degrees:
    backend = base.backend
    old, new = touched.old, touched.new
    born, died, children = 0, 0, 0
    if len(old):
        born, died, children = numbers(
            backend, ((new > 0) & (old == 0)).sum(), ((old > 0) & (new == 0)).sum(), (new - old).sum()
        )
    more, fewer = _moments(backend, new), _moments(backend, old)
    n_bits = max(len(counted.at_least), len(more[1]))
    at_least = [
        sum(
            sign * counts[i]
            for sign, counts in ((1, counted.at_least), (1, more[1]), (-1, fewer[1]))
            if i < len(counts)
        )
        for i in range(n_bits)
    ]
    return Degrees(
        counted.prefixes + born - died,
        counted.children + children,
        counted.squares + more[0] - fewer[0],
        _buckets(at_least),
        _heaviest(base, level, counted, touched),
    )


def _heaviest(
    base: IndexedZSet, level: int, counted: _Counted, touched: _Touched
) -> tuple[tuple[tuple[int, ...], int], ...]:
    """Return the heaviest of the unchanged and of the changed prefixes, by rank."""
    backend, xp = base.backend, base.backend.xp
    nodes, counts = counted.nodes, counted.counts
    if len(touched.at):
        (there,) = positions(backend, touched.at >= 0)
        moved = touched.at[there]
        while len(moved) and len(nodes):
            near = xp.minimum(xp.searchsorted(moved, nodes), len(moved) - 1)
            (unchanged,) = positions(backend, moved[near] != nodes)
            if len(unchanged) >= HEAVIEST or len(nodes) == counted.prefixes:
                nodes, counts = nodes[unchanged], counts[unchanged]
                break
            offsets = base.offsets[level]
            degree = offsets[1:] - offsets[:-1]
            nodes = _largest_positions(backend, degree, 2 * len(nodes) + SPARE)
            counts = degree[nodes]
    ranked = zip(_prefixes(base, level, nodes[:HEAVIEST]), backend.to_host(counts[:HEAVIEST]).tolist(), strict=True)
    changed_nodes = _largest_positions(backend, touched.new, HEAVIEST)
    changed_columns = [backend.to_host(column[changed_nodes]).tolist() for column in touched.columns]
    changed = zip(zip(*changed_columns, strict=True), backend.to_host(touched.new[changed_nodes]).tolist(), strict=True)
    return tuple(sorted([*ranked, *changed], key=lambda one: (-one[1], one[0]))[:HEAVIEST])
