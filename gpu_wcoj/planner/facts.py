"""Statistics of one relation: rows, distinct values of columns, and degrees.

Missing numbers are estimated from counted ones: columns are assumed to be independent of each other, within the number
of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import expm1, log1p, prod, sqrt

import numpy as np

from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.planner.body import BodyAtom
from gpu_wcoj.planner.joingraph import KEPT
from gpu_wcoj.trace.arrangement import COMPARE

Columns = tuple[int, ...]
"""Columns of a relation, ascending."""


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
    _values: dict[Columns, float] = field(default_factory=dict, init=False, repr=False)

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
        )

    @cached_property
    def drawn(self) -> Int64Array | None:
        """Sample of the rows; see `sample`."""
        return self.draw() if self.sample is None and self.draw is not None else self.sample

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
        counts = self.distinct
        if key not in counts:
            counts = self.completed.distinct
        if key in counts:
            return max(1.0, min(counts[key], self.rows))
        single = {column: counts.get((column,), sqrt(max(self.rows, 1.0))) for column in key}
        parts = {part: count for part, count in counts.items() if set(part) < set(key)}
        cells = prod(single.values())
        for part, count in parts.items():
            cells = min(cells, count * prod(single[column] for column in key if column not in part))
        max_values = min([self.rows, *(count for part, count in counts.items() if set(part) > set(key))])
        estimate = spread(self.rows, cells) if len(key) > 1 else cells
        return max(1.0, min(max(estimate, *parts.values(), 0.0), max_values))

    def below(self, columns: Collection[int], other: int) -> float:
        """Return the mean number of values of a further column beside a value of these columns."""
        key = tuple(sorted(set(columns)))
        if not key:
            return self.values([other])
        degrees = self.met
        if (key, other) not in degrees:
            degrees = self.completed.met
        if (key, other) in degrees:
            return max(1.0, degrees[key, other])
        mean = self._mean(key, other)
        skewed = mean
        for (part, column), degree in degrees.items():
            if part == key:  # a value with many rows has many values of other columns, too
                skewed = max(skewed, mean * degree / self._mean(key, column))
        fewest = min((degrees[(column,), other] for column in key if ((column,), other) in degrees), default=skewed)
        return max(1.0, mean, min(skewed, fewest, self.values([other])))

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
            share *= KEPT[op]
        return share if sample is None else min(share, 0.5 / sample.shape[1])

    def selected(self, share: float) -> Facts:
        """Return the statistics of a random share of the rows."""
        complete, rows = self.completed, self.rows * share
        return Facts(
            rows,
            {key: min(rows, left(count, self.rows, share)) for key, count in complete.distinct.items()},
            {key: 1 + (max(degree, 1.0) - 1) * share for key, degree in complete.met.items()},
        )


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
