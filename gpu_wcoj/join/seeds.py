"""The first prefixes of a delta path: the rows of one atom's change, found in the other atoms that they bind."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gpu_wcoj.join.conditions import passes
from gpu_wcoj.join.generic import GenericJoin
from gpu_wcoj.join.path import AtomUse, DeltaPath
from gpu_wcoj.join.prefixes import Prefixes
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.zset.index import IndexedZSet

SORTED_FROM = 32
"""Fewer seeds than this are taken as they come."""

SAMPLE = 1024
"""Seeds looked at to choose between two orders."""


def seed_prefixes(path: DeltaPath, deltas: Mapping[AtomUse, IndexedZSet], join: GenericJoin) -> Prefixes:
    """Rows of the change that satisfy the path's first conditions and occur in every atom that they bind.

    Atoms that the rows bind completely multiply the weight; the others leave their positions. The rows are sorted so
    that those stand together for which later steps read the same long range. O(n log n) for n rows, or O(n) where
    the change stands in that order already.
    """
    default = path.seed
    order = default.variables
    if len(deltas[default]) > SORTED_FROM and path.sort_first:
        first = _best_first(path, deltas[default], join)
        if first != order[0]:
            order = (first, *(name for name in order if name != first))
    use = next((use for use in path.seeds if use.variables[0] == order[0]), default)
    delta = deltas[use]
    values = dict(zip(use.variables, delta.columns(), strict=True))
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
    return bind(order, values, weights, join)


def bind(order: tuple[str, ...], values: dict[str, Int64Array], weights: Int64Array | None, join: GenericJoin) -> Prefixes:
    """Find rows of bound variables in every atom of the join; drop those that some atom does not hold."""
    depth = {
        number: next((i for i, name in enumerate(use.variables) if name not in values), len(use.variables))
        for number, use in join.uses.items()
    }
    n = len(values[order[0]])
    records, columns_of, place = [], [], {name: i for i, name in enumerate(order)}
    for number, use in join.uses.items():
        if depth[number]:
            for batch in join.batches[number]:
                records.append([level.record for level in batch.levels[: depth[number]]])
                columns_of.append([place[name] for name in use.variables[: depth[number]]])
    matrix = np.array([values[name] for name in order], np.int64).reshape(len(order), n)
    located = join.backend.kernels.locate(records, columns_of, matrix)
    alive = np.ones(n, np.bool_)
    rows: list[int] = []
    layout: list[tuple[int, int]] = []
    at = 0
    for number, use in join.uses.items():
        if not depth[number]:
            continue
        batches = join.batches[number]
        own = located[at : at + len(batches)]
        if depth[number] < len(use.variables):
            layout.append((number, depth[number]))
            rows.extend(range(at, at + len(batches)))
            alive &= (own >= 0).any(axis=0)
        else:
            weight = sum_of_weights(batches, own)
            alive &= weight != 0
            if join.weighted:
                assert weights is not None
                weights = weights * weight
        at += len(batches)
    needed = {name: column for name, column in values.items() if name in join.needed}
    positions = located if len(rows) == len(located) else np.ascontiguousarray(located[rows])
    prefixes = Prefixes(order, needed, weights, tuple(layout), positions)
    if alive.all():
        return prefixes
    return prefixes.take(np.flatnonzero(alive))


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
