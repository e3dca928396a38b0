"""Sources: what comes in as a change of a set or a bag, phase by phase."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpu_wcoj.column import BoolArray
from gpu_wcoj.errors import WeightOverflowError
from gpu_wcoj.join.index import RelationIndex
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.trace.arrangement import PhaseRows


def set_change(
    relation: RelationIndex, columns: Sequence[Int64Array], weights: Int64Array | None, is_ordered: bool
) -> tuple[list[PhaseRows], int]:
    """The rows to delete and the rows to insert, and how many of the given rows change nothing.

    Parameters
    ----------
    columns
        The relation's stored columns.
    weights
        Above 0 inserts, below 0 deletes, 0 does nothing; None inserts all.
    is_ordered
        Whether the last operation on a row wins; otherwise the rows are distinct.
    """
    kernels = relation.backend.kernels
    given = len(columns[0])
    inserts: BoolArray | None = None
    if weights is not None and not bool((weights > 0).all()):
        if not bool(weights.all()):
            kept = np.flatnonzero(weights)
            columns, weights = [column[kept] for column in columns], weights[kept]
        order = kernels.lexsort(columns)
        columns = [column[order] for column in columns]
        signs = weights[order]
        if is_ordered and len(order):
            ends = np.append(kernels.run_starts(columns)[1:], len(order)) - 1
            columns, signs = [column[ends] for column in columns], signs[ends]
        inserts = signs > 0
    else:
        columns = kernels.distinct_rows(columns)
    if relation.accumulated():
        present = relation.weights_of(columns) != 0
    else:
        present = np.zeros(len(columns[0]), np.bool_)
    if inserts is None:
        fresh = None if not present.any() else np.flatnonzero(~present)
        inserted = list(columns) if fresh is None else [column[fresh] for column in columns]
        deleted = [column[:0] for column in columns]
    else:
        added, gone = np.flatnonzero(inserts & ~present), np.flatnonzero(~inserts & present)
        inserted = [column[added] for column in columns]
        deleted = [column[gone] for column in columns]
    changed = len(inserted[0]) + len(deleted[0])
    return [PhaseRows(deleted, -1), PhaseRows(inserted, 1)], given - changed


def bag_change(
    relation: RelationIndex, columns: Sequence[Int64Array], weights: Int64Array | None
) -> tuple[list[PhaseRows], int]:
    """The consolidated change, and how many of the given rows cancel or have weight 0.

    Raises
    ------
    WeightOverflowError
        If the exact weight of a row of the new state, or of the change, leaves int64.
    """
    given = len(columns[0])
    if weights is None:
        weights = np.ones(given, np.int64)
    refuse_overflow(relation.name, columns, weights, relation)
    rows, sums = relation.backend.kernels.consolidate(columns, weights)
    return [PhaseRows(rows, sums)], given - len(sums) if len(sums) < given else 0


def refuse_overflow(
    name: str, columns: Sequence[Int64Array], weights: Int64Array, relation: RelationIndex | None
) -> None:
    """Raise if these rows take a row of the change, or of the relation, out of int64. O(1) where a bound holds."""
    if len(weights) == 0:
        return
    largest = max(int(weights.max()), -int(weights.min())) * len(weights)
    if relation is not None:
        largest += sum(batch.largest_weight for batch in relation.accumulated())
    if largest < 1 << 63:
        return
    total: dict[tuple[int, ...], int] = {}
    for row, weight in zip(zip(*(column.tolist() for column in columns), strict=True), weights.tolist(), strict=True):
        total[row] = total.get(row, 0) + weight
    before = [0] * len(total)
    if relation is not None:
        keys = [np.array(column, np.int64) for column in zip(*total, strict=True)]
        before = relation.weights_of(keys).tolist()
    for (row, weight), old in zip(total.items(), before, strict=True):
        for exact in (weight, weight + old):
            if not -(1 << 63) <= exact < 1 << 63:
                raise WeightOverflowError(name, row, exact)
