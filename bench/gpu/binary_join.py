"""The rival on the same device: binary joins over sorted keys, with the array module's own operations.

A relation of pairs is two sorted int64 arrays of keys, one for each direction. A join with one bound variable is two
searches and a ragged repeat, one with both bound is a search; a change is merged by rank, without sorting what is
there. Changes are joined atom by atom, as the engine does: atoms before the changed one see the relation after the
tick, those after it see it before. Where only the number of rows is asked for, the last join adds up the lengths of
ranges. Intermediate rows are cut into pieces, so that a pattern with many of them takes time, not memory.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from bench.engine.queries import E, Query

PIECE_ROWS = 1 << 26
"""Rows of one intermediate piece, at most, if no single row has more."""
_LOW = 0xFFFFFFFF


class OutOfTimeError(Exception):
    """The join was stopped before it was done."""


@dataclass(frozen=True, eq=False)
class Pairs:
    """A set of pairs as sorted keys ``first << 32 | second``, and the same swapped."""

    forward: Any
    backward: Any

    def plus(self, xp: Any, other: Pairs) -> Pairs:
        """Both together; they have no pair in common."""
        return Pairs(merged(xp, self.forward, other.forward), merged(xp, self.backward, other.backward))

    def minus(self, xp: Any, other: Pairs) -> Pairs:
        """These pairs without those of `other`, which are among them."""
        return Pairs(without(xp, self.forward, other.forward), without(xp, self.backward, other.backward))


def pairs_of(xp: Any, keys: Any) -> Pairs:
    """Distinct keys in any order as a set of pairs."""
    return Pairs(xp.sort(keys), xp.sort(((keys & _LOW) << 32) | (keys >> 32)))


def both_ways(xp: Any, keys: Any) -> Pairs:
    """Every pair in both directions."""
    every = xp.sort(xp.concatenate([keys, ((keys & _LOW) << 32) | (keys >> 32)]))
    return Pairs(every, every)


def merged(xp: Any, left: Any, right: Any) -> Any:
    """Two sorted arrays as one, by the rank of the smaller one's values in the larger."""
    large, small = (left, right) if len(left) >= len(right) else (right, left)
    both = xp.empty(len(large) + len(small), np.int64)
    places = xp.searchsorted(large, small) + xp.arange(len(small))
    from_large = xp.ones(len(both), np.bool_)
    from_large[places] = False
    both[places] = small
    both[xp.flatnonzero(from_large)] = large
    return both


def without(xp: Any, keys: Any, gone: Any) -> Any:
    """A sorted array without some of its values."""
    stays = xp.ones(len(keys), np.bool_)
    stays[xp.searchsorted(keys, gone)] = False
    return xp.take(keys, xp.flatnonzero(stays))


