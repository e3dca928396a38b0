"""Sources: input rows as a change of a set or a bag, phase by phase."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpu_wcoj.backend import Backend, cpu_backend
from gpu_wcoj.errors import WeightOverflowError
from gpu_wcoj.join.prefixes import largest_magnitudes
from gpu_wcoj.join.relation import RelationIndex
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.trace.arrangement import PhaseRows
from gpu_wcoj.zset.arrays import BoolArray, is_host, positions


def set_change(
    relation: RelationIndex,
    columns: Sequence[Int64Array],
    weights: Int64Array | None,
    is_ordered: bool,
    is_distinct: bool = True,
) -> tuple[list[PhaseRows], int]:
    """Return the rows to delete and to insert, and the number of input rows that change nothing.

    Parameters
    ----------
    columns
        The relation's stored columns, where the relation lives.
    weights
        On the same backend or on the host. Above 0 inserts, below 0 deletes, 0 does nothing; None inserts all.
    is_ordered
        Whether the last operation on a row wins; otherwise the net weight of a row decides.
    is_distinct
        Whether unordered rows are distinct.
    """
    backend = relation.backend
    kernels, xp = backend.kernels, backend.xp
    n_given = len(columns[0])
    inserts: BoolArray | None = None
    if weights is not None and not bool((weights > 0).all()):
        signs = weights
        if not bool(signs.all()):
            nonzero = np.flatnonzero(signs) if is_host(signs) else positions(backend, signs != 0)[0]
            signs, nonzero = signs[nonzero], backend.asarray(nonzero)
            columns = [column[nonzero] for column in columns]
        if not is_ordered and not is_distinct:
            refuse_overflow(relation.name, columns, signs, None, backend)
            columns, signs = kernels.consolidate(columns, backend.asarray(signs))
        order = kernels.lexsort(columns)
        columns = [column[order] for column in columns]
        signs = backend.asarray(signs)[order]
        if is_ordered and len(order):
            ends = xp.concatenate([kernels.run_starts(columns)[1:], xp.full(1, len(order), np.int64)]) - 1
            columns, signs = [column[ends] for column in columns], signs[ends]
        inserts = signs > 0
    else:
        columns = kernels.distinct_rows(columns)
    if relation.accumulated():
        present = relation.weights_of(columns) != 0
    elif inserts is None:
        nothing = [column[:0] for column in columns]
        return [PhaseRows(nothing, -1), PhaseRows(list(columns), 1)], n_given - len(columns[0])
    else:
        present = xp.zeros(len(columns[0]), np.bool_)
    if inserts is None:
        if backend.device is None and not present.any():
            inserted = list(columns)
        else:
            (absent,) = positions(backend, ~present)
            inserted = list(columns) if len(absent) == len(present) else [column[absent] for column in columns]
        deleted = [column[:0] for column in columns]
    else:
        added, gone = positions(backend, inserts & ~present, ~inserts & present)
        inserted = [column[added] for column in columns]
        deleted = [column[gone] for column in columns]
    changed = len(inserted[0]) + len(deleted[0])
    return [PhaseRows(deleted, -1), PhaseRows(inserted, 1)], n_given - changed


def unsorted_change(
    relation: RelationIndex, columns: Sequence[Int64Array], weights: Int64Array | None, weighted: bool
) -> list[PhaseRows] | None:
    """Return the change of an empty relation by rows as they are, for a single tick.

    None if not all weights are positive. O(n) to look at weights, O(1) without.

    Raises
    ------
    WeightOverflowError
        If the exact weight of a row of a bag leaves int64.
    """
    if weights is not None and not bool((weights > 0).all()):
        return None
    if not weighted:
        nothing = [column[:0] for column in columns]
        return [PhaseRows(nothing, -1), PhaseRows(list(columns), 1, is_consolidated=False)]
    if weights is None or bool((weights == 1).all()):
        return [PhaseRows(list(columns), 1, is_consolidated=False)]
    refuse_overflow(relation.name, columns, weights, None, relation.backend)
    return [PhaseRows(list(columns), weights, is_consolidated=False)]


def bag_change(
    relation: RelationIndex, columns: Sequence[Int64Array], weights: Int64Array | None
) -> tuple[list[PhaseRows], int]:
    """Return the consolidated change, and the number of input rows that cancel or have weight 0.

    Raises
    ------
    WeightOverflowError
        If the exact weight of a row of the new state, or of the change, leaves int64.
    """
    n_given = len(columns[0])
    backend = relation.backend
    if weights is None:
        if backend.device is None:  # rows are sorted without weights, and duplicates are rare
            rows = backend.kernels.distinct_rows(columns)
            if len(rows[0]) == n_given and 1 + _max_weight(relation) < 1 << 63:
                return [PhaseRows(rows, 1)], 0
        weights = np.ones(n_given, np.int64)
    refuse_overflow(relation.name, columns, weights, relation, backend)
    rows, sums = backend.kernels.consolidate(columns, backend.asarray(weights))
    return [PhaseRows(rows, sums)], n_given - len(sums) if len(sums) < n_given else 0


def refuse_overflow(
    name: str, columns: Sequence[Int64Array], weights: Int64Array, relation: RelationIndex | None, backend: Backend
) -> None:
    """Raise if the weight of a row of the change, or of the relation after it, leaves int64.

    O(1) if a bound on the weights suffices; otherwise row by row on the host.
    """
    if len(weights) == 0:
        return
    (max_weight,) = largest_magnitudes(cpu_backend() if is_host(weights) else backend, weights)
    max_weight *= len(weights)
    if relation is not None:
        max_weight += _max_weight(relation)
    if max_weight < 1 << 63:
        return
    total: dict[tuple[int, ...], int] = {}
    rows = zip(*(backend.to_host(column).tolist() for column in columns), strict=True)
    for row, weight in zip(rows, backend.to_host(weights).tolist(), strict=True):
        total[row] = total.get(row, 0) + weight
    before = [0] * len(total)
    if relation is not None:
        keys = [backend.asarray(np.array(column, np.int64)) for column in zip(*total, strict=True)]
        before = backend.to_host(relation.weights_of(keys)).tolist()
    for (row, weight), old in zip(total.items(), before, strict=True):
        for exact in (weight, weight + old):
            if not -(1 << 63) <= exact < 1 << 63:
                raise WeightOverflowError(name, row, exact)


def _max_weight(relation: RelationIndex) -> int:
    """Return an upper bound of the weights of a relation."""
    return sum(batch.largest_weight for batch in relation.accumulated())
