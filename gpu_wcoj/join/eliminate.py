"""Counts by variable elimination: prefixes equal for the remaining steps are merged.

A merged prefix has the sum of their weights. So counting paths costs as much as their edges, however many paths there
are. If no prefixes are equal it is the generic join, piece by piece.
"""

from __future__ import annotations

import math
from collections.abc import Container, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gpu_wcoj.backend import Backend
from gpu_wcoj.costs import (
    CANDIDATE,
    COUNTED_PREFIX,
    MERGED_PREFIX,
    PARTED_PREFIX,
    RANK,
    SEARCH,
    SORTED_PREFIX,
    WRITTEN_PREFIX,
)
from gpu_wcoj.join.generic import (
    MAX_MERGED_FRACTION,
    GenericJoin,
    MeasuredJoin,
    Split,
    can_count_last_step,
    count_twin_pairs,
    estimate_distinct,
    estimate_values,
    group_key,
    split,
    strip_exclusions,
)
from gpu_wcoj.join.plan import Condition, DeltaPath, Step, split_independent
from gpu_wcoj.join.prefixes import (
    Meter,
    Prefixes,
    condition_mask,
    exact_dot,
    find_bounds,
    largest_magnitudes,
    multiply_exactly,
)
from gpu_wcoj.kernels.protocol import MARKS, PROBES, PROPOSALS, RANKED, SURVIVORS, IndexArray, Int64Array
from gpu_wcoj.zset.arrays import exact_sum, numbers, positions

MAX_GATHERED = 1 << 20
"""Prefixes that gather before they are merged, and that are kept at most."""

INITIAL_GATHERED = 1 << 14
"""Initial size of that buffer, in prefixes."""

MIN_MERGED = 1024
"""Prefixes below which they are not merged."""

MIN_WIDE, WIDE_VALUES = 16, 1 << 13
"""Prefixes, at least, that are merged though they are fewer than `MIN_MERGED`, and the values that they propose."""

MIN_SUMMED = 64
"""Prefixes of a path from which on variables are eliminated."""

MAX_DISTINCT_FRACTION = 0.5
"""Fraction of distinct prefixes up to which range sums are used."""

MAX_TOTAL_WEIGHT = 1 << 62
"""Total weight above which prefixes are not merged further, so that no weight leaves int64."""


def with_weights(join: GenericJoin, path: DeltaPath) -> GenericJoin:
    """Return the join for `Summing`: weighted, also for sets, and without values for the head."""
    max_weight = join.max_weight if join.weighted else 1
    return replace(join, weighted=True, needed=path.compared, max_weight=max_weight)


def sum_bindings(
    join: GenericJoin, prefixes: Prefixes, path: DeltaPath, steps: tuple[Step, ...], by_ranges: bool = True
) -> int:
    """Return the sum of the weights of all bindings of steps; few prefixes are extended first."""
    if len(prefixes) >= MIN_SUMMED:
        return Summing(with_weights(join, path), of_sets=not join.weighted, by_ranges=by_ranges).sum_merged(
            prefixes, steps
        )
    if len(steps) < 2 or len(split_independent(steps)) > 1:
        return exact_dot(join.count_bounded(prefixes, steps)[0], prefixes.weights, join.backend)
    return sum([sum_bindings(join, piece, path, steps[1:], by_ranges) for _, piece in join.extend(prefixes, steps[0])])


def can_eliminate(path: DeltaPath, head_variables: frozenset[str] | None = None) -> bool:
    """Return whether some variable is eliminated before the last step of a path.

    Then prefixes may be equal for the remaining steps. If rows are listed, `head_variables` are those of the head, and
    the variable has to be eliminated before the last of these is bound.

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
    for index, step in enumerate(path.steps if head_variables is None else path.steps[: path.depth_of(head_variables)]):
        remaining_steps = path.steps[index:]
        left = [(uses[atom], bound) for atom, bound in depth.items() if bound < len(uses[atom].variables)]
        seen = {name for use, bound in left for name in use.variables[:bound]}.union(head_variables or ())
        if not seen.union(*(step.read_variables for step in remaining_steps)).issuperset(order):
            return True
        if head_variables is None and len(remaining_steps) > 1 and any(step.conditions for step in remaining_steps):
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
    """The cost that a count may reach, in nanoseconds; unlimited if None.

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
        prefixes = (
            WRITTEN_PREFIX * self.rows
            + COUNTED_PREFIX * self.counted
            + PARTED_PREFIX * self.parts
            + SORTED_PREFIX * self.sorted_rows
        )
        return self.before + cost_of(join) + prefixes