class BinaryJoin:
    """A pattern over ``edge``, ``e`` or ``s``, kept up to date by binary joins.

    Parameters
    ----------
    stop
        Asked before every piece; if it says so, `OutOfTimeError` is raised and the state is as before.
    """

    def __init__(self, xp: Any, query: Query, keys: Any, stop: Callable[[], bool] = lambda: False) -> None:
        self.xp = xp
        self.query = query
        self.stop = stop
        self.relations = self._relations(keys)
        self.upkeep_seconds = 0.0

    def _relations(self, keys: Any) -> dict[str, Pairs]:
        made = {"edge": pairs_of, "e": pairs_of, "s": both_ways}
        names = {relation for relation, _ in self.query.atoms}
        assert names <= set(made)
        assert "e" not in names or E in self.query.derived
        return {name: made[name](self.xp, keys) for name in sorted(names)}

    def count(self) -> int:
        """Rows of the whole answer."""
        state = [self.relations[relation] for relation, _ in self.query.atoms]
        return sum(self._joined(0, state[0].forward, state, rows=False))

    def step(self, keys: Any, sign: int, rows: bool = False) -> int:
        """Insert (`sign` 1) or delete (-1) these pairs; by how many rows the answer grew.

        With `rows` the answer's rows are formed, else only counted.
        """
        change = self._relations(keys)
        before = self.relations
        start = time.perf_counter()
        after = {
            name: before[name].plus(self.xp, change[name]) if sign > 0 else before[name].minus(self.xp, change[name])
            for name in before
        }
        self.upkeep_seconds = time.perf_counter() - start
        total = 0
        for at, (relation, _) in enumerate(self.query.atoms):
            state = [(after if i < at else before)[name] for i, (name, _) in enumerate(self.query.atoms)]
            total += sum(self._joined(at, change[relation].forward, state, rows))
        self.relations = after
        return sign * total

    def _joined(self, at: int, keys: Any, state: Sequence[Pairs], rows: bool) -> Iterator[int]:
        """Numbers of rows, by pieces, of the join of `keys`, the rows of atom `at`, with all other atoms."""
        first, second = tuple(self.query.atoms[at][1])
        for begin in range(0, len(keys), PIECE_ROWS):
            piece = keys[begin : begin + PIECE_ROWS]
            bound = self._kept({first: piece >> 32, second: piece & _LOW}, {first, second}, {first, second})
            yield from self._extended(bound, set(range(len(state))) - {at}, state, rows)

    def _extended(self, bound: Mapping[str, Any], left: set[int], state: Sequence[Pairs], rows: bool) -> Iterator[int]:
        if self.stop():
            raise OutOfTimeError
        xp = self.xp
        checked = dict(bound)
        left = set(left)
        for i in sorted(left):
            one, two = tuple(self.query.atoms[i][1])
            if one in checked and two in checked:
                left.remove(i)
                keys, wanted = state[i].forward, (checked[one] << 32) | checked[two]
                if not len(keys) or not len(wanted):
                    return
                place = xp.minimum(xp.searchsorted(keys, wanted), len(keys) - 1)
                checked = self._taken(checked, xp.flatnonzero(xp.take(keys, place) == wanted))
        n_rows = len(next(iter(checked.values())))
        if not n_rows:
            return
        if not left:
            yield n_rows
            return
        i = next(i for i in sorted(left) if set(self.query.atoms[i][1]) & set(checked))
        one, two = tuple(self.query.atoms[i][1])
        known, new = (one, two) if one in checked else (two, one)
        keys = state[i].forward if known == one else state[i].backward
        low = xp.searchsorted(keys, checked[known] << 32)
        sizes = xp.searchsorted(keys, (checked[known] + 1) << 32) - low
        ends = xp.cumsum(sizes)
        total = int(ends[-1])
        compared = any(new in pair for pair in self.query.comparisons)
        if len(left) == 1 and not rows and not compared:
            yield total
            return
        for begin, end in self._pieces(ends, total):
            piece = {name: column[begin:end] for name, column in checked.items()}
            longer = self._longer(piece, new, keys, low[begin:end], sizes[begin:end])
            yield from self._extended(self._kept(longer, {new}, set(longer)), left - {i}, state, rows)

    def _pieces(self, ends: Any, total: int) -> list[tuple[int, int]]:
        """Ranges of rows with `PIECE_ROWS` extensions each, and those of one row more at most."""
        if total <= PIECE_ROWS:
            return [(0, len(ends))]
        xp = self.xp
        targets = xp.arange(PIECE_ROWS, total + PIECE_ROWS, PIECE_ROWS, dtype=np.int64)
        cuts = {0, len(ends), *xp.searchsorted(ends, targets).tolist()}
        return list(pairwise(sorted(cuts)))

    def _longer(self, bound: Mapping[str, Any], new: str, keys: Any, low: Any, sizes: Any) -> dict[str, Any]:
        """Every row with every extension of it."""
        xp = self.xp
        ends = xp.cumsum(sizes)
        row = xp.repeat(xp.arange(len(sizes)), sizes)
        places = xp.arange(len(row)) + xp.take(low - ends + sizes, row)
        found = {name: xp.take(column, row) for name, column in bound.items()}
        found[new] = xp.take(keys, places) & _LOW
        return found

    def _kept(self, bound: dict[str, Any], new: set[str], known: set[str]) -> dict[str, Any]:
        """The rows that satisfy the comparisons which a new variable makes decidable."""
        for left, right in self.query.comparisons:
            if {left, right} & new and {left, right} <= known:
                bound = self._taken(bound, self.xp.flatnonzero(bound[left] < bound[right]))
        return bound

    def _taken(self, bound: Mapping[str, Any], places: Any) -> dict[str, Any]:
        return {name: self.xp.take(column, places) for name, column in bound.items()}
