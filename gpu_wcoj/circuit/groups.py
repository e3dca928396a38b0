"""Plans of aggregating heads, and the change of their source by group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpu_wcoj.backend import Backend
from gpu_wcoj.circuit.sums import Words, to_integers
from gpu_wcoj.errors import AggregateOverflowError
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.trace.arrangement import ArrangementKey
from gpu_wcoj.zset.arrays import numbers, positions
from gpu_wcoj.zset.index import IndexedZSet


@dataclass(frozen=True)
class GroupingPlan:
    """The aggregate that a head computes.

    Attributes
    ----------
    op
        ``count``, ``sum``, ``min``, ``max`` or ``mean``.
    source
        The arrangement of the aggregated rows.
    group
        Grouping columns of the source's relation, in the order of the head's columns.
    value
        Aggregated column of the source's relation; None for ``count``.
    head
        Stored grouping columns of the head.
    result
        The result column of the head.
    family
        Type family of the value.
    scale
        Decimal places of a value.
    result_factor
        Factor from a sum to the unit of the head's column, which may have more decimal places.
    max_sum
        Maximum magnitude of a sum; 0 for the limit of int64.
    """

    op: str
    source: ArrangementKey
    group: tuple[int, ...]
    value: int | None
    head: tuple[int, ...]
    result: int
    family: str = "integer"
    scale: int = 0
    result_factor: int = 1
    max_sum: int = 0

    @property
    def order(self) -> tuple[int, ...]:
        """Columns of the head, grouping columns first."""
        return (*self.head, self.result)

    @property
    def has_totals(self) -> bool:
        """True if sums are part of the state."""
        return self.op in ("sum", "mean")

    @property
    def counts_once(self) -> bool:
        """True if a row of positive weight counts once instead of with its weight."""
        return self.op == "mean"

    @property
    def is_extreme(self) -> bool:
        """True if the result is a value of the source (``min`` or ``max``)."""
        return self.op in ("min", "max")


@dataclass(frozen=True, eq=False)
class GroupChange:
    """Changed rows of a source, sorted by group; a weight is the change of a row's count.

    Attributes
    ----------
    columns
        Columns of the groups with changed rows.
    n
        Number of groups.
    starts
        Offset of the first row of each group.
    owner
        Group of each row.
    values
        Aggregated value of each row; None for ``count``.
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
    """Sort the rows of one batch or more by group. O(n log n).

    Parameters
    ----------
    order
        The source's column of each level of the batches.
    weights
        Counts of the rows, if not their weights; may be 0.
    """
    xp = backend.xp
    parts = [batch.columns() for batch in batches]
    columns = parts[0] if len(parts) == 1 else [xp.concatenate(each) for each in zip(*parts, strict=True)]
    row_weights: Int64Array = (
        xp.concatenate([batch.weight_column() for batch in batches]) if weights is None else weights
    )
    groups = [columns[order.index(column)] for column in plan.group]
    values = None if plan.value is None else columns[order.index(plan.value)]
    starts = xp.zeros(1, np.int64)
    if groups:
        rows = backend.kernels.lexsort(groups)
        groups, row_weights = [column[rows] for column in groups], row_weights[rows]
        values = None if values is None else values[rows]
        starts = backend.kernels.run_starts(groups)
    n = len(starts)
    owner = xp.repeat(xp.arange(n), xp.diff(xp.concatenate([starts, xp.full(1, len(row_weights), np.int64)])))
    return GroupChange([column[starts] for column in groups], n, starts, owner, values, row_weights)


def refuse_out_of_range(
    what: str, words: Words, head: str, change: GroupChange, plan: GroupingPlan, backend: Backend, max_sum: int = 0
) -> None:
    """Raise for the first count or sum outside int64, or above a nonzero `max_sum`."""
    mask = words[1] != words[0] >> 63
    if max_sum:
        mask = mask | (words[0] > max_sum) | (words[0] < -max_sum)
    (beyond,) = positions(backend, mask)
    if len(beyond) == 0:
        return
    first = beyond[:1]
    (total,) = to_integers((words[0][first], words[1][first]), backend)
    codes = dict(zip(plan.head, numbers(backend, *(column[first][0] for column in change.columns)), strict=True))
    raise AggregateOverflowError(what, head, tuple(codes[column] for column in sorted(codes)), total)
