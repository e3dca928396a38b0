"""Exact statistics of an arrangement: distinct prefixes per level, degrees, heavy hitters.

The largest batch of a spine is counted once, on first use, and the result is cached with the batch: that costs a few
passes over its offsets, less than the merge that created it. The smaller batches are merged separately, and their
effect is added: the rows that appear and disappear, the prefixes that gain and lose children by that, and the prefixes
that appear and disappear by that, level by level from the last to the first. That costs O(rows of the smaller batches),
which are a small share of the largest by the merge policy; a tick counts nothing unless statistics are requested.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations, permutations
from math import expm1, log1p, prod, sqrt

import numpy as np
import numpy.typing as npt

from gpu_wcoj.backend import Backend, cpu_backend
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.planner.body import BodyAtom
from gpu_wcoj.trace.arrangement import COMPARE, Arrangement
from gpu_wcoj.zset.arrays import BoolArray, exact_sum, is_host, numbers, positions
from gpu_wcoj.zset.index import IndexedZSet

SELECTIVITY = {"=": 0.1, "!=": 0.9, "<": 1 / 3, "<=": 1 / 3, ">": 1 / 3, ">=": 1 / 3}
"""Assumed share of rows that a filter keeps, by operator."""

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


# Statistics of one relation: rows, distinct values of columns, and degrees.
#
# Missing numbers are estimated from counted ones: columns are assumed to be independent of each other, within the
# number of rows.


Columns = tuple[int, ...]
"""Columns of a relation, ascending."""

Counts = tuple[float, ...]
"""Number of distinct values of one or two columns; of two, then the degrees of the second beside the first and of the
first beside the second, if they are known.
"""


@dataclass(frozen=True, eq=False)
class Facts:
    """Statistics of one relation, or of a selection of its rows.

    Attributes
    ----------
    rows
        Number of distinct rows.
    distinct
        Number of distinct values that some columns have together.
    met
        ``met[columns, other]``: mean number of values of `other` beside a value of `columns`, each value of `columns`
        weighted by that number, as if it were reached through rows.
    sample
        Even sample of the rows, one array row a column; None if there is none.
    rest
        Return estimates of the missing numbers; called once, on first use.
    draw
        Return a sample if `sample` is None; called once, on first use.
    count
        Count one or two ascending columns that are missing in `distinct`, or return None; called once for each.

    Examples
    --------
    >>> edges = Facts(1000.0, {(0,): 50.0, (1,): 400.0}, {((0,), 1): 60.0})
    >>> edges.values([0]), round(edges.values([0, 1])), edges.below([0], 1), round(edges.below([1], 0), 1)
    (50.0, 975, 60.0, 2.4)
    """

    rows: float
    distinct: Mapping[Columns, float] = field(default_factory=dict)
    met: Mapping[tuple[Columns, int], float] = field(default_factory=dict)
    sample: Int64Array | None = None
    rest: Callable[[], Facts] | None = None
    draw: Callable[[], Int64Array | None] | None = None
    count: Callable[[Columns], Counts | None] | None = None
    _values: dict[Columns, float] = field(default_factory=dict, init=False, repr=False)
    _counts: dict[Columns, Counts | None] = field(default_factory=dict, init=False, repr=False)
    _cells: dict[Columns, tuple[float, float, float]] = field(default_factory=dict, init=False, repr=False)
    _pairs: dict[Columns, tuple[float, float]] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def completed(self) -> Facts:
        """These statistics, completed by the estimates of `rest`."""
        if self.rest is None:
            return self
        more = self.rest()
        return Facts(
            self.rows,
            {**more.distinct, **self.distinct},
            {**more.met, **self.met},
            more.sample if self.sample is None else self.sample,
            count=more.count,
        )

    @cached_property
    def drawn(self) -> Int64Array | None:
        """Sample of the rows; see `sample`."""
        return self.draw() if self.sample is None and self.draw is not None else self.sample

    @property
    def with_pairs(self) -> Facts:
        """These statistics, completed, with all columns and their pairs counted."""
        complete = self.completed
        columns = range(1 + max((column for key in complete.distinct for column in key), default=-1))
        keys = [*combinations(columns, 1), *combinations(columns, 2)]
        distinct = {key: n_values for key in keys if (n_values := complete.known_values(key)) is not None}
        met: dict[tuple[Columns, int], float] = {
            ((column,), further): degree
            for column, further in permutations(columns, 2)
            if (degree := complete._known_degree(column, further)) is not None
        }
        return Facts(self.rows, {**complete.distinct, **distinct}, {**complete.met, **met}, complete.sample)

    def _counted(self, key: Columns) -> Counts | None:
        """Return the counts of one or two ascending columns; None if they cannot be counted."""
        if key not in self._counts:
            self._counts[key] = None if self.count is None else self.count(key)
        return self._counts[key]

    def known_values(self, key: Columns) -> float | None:
        """Return the number of distinct values of ascending columns; None if it is not known."""
        n_values = self.distinct.get(key)
        if n_values is None and 0 < len(key) <= 2:
            counts = self._counted(key)
            return None if counts is None else min(counts[0], self.rows)
        return n_values

    def _known_degree(self, column: int, further: int) -> float | None:
        degree = self.met.get(((column,), further))
        if degree is None:
            counts = self._counted((column, further) if column < further else (further, column))
            return None if counts is None or len(counts) == 1 else counts[1 if column < further else 2]
        return degree

    def values(self, columns: Collection[int]) -> float:
        """Return the number of distinct values of these columns together, from 1 to `rows`."""
        key = tuple(sorted(set(columns))) if len(columns) > 1 else tuple(columns)
        n_values = self._values.get(key)
        if n_values is None:
            n_values = self._values[key] = self._estimated(key)
        return n_values

    def _estimated(self, key: Columns) -> float:
        """Estimate `values` of ascending columns."""
        if not key:
            return 1.0
        n_values = self.known_values(key)
        if n_values is None:
            n_values = self.completed.known_values(key)
        if n_values is not None:
            return max(1.0, min(n_values, self.rows))
        complete = self.completed
        cells, share, largest = complete._cells_of(key)
        columns, max_values = set(key), self.rows
        for part in complete._wide if len(key) > 1 else complete.distinct:
            count = complete.distinct[part]
            if columns.issuperset(part):
                share = min(share, complete._share(part, count))
                largest = max(largest, count)
            elif columns.issubset(part):
                max_values = min(max_values, count)
        estimate = spread(self.rows, cells * share) if len(key) > 1 else cells
        return max(1.0, min(max(estimate, largest), max_values))

    @cached_property
    def _wide(self) -> list[Columns]:
        """More than two columns whose number of distinct values is known."""
        return [key for key in self.distinct if len(key) > 2]

    def _single(self, column: int) -> float:
        n_values = self.known_values((column,))
        return sqrt(max(self.rows, 1.0)) if n_values is None else n_values

    def _share(self, part: Columns, count: float) -> float:
        """Return the share of the combinations of values of some columns that rows have."""
        cells = prod(map(self._single, part))
        return count / cells if cells else 1.0

    def _pair(self, earlier: int, column: int) -> tuple[float, float]:
        """Return the share of the combinations of two columns that rows have, and their number.

        (1, 0) if it is not known.
        """
        key = earlier, column
        n_pairs = self.known_values(key)
        pair = self._pairs[key] = (1.0, 0.0) if n_pairs is None else (self._share(key, n_pairs), n_pairs)
        return pair

    def _cells_of(self, key: Columns) -> tuple[float, float, float]:
        """Return what is known of one and two of these columns.

        O(columns) if it is known for all but the last of them, else O(columns^2) lookups.

        Returns
        -------
        cells, share, largest
            Combinations of their values, smallest share of those of two columns that rows have, and largest known
            number of values.
        """
        n_known = len(key)
        while n_known and key[:n_known] not in self._cells:
            n_known -= 1
        cells, share, largest = self._cells[key[:n_known]] if n_known else (1.0, 1.0, 0.0)
        for place in range(n_known, len(key)):
            column = key[place]
            single = self._single(column)
            cells *= single
            if self.known_values((column,)) is not None:
                largest = max(largest, single)
            for earlier in key[:place]:
                pair = self._pairs.get((earlier, column)) or self._pair(earlier, column)
                if pair[0] < share:
                    share = pair[0]
                if pair[1] > largest:
                    largest = pair[1]
            self._cells[key[: place + 1]] = cells, share, largest
        return cells, share, largest

    def below(self, columns: Collection[int], other: int) -> float:
        """Return the mean number of values of a further column beside a value of these columns."""
        key: Columns = tuple(sorted(set(columns)))
        if not key:
            return self.values([other])
        for facts in (self, self.completed):
            degree = facts._known_degree(key[0], other) if len(key) == 1 else facts.met.get((key, other))
            if degree is not None:
                return max(1.0, degree)
        complete, mean = self.completed, self._mean(key, other)
        skewed = mean
        for column, degree in complete._degrees_of.get(key, ()):
            # a value with many rows has many values of other columns, too
            skewed = max(skewed, mean * degree / self._mean(key, column))
        degrees = [complete._known_degree(column, other) for column in key]
        smallest = min((degree for degree in degrees if degree is not None), default=skewed)
        return max(1.0, mean, min(skewed, smallest, self.values([other])))

    @cached_property
    def _degrees_of(self) -> dict[Columns, list[tuple[int, float]]]:
        """Per columns, the known degrees of further columns."""
        degrees: dict[Columns, list[tuple[int, float]]] = {}
        for (key, column), degree in self.met.items():
            degrees.setdefault(key, []).append((column, degree))
        return degrees

    def _mean(self, columns: Columns, column: int) -> float:
        return self.values([*columns, column]) / self.values(columns)

    def selectivity(self, atom: BodyAtom) -> float:
        """Return the share of rows that the atom's constants, repetitions and comparisons leave."""
        if not (atom.constants or atom.equal or atom.compared):
            return 1.0
        sample = self.sample if self.sample is not None else self.completed.sample
        hits = None if sample is None else _hits(atom, sample)
        if sample is not None and (hits or sample.shape[1] >= self.rows):
            return float((hits or 0) / max(sample.shape[1], 1))
        share: float = 1 / self.values([column for column, _ in atom.constants])
        for pair in atom.equal:
            share /= max(self.values([column]) for column in pair)
        for _, op, _, _ in atom.compared:
            share *= SELECTIVITY[op]
        return share if sample is None else min(share, 0.5 / sample.shape[1])

    def projected(self, columns: Sequence[int]) -> Facts:
        """Return the statistics of the distinct rows of some columns, in that order.

        Examples
        --------
        >>> edges = Facts(1000.0, {(0,): 50.0, (1,): 400.0, (0, 1): 900.0}, {((0,), 1): 60.0})
        >>> pairs = edges.projected([1, 0])
        >>> pairs.rows, pairs.values([0]), pairs.below([1], 0)
        (900.0, 400.0, 60.0)
        """
        known = self._projected(columns)
        return Facts(
            self.values(columns),
            known.distinct,
            known.met,
            rest=lambda: self.completed._projected(columns),
            count=known.count,
        )

    def _projected(self, columns: Sequence[int]) -> Facts:
        """Return the known numbers about some columns, without an estimate."""
        place = {column: position for position, column in enumerate(columns)}

        def find_places(key: Columns) -> Columns:
            return tuple(sorted(place[column] for column in key))

        distinct = {find_places(key): count for key, count in self.distinct.items() if place.keys() >= set(key)}
        met = {
            (find_places(key), place[other]): degree
            for (key, other), degree in self.met.items()
            if place.keys() >= {*key, other}
        }
        sources = {position: column for column, position in place.items()}
        return Facts(self.rows, distinct, met, count=self.count and renumbered(self._counted, sources))

    def selected(self, share: float) -> Facts:
        """Return the statistics of a random share of the rows."""
        complete, rows = self.completed, self.rows * share

        def n_left(count: float) -> float:
            return min(rows, left(count, self.rows, share))

        def degree_left(degree: float) -> float:
            return 1 + (max(degree, 1.0) - 1) * share

        def count_left(key: Columns) -> Counts | None:
            counts = complete._counted(key)
            return None if counts is None else (n_left(counts[0]), *map(degree_left, counts[1:]))

        return Facts(
            rows,
            {key: n_left(count) for key, count in complete.distinct.items()},
            {key: degree_left(degree) for key, degree in complete.met.items()},
            count=complete.count and count_left,
        )


