"""What is known of one relation: rows, distinct values of columns, and how many of a column there are below others.

What nobody counted is estimated from what somebody did: columns are taken to be independent of each other, as far as
the rows suffice for that.
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
    """One relation, or the rows of it that a selection leaves.

    Attributes
    ----------
    rows
        Distinct ones.
    distinct
        How many distinct values some columns have together.
    met
        ``met[columns, other]``: values of `other` beside one value of `columns`, on average over the distinct values
        of all of them. A value of `columns` counts as often as it has some, as it does where rows lead to it.
    sample
        Some of the rows, drawn evenly, one array row a column; None if there is none at hand.
    rest
        Gives estimates of what is not here; asked once, when it is needed.
    draw
        Gives a sample if there is none; asked once, when it is needed.

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
    def whole(self) -> Facts:
        """With the rest."""
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
        """Some rows, as `sample`."""
        return self.draw() if self.sample is None and self.draw is not None else self.sample

    def values(self, columns: Collection[int]) -> float:
        """Distinct values that these columns have together, from 1 to the number of rows."""
        key = tuple(sorted(set(columns))) if len(columns) > 1 else tuple(columns)
        found = self._values.get(key)
        if found is None:
            found = self._values[key] = self._estimated(key)
        return found

    def _estimated(self, key: Columns) -> float:
        """`values` of ascending columns."""
        if not key:
            return 1.0
        known = self.distinct
        if key not in known:
            known = self.whole.distinct
        if key in known:
            return max(1.0, min(known[key], self.rows))
        single = {column: known.get((column,), sqrt(max(self.rows, 1.0))) for column in key}
        parts = {part: count for part, count in known.items() if set(part) < set(key)}
        cells = prod(single.values())
        for part, count in parts.items():
            cells = min(cells, count * prod(single[column] for column in key if column not in part))
        most = min([self.rows, *(count for part, count in known.items() if set(part) > set(key))])
        found = spread(self.rows, cells) if len(key) > 1 else cells
        return max(1.0, min(max(found, *parts.values(), 0.0), most))

    def below(self, columns: Collection[int], other: int) -> float:
        """Values of one more column beside one value of `columns` that rows lead to, on average."""
        key = tuple(sorted(set(columns)))
        if not key:
            return self.values([other])
        known = self.met
        if (key, other) not in known:
            known = self.whole.met
        if (key, other) in known:
            return max(1.0, known[key, other])
        mean = self._mean(key, other)
        skewed = mean
        for (part, column), degree in known.items():
            if part == key:  # what has many rows has many values of other columns, too
                skewed = max(skewed, mean * degree / self._mean(key, column))
        fewest = min((known[(column,), other] for column in key if ((column,), other) in known), default=skewed)
        return max(1.0, mean, min(skewed, fewest, self.values([other])))

    def _mean(self, columns: Columns, other: int) -> float:
        return self.values([*columns, other]) / self.values(columns)

    def kept(self, atom: BodyAtom) -> float:
        """The share of the rows that the atom's constants, repetitions and comparisons leave."""
        if not (atom.constants or atom.equal or atom.compared):
            return 1.0
        sample = self.sample if self.sample is not None else self.whole.sample
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
        """That share of the rows, drawn without regard to their values."""
        whole, rows = self.whole, self.rows * share
        return Facts(
            rows,
            {key: min(rows, left(count, self.rows, share)) for key, count in whole.distinct.items()},
            {key: 1 + (max(degree, 1.0) - 1) * share for key, degree in whole.met.items()},
        )


def spread(rows: float, cells: float) -> float:
    """How many of the cells have a row, if each row is in any of them.

    Examples
    --------
    >>> round(spread(100, 10)), round(spread(100, 100)), round(spread(100, 1e6))
    (10, 63, 100)
    """
    return -cells * expm1(-rows / cells) if cells else 0.0


def left(groups: float, rows: float, share: float) -> float:
    """How many groups of equal size keep a row, if that share of the rows is kept.

    Examples
    --------
    >>> left(10, 100, 0.5) > 9.9, round(left(100, 100, 0.25))
    (True, 25)
    """
    if share >= 1 or not groups:
        return groups
    return -groups * expm1(rows / groups * log1p(-share))


def _hits(atom: BodyAtom, sample: Int64Array) -> int:
    """How many rows of the sample the atom's selection leaves."""
    mask = np.ones(sample.shape[1], np.bool_)
    for column, constant in atom.constants:
        mask &= sample[column] == constant
    for one, other in atom.equal:
        mask &= sample[one] == sample[other]
    for column, op, right, code in atom.compared:
        mask &= COMPARE[op](sample[column], code if right is None else sample[right])
    return int(mask.sum())


def facts_of(
    counted: Mapping[Columns, tuple[Sequence[float], Sequence[float]]],
) -> tuple[dict[Columns, float], dict[tuple[Columns, int], float]]:
    """`Facts.distinct` and `Facts.met` from tries: per order of columns, its distinct prefixes and degrees met.

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
