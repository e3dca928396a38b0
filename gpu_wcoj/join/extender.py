"""Extenders: one atom's way to extend prefixes by a variable, in three verbs.

The kernels `count_common` and `fill_common` run the three verbs of all atoms in one loop; this module specifies them,
atom by atom. Prefixes are columns of bound values, and the atom's ranges below them are searched for each call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpu_wcoj.backend import Backend
from gpu_wcoj.join.plan import Condition
from gpu_wcoj.join.prefixes import condition_mask, sum_of_weights
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.zset.arrays import stacked
from gpu_wcoj.zset.index import IndexedZSet

INFINITE = (1 << 63) - 1
"""The count of an extender that cannot propose, in values."""

Bound = Mapping[str, Int64Array]
"""int64 (n,) per bound variable; variables that the extender does not have may be bound."""


@dataclass(frozen=True, eq=False)
class Extender:
    """One atom, over batches whose levels are its variables.

    Variables before the one to bind must be bound.

    Attributes
    ----------
    variables
        In attribute order.
    batches
        The batches whose sum the atom sees, as an arrangement before or after this tick's change.
    backend
        The backend that holds the batches.

    Examples
    --------
    Extend the prefixes x = 1, 2 and 3 by y through two batches of r(x, y):

    >>> from gpu_wcoj.backend import select_backend
    >>> old = IndexedZSet.from_columns([np.array([1, 1, 2]), np.array([5, 7, 5])])
    >>> new = IndexedZSet.from_columns([np.array([1, 2]), np.array([7, 5])], np.array([2, -1]))
    >>> extender = Extender(("x", "y"), (old, new), select_backend("cpu"))
    >>> x = np.array([1, 2, 3])
    >>> extender.count("y", {"x": x}, 3)
    array([3, 2, 0])
    >>> parent, y = extender.propose("y", {"x": x}, 3)
    >>> parent, y
    (array([0, 0, 1]), array([5, 7, 5]))
    >>> extender.intersect("y", {"x": x[parent], "y": y})
    array([1, 3, 0])
    """

    variables: tuple[str, ...]
    batches: tuple[IndexedZSet, ...]
    backend: Backend

    def participates_in_level(self, variable: str) -> bool:
        """Return whether the atom holds the variable."""
        return variable in self.variables

    def count(self, variable: str, bound: Bound, n: int) -> Int64Array:
        """Return an upper bound of the values each of n prefixes gets: range widths of all batches.

        A value may be in several batches, and rows may cancel. O(log) a batch and prefix.
        """
        total: Int64Array = self.backend.xp.zeros(n, np.int64)
        for begin, end in self._ranges(variable, bound, n):
            total += end - begin
        return total

    def propose(self, variable: str, bound: Bound, n: int) -> tuple[Int64Array, Int64Array]:
        """Return the values for each of n prefixes.

        Returns
        -------
        parent : int64, ascending, the prefix that each value extends
        value : int64, ascending and distinct for each prefix
        """
        xp = self.backend.xp
        level = self.variables.index(variable)
        parents, values = [xp.empty(0, np.int64)], [xp.empty(0, np.int64)]
        for batch, (begin, end) in zip(self.batches, self._ranges(variable, bound, n), strict=True):
            width = end - begin
            parent = xp.repeat(xp.arange(n), width)
            position = xp.arange(len(parent)) - xp.repeat(xp.cumsum(width) - width - begin, width)
            parents.append(parent)
            values.append(batch.values[level][position].astype(np.int64))
        parent, value = self.backend.kernels.distinct_rows([xp.concatenate(parents), xp.concatenate(values)])
        return parent, value

    def intersect(self, variable: str, bound: Bound) -> Int64Array:
        """Return the factor for the weight of each prefix that `variable` has just been bound for.

        0 if the prefix is absent; 1 if some batch holds it; at the atom's last variable the sum of the weights over the
        batches modulo 2^64.
        """
        positions = self._locate(self.variables[: self.variables.index(variable) + 1], bound)
        if variable == self.variables[-1]:
            return sum_of_weights(self.batches, positions, self.backend)
        held: Int64Array = self.backend.xp.zeros(positions.shape[1], np.int64)
        for row in range(len(self.batches)):
            held |= positions[row] >= 0
        return held

    def _ranges(self, variable: str, bound: Bound, n: int) -> list[tuple[Int64Array, Int64Array]]:
        """Return per batch the ranges of values below each prefix; empty below an absent prefix."""
        xp = self.backend.xp
        level = self.variables.index(variable)
        if level == 0:
            return [(xp.zeros(n, np.int64), xp.full(n, len(batch.values[0]), np.int64)) for batch in self.batches]
        located = self._locate(self.variables[:level], bound)
        ranges = []
        for row, batch in enumerate(self.batches):
            held, node = located[row] >= 0, xp.maximum(located[row], 0)
            begin = xp.where(held, batch.offsets[level - 1][node], 0)
            ranges.append((begin, xp.where(held, batch.offsets[level - 1][node + 1], 0)))
        return ranges

    def _locate(self, names: Sequence[str], bound: Bound) -> Int64Array:
        records = [[level.record for level in batch.levels[: len(names)]] for batch in self.batches]
        columns = stacked(self.backend, [bound[name] for name in names])
        return self.backend.kernels.locate(records, [range(len(names))] * len(records), columns)


@dataclass(frozen=True, eq=False)
class ConditionExtender:
    """A comparison as an extender: it holds infinitely many values, so it only intersects.

    Attributes
    ----------
    condition
        The comparison; its `variable` is bound last.
    ranks
        Maps a family of text to the rank of every code; needed if text is compared.
    xp
        The array module of the bound values.

    Examples
    --------
    >>> extender = ConditionExtender(Condition("y", "<", "x"))
    >>> bool(extender.count("y", {"x": np.array([5])}, 1)[0] == INFINITE)
    True
    >>> extender.intersect("y", {"x": np.array([5, 5]), "y": np.array([4, 5])})
    array([1, 0])
    """

    condition: Condition
    ranks: Callable[[str], Int64Array] | None = None
    xp: Any = np

    def participates_in_level(self, variable: str) -> bool:
        """Return whether binding the variable completes the comparison."""
        return variable == self.condition.variable

    def count(self, variable: str, bound: Bound, n: int) -> Int64Array:  # noqa: ARG002  # the same for whatever is bound
        """Return `INFINITE` for each of n prefixes."""
        counts: Int64Array = self.xp.full(n, INFINITE, np.int64)
        return counts

    def intersect(self, variable: str, bound: Bound) -> Int64Array:  # noqa: ARG002  # it knows its variable
        """Return 1 where the comparison holds, else 0."""
        return condition_mask([self.condition], dict(bound), self.ranks, self.xp).astype(np.int64)