def renumbered(
    count: Callable[[Columns], Counts | None], sources: Mapping[int, int]
) -> Callable[[Columns], Counts | None]:
    """Return `Facts.count` for columns with new numbers.

    Parameters
    ----------
    sources
        Per new number, the number that `count` knows.
    """

    def counted(key: Columns) -> Counts | None:
        if not sources.keys() >= set(key):
            return None
        places = [sources[column] for column in key]
        counts = count(tuple(sorted(places)))
        return counts if counts is None or places == sorted(places) else (counts[0], *counts[:0:-1])

    return counted


def spread(rows: float, cells: float) -> float:
    """Return the expected number of cells hit by rows that are distributed at random.

    Examples
    --------
    >>> round(spread(100, 10)), round(spread(100, 100)), round(spread(100, 1e6))
    (10, 63, 100)
    """
    return -cells * expm1(-rows / cells) if cells else 0.0


def left(groups: float, rows: float, share: float) -> float:
    """Return the expected number of equal-sized groups that keep a row of a random share.

    Examples
    --------
    >>> left(10, 100, 0.5) > 9.9, round(left(100, 100, 0.25))
    (True, 25)
    """
    if share >= 1 or not groups:
        return groups
    return -groups * expm1(rows / groups * log1p(-share))


def _hits(atom: BodyAtom, sample: Int64Array) -> int:
    """Return the number of sample rows that the atom's selection leaves."""
    mask = np.ones(sample.shape[1], np.bool_)
    for column, constant in atom.constants:
        mask &= sample[column] == constant
    for left_column, right_column in atom.equal:
        mask &= sample[left_column] == sample[right_column]
    for column, op, right, code in atom.compared:
        mask &= COMPARE[op](sample[column], code if right is None else sample[right])
    return int(mask.sum())