def cost_of(join: GenericJoin) -> int:
    """Return the cost of the kernels' candidates and searches. Waits once for a device.

    Values of a single atom are counted without being read.
    """
    return _cost_of_counters(list(join.work.values()), join.backend)


def _cost_of_counters(counters: Sequence[Int64Array], backend: Backend) -> int:
    kinds = (PROPOSALS, PROBES, MARKS, RANKED)
    counted = numbers(backend, *(work[kind] for work in counters for kind in kinds))
    steps = zip(*(counted[kind_index :: len(kinds)] for kind_index in range(len(kinds))), strict=True)
    return sum(
        CANDIDATE * proposed + RANK * ranked + (probes - ranked) * (CANDIDATE if marks else SEARCH)
        for proposed, probes, marks, ranked in steps
    )


def cost_of_listing(counters: Sequence[Int64Array], backend: Backend) -> int:
    """Return the cost of finished steps that list, as a `BudgetedJoin` charges it."""
    written = sum(min(int(work[SURVIVORS]), int(work[PROPOSALS] + work[MARKS] + work[RANKED])) for work in counters)
    return _cost_of_counters(counters, backend) + WRITTEN_PREFIX * written


# A generic join that counts its cost and stops at a limit.


MAX_SAMPLED_VALUES = 4096
"""Values of a step that a sample looks at, approximately; the others are taken to cost as much each."""

MAX_FORESEEN = 256
"""Prefixes of a sample up to which the values that they propose are counted before they are read.

Of a limited join, more are looked at in pieces, each of as many prefixes at least."""

MAX_CUTS = 4
"""Pieces in which the prefixes of a step are looked at, at most, where the limit may be exceeded."""


