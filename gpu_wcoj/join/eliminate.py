"""Counts by variable elimination: prefixes equal for the remaining steps are merged.

A merged prefix has the sum of their weights. So counting paths costs as much as their edges, however many paths there
are. If no prefixes are equal it is the generic join, piece by piece.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gpu_wcoj.join.generic import GenericJoin
from gpu_wcoj.join.last import can_count_last_step
from gpu_wcoj.join.magnitudes import exact_dot, largest_magnitudes
from gpu_wcoj.join.plan import DeltaPath, Step, split_independent
from gpu_wcoj.join.prefixes import Prefixes
from gpu_wcoj.kernels.protocol import MARKS, PROBES, PROPOSALS, RANKED, Int64Array
from gpu_wcoj.zset.arrays import exact_sum, numbers

MAX_GATHERED = 1 << 20
"""Prefixes that gather before they are merged, and that are kept at most."""

INITIAL_GATHERED = 1 << 14
"""Initial size of that buffer, in prefixes."""

MIN_MERGED = 1024
"""Prefixes below which they are not merged."""

MIN_SUMMED = 64
"""Prefixes of a path from which on variables are eliminated."""

MERGE_COST = 80
"""Cost of merging a prefix, in candidates, when deciding whether merging pays."""

SEARCH, RANK, ROW, COUNTED, PART, SORTED, SEED, BOUND = 30, 2, 30, 20, 10, 15, 15, 25
"""Costs in candidates that are tested by a mark, by time.