def facts_of(
    counted: Mapping[Columns, tuple[Sequence[float], Sequence[float]]],
) -> tuple[dict[Columns, float], dict[tuple[Columns, int], float]]:
    """Return `Facts.distinct` and `Facts.met` from distinct prefixes and degrees of tries.

    Examples
    --------
    >>> facts_of({(1, 0): ((40.0, 900.0), (30.0,))})
    ({(1,): 40.0, (0, 1): 900.0}, {((1,), 0): 30.0})
    """
    distinct: dict[Columns, float] = {}
    met: dict[tuple[Columns, int], float] = {}
    for order, (prefixes, degrees) in counted.items():
        for depth, count in enumerate(prefixes, 1):
            distinct[tuple(sorted(order[:depth]))] = count
        for depth, degree in enumerate(degrees, 1):
            met[tuple(sorted(order[:depth])), order[depth]] = degree
    return distinct, met


# Estimate statistics of rows that have no arrangement yet, in a few passes over them.
#
# For every column, the sample holds the rows whose value's hash falls into a share of the hashes: it holds all rows of
# a value or none, so the degree of a sampled value is exact, and a share of all values is sampled. Frequent values
# would make that estimate unstable; some thousand rows drawn at random reveal them, and they are counted separately.
# The frequency with which two drawn rows agree gives the number of rows that agree with a row that is met. Relations of
# up to `EXACT_ROWS` rows are counted exactly.


