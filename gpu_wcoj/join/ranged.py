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

from gpu_wcoj.join.conditions import find_bounds, passes
from gpu_wcoj.join.excluding import Split, split, strip_exclusions
from gpu_wcoj.join.magnitudes import exact_dot, largest, multiply_exactly
from gpu_wcoj.join.path import Condition, Step
from gpu_wcoj.join.prefixes import Prefixes
from gpu_wcoj.join.sizes import estimate_values
from gpu_wcoj.kernels.protocol import IndexArray, Int64Array
from gpu_wcoj.zset.arrays import numbers, positions

if TYPE_CHECKING:
    from gpu_wcoj.join.generic import GenericJoin
    from gpu_wcoj.join.summing import Summing

ROOM = 1 << 20
"""Values that gather before they are added up."""

MOST_VALUES = 1.0
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
    first, rest = steps[0], steps[1:]
    own = {step.variable for step in steps if not step.is_lookup}
    if first.is_lookup or first.checks or any(step.is_lookup and step.variable in own for step in rest):
        return None
    others = frozenset(seen).union(*(step.spoken for step in rest))
    others = others.union(str(condition.other) for condition in first.conditions if condition.textual)
    loose = tuple(one for one in first.conditions if isinstance(one.other, str) and one.other not in others)
    if not loose:
        return None
    return replace(first, conditions=tuple(one for one in first.conditions if one not in loose)), loose


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

    def representatives(self, bare: Step, rest: Sequence[Step], join: GenericJoin) -> Prefixes:
        """Return one prefix of each group, with the values that the bare steps read."""
        asked = frozenset[str]().union(*(step.spoken for step in (bare, *rest)))
        found = self.prefixes.gather(self.starts[:-1], join.backend.xp)
        values = {name: column for name, column in found.values.items() if name in asked}
        return Prefixes(found.order, values, None, found.layout, found.positions)

    def is_worth_it(self, firsts: Prefixes, bare: Step, first: Step, join: GenericJoin) -> bool:
        """Return whether the groups have few enough values, compared with the prefixes' own ranges.

        Waits once for a device.
        """
        if all(one.op == "!=" for one in self.compared.conditions):
            return True
        together, alone = estimate_values(join, firsts, bare), estimate_values(join, self.prefixes, first)
        return numbers(join.backend, together <= MOST_VALUES * alone)[0] != 0

    def total(self, pieces: Iterator[Value], join: GenericJoin) -> int | None:
        """Return the sum over the prefixes of their weights times the bindings of allowed values.

        The result is None if int64 is too small for it.
        """
        held: list[Value] = []
        n_rows = total = 0
        for piece in pieces:
            held.append(piece)
            n_rows += len(piece[0])
            if n_rows >= ROOM:
                found = self._total_of_values(held, join)
                if found is None:
                    return None
                total, held, n_rows = total + found, [], 0
        found = self._total_of_values(held, join) if held else 0
        return None if found is None else total + found

    def _total_of_values(self, pieces: Sequence[Value], join: GenericJoin) -> int | None:
        """Return `total` of some values; None if an intermediate result does not fit int64.

        Values that are too far apart are replaced by their ranks.
        """
        backend, xp = join.backend, join.backend.xp
        group, value, ways = (xp.concatenate([piece[at] for piece in pieces]) for at in range(3))
        (most,) = largest(backend, ways)
        first, last, low, high = numbers(backend, group[0], group[-1], value.min(), value.max())
        if most * len(ways) >= 1 << 62:
            return None
        distinct: Int64Array | None = None
        if (high - low + 3) * (last - first + 1) >= 1 << 62 or high + 1 >= 1 << 63 or low - 1 < -1 << 63:
            ascending = value[backend.kernels.lexsort([value])]
            starts = backend.kernels.run_starts([ascending])
            distinct = ascending[starts]
            value, low, high = xp.searchsorted(distinct, value), 0, len(starts) - 1
        span = high - low + 3
        order = backend.kernels.lexsort([group, value])
        keys = (group[order] - first) * span + (value[order] - low + 1)
        ways = ways[order]
        sums = backend.kernels.exclusive_sum(ways)
        begin, end = numbers(backend, self.starts[first], self.starts[last + 1])
        rows = xp.arange(begin, end)
        prefixes = self.prefixes.gather(rows, xp)
        own = (xp.searchsorted(self.starts, rows, side="right") - 1 - first) * span
        lower, upper, excluded = find_bounds(self.compared, prefixes.values, end - begin, backend)
        if len(lower) == 0:
            lower, upper = xp.full(end - begin, low, np.int64), xp.full(end - begin, high, np.int64)
        elif distinct is not None:
            lower, upper = (xp.searchsorted(distinct, one, side) for one, side in ((lower, "left"), (upper, "right")))
            upper = upper - 1
        if distinct is not None:
            ranks = xp.minimum(xp.searchsorted(distinct, excluded), high)
            excluded = xp.where(distinct[ranks] == excluded, ranks, -1)
        lower = xp.minimum(xp.maximum(lower, low), high + 1)
        upper = xp.minimum(xp.maximum(upper, low - 1), high)
        at = xp.searchsorted(keys, own + (lower - low + 1))
        to = xp.maximum(at, xp.searchsorted(keys, own + (upper - low + 2)))
        found = sums[to] - sums[at]
        for number in range(excluded.shape[0]):
            one = excluded[number]
            within = (one >= lower) & (one <= upper)
            for other in range(number):
                within &= one != excluded[other]
            key = own + xp.where(within, one - low + 1, 0)
            place = xp.minimum(xp.searchsorted(keys, key), len(keys) - 1)
            found = found - xp.where(within & (keys[place] == key), ways[place], 0)
        return exact_dot(found, prefixes.weights, backend)


def enumerate_values(join: GenericJoin, firsts: Prefixes, bare: Step, rest: Sequence[Step]) -> Iterator[Value]:
    """Yield the values of a bare step, with the numbers of bindings of the remaining steps."""
    for parent, piece in join.extend(firsts, bare):
        if len(parent) == 0:
            continue
        ways, bound = join.count_bounded(piece, rest)
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
        found = together.total(enumerate_values(join, firsts, bare[0], bare[1:]), join)
    except OverflowError:
        return None
    summing.allowance.check(join)
    return found


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
    compared = tuple(one for one in first.conditions if one not in bare.conditions)
    return PrefixGroups(prefixes, starts, replace(first, conditions=compared))


def _subtract_pinned(summing: Summing, prefixes: Prefixes, steps: tuple[Step, ...]) -> int:
    """Return `Summing.total` by inclusion and exclusion.

    The total of all bindings less that of bindings with a value that the last step excludes.
    """
    apart = split(steps, prefixes.order)
    assert apart is not None
    return summing.over(prefixes, apart.unrestricted) - _sum_pinned(summing, prefixes, apart)


def _sum_pinned(summing: Summing, prefixes: Prefixes, apart: Split) -> int:
    """Return `Summing.total` for the last variable equal to the excluded value."""
    join, backend = summing.join, summing.join.backend
    if apart.filters:
        (rows,) = positions(backend, passes(apart.filters, prefixes.values, join.ranks, backend.xp))
        prefixes = prefixes.gather(rows, backend.xp)
    known = replace(join, uses=apart.uses(join.uses), shapes={}, work={}, _extensions={})
    try:
        found = replace(summing, join=known).over(prefixes, apart.pinned)
    finally:
        total = join.work_of(apart.unrestricted[-1])
        for work in known.work.values():
            total += work
    summing.allowance.check(join)
    return found