@dataclass(eq=False)
class BudgetedJoin(MeasuredJoin):
    """A `GenericJoin` that charges written rows and counted prefixes to an allowance.

    Raises `AllowanceError` once the allowance is used up. It is measured if it has a meter.

    Attributes
    ----------
    is_sample
        Whether few prefixes stand for many. A kernel looks at all values of a hub at once, so values are counted before
        they are read: a sample would otherwise cost far more than its limit.
    """

    allowance: Allowance = field(default_factory=Allowance)
    is_sample: bool = False
    _bounds: tuple[Prefixes, Int64Array] | None = field(default=None, init=False)

    def extend(self, prefixes: Prefixes, step: Step) -> Iterator[tuple[Int64Array, Prefixes]]:
        """See `GenericJoin.extend`."""
        self._refuse_wide(prefixes, step)
        extended = GenericJoin.extend(self, prefixes, step) if self.meter is None else super().extend(prefixes, step)
        allowance = self.allowance
        cost, n_read = (allowance.cost(self), self._n_read(step)) if self.is_sample else (0, 0)
        for parent, piece in extended:
            allowance.rows += len(piece)
            yield parent, piece
            if self.is_sample and (n_new := self._n_read(step) - n_read) >= MAX_SAMPLED_VALUES:
                # all values cost as much in proportion, and so does what was done with them
                factor = max(1.0, self._n_proposed(prefixes, step) / n_new)
                allowance.before += int((factor - 1) * (allowance.cost(self) - cost))
                allowance.check(self)
                return

    def begin_piece(self) -> None:
        """Raise `AllowanceError` if the limit is exceeded: a piece is kept if no other follows."""
        super().begin_piece()
        self.allowance.check(self)

    def end_of_piece(self, prefixes: Prefixes, step: Step, begin: int) -> int:
        """Return the end of the next piece, which should cost no more than is left of the limit.

        A kernel goes on until it has written a piece, however many values it looks at in vain.
        """
        n, limit = len(prefixes), self.allowance.limit
        if limit is None or self.is_sample or step.is_lookup or len(step.atoms) < 2 or n - begin <= MAX_FORESEEN:
            return n
        if self._bounds is None or self._bounds[0] is not prefixes:
            self._bounds = prefixes, np.cumsum(self._widths(prefixes, step))
        searched = CANDIDATE + SEARCH * (len(step.atoms) - 1)
        proposed = self._bounds[1]
        left = max(0.0, limit - self.allowance.cost(self)) / searched
        before = proposed[begin - 1] if begin else 0
        fewest = max(MAX_FORESEEN, n // MAX_CUTS)  # rows of one hub are found again in every piece
        last = int(min(before + left, proposed[-1]))  # a float would be compared with a copy of all numbers as floats
        return min(n, max(begin + fewest, int(np.searchsorted(proposed, last, "right"))))

    def _n_read(self, step: Step) -> int:
        """Return the values that a step has looked at."""
        return int(self.work_of(step)[[PROPOSALS, MARKS]].sum())

    def _n_proposed(self, prefixes: Prefixes, step: Step) -> int:
        """Return the values that the narrowest atoms propose."""
        return int(self._widths(prefixes, step).sum())

    def _widths(self, prefixes: Prefixes, step: Step) -> Int64Array:
        """Return the values that the narrowest atom of each prefix proposes."""
        lower, upper, _ = find_bounds(step, prefixes.values, len(prefixes), self.backend)
        widths: Int64Array = np.minimum.reduce([
            self.widths(prefixes, atom, (lower, upper)) for atom in step.atoms
        ])  # fmt: skip
        return widths

    def _refuse_wide(self, prefixes: Prefixes, step: Step) -> None:
        """Raise `AllowanceError` if a sample's prefixes propose more values than the limit allows."""
        limit = self.allowance.limit
        if not self.is_sample or limit is None or step.is_lookup or len(prefixes) > MAX_FORESEEN:
            return
        if self.allowance.cost(self) + CANDIDATE * self._n_proposed(prefixes, step) > limit:
            raise AllowanceError

    def _count_part(self, prefixes: Prefixes, steps: Sequence[Step]) -> tuple[Int64Array, int | None]:
        self.allowance.parts += len(prefixes)
        return super()._count_part(prefixes, steps)

    def _count_last(self, prefixes: Prefixes, step: Step) -> tuple[Int64Array, int | None] | None:
        self.allowance.check(self)
        if len(step.atoms) > 1:
            self._refuse_wide(prefixes, step)
        counted = GenericJoin._count_last if self.meter is None else MeasuredJoin._count_last
        counts = counted(self, prefixes, step)
        if counts is not None:
            self.allowance.counted += len(prefixes)
        return counts


def with_budget(join: GenericJoin, max_cost: float | None = None, meter: Meter | None = None) -> BudgetedJoin:
    """Return the join with a fresh allowance, limited to a cost of `max_cost` if that is given."""
    fields = {**vars(join), "meter": meter, "allowance": Allowance(max_cost)}
    return BudgetedJoin(**{**fields, "work": {} if meter is None else meter.work})


@dataclass(eq=False)
class Summing:
    """Sums over the bindings of some steps; see `Merging` for rows.

    Attributes
    ----------
    join
        The atoms; it carries weights, also those of sets, which are 1.
    allowance
        The cost limit.
    of_sets
        Whether all relations are sets.
    by_ranges
        Whether prefixes that differ only in compared variables may be summed together.
    head_variables
        Variables that the head keeps, where rows are listed.
    """

    join: GenericJoin
    allowance: Allowance = field(default_factory=Allowance)
    of_sets: bool = False
    by_ranges: bool = True
    head_variables: frozenset[str] = frozenset()
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
        return self.merge_pieces([self._drop_unread(prefixes, steps)], steps)

    def total(self, prefixes: Prefixes, steps: Sequence[Step]) -> int:
        """Return the sum over prefixes of their weight times the weights of the steps' bindings."""
        join, backend = self.join, self.join.backend
        if len(prefixes) == 0:
            return 0
        remaining_steps = tuple(steps)
        counts_pairs = len(remaining_steps) == 2 and self.of_sets and bool(remaining_steps[1].conditions)
        if counts_pairs and (ways := count_twin_pairs(join, prefixes, *remaining_steps)) is not None:
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
        if not self.by_ranges or len(prefixes) < MIN_MERGED or -len(steps) in self._distinct:
            return None
        if not any(step.conditions for step in steps):
            return None

        seen = {name for atom, bound in prefixes.layout for name in self.join.uses[atom].variables[:bound]}
        return sum_by_ranges(self, prefixes, steps, seen)

    def group_columns(self, prefixes: Prefixes, steps: tuple[Step, ...]) -> list[Int64Array] | None:
        """Return the columns by which the steps tell prefixes apart; None if most are distinct.

        In the latter case the question is not asked again.
        """
        keys = self._keys(self._drop_unread(prefixes, steps))
        if keys and estimate_distinct(keys, self.join.backend) > len(prefixes) * MAX_DISTINCT_FRACTION:
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
            gathered.append(self._drop_unread(piece, remaining_steps))
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
        seen = seen.union(self.head_variables, *(step.read_variables for step in steps))
        return seen.issuperset(prefixes.order)

    def merge_pieces(self, pieces: list[Prefixes], steps: tuple[Step, ...]) -> list[Prefixes]:
        """Merge pieces into one without equal prefixes; return them unchanged if few are equal."""
        backend, n = self.join.backend, sum(map(len, pieces))
        xp = backend.xp
        if not self._is_expensive(steps, pieces):
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
        if estimate_distinct(keys, backend) > n * self._max_distinct(steps):
            self._distinct.add(len(steps))
            return pieces
        self.allowance.sorted_rows += n
        rows = backend.kernels.lexsort(keys)
        starts = backend.kernels.run_starts([key[rows] for key in keys])
        sums = backend.kernels.segment_sums(_weights(merged, xp)[rows], starts)
        distinct = merged.gather(rows[starts], xp)
        return [Prefixes(distinct.order, distinct.values, sums, distinct.layout, distinct.positions)]

    def _is_expensive(self, steps: tuple[Step, ...], pieces: Sequence[Prefixes]) -> bool:
        """Return whether the steps may cost more than merging prefixes does.

        Few prefixes cost more if they propose many values. Some of many run the last step first, as a measurement.
        """
        if sum(map(len, pieces)) < MIN_MERGED:
            return self.join.backend.device is None and self._is_wide(steps, pieces)
        if len(steps) != 1 or self.join.backend.device is not None or not steps[0].is_plain:
            return True
        rows, cost = self._last_step
        if rows and cost <= MERGED_PREFIX * rows:
            self._distinct.add(1)
        return cost > MERGED_PREFIX * rows

    def _is_wide(self, steps: Sequence[Step], pieces: Sequence[Prefixes]) -> bool:
        """Return whether few prefixes propose many values at the first step."""
        if sum(map(len, pieces)) < MIN_WIDE or steps[0].is_lookup:
            return False
        return self._values(steps[0], pieces) > WIDE_VALUES

    def _values(self, step: Step, pieces: Sequence[Prefixes]) -> float:
        """Return the number of values that the prefixes propose, approximately."""
        return sum(float(estimate_values(self.join, piece, step)) for piece in pieces)

    def _max_distinct(self, steps: tuple[Step, ...]) -> float:
        """Return the fraction of distinct prefixes up to which merging pays."""
        rows, cost = self._last_step
        if self.head_variables:
            return MAX_MERGED_FRACTION
        if len(steps) > 1 or rows == 0:
            return 0.25 if len(steps) == 1 else MAX_MERGED_FRACTION
        return 1 - MERGED_PREFIX * rows / max(1, cost)

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

    def _drop_unread(self, prefixes: Prefixes, steps: Sequence[Step]) -> Prefixes:
        """Return the prefixes with only the values that the steps or the head read."""
        read = self.head_variables.union(*(step.read_variables for step in steps))
        if read.issuperset(prefixes.values):
            return prefixes
        values = {name: column for name, column in prefixes.values.items() if name in read}
        return Prefixes(prefixes.order, values, prefixes.weights, prefixes.layout, prefixes.positions)


MIN_SAMPLE_SCALE = 16
"""Prefixes, at least, for each in a sample: all of them cost so much more than the sample."""


def thin_sample(prefixes: Prefixes, places: int | None, scale: float, xp: Any = np) -> tuple[Prefixes, float]:
    """Return some prefixes of a sample, and what each stands for as a share of `scale`.

    The prefixes differ. If there are at most `places` different ones in all, few of a sample of as many are enough.
    """
    n_prefixes = len(prefixes)
    if places is None or not n_prefixes or places >= n_prefixes * scale:
        return prefixes, 1.0
    n_chosen = min(n_prefixes, max(1, places // MIN_SAMPLE_SCALE, math.ceil(places / scale)))
    if n_chosen < n_prefixes:
        prefixes = prefixes.gather(xp.arange(n_chosen) * n_prefixes // n_chosen, xp)
    return prefixes, places / (n_chosen * scale)


@contextmanager
def charge_share(allowance: Allowance, join: GenericJoin, share: float, scale: float) -> Generator[None]:
    """Charge a share of the cost of what a sample does inside the context.

    It may cost more than its limit there.
    """
    before, limit = allowance.cost(join), allowance.limit
    if limit is not None and share < 1:
        allowance.limit = before + max(0.0, limit - before) * max(1.0, min(1 / share, scale / MIN_SAMPLE_SCALE))
    try:
        yield
    finally:
        allowance.limit = limit
    allowance.before -= int((1 - share) * (allowance.cost(join) - before))


MIN_VALUES = 1.0
"""Values that a prefix proposes at a last step, at least, where it is merged with equal ones before."""


@dataclass(eq=False)
class Merging(Summing):
    """Rows of some steps, with equal prefixes merged on the way.

    Prefixes are equal if the head and the steps to come cannot tell them apart.

    A column that only has to exist, or that only adds to weights, then multiplies nothing (early projection).

    Attributes
    ----------
    adds
        Whether a merged prefix has the sum of the weights; otherwise it only has to exist.
    scale
        Prefixes that each prefix of a sample stands for.
    """

    adds: bool = True
    scale: float = 1.0

    def pieces(self, prefixes: Prefixes, steps: tuple[Step, ...], depth: int) -> Iterator[Prefixes]:
        """Bind the first `depth` steps; yield the rows in pieces, in which rows may repeat."""
        if depth == 0 or len(prefixes) == 0:
            yield from (prefixes,) if len(prefixes) else ()
            return
        for merged in self.merge_equal(prefixes, steps):
            yield from self._discounted(merged, steps, depth)

    def _discounted(self, prefixes: Prefixes, steps: tuple[Step, ...], depth: int) -> Iterator[Prefixes]:
        """Bind steps; charge a sample at most what all different prefixes cost."""
        if self.scale == 1.0:
            yield from self._list(prefixes, steps, depth)
            return
        _, places = group_key(prefixes, steps, self.join)
        located = {name for atom, bound in prefixes.layout for name in self.join.uses[atom].variables[:bound]}
        is_bounded = places is not None and located.issuperset(self.head_variables.intersection(prefixes.order))
        scale = self.scale
        sample, share = thin_sample(prefixes, places if is_bounded else None, scale, self.join.backend.xp)
        self.scale = max(1.0 + 1e-9, scale * share)
        with charge_share(self.allowance, self.join, share, scale):
            yield from self._list(sample, steps, depth)
        self.scale = scale

    def _list(self, prefixes: Prefixes, steps: tuple[Step, ...], depth: int) -> Iterator[Prefixes]:
        if depth == 1:
            yield from self._bind(prefixes, steps[0])
            return
        for piece in self._bind_and_merge(prefixes, steps):
            yield from self._discounted(piece, steps[1:], depth - 1)

    def merge_pieces(self, pieces: list[Prefixes], steps: tuple[Step, ...]) -> list[Prefixes]:
        """Merge pieces as sums do; without weights if a prefix only has to exist."""
        merged = super().merge_pieces(pieces, steps)
        return merged if self.adds else [replace(piece, weights=None) for piece in merged]

    def _is_expensive(self, steps: Sequence[Step], pieces: Sequence[Prefixes]) -> bool:
        n = sum(map(len, pieces))
        if n < MIN_MERGED:
            return self._is_wide(steps, pieces)
        return len(steps) > 1 or (not steps[0].is_lookup and self._values(steps[0], pieces) > MIN_VALUES * n)


def _weights(prefixes: Prefixes, xp: Any) -> Int64Array:
    weights: Int64Array = xp.ones(len(prefixes), np.int64) if prefixes.weights is None else prefixes.weights
    return weights


def _merge_all(prefixes: Prefixes, weight: int, xp: Any) -> Prefixes:
    """Merge all prefixes, which are equal, into one of this weight."""
    first = prefixes.gather(xp.zeros(1, np.int64), xp)
    return Prefixes(first.order, first.values, xp.full(1, weight, np.int64), first.layout, first.positions)


# Counts of steps whose first variable is only compared with bound variables, by range sums.
#
# Prefixes that differ only in the operands of these comparisons have the same values before the comparison. These are
# enumerated once for all of them, each with the number of bindings of the remaining steps, and summed in ascending
# order; a prefix takes the difference of two such sums, less the values that it excludes. So pairs of neighbours cost
# as much as neighbours.


MAX_GATHERED_VALUES = 1 << 20
"""Values that gather before they are added up."""

MAX_VALUE_FACTOR = 1.0
"""Enumerate a group's values if they are at most this factor of the prefixes' range widths."""

Value = tuple[IndexArray, Int64Array, Int64Array]
"""Values as three arrays: the group of each, the value, and its number of bindings."""


def loosen(steps: Sequence[Step], seen: Iterable[str]) -> tuple[Step, tuple[Condition, ...]] | None:
    """Remove conditions on variables that nothing else reads from the first step.

    Return the step and these conditions; None if there are none.

    Parameters
    ----------
    seen
        The variables that the atoms of the steps have bound before.

    Examples
    --------
    >>> steps = Step("c", (0,), (Condition("c", ">", "a"), Condition("c", "!=", "b"))), Step("d", (1,))
    >>> bare, conditions = loosen(steps, "xb")
    >>> print(*bare.conditions, "and", *conditions)
    c != b and c > a
    >>> loosen((steps[0], Step("d", (1,), (Condition("d", "<", "a"),))), "xb") is None
    True
    """
    first, remaining_steps = steps[0], steps[1:]
    step_variables = {step.variable for step in steps if not step.is_lookup}
    if (
        first.is_lookup
        or first.checks
        or any(step.is_lookup and step.variable in step_variables for step in remaining_steps)
    ):
        return None
    read = frozenset(seen).union(*(step.read_variables for step in remaining_steps))
    read = read.union(str(condition.operand) for condition in first.conditions if condition.textual)
    loose = tuple(
        condition
        for condition in first.conditions
        if isinstance(condition.operand, str) and condition.operand not in read
    )
    if not loose:
        return None
    return replace(
        first, conditions=tuple(condition for condition in first.conditions if condition not in loose)
    ), loose


@dataclass(frozen=True, eq=False)
class PrefixGroups:
    """Prefixes in groups that are equal for the bare steps.

    Attributes
    ----------
    prefixes
        All prefixes, by group.
    starts
        The position of each group, and the number of prefixes.
    compared
        The step with the conditions that differ within a group.
    """

    prefixes: Prefixes
    starts: IndexArray
    compared: Step

    def representatives(self, bare: Step, remaining_steps: Sequence[Step], join: GenericJoin) -> Prefixes:
        """Return one prefix of each group, with the values that the bare steps read."""
        read = frozenset[str]().union(*(step.read_variables for step in (bare, *remaining_steps)))
        firsts = self.prefixes.gather(self.starts[:-1], join.backend.xp)
        values = {name: column for name, column in firsts.values.items() if name in read}
        return Prefixes(firsts.order, values, None, firsts.layout, firsts.positions)

    def is_worth_it(self, firsts: Prefixes, bare: Step, first: Step, join: GenericJoin) -> bool:
        """Return whether the groups have few enough values, compared with the prefixes' own ranges.

        Waits once for a device.
        """
        if all(condition.op == "!=" for condition in self.compared.conditions):
            return True
        together, separate = estimate_values(join, firsts, bare), estimate_values(join, self.prefixes, first)
        return numbers(join.backend, together <= MAX_VALUE_FACTOR * separate)[0] != 0

    def total(self, pieces: Iterator[Value], join: GenericJoin) -> int | None:
        """Return the sum over the prefixes of their weights times the bindings of allowed values.

        The result is None if int64 is too small for it.
        """
        gathered: list[Value] = []
        n_rows = total = 0
        for piece in pieces:
            gathered.append(piece)
            n_rows += len(piece[0])
            if n_rows >= MAX_GATHERED_VALUES:
                added = self._total_of_values(gathered, join)
                if added is None:
                    return None
                total, gathered, n_rows = total + added, [], 0
        added = self._total_of_values(gathered, join) if gathered else 0
        return None if added is None else total + added

    def _total_of_values(self, pieces: Sequence[Value], join: GenericJoin) -> int | None:
        """Return `total` of some values; None if an intermediate result does not fit int64.

        Values that are too far apart are replaced by their ranks.
        """
        backend, xp = join.backend, join.backend.xp
        group, value, ways = (xp.concatenate([piece[column] for piece in pieces]) for column in range(3))
        (max_ways,) = largest_magnitudes(backend, ways)
        first, last_group, low, high = numbers(backend, group[0], group[-1], value.min(), value.max())
        if max_ways * len(ways) >= 1 << 62:
            return None
        distinct: Int64Array | None = None
        if (high - low + 3) * (last_group - first + 1) >= 1 << 62 or high + 1 >= 1 << 63 or low - 1 < -1 << 63:
            ascending = value[backend.kernels.lexsort([value])]
            starts = backend.kernels.run_starts([ascending])
            distinct = ascending[starts]
            value, low, high = xp.searchsorted(distinct, value), 0, len(starts) - 1
        span = high - low + 3
        order = backend.kernels.lexsort([group, value])
        keys = (group[order] - first) * span + (value[order] - low + 1)
        ways = ways[order]
        sums = backend.kernels.exclusive_sum(ways)
        begin, end = numbers(backend, self.starts[first], self.starts[last_group + 1])
        rows = xp.arange(begin, end)
        prefixes = self.prefixes.gather(rows, xp)
        group_keys = (xp.searchsorted(self.starts, rows, side="right") - 1 - first) * span
        lower, upper, excluded = find_bounds(self.compared, prefixes.values, end - begin, backend)
        if len(lower) == 0:
            lower, upper = xp.full(end - begin, low, np.int64), xp.full(end - begin, high, np.int64)
        elif distinct is not None:
            lower, upper = (
                xp.searchsorted(distinct, bounds, side) for bounds, side in ((lower, "left"), (upper, "right"))
            )
            upper = upper - 1
        if distinct is not None:
            ranks = xp.minimum(xp.searchsorted(distinct, excluded), high)
            excluded = xp.where(distinct[ranks] == excluded, ranks, -1)
        lower = xp.minimum(xp.maximum(lower, low), high + 1)
        upper = xp.minimum(xp.maximum(upper, low - 1), high)
        start = xp.searchsorted(keys, group_keys + (lower - low + 1))
        to = xp.maximum(start, xp.searchsorted(keys, group_keys + (upper - low + 2)))
        counts = sums[to] - sums[start]
        for row_index in range(excluded.shape[0]):
            values = excluded[row_index]
            within = (values >= lower) & (values <= upper)
            for earlier in range(row_index):
                within &= values != excluded[earlier]
            key = group_keys + xp.where(within, values - low + 1, 0)
            place = xp.minimum(xp.searchsorted(keys, key), len(keys) - 1)
            counts = counts - xp.where(within & (keys[place] == key), ways[place], 0)
        return exact_dot(counts, prefixes.weights, backend)


def enumerate_values(
    join: GenericJoin, firsts: Prefixes, bare: Step, remaining_steps: Sequence[Step]
) -> Iterator[Value]:
    """Yield the values of a bare step, with the numbers of bindings of the remaining steps."""
    for parent, piece in join.extend(firsts, bare):
        if len(parent) == 0:
            continue
        ways, bound = join.count_bounded(piece, remaining_steps)
        if piece.weights is not None:
            bound = None if bound is None or join.max_weight is None else bound * join.max_weight
            ways = multiply_exactly(ways, piece.weights, join.backend, bound)
        if ways.dtype == object:
            raise OverflowError
        yield parent, piece.values[bare.variable], ways


def strip_conditions(
    steps: tuple[Step, ...], bound: Container[str], seen: Iterable[str]
) -> tuple[tuple[Step, ...], bool]:
    """Remove what `split` and then `loosen` remove; return the steps and whether `split` did."""
    bare = strip_exclusions(steps, bound)
    loose = loosen(bare, seen)
    return bare if loose is None else (loose[0], *bare[1:]), bare != steps


def sum_by_ranges(summing: Summing, prefixes: Prefixes, steps: tuple[Step, ...], seen: Iterable[str]) -> int | None:
    """Return `Summing.total` if many prefixes differ only in compared variables; else None."""
    bare, splits = strip_conditions(steps, prefixes.order, seen)
    if bare == steps or (splits and summing.join.meter is not None):  # the pinned steps have no gauges
        return None
    keys = summing.group_columns(prefixes, bare)
    if keys is None:
        return None
    join = summing.join
    if bare[0] == steps[0]:
        return _subtract_pinned(summing, prefixes, steps)
    together = _group_prefixes(summing, prefixes, keys, steps[0], bare[0])
    firsts = together.representatives(bare[0], bare[1:], join)
    if not together.is_worth_it(firsts, bare[0], steps[0], join):
        return None
    if splits:
        return _subtract_pinned(summing, prefixes, steps)
    summing.allowance.counted += (1 + len(together.compared.conditions)) * len(prefixes)
    try:
        total = together.total(enumerate_values(join, firsts, bare[0], bare[1:]), join)
    except OverflowError:
        return None
    summing.allowance.check(join)
    return total


def _group_prefixes(
    summing: Summing, prefixes: Prefixes, keys: Sequence[Int64Array], first: Step, bare: Step
) -> PrefixGroups:
    """Group the prefixes that are equal for the bare step and the others."""
    backend = summing.join.backend
    starts = backend.xp.zeros(1, np.int64)
    if keys:
        summing.allowance.sorted_rows += len(prefixes)
        rows = backend.kernels.lexsort(keys)
        starts = backend.kernels.run_starts([key[rows] for key in keys])
        prefixes = prefixes.gather(rows, backend.xp)
    starts = backend.xp.concatenate([starts, backend.xp.full(1, len(prefixes), starts.dtype)])
    compared = tuple(condition for condition in first.conditions if condition not in bare.conditions)
    return PrefixGroups(prefixes, starts, replace(first, conditions=compared))


def _subtract_pinned(summing: Summing, prefixes: Prefixes, steps: tuple[Step, ...]) -> int:
    """Return `Summing.total` by inclusion and exclusion.

    The total of all bindings less that of bindings with a value that the last step excludes.
    """
    apart = split(steps, prefixes.order)
    assert apart is not None
    return summing.sum_merged(prefixes, apart.unrestricted) - _sum_pinned(summing, prefixes, apart)


def _sum_pinned(summing: Summing, prefixes: Prefixes, apart: Split) -> int:
    """Return `Summing.total` for the last variable equal to the excluded value."""
    join, backend = summing.join, summing.join.backend
    if apart.filters:
        (rows,) = positions(backend, condition_mask(apart.filters, prefixes.values, join.ranks, backend.xp))
        prefixes = prefixes.gather(rows, backend.xp)
    pinned_join = replace(join, uses=apart.uses(join.uses), shapes={}, work={}, _extensions={})
    try:
        total_pinned = replace(summing, join=pinned_join).sum_merged(prefixes, apart.pinned)
    finally:
        total = join.work_of(apart.unrestricted[-1])
        for work in pinned_join.work.values():
            total += work
    summing.allowance.check(join)
    return total_pinned