_Floats = npt.NDArray[np.float64]

EXACT_ROWS = 1 << 14
"""Rows: relations of at most this size are counted exactly."""
SHARE_ROWS = 1 << 13
"""Target sample size in rows per column; fewer for each if there are more than two columns."""
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""2^64 divided by the golden ratio: the upper bits of its multiples are evenly distributed."""
DRAWN_ROWS = 1 << 14
"""Rows drawn at random: half of them to find frequent values, half to count beside these."""
FREQUENT = 8
"""Occurrences among the former drawn rows from which on a value is counted separately."""
UNIQUE = 0.9
"""Share of rows: above this share of distinct pairs, degrees of a column are counted in rows."""
KEPT_ROWS = 1 << 11
"""Drawn rows that are kept as a sample for selections."""
BLOCK_ROWS = 1 << 14
"""Rows that are hashed at a time, so that they stay in the processor's cache."""
DENSE = 16
"""Integers in the range of some values, per value, up to which an array over the range replaces their sort.

From 2,048 to 16,384 values, it takes 0.15 to 0.5 of the time of the sort; with 32 integers a value up to 0.57."""
NEWTON_STEPS = 6
"""Steps after which an estimated population size is exact to 1e-9."""


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
    if len(columns[0]) <= EXACT_ROWS:
        return _exact(np.stack([backend.to_host(column) for column in columns]))
    return _Sampling(columns, backend).facts


