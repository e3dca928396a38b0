"""The first prefixes of a delta path: the rows of one atom's change, found in the other atoms that they bind."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpu_wcoj.join.conditions import passes
from gpu_wcoj.join.generic import GenericJoin
from gpu_wcoj.join.path import DeltaPath
from gpu_wcoj.join.prefixes import Prefixes
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.zset.index import IndexedZSet

SORTED_FROM = 32
"""Fewer seeds than this are taken as they come."""

SAMPLE = 1024
"""Seeds looked at to choose between two orders."""


def seed_prefixes(path: DeltaPath, deltas: Sequence[IndexedZSet], join: GenericJoin) -> Prefixes:
    """Rows of a change that satisfy the path's first conditions and occur in every atom that they reach.

    `deltas` holds the change in each of the path's seed orders.

    Atoms that the rows bind completely multiply the weight; the others leave their positions. The rows are sorted so
    that those stand together for which later steps read the same long range. O(n log n) for n rows, or O(n) where
    the change stands in that order already.
    """
    use, delta = path.seed, deltas[0]
    order = use.variables
    if len(delta) > SORTED_FROM and path.sort_first:
        first = _best_first(path, delta, join)
        if first != order[0]:
            order = (first, *(name for name in order if name != first))
            for other, its_delta in zip(path.seeds, deltas, strict=True):
                if other.variables[0] == first:
                    use, delta = other, its_delta
    matrix = delta.matrix
    values = dict(zip(use.variables, matrix, strict=True))
    weights = delta.weight_column() if join.weighted else None
    if use.variables[0] != order[0]:
        columns = [values[name] for name in order]
        if weights is None:
            columns = join.backend.kernels.distinct_rows(columns)
        else:
            rows = join.backend.kernels.lexsort(columns)
            columns, weights = [column[rows] for column in columns], weights[rows]
        values = dict(zip(order, columns, strict=True))
    else:
        order = use.variables
    if path.seed_conditions:
        kept = np.flatnonzero(passes(path.seed_conditions, values, join.ranks))
        if len(kept) < len(delta):
            values = {name: column[kept] for name, column in values.items()}
            weights = None if weights is None else weights[kept]
    if values[path.seed.variables[0]].base is not matrix or use is not path.seed:
        matrix = np.array([values[name] for name in path.seed.variables])
    return bind(path, order, values, matrix, weights, join)


def bind(
    path: DeltaPath,
    order: tuple[str, ...],
    values: dict[str, Int64Array],
    matrix: Int64Array,
    weights: Int64Array | None,
    join: GenericJoin,
) -> Prefixes:
    """Find rows of the seed's variables in every atom that they reach; drop those that some atom does not hold.

    `matrix` holds the values again, a row per variable of the path's first seed.
    """
    records: list[tuple[object, ...]] = []
    columns_of: list[tuple[int, ...]] = []
    for number, depth, columns in path.binding:
        for batch in join.batches[number]:
            records.append(batch.records[:depth])
            columns_of.append(columns)
    located = join.backend.kernels.locate(records, columns_of, matrix)
    needed = {name: column for name, column in values.items() if name in join.needed}
    if matrix.shape[1] == 1 and weights is None:
        alone = _bind_one(path, order, needed, located, join)
        if alone is not None:
            return alone
    alive = None
    rows: list[int] = []
    layout: list[tuple[int, int]] = []
    at = 0
    for number, depth, _ in path.binding:
        batches = join.batches[number]
        own = located[at : at + len(batches)]
        if depth < len(join.uses[number].variables):
            layout.append((number, depth))
            rows.extend(range(at, at + len(batches)))
            held = own.max(axis=0) >= 0
        else:
            weight = sum_of_weights(batches, own)
            held = weight != 0
            if join.weighted:
                assert weights is not None
                weights = weights * weight
        alive = held if alive is None else alive & held
        at += len(batches)
    positions = located if len(rows) == len(located) else np.ascontiguousarray(located[rows])
    prefixes = Prefixes(order, needed, weights, tuple(layout), positions)
    if alive is None or alive.all():
        return prefixes
    return prefixes.take(np.flatnonzero(alive))


def _bind_one(
    path: DeltaPath, order: tuple[str, ...], needed: dict[str, Int64Array], located: Int64Array, join: GenericJoin
) -> Prefixes | None:
    """`bind` for one row that completes no atom; None if it does. A tick of one row spends its time in such steps."""
    found = located[:, 0].tolist()
    layout: list[tuple[int, int]] = []
    at = 0
    for number, depth, _ in path.binding:
        if depth == len(join.uses[number].variables):
            return None
        layout.append((number, depth))
        end = at + len(join.batches[number])
        if max(found[at:end]) < 0:
            located, needed = located[:, :0], {name: column[:0] for name, column in needed.items()}
            return Prefixes(order, needed, None, (), located)
        at = end
    return Prefixes(order, needed, None, tuple(layout), located)


def sum_of_weights(batches: tuple[IndexedZSet, ...], positions: Int64Array) -> Int64Array:
    """Weight of each row, from its position in each batch (-1: absent), added modulo 2^64."""
    total = np.zeros(positions.shape[1], np.int64)
    for batch, position in zip(batches, positions, strict=True):
        held = position >= 0
        if batch.weights is None:
            total += held
        else:
            total[held] += batch.weights[position[held]]
    return total


def _best_first(path: DeltaPath, delta: IndexedZSet, join: GenericJoin) -> str:
    """Of the variables that steps would share, the one with the widest ranges below it, by a sample."""
    if len(path.sort_first) == 1:
        return path.sort_first[0]
    columns = delta.columns()
    stride = max(1, len(delta) // SAMPLE)
    values = {name: column[::stride] for name, column in zip(path.seed.variables, columns, strict=True)}
    width = dict.fromkeys(path.sort_first, 0)
    for number, use in join.uses.items():
        if use.variables[0] in width and len(use.variables) > 1 and use.variables[1] not in values:
            for batch in join.batches[number]:
                position = batch.locate([values[use.variables[0]]])
                position = position[position >= 0]
                width[use.variables[0]] += int((batch.offsets[0][position + 1] - batch.offsets[0][position]).sum())
    return max(path.sort_first, key=lambda name: width[name])