A value searched without marks, a value searched by ranks, a prefix written, a prefix counted, a prefix in each part of
the steps, a prefix sorted, a seed, and a seed in each batch in which it is located."""

MAX_DISTINCT_FRACTION = 0.5
"""Fraction of distinct prefixes up to which range sums are used."""

MAX_TOTAL_WEIGHT = 1 << 62
"""Total weight above which prefixes are not merged further, so that no weight leaves int64."""


def with_weights(join: GenericJoin, path: DeltaPath) -> GenericJoin:
    """Return the join for `Summing`: weighted, also for sets, and without values for the head."""
    max_weight = join.max_weight if join.weighted else 1
    return replace(join, weighted=True, needed=path.compared, max_weight=max_weight)


def sum_bindings(join: GenericJoin, prefixes: Prefixes, path: DeltaPath, steps: tuple[Step, ...]) -> int:
    """Return the sum of the weights of all bindings of steps; few prefixes are extended first."""
    if len(prefixes) >= MIN_SUMMED:
        return Summing(with_weights(join, path), of_sets=not join.weighted).sum_merged(prefixes, steps)
    if len(steps) < 2 or len(split_independent(steps)) > 1:
        return exact_dot(join.count_bounded(prefixes, steps)[0], prefixes.weights, join.backend)
    return sum([sum_bindings(join, piece, path, steps[1:]) for _, piece in join.extend(prefixes, steps[0])])


def can_eliminate(path: DeltaPath) -> bool:
    """Return whether some variable is eliminated before the last step of a path.

    Then prefixes may be equal for the remaining steps.

    Examples
    --------
    >>> from gpu_wcoj.join.plan import AtomUse
    >>> from gpu_wcoj.trace.arrangement import ArrangementKey
    >>> uses = [AtomUse(at, ArrangementKey("e", (0, 1)), pair) for at, pair in enumerate(["ab", "bc", "cd", "ac"])]
    >>> steps = Step("c", (1,)), Step("d", (2,))
    >>> can_eliminate(DeltaPath((uses[0],), tuple(uses[1:3]), (), steps))
    True
    >>> can_eliminate(DeltaPath((uses[0],), (uses[1], uses[3]), (), (Step("c", (1, 3)),)))
    False
    """
    depth = {atom: bound for atom, bound, _ in path.binding}
    uses = {use.atom: use for use in path.other_atoms}
    order = set(path.seed.variables)
    for index, step in enumerate(path.steps):
        remaining_steps = path.steps[index:]
        left = [(uses[atom], bound) for atom, bound in depth.items() if bound < len(uses[atom].variables)]
        seen = {name for use, bound in left for name in use.variables[:bound]}
        if not seen.union(*(step.read_variables for step in remaining_steps)).issuperset(order):
            return True
        if len(remaining_steps) > 1 and any(step.conditions for step in remaining_steps):
            from gpu_wcoj.join.ranged import strip_conditions  # needed by few programs

            bare, _ = strip_conditions(remaining_steps, order, seen)
            if not seen.union(*(step.read_variables for step in bare)).issuperset(order):
                return True
        for atom in step.atoms:
            depth[atom] = depth.get(atom, 0) + 1
        order.add(step.variable)
    return False


class AllowanceError(Exception):
    """A count exceeded its allowance."""


@dataclass(eq=False)
class Allowance:
    """The cost that a count may reach, in candidates of the kernels; unlimited if None.

    Attributes
    ----------
    rows, counted, parts, sorted_rows
        Prefixes written, counted, passed to a part of the steps, and sorted.
    before
        Cost before this count.
    """

    limit: float | None = None
    rows: int = 0
    counted: int = 0
    parts: int = 0
    sorted_rows: int = 0
    before: int = 0

    def check(self, join: GenericJoin) -> None:
        """Raise `AllowanceError` if the join has exceeded the limit."""
        if self.limit is not None and self.cost(join) > self.limit:
            raise AllowanceError

    def cost(self, join: GenericJoin) -> int:
        """Return the cost so far. Waits once for a device."""
        prefixes = ROW * self.rows + COUNTED * self.counted + PART * self.parts + SORTED * self.sorted_rows
        return self.before + cost_of(join) + prefixes


def cost_of(join: GenericJoin) -> int:
    """Return the cost of the kernels' candidates and searches. Waits once for a device.

    Values of a single atom are counted without being read.
    """
    counters = list(join.work.values())
    kinds = (PROPOSALS, PROBES, MARKS, RANKED)
    counted = numbers(join.backend, *(work[kind] for work in counters for kind in kinds))
    steps = zip(*(counted[kind_index :: len(kinds)] for kind_index in range(len(kinds))), strict=True)
    return sum(
        proposed + RANK * ranked + (probes - ranked) * (1 if marks else SEARCH)
        for proposed, probes, marks, ranked in steps
    )


@dataclass(eq=False)
class Summing:
    """Sums over the bindings of some steps.

    Attributes
    ----------
    join
        The atoms; it carries weights, also those of sets, which are 1.
    allowance
        The cost limit.
    of_sets
        Whether all relations are sets.
    """

    join: GenericJoin
    allowance: Allowance = field(default_factory=Allowance)
    of_sets: bool = False
    _distinct: set[int] = field(default_factory=set, init=False)
    _last_step: tuple[int, int] = field(default=(0, 0), init=False)

    def sum_merged(self, prefixes: Prefixes, steps: Sequence[Step]) -> int:
        """Return `total` after merging prefixes that are equal for the steps."""
        remaining_steps = tuple(steps)
        return sum(self.total(merged, remaining_steps) for merged in self.merge_equal(prefixes, remaining_steps))

    def merge_equal(self, prefixes: Prefixes, steps: tuple[Step, ...]) -> list[Prefixes]:
        """Merge prefixes that are equal for the steps, if that pays."""
        if len(prefixes) == 0 or not steps or self._reads_all(prefixes, steps):
            return [prefixes]
        return self.merge_pieces([_drop_unread(prefixes, steps)], steps)

    def total(self, prefixes: Prefixes, steps: Sequence[Step]) -> int:
        """Return the sum over prefixes of their weight times the weights of the steps' bindings."""
        join, backend = self.join, self.join.backend
        if len(prefixes) == 0:
            return 0
        remaining_steps = tuple(steps)
        if len(remaining_steps) == 2 and self.of_sets and remaining_steps[1].conditions:
            from gpu_wcoj.join.twins import count_twin_pairs  # needed by few programs

            if (ways := count_twin_pairs(join, prefixes, *remaining_steps)) is not None:
                self.allowance.check(join)
                return ways
        is_whole = (
            len(remaining_steps) < 2 or remaining_steps[0].is_lookup or len(split_independent(remaining_steps)) == 1
        )
        if (
            is_whole
            and len(remaining_steps) > 1
            and (ways := self._sum_by_ranges(prefixes, remaining_steps)) is not None
        ):
            return ways
        if len(remaining_steps) < 2 or not is_whole:
            if len(remaining_steps) == 1 and not can_count_last_step(remaining_steps[0], len(prefixes)):
                return sum(self._sum_weights(piece) for piece in self._bind(prefixes, remaining_steps[0]))
            before = cost_of(join) if len(remaining_steps) == 1 and backend.device is None else 0
            counts, _ = join.count_bounded(prefixes, remaining_steps)
            self.allowance.check(join)
            if len(remaining_steps) == 1 and backend.device is None:
                rows, cost = self._last_step
                self._last_step = rows + len(prefixes), cost + cost_of(join) - before
            return exact_dot(counts, prefixes.weights, backend)
        total = 0
        for piece in self._bind_and_merge(prefixes, remaining_steps):
            total += self.total(piece, remaining_steps[1:])
        return total

    def _sum_by_ranges(self, prefixes: Prefixes, steps: tuple[Step, ...]) -> int | None:
        """Return `total` if many prefixes differ only in compared variables; else None."""
        if len(prefixes) < MIN_MERGED or -len(steps) in self._distinct:
            return None
        if not any(step.conditions for step in steps):
            return None
        from gpu_wcoj.join.ranged import sum_by_ranges  # needed by few programs

        seen = {name for atom, bound in prefixes.layout for name in self.join.uses[atom].variables[:bound]}
        return sum_by_ranges(self, prefixes, steps, seen)

    def group_columns(self, prefixes: Prefixes, steps: tuple[Step, ...]) -> list[Int64Array] | None:
        """Return the columns by which the steps tell prefixes apart; None if most are distinct.

        In the latter case the question is not asked again.
        """
        keys = self._keys(_drop_unread(prefixes, steps))
        if keys and self._estimate_distinct(keys) > len(prefixes) * MAX_DISTINCT_FRACTION:
            self._distinct.add(-len(steps))
            return None
        return keys

    def _bind_and_merge(self, prefixes: Prefixes, steps: tuple[Step, ...]) -> Iterator[Prefixes]:
        """Bind the first step; merge prefixes that are equal for the others, within the buffer."""
        remaining_steps = steps[1:]
        gathered: list[Prefixes] = []
        n_rows, room = 0, INITIAL_GATHERED
        for piece in self._bind(prefixes, steps[0]):
            if len(remaining_steps) in self._distinct or self._reads_all(piece, remaining_steps):
                yield piece
                continue
            gathered.append(_drop_unread(piece, remaining_steps))
            n_rows += len(piece)
            if n_rows >= room:
                room = MAX_GATHERED
                merged = self.merge_pieces(gathered, remaining_steps)
                if len(merged) > 1 or len(merged[0]) > MAX_GATHERED // 2:
                    yield from merged
                    gathered, n_rows = [], 0
                else:
                    gathered, n_rows = merged, len(merged[0])
        if gathered:
            yield from self.merge_pieces(gathered, remaining_steps)

    def _bind(self, prefixes: Prefixes, step: Step) -> Iterator[Prefixes]:
        """Bind a step; yield the prefixes in pieces."""
        for _, piece in self.join.extend(prefixes, step):
            if len(piece):
                yield piece

    def _sum_weights(self, prefixes: Prefixes) -> int:
        """Return the sum of the weights."""
        return len(prefixes) if prefixes.weights is None else exact_sum(self.join.backend, prefixes.weights)

    def _reads_all(self, prefixes: Prefixes, steps: Sequence[Step]) -> bool:
        """Return whether the steps read all variables, so that no two prefixes are equal for them."""
        seen = frozenset[str]().union(*(self.join.uses[atom].variables[:bound] for atom, bound in prefixes.layout))
        seen = seen.union(*(step.read_variables for step in steps))
        return seen.issuperset(prefixes.order)

    def merge_pieces(self, pieces: list[Prefixes], steps: tuple[Step, ...]) -> list[Prefixes]:
        """Merge pieces into one without equal prefixes; return them unchanged if few are equal."""
        backend, n = self.join.backend, sum(map(len, pieces))
        if n < MIN_MERGED:
            return pieces
        xp = backend.xp
        if not self._is_expensive(steps):
            return pieces
        if sum(map(self._max_sum, pieces)) > MAX_TOTAL_WEIGHT:
            self._distinct.add(len(steps))
            return pieces
        merged = pieces[0]
        if len(pieces) > 1:
            merged = Prefixes(
                merged.order,
                {name: xp.concatenate([piece.values[name] for piece in pieces]) for name in merged.values},
                xp.concatenate([_weights(piece, xp) for piece in pieces]),
                merged.layout,
                xp.concatenate([piece.positions for piece in pieces], axis=1),
            )
        keys = self._keys(merged)
        if not keys:
            return [_merge_all(merged, exact_sum(backend, _weights(merged, xp)), xp)]
        if self._estimate_distinct(keys) > n * self._max_distinct(steps):
            self._distinct.add(len(steps))
            return pieces
        self.allowance.sorted_rows += n
        rows = backend.kernels.lexsort(keys)
        starts = backend.kernels.run_starts([key[rows] for key in keys])
        sums = backend.kernels.segment_sums(_weights(merged, xp)[rows], starts)
        distinct = merged.gather(rows[starts], xp)
        return [Prefixes(distinct.order, distinct.values, sums, distinct.layout, distinct.positions)]

    def _is_expensive(self, steps: tuple[Step, ...]) -> bool:
        """Return whether the steps may cost more than merging prefixes does.

        Some prefixes run the last step first, as a measurement.
        """
        if len(steps) != 1 or self.join.backend.device is not None or not steps[0].is_plain:
            return True
        rows, cost = self._last_step
        if rows and cost <= MERGE_COST * rows:
            self._distinct.add(1)
        return cost > MERGE_COST * rows

    def _max_distinct(self, steps: tuple[Step, ...]) -> float:
        """Return the fraction of distinct prefixes up to which merging pays."""
        rows, cost = self._last_step
        if len(steps) > 1 or rows == 0:
            return 0.25 if len(steps) == 1 else 0.7
        return 1 - MERGE_COST * rows / max(1, cost)

    def _max_sum(self, piece: Prefixes) -> float:
        """Return an upper bound of weight sums of these prefixes, times a weight of each other atom."""
        max_weight = self.join.max_weight
        if max_weight is None:
            return math.inf
        if piece.weights is None:
            return len(piece) * max_weight
        if max_weight == 1:
            return exact_sum(self.join.backend, piece.weights)
        return largest_magnitudes(self.join.backend, piece.weights)[0] * len(piece) * max_weight

    def _keys(self, prefixes: Prefixes) -> list[Int64Array]:
        """Return the columns that tell prefixes apart.

        Positions in atoms without the newest variable come first, so that ranges are shared.
        """
        shared: list[Int64Array] = []
        unshared: list[Int64Array] = []
        row = 0
        for atom, bound in prefixes.layout:
            keys = shared if prefixes.order[-1] not in self.join.uses[atom].variables[:bound] else unshared
            for _ in self.join.batches[atom]:
                keys.append(prefixes.positions[row])
                row += 1
        return [*shared, *unshared, *prefixes.values.values()]

    def _estimate_distinct(self, keys: Sequence[Int64Array]) -> float:
        """Estimate the number of distinct rows, by empty slots of a hash table."""
        backend, n = self.join.backend, len(keys[0])
        size = 1 << (2 * n - 1).bit_length()
        table = backend.xp.zeros(size, np.bool_)
        table[(backend.kernels.hash_rows(keys) & np.uint64(size - 1)).astype(np.int64)] = True
        (taken,) = numbers(backend, table.sum())
        return -size * math.log(max(1 - taken / size, 1 / size))


def _drop_unread(prefixes: Prefixes, steps: Sequence[Step]) -> Prefixes:
    """Return the prefixes with only the values that the steps read."""
    read = frozenset[str]().union(*(step.read_variables for step in steps))
    if read.issuperset(prefixes.values):
        return prefixes
    values = {name: column for name, column in prefixes.values.items() if name in read}
    return Prefixes(prefixes.order, values, prefixes.weights, prefixes.layout, prefixes.positions)


def _weights(prefixes: Prefixes, xp: Any) -> Int64Array:
    weights: Int64Array = xp.ones(len(prefixes), np.int64) if prefixes.weights is None else prefixes.weights
    return weights


def _merge_all(prefixes: Prefixes, weight: int, xp: Any) -> Prefixes:
    """Merge all prefixes, which are equal, into one of this weight."""
    first = prefixes.gather(xp.zeros(1, np.int64), xp)
    return Prefixes(first.order, first.values, xp.full(1, weight, np.int64), first.layout, first.positions)
