"""Counts of steps whose first variable is only compared with bound variables, by range sums.

Prefixes that differ only in the operands of these comparisons have the same values before the comparison. These are
enumerated once for all of them, each with the number of bindings of the remaining steps, and summed in ascending order;
a prefix takes the difference of two such sums, less the values that it excludes. So pairs of neighbours cost as much as
neighbours.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from gpu_wcoj.join.conditions import condition_mask, find_bounds
from gpu_wcoj.join.excluding import Split, split, strip_exclusions
from gpu_wcoj.join.magnitudes import exact_dot, largest_magnitudes, multiply_exactly
from gpu_wcoj.join.plan import Condition, Step
from gpu_wcoj.join.prefixes import Prefixes
from gpu_wcoj.join.sizes import estimate_values
from gpu_wcoj.kernels.protocol import IndexArray, Int64Array
from gpu_wcoj.zset.arrays import numbers, positions

if TYPE_CHECKING:
    from gpu_wcoj.join.eliminate import Summing
    from gpu_wcoj.join.generic import GenericJoin

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