def _exact(rows: Int64Array) -> Facts:
    """Return exact statistics of the rows, one array row a column."""
    width, n = rows.shape
    numbered: dict[int, tuple[Int64Array, Int64Array]] = {}

    def number_values(column: int) -> tuple[Int64Array, Int64Array]:
        if column not in numbered:
            numbered[column] = _numbered(rows[column])
        return numbered[column]

    def count(key: Columns) -> Counts | None:
        if key[-1] >= width:
            return None
        if len(key) == 1:
            return (float(len(number_values(key[0])[0])),)
        (left_values, indices), (right_values, place) = map(number_values, key)
        cells = _cells(indices, len(left_values), place, len(right_values))
        degrees = [np.bincount(beside) for beside in np.divmod(cells, max(len(right_values), 1))]
        return float(len(cells)), *(float(one @ one) / max(len(cells), 1) for one in degrees)

    if width > 2:
        (values, indices), (remaining, place) = number_values(0), _numbered(_hashed(rows[1:]))
        n_rows = float(len(_cells(indices, len(values), place, len(remaining))))
    else:
        counts = count(tuple(range(width)))
        assert counts is not None
        n_rows = counts[0]
    if width > 1:
        n_rows = n * (n_rows / n) if n else 0.0  # the same rounding as for estimated rows
    return Facts(n_rows, {tuple(range(width)): n_rows}, {}, rows, count=count)


