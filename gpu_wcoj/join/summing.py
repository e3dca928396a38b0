"""Counts by summing variables away: prefixes that look alike to the steps that are left go on as one.

Its weight says for how many bindings, or for which sum of weights, a prefix stands. So a count of paths costs what its
edges cost, however many paths there are. Where nothing looks alike it is the generic join, piece by piece.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gpu_wcoj.join.delta import exact_dot
from gpu_wcoj.join.generic import GenericJoin, independent, largest
from gpu_wcoj.join.path import DeltaPath, Step
from gpu_wcoj.join.prefixes import Prefixes
from gpu_wcoj.kernels.protocol import PROBES, PROPOSALS, SURVIVORS, Int64Array
from gpu_wcoj.zset.arrays import exact_sum, numbers

ROOM = 1 << 20
"""Prefixes that gather before it is seen how many of them look alike, and that are kept at most."""

FEWEST = 1024
"""Fewer prefixes than this go on as they are."""

SURVIVOR, ROW, SORTING = 2, 40, 80
"""What a value that survives, a prefix that is written down and one that is sorted cost, in candidates."""

HEAVIEST = 1 << 62
"""Prefixes that stand for more bindings than this together are summed no further, so that no weight leaves int64."""


def carrying(join: GenericJoin, path: DeltaPath) -> GenericJoin:
    """The join as `Summing` takes it: with weights, also those of sets, and no values that only the head needs."""
    return replace(
        join,
        weighted=True,
        needed=path.compared,
        most_weight=join.most_weight if join.weighted else 1,
        work={},
        _extensions={},
    )


def may_sum(path: DeltaPath) -> bool:
    """Whether some steps of a path do not see all that is bound before them, so that prefixes may look alike.

    Examples
    --------
    >>> from gpu_wcoj.join.path import AtomUse
    >>> from gpu_wcoj.trace.arrangement import ArrangementKey
    >>> uses = [AtomUse(at, ArrangementKey("e", (0, 1)), pair) for at, pair in enumerate(["ab", "bc", "cd", "ac"])]
    >>> steps = Step("c", (1,)), Step("d", (2,))
    >>> may_sum(DeltaPath((uses[0],), tuple(uses[1:3]), (), steps))
    True
    >>> may_sum(DeltaPath((uses[0],), (uses[1], uses[3]), (), (Step("c", (1, 3)),)))
    False
    """
    depth = {number: bound for number, bound, _ in path.binding}
    uses = {use.atom: use for use in path.others}
    order = set(path.seed.variables)
    for number, step in enumerate(path.steps):
        rest = path.steps[number:]
        left = [(uses[atom], bound) for atom, bound in depth.items() if bound < len(uses[atom].variables)]
        seen = {name for use, bound in left for name in use.variables[:bound]}
        if not seen.union(*(one.spoken for one in rest)).issuperset(order):
            return True
        for atom in step.atoms:
            depth[atom] = depth.get(atom, 0) + 1
        order.add(step.variable)
    return False


class AllowanceError(Exception):
    """A count has cost more than it may."""


@dataclass(eq=False)
class Allowance:
    """What a count may cost, in candidates of the kernels; None for as much as it takes."""

    most: float | None = None
    rows: int = 0
    sorted_rows: int = 0

    def check(self, join: GenericJoin) -> None:
        """Raise `AllowanceError` if the join has cost more."""
        if self.most is not None and self.cost(join) > self.most:
            raise AllowanceError

    def cost(self, join: GenericJoin) -> int:
        """What it has cost up to now. Waits once for a device."""
        return cost_of(join) + ROW * self.rows + SORTING * self.sorted_rows


def cost_of(join: GenericJoin) -> int:
    """The candidates that the kernels have looked at, their searches and what survived. Waits once for a device."""
    held = [work[PROPOSALS] + work[PROBES] + SURVIVOR * work[SURVIVORS] for work in list(join.work.values())]
    return sum(numbers(join.backend, *held)) if held else 0


@dataclass(eq=False)
class Summing:
    """Sums over the bindings of some steps.

    Attributes
    ----------
    join
        The atoms; it carries weights, also those of sets, which are 1.
    allowance
        What it may cost.
    """

    join: GenericJoin
    allowance: Allowance = field(default_factory=Allowance)
    _distinct: set[tuple[Step, ...]] = field(default_factory=set, init=False)

    def over(self, prefixes: Prefixes, steps: Sequence[Step]) -> int:
        """`total`, the prefixes being put together first where they look alike."""
        rest = tuple(steps)
        if len(prefixes) == 0 or self._tells_all(prefixes, rest):
            return self.total(prefixes, rest)
        return sum(self.total(own, rest) for own in self.alike([_without_finished(prefixes, rest)], rest))

    def total(self, prefixes: Prefixes, steps: Sequence[Step]) -> int:
        """The sum, over the prefixes, of weights times the sum of the weights of all ways to bind the steps."""
        join, backend = self.join, self.join.backend
        if len(prefixes) == 0:
            return 0
        self.allowance.rows += len(prefixes)
        rest = tuple(steps)
        if len(rest) < 2 or len(independent(rest)) > 1:
            if len(rest) == 1 and not rest[0].is_plain:
                return sum(self._sum(piece) for piece in self._extended(prefixes, rest[0]))
            counts, _ = join.count_bounded(prefixes, rest)
            self.allowance.check(join)
            return exact_dot(counts, prefixes.weights, backend)
        total = 0
        for piece in self._gathered(prefixes, rest):
            total += self.total(piece, rest[1:])
        return total

    def _gathered(self, prefixes: Prefixes, steps: tuple[Step, ...]) -> Iterator[Prefixes]:
        """The prefixes bound to the first step, those that look alike to the others as one as far as there is room."""
        rest = steps[1:]
        held: list[Prefixes] = []
        n_rows = 0
        for piece in self._extended(prefixes, steps[0]):
            if rest in self._distinct or self._tells_all(piece, rest):
                yield piece
                continue
            held.append(_without_finished(piece, rest))
            n_rows += len(piece)
            if n_rows >= ROOM:
                merged = self.alike(held, rest)
                if len(merged) > 1 or len(merged[0]) > ROOM // 2:
                    yield from merged
                    held, n_rows = [], 0
                else:
                    held, n_rows = merged, len(merged[0])
        if held:
            yield from self.alike(held, rest)

    def _extended(self, prefixes: Prefixes, step: Step) -> Iterator[Prefixes]:
        """The prefixes bound to a step, piece by piece."""
        for _, piece in self.join.extend(prefixes, step):
            self.allowance.rows += len(piece)
            self.allowance.check(self.join)
            if len(piece):
                yield piece

    def _sum(self, prefixes: Prefixes) -> int:
        """The sum of the weights."""
        return len(prefixes) if prefixes.weights is None else exact_sum(self.join.backend, prefixes.weights)

    def _tells_all(self, prefixes: Prefixes, steps: Sequence[Step]) -> bool:
        """Whether no two prefixes look alike to the steps, as they see all variables."""
        seen = frozenset[str]().union(*(self.join.uses[atom].variables[:bound] for atom, bound in prefixes.layout))
        seen = seen.union(*(step.spoken for step in steps))
        return seen.issuperset(prefixes.order)

    def alike(self, pieces: list[Prefixes], steps: tuple[Step, ...]) -> list[Prefixes]:
        """The pieces as one in which no two prefixes look alike to the steps; or as they are, if few do."""
        backend, n = self.join.backend, sum(map(len, pieces))
        if n < FEWEST:
            return pieces
        xp = backend.xp
        if sum(map(self._mass, pieces)) > HEAVIEST:
            self._distinct.add(steps)
            return pieces
        whole = pieces[0]
        if len(pieces) > 1:
            whole = Prefixes(
                whole.order,
                {name: xp.concatenate([piece.values[name] for piece in pieces]) for name in whole.values},
                xp.concatenate([_weights(piece, xp) for piece in pieces]),
                whole.layout,
                xp.concatenate([piece.positions for piece in pieces], axis=1),
            )
        keys = self._keys(whole)
        if not keys:
            return [_one(whole, exact_sum(backend, _weights(whole, xp)), xp)]
        if self._n_distinct(keys) > n / (1.5 if len(steps) > 1 else 4):
            self._distinct.add(steps)
            return pieces
        self.allowance.sorted_rows += n
        rows = backend.kernels.lexsort(keys)
        starts = backend.kernels.run_starts([key[rows] for key in keys])
        sums = backend.kernels.segment_sums(_weights(whole, xp)[rows], starts)
        found = whole.take(rows[starts], xp)
        return [Prefixes(found.order, found.values, sums, found.layout, found.positions)]

    def _mass(self, piece: Prefixes) -> float:
        """What no sum of some of these prefixes' weights, times a weight of each other atom, exceeds."""
        most = self.join.most_weight
        if most is None:
            return math.inf
        if piece.weights is None:
            return len(piece) * most
        if most == 1:
            return exact_sum(self.join.backend, piece.weights)
        return largest(self.join.backend, piece.weights)[0] * len(piece) * most

    def _keys(self, prefixes: Prefixes) -> list[Int64Array]:
        """What tells prefixes apart; first where atoms stand that lack the newest variable: ranges are shared so."""
        shared: list[Int64Array] = []
        others: list[Int64Array] = []
        at = 0
        for atom, bound in prefixes.layout:
            own = shared if prefixes.order[-1] not in self.join.uses[atom].variables[:bound] else others
            for _ in self.join.batches[atom]:
                own.append(prefixes.positions[at])
                at += 1
        return [*shared, *others, *prefixes.values.values()]

    def _n_distinct(self, keys: Sequence[Int64Array]) -> float:
        """About how many rows are different, by the places in a table that their hashes leave empty."""
        backend, n = self.join.backend, len(keys[0])
        size = 1 << (2 * n - 1).bit_length()
        table = backend.xp.zeros(size, np.bool_)
        table[(backend.kernels.hash_rows(keys) & np.uint64(size - 1)).astype(np.int64)] = True
        (taken,) = numbers(backend, table.sum())
        return -size * math.log(max(1 - taken / size, 1 / size))


def _without_finished(prefixes: Prefixes, steps: Sequence[Step]) -> Prefixes:
    """The prefixes with those values only that the steps ask for."""
    asked = frozenset[str]().union(*(step.spoken for step in steps))
    if asked.issuperset(prefixes.values):
        return prefixes
    values = {name: column for name, column in prefixes.values.items() if name in asked}
    return Prefixes(prefixes.order, values, prefixes.weights, prefixes.layout, prefixes.positions)


def _weights(prefixes: Prefixes, xp: Any) -> Int64Array:
    weights: Int64Array = xp.ones(len(prefixes), np.int64) if prefixes.weights is None else prefixes.weights
    return weights


def _one(prefixes: Prefixes, weight: int, xp: Any) -> Prefixes:
    """All prefixes as one, of this weight: nothing tells them apart."""
    first = prefixes.take(xp.zeros(1, np.int64), xp)
    return Prefixes(first.order, first.values, xp.full(1, weight, np.int64), first.layout, first.positions)
