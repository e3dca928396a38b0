"""What an aggregating head is told, and the groups whose rows change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpu_wcoj.backend import Backend
from gpu_wcoj.circuit.sums import Words, integers_of
from gpu_wcoj.errors import AggregateOverflowError
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.trace.arrangement import ArrangementKey
from gpu_wcoj.zset.arrays import numbers, positions
from gpu_wcoj.zset.index import IndexedZSet


@dataclass(frozen=True)
class GroupingPlan:
    """What a head aggregates.

    Attributes
    ----------
    op
        ``count``, ``sum``, ``min``, ``max`` or ``mean``.
    source
        The arrangement of the rows that count.
    group
        Which columns of the source's relation tell groups apart, in the order of the head's.
    value
        Which column of the source's relation is aggregated; None for ``count``.
    head
        Which stored columns of the head tell groups apart.
    result
        The head's column with the result.
    family
        Of the value.
    scale
        How many digits behind the point a value has.
    finer
        By how much a sum is multiplied to be one of the head's column, which may have more digits.
    most
        The largest sum of values in magnitude; 0 if it is that of int64.
    """

    op: str
    source: ArrangementKey
    group: tuple[int, ...]
    value: int | None
    head: tuple[int, ...]
    result: int
    family: str = "integer"
    scale: int = 0
    finer: int = 1
    most: int = 0

    @property
    def order(self) -> tuple[int, ...]:
        """The head's columns, the group first."""
        return (*self.head, self.result)

    @property
    def has_totals(self) -> bool:
        """Whether sums are part of the state."""
        return self.op in ("sum", "mean")

    @property
    def counts_once(self) -> bool:
        """Whether a row of positive weight counts once, and not as often as its weight says."""
        return self.op == "mean"

    @property
    def is_extreme(self) -> bool:
        """Whether a value of the source is the result."""
        return self.op in ("min", "max")


@dataclass(frozen=True, eq=False)
class GroupChange:
    """Changed rows of a source, sorted by group; their weights say how often each counts more than before.

    Attributes
    ----------
    columns
        Of the groups that have changed rows.
    n
        How many groups there are.
    starts
        Where the rows of each begin.
    owner
        Per row, its group.
    values
        Per row, what is aggregated.
    """

    columns: Sequence[Int64Array]
    n: int
    starts: Int64Array
    owner: Int64Array
    values: Int64Array | None
    weights: Int64Array


def group_change(
    plan: GroupingPlan,
    order: Sequence[int],
    batches: Sequence[IndexedZSet],
    backend: Backend,
    weights: Int64Array | None = None,
) -> GroupChange:
    """The rows of batches, of which there is one, by group. O(n log n).

    Parameters
    ----------
    order
        The source's column of each level of the batches.
    weights
        What the rows count, if not their weights; it may be 0.
    """
    xp = backend.xp
    parts = [batch.columns() for batch in batches]
    columns = parts[0] if len(parts) == 1 else [xp.concatenate(each) for each in zip(*parts, strict=True)]
    own: Int64Array = xp.concatenate([batch.weight_column() for batch in batches]) if weights is None else weights
    groups = [columns[order.index(column)] for column in plan.group]
    values = None if plan.value is None else columns[order.index(plan.value)]
    starts = xp.zeros(1, np.int64)
    if groups:
        rows = backend.kernels.lexsort(groups)
        groups, own = [column[rows] for column in groups], own[rows]
        values = None if values is None else values[rows]
        starts = backend.kernels.run_starts(groups)
    n = len(starts)
    owner = xp.repeat(xp.arange(n), xp.diff(xp.concatenate([starts, xp.full(1, len(own), np.int64)])))
    return GroupChange([column[starts] for column in groups], n, starts, owner, values, own)


def refuse_beyond(
    what: str, words: Words, head: str, change: GroupChange, plan: GroupingPlan, backend: Backend, most: int = 0
) -> None:
    """Raise for the first group with a count or sum outside int64, or above `most` in magnitude if that is not 0."""
    mask = words[1] != words[0] >> 63
    if most:
        mask = mask | (words[0] > most) | (words[0] < -most)
    (beyond,) = positions(backend, mask)
    if len(beyond) == 0:
        return
    first = beyond[:1]
    (total,) = integers_of((words[0][first], words[1][first]), backend)
    codes = dict(zip(plan.head, numbers(backend, *(column[first][0] for column in change.columns)), strict=True))
    raise AggregateOverflowError(what, head, tuple(codes[column] for column in sorted(codes)), total)