def _numbered(values: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Return the distinct values, ascending, and each value's index among them."""
    lowest, n_places = _range(values)
    if n_places > DENSE * len(values):
        order = values.argsort()
        ascending = values[order]
        mask, indices = _is_first(ascending), np.empty(len(values), np.int64)
        indices[order] = mask.cumsum() - 1
        return ascending[mask], indices
    offsets = values - lowest
    distinct = _distinct_below(n_places, offsets)
    place = np.empty(n_places, np.uint16 if len(distinct) <= 1 << 16 else np.int64)  # few bytes stay in the cache
    place[distinct] = np.arange(len(distinct))
    return distinct + lowest, place[offsets].astype(np.int64)


def _range(values: Int64Array) -> tuple[int, int]:
    """Return the smallest value, and the number of integers from it to the largest."""
    return (int(values.min()), int(values.max()) - int(values.min()) + 1) if len(values) else (0, 0)


def _distinct_below(n_values: int, values: Int64Array) -> Int64Array:
    """Return the distinct values of some from 0 to below a number, ascending.

    O(n_values + values).
    """
    mask = np.zeros(n_values, np.bool_)
    mask[values] = True
    return np.flatnonzero(mask)


def _cells(indices: Int64Array, n_keys: int, place: Int64Array, n_values: int) -> Int64Array:
    """Return the distinct values of ``indices * n_values + place``, ascending.

    Parameters
    ----------
    n_keys, n_values
        Numbers of possible values of `indices` and of `place`.
    """
    cells = indices * max(n_values, 1) + place
    if n_keys * n_values <= DENSE * len(cells):
        return _distinct_below(n_keys * n_values, cells)
    ascending = np.sort(cells.astype(np.int32) if n_keys * n_values < 1 << 31 else cells)  # those in half the time
    return ascending[_is_first(ascending)].astype(np.int64)


def _is_first(values: npt.NDArray[np.signedinteger]) -> BoolArray:
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
    at
        Positions of the sampled rows, without rows of frequent values.
    n_keys, keys
        Number of distinct values of the column among these rows, and the index of each row's value.
    frequent
        Values of the column that are counted separately, ascending.
    drawn
        Positions, among every second drawn row, of rows with a frequent value, and the index of that value.
    agreeing
        Mean number of rows that agree in the column with a row.
    """

    at: Int64Array
    n_keys: int
    keys: Int64Array
    frequent: Int64Array
    drawn: tuple[Int64Array, Int64Array]
    agreeing: float


@dataclass(eq=False)
class _Sampling:
    """Samples of a relation's columns, each taken when it is first asked for.

    Attributes
    ----------
    columns
        int64, on the backend's device.
    """

    columns: Sequence[Int64Array]
    backend: Backend
    _drawn: dict[int, Int64Array] = field(default_factory=dict, init=False)
    _parts: dict[int, _Part] = field(default_factory=dict, init=False)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.columns[0])

    @property
    def facts(self) -> Facts:
        """Statistics of the rows; columns and pairs of columns are counted on demand."""
        width = len(self.columns)
        sample = np.stack(
            [self._values(column, self._positions[:: DRAWN_ROWS // KEPT_ROWS]) for column in range(width)]
        )
        rows = self._distinct_rows(max(range(width), key=lambda column: len(_counted_values(sample[column])[0])))
        return Facts(rows, {tuple(range(width)): rows}, {}, sample, count=self.count)

    @cached_property
    def _positions(self) -> Int64Array:
        """Positions of the drawn rows, ascending."""
        return _counted_values(np.random.default_rng(self.n_rows).integers(0, self.n_rows, DRAWN_ROWS))[0]

    @property
    def _one_of(self) -> float:
        """Inverse of the sampled share of a column's values."""
        return self.n_rows * max(len(self.columns), 2) / (2 * SHARE_ROWS)

    def count(self, key: Columns) -> Counts | None:
        """Return estimates of one or two columns; see `Facts.count`."""
        if key[-1] >= len(self.columns):
            return None
        if len(key) == 1:
            return (self._n_values(key[0]),)
        totals, degrees = [], []
        for column, further in (key, key[::-1]):
            part = self._part(column)
            total, squares = _beside(
                part, self._one_of, self._values(further, part.at), self._draw(further), self.n_rows,
                self._n_values(further),
            )  # fmt: skip
            totals.append(total)
            is_unique = total > UNIQUE * self.n_rows
            degrees.append(part.agreeing if is_unique else squares / total if total else 0.0)
        return sum(totals) / 2, *degrees

    def _n_values(self, column: int) -> float:
        """Return the estimated number of distinct values of a column."""
        part = self._part(column)
        return self._one_of * part.n_keys + len(part.frequent)

    def _distinct_rows(self, column: int) -> float:
        """Return the estimated number of distinct rows, by the sample of one column."""
        part, further_columns = self._part(column), [i for i in range(len(self.columns)) if i != column]
        if not further_columns:
            return self._n_values(column)
        values = _hashed(np.stack([self._values(further, part.at) for further in further_columns]))
        drawn = _hashed(np.stack(list(map(self._draw, further_columns))))
        total, _ = _beside(part, self._one_of, values, drawn, self.n_rows, 1e18)
        n_sampled = self._one_of * len(part.at)
        if len(part.frequent):
            n_sampled += len(part.drawn[0]) * self.n_rows / len(drawn[1::2])
        return self.n_rows * min(1.0, total / n_sampled) if n_sampled else 0.0

    def _values(self, column: int, rows: Int64Array) -> Int64Array:
        """Return values of a column, in the host's memory."""
        return self.backend.to_host(self.columns[column][self.backend.asarray(rows)])

    def _draw(self, column: int) -> Int64Array:
        """Return the drawn values of a column."""
        if column not in self._drawn:
            self._drawn[column] = self._values(column, self._positions)
        return self._drawn[column]

    def _part(self, column: int) -> _Part:
        part = self._parts.get(column)
        if part is None:
            part = self._parts[column] = self._sample(column)
        return part

    def _sample(self, column: int) -> _Part:
        """Return the sample of a column."""
        drawn = self._draw(column)
        candidates, times = _counted_values(drawn[::2])
        frequent = candidates[times >= FREQUENT]
        at, backend = _in_share(self.columns[column], self._one_of, self.backend), self.backend
        matches = which = np.empty(0, np.int64)
        if len(frequent):
            xp, values, frequent_values = backend.xp, self.columns[column][at], backend.asarray(frequent)
            near = xp.minimum(xp.searchsorted(frequent_values, values), len(frequent) - 1)
            (light,) = positions(backend, frequent_values[near] != values)
            at = at[light]
            places = np.minimum(np.searchsorted(frequent, drawn[1::2]), len(frequent) - 1)
            matches = np.flatnonzero(frequent[places] == drawn[1::2])
            which = places[matches]
        at = backend.to_host(at)
        values, keys = _numbered(self._values(column, at))
        _, times = _counted_values(drawn)
        n_pairs = len(drawn) * (len(drawn) - 1.0)
        agreeing = 1 + (self.n_rows - 1) * float((times * (times - 1.0)).sum()) / n_pairs
        return _Part(at, len(values), keys, frequent, (matches, which), agreeing)


def _counted_values(values: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Return the distinct values, ascending, and how often each occurs."""
    lowest, n_places = _range(values)
    if n_places > DENSE * len(values):
        ascending = np.sort(values)
        starts = np.flatnonzero(_is_first(ascending))
        return ascending[starts], np.diff(starts, append=len(ascending))
    times = np.bincount(values - lowest)
    offsets = np.flatnonzero(times > 0)  # of a mask, since numpy looks at integers one by one
    return offsets + lowest, times[offsets]


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


def _beside(
    part: _Part, one_of: float, values: Int64Array, drawn: Int64Array, n: float, max_values: float
) -> tuple[float, float]:
    """Return the number of values of another column beside a part's values, and its squares.

    Parameters
    ----------
    one_of
        Inverse of the sampled share.
    values, drawn
        The other column of the part's rows, and of the drawn rows.
    max_values
        Maximum number of distinct values of the other column.
    """
    degrees = _degrees(part.keys, part.n_keys, values)
    total, squares = one_of * float(degrees.sum()), one_of * float((degrees**2).sum())
    if len(part.frequent):
        heavy, squared = _frequent_degrees(part, drawn, n, max_values)
        total, squares = total + float(heavy.sum()), squares + float(squared.sum())
    return total, squares


def _degrees(indices: Int64Array, n_keys: int, values: Int64Array) -> _Floats:
    """Return, per key, the number of distinct values beside it."""
    distinct, place = _numbered(values)
    cells = _cells(indices, n_keys, place, len(distinct))
    return np.bincount(cells // max(len(distinct), 1), minlength=n_keys).astype(np.float64)


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
    n_found = _degrees(value_index, len(part.frequent), values[1::2][rows])
    cells = np.clip(_drawn_from(n_found, times), 1.0, max(max_values, 1.0))
    scale = n / len(values[1::2])
    degrees: _Floats = -cells * np.expm1(-times * scale / cells)
    varies = times * scale**2 * np.exp(-times * scale / cells) ** 2
    return degrees, np.maximum(degrees**2 - varies, degrees)


def _drawn_from(n_found: _Floats, times: _Floats) -> _Floats:
    """Return the population sizes for which so many draws find so many distinct values.

    A size is infinite if all draws were distinct.
    """
    sizes, repeated = np.full(len(n_found), np.inf), n_found < times
    # found = size (1 - exp(-times / size)). Newton's method finds x = times / size, from above.
    share = n_found[repeated] / times[repeated]
    scaled = np.minimum(1 / share, 2 / share - 2)
    for _ in range(NEWTON_STEPS):
        slope = np.exp(-scaled)
        scaled -= (1 - slope - share * scaled) / (slope - share)
    sizes[repeated] = times[repeated] / scaled
    return sizes
