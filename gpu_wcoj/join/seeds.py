"""The first prefixes of a delta path: changed rows of one atom, located in the other atoms."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpu_wcoj.backend import Backend
from gpu_wcoj.join.generic import GenericJoin, apply_checks
from gpu_wcoj.join.plan import DeltaPath
from gpu_wcoj.join.prefixes import Prefixes, condition_mask, sum_of_weights, weights_of_rows
from gpu_wcoj.kernels.protocol import Int64Array, Level
from gpu_wcoj.zset.arrays import BoolArray, positions, stacked
from gpu_wcoj.zset.index import IndexedZSet

SORTED_FROM = 32
"""Seeds up to which they keep the order of the change."""

SAMPLED_FROM = 1024
"""Seeds up to which the plan's first sort variable is used.

Choosing by a sample costs as much as the better order saves."""

SAMPLE = 256
"""Seeds in the sample that chooses between two orders."""


@dataclass(frozen=True, eq=False)
class Seeds:
    """Rows of one atom's change.

    Attributes
    ----------
    order
        The variables, most significant first: rows that agree on the first ones are together.
    matrix
        int64, a row per variable of the path's first seed, a column per row of the change.
    weights
        int64; None without weights, or if all are 1.
    """

    order: tuple[str, ...]
    matrix: Int64Array
    weights: Int64Array | None

    def __len__(self) -> int:
        return int(self.matrix.shape[1])

    def part(self, begin: int, end: int, xp: Any = np) -> Seeds:
        """Return the rows from `begin` to `end`; `xp` is the array module of all arrays."""
        weights = None if self.weights is None else self.weights[begin:end]
        return Seeds(self.order, xp.ascontiguousarray(self.matrix[:, begin:end]), weights)

    def filtered(self, path: DeltaPath, join: GenericJoin) -> Seeds:
        """Return the rows that satisfy the path's seed conditions."""
        if not path.seed_conditions:
            return self
        xp = join.backend.xp
        values = {name: self.matrix[row] for row, name in enumerate(path.seed.variables)}
        (passing,) = positions(join.backend, condition_mask(path.seed_conditions, values, join.ranks, xp))
        if len(passing) == len(self):
            return self
        weights = None if self.weights is None else self.weights[passing]
        return Seeds(self.order, xp.ascontiguousarray(self.matrix[:, passing]), weights)


def seed_rows(path: DeltaPath, deltas: Sequence[IndexedZSet], join: GenericJoin, first: str) -> Seeds:
    """Return the rows of a change that satisfy the path's seed conditions, grouped by `first`.

    `deltas` holds the change in each of the path's seed orders. O(n log n) for n rows, or O(n) if one of these begins
    with that variable.
    """
    backend = join.backend
    use, delta = path.seed, deltas[0]
    order = use.variables
    if first != order[0]:
        order = (first, *(name for name in order if name != first))
        for use_in_order, its_delta in zip(path.seeds, deltas, strict=True):
            if use_in_order.variables[0] == first:
                use, delta = use_in_order, its_delta
    matrix = delta.matrix
    weights = delta.weight_column() if join.weighted else None
    if use is not path.seed:
        matrix = stacked(backend, [matrix[use.variables.index(name)] for name in path.seed.variables])
        order = use.variables
    elif order != use.variables:
        place = [use.variables.index(name) for name in order]
        columns = [matrix[row] for row in place]
        if weights is None and backend.device is None:
            columns = backend.kernels.distinct_rows(columns)
        else:
            rows = backend.kernels.lexsort(columns)
            columns = [column[rows] for column in columns]
            weights = None if weights is None else weights[rows]
        matrix = stacked(backend, [columns[place.index(row)] for row in range(len(place))])
    return Seeds(order, matrix, weights).filtered(path, join)


def bind_seeds(path: DeltaPath, seeds: Seeds, join: GenericJoin) -> Prefixes:
    """Locate the seeds in every atom that they bind; drop those that an atom lacks. Waits once."""
    with seeding(join):
        prefixes, alive = locate_seeds(path, seeds, join)
        return prefixes if alive is None else drop_dead(prefixes, alive, join.backend)


def seeding(join: GenericJoin) -> AbstractContextManager[None]:
    """Measure the enclosed code as binding seeds, if the join is measured."""
    return nullcontext() if join.meter is None else join.meter.seeding(join.backend)


def reverse_change(seeds: Seeds, before: tuple[IndexedZSet, ...], backend: Backend) -> Seeds:
    """Return the change of a negated atom's presence: appearing rows -1, disappearing rows 1.

    For bags.

    Parameters
    ----------
    before
        The batches of the state before the change, in the order of the path's seed.
    """
    assert seeds.weights is not None
    old: Int64Array = backend.xp.zeros(len(seeds), np.int64)
    if before and len(seeds):
        old = weights_of_rows(before, range(len(seeds.matrix)), seeds.matrix, backend)
    change = (old > 0).astype(np.int64) - (old + seeds.weights > 0)
    (changed,) = positions(backend, change != 0)
    return Seeds(seeds.order, backend.xp.ascontiguousarray(seeds.matrix[:, changed]), change[changed])


def drop_dead(prefixes: Prefixes, alive: BoolArray, backend: Backend) -> Prefixes:
    """Return the prefixes that are alive."""
    if backend.device is None and alive.all():
        return prefixes
    (present,) = positions(backend, alive)
    return prefixes if len(present) == len(alive) else prefixes.gather(present, backend.xp)


def locate_seeds(path: DeltaPath, seeds: Seeds, join: GenericJoin) -> tuple[Prefixes, BoolArray | None]:
    """Locate the seeds in every atom that they bind; return them and a mask of those in all.

    The mask is None if no atom was searched, or the rows are filtered already. Atoms that the rows bind completely
    multiply the weight; the others leave their positions.
    """
    records: list[tuple[object, ...]] = []
    columns_of: list[tuple[int, ...]] = []
    for atom, depth, columns in path.binding:
        for batch in join.batches[atom]:
            records.append(batch.records[:depth])
            columns_of.append(columns)
    backend = join.backend
    order, matrix, weights = seeds.order, seeds.matrix, seeds.weights
    located = backend.kernels.locate(records, columns_of, matrix)
    needed = {name: matrix[row] for row, name in enumerate(path.seed.variables) if name in join.needed}
    if len(seeds) == 1 and weights is None and backend.device is None and not path.seed_checks:
        single = _bind_single_seed(path, order, needed, located, join)
        if single is not None:
            return single, None
    alive = None
    rows: list[int] = []
    layout: list[tuple[int, int]] = []
    offset = 0
    for atom, depth, _ in path.binding:
        batches = join.batches[atom]
        atom_positions = located[offset : offset + len(batches)]
        if depth < len(join.uses[atom].variables):
            layout.append((atom, depth))
            rows.extend(range(offset, offset + len(batches)))
            is_present = (atom_positions[0] if len(batches) == 1 else atom_positions.max(axis=0)) >= 0
        else:
            weight = sum_of_weights(batches, atom_positions, backend)
            is_present = weight != 0
            if join.weighted:
                weights = weight if weights is None else weights * weight
        alive = is_present if alive is None else alive & is_present
        offset += len(batches)
    if len(rows) < len(located):
        located = stacked(backend, [located[row] for row in rows]) if rows else located[:0]
    if path.seed_checks:
        values = {name: matrix[row] for row, name in enumerate(path.seed.variables)}
        alive = apply_checks(path.seed_checks, values, len(seeds), join, alive)
        needed = {name: column for name, column in values.items() if name in join.needed}
    return Prefixes(order, needed, weights, tuple(layout), located), alive


def assign_seeds_to_variants(paths: Sequence[DeltaPath], seeds: Seeds, joins: Sequence[GenericJoin]) -> list[Prefixes]:
    """Bind each seed on the variant that proposes the fewest values first; for a device.

    All variants hold the same seeds, so that one mask serves all. Waits once.
    """
    backend = joins[0].backend
    with seeding(joins[0]):
        ways = list(zip(paths, joins, strict=True))
        bound, masks = zip(*(locate_seeds(path, seeds, join) for path, join in ways), strict=True)
        alive: BoolArray | None = masks[0]
        if len(paths) == 1:
            return [bound[0] if alive is None else drop_dead(bound[0], alive, backend)]
        choices = [join.choice(prefixes, path.steps[0]) for (path, join), prefixes in zip(ways, bound, strict=True)]
        chosen = backend.kernels.narrowest(choices)
        ours = [chosen == variant if alive is None else (chosen == variant) & alive for variant in range(len(paths))]
        variant_rows = positions(backend, *ours)
        return [prefixes.gather(rows, backend.xp) for prefixes, rows in zip(bound, variant_rows, strict=True)]


def _bind_single_seed(
    path: DeltaPath, order: tuple[str, ...], needed: dict[str, Int64Array], located: Int64Array, join: GenericJoin
) -> Prefixes | None:
    """Bind one row that completes no atom; None if it completes one.

    A fast path, as a tick of one row spends its time in such steps.
    """
    row_positions = located[:, 0].tolist()
    layout: list[tuple[int, int]] = []
    offset = 0
    for atom, depth, _ in path.binding:
        if depth == len(join.uses[atom].variables):
            return None
        layout.append((atom, depth))
        end = offset + len(join.batches[atom])
        if max(row_positions[offset:end]) < 0:
            located, needed = located[:, :0], {name: column[:0] for name, column in needed.items()}
            return Prefixes(order, needed, None, (), located)
        offset = end
    return Prefixes(order, needed, None, tuple(layout), located)


def first_variables(
    paths: Sequence[DeltaPath], deltas: Sequence[IndexedZSet], joins: Sequence[GenericJoin]
) -> list[str]:
    """Return the variable by which each path's seeds are sorted, to share long ranges.

    If several variables would share ranges, the one with the widest ranges below it, by a sample: waits once for a
    device, for all paths together. `deltas` holds each path's change, in its first order.
    """
    firsts = [
        path.sort_first[0] if len(delta) > SORTED_FROM and path.sort_first else path.seed.variables[0]
        for path, delta in zip(paths, deltas, strict=True)
    ]
    samples: list[tuple[int, tuple[str, ...], Int64Array]] = []
    for path_index, (path, delta, join) in enumerate(zip(paths, deltas, joins, strict=True)):
        if len(delta) > SAMPLED_FROM and len(path.sort_first) > 1:
            names, counts = _count_sample_children(path, delta, join)
            if names:
                samples.append((path_index, names, counts))
    if not samples:
        return firsts
    backend = joins[0].backend
    counted = samples[0][2] if len(samples) == 1 else backend.xp.concatenate([counts for _, _, counts in samples])
    widths = iter(backend.to_host(counted).tolist())
    for path_index, names, _ in samples:
        width = dict.fromkeys(paths[path_index].sort_first, 0)
        for name in names:
            width[name] += next(widths)
        firsts[path_index] = max(paths[path_index].sort_first, key=lambda name, width=width: width[name])  # type: ignore[misc]
    return firsts


def _count_sample_children(
    path: DeltaPath, delta: IndexedZSet, join: GenericJoin
) -> tuple[tuple[str, ...], Int64Array]:
    """Return per shared range of a sample of seeds its variable, and its number of values."""
    backend = join.backend
    names: list[str] = []
    levels: list[tuple[Level, ...]] = []
    for atom, use in join.uses.items():
        name, *below = use.variables
        if name in path.sort_first and below and below[0] not in path.seed.variables:
            names.extend([name] * len(join.batches[atom]))
            levels.extend(batch.levels[:2] for batch in join.batches[atom])
    columns_of = [(path.seed.variables.index(name),) for name in names]
    sample = backend.xp.ascontiguousarray(delta.matrix[:, :: max(1, len(delta) // SAMPLE)])
    return tuple(names), backend.kernels.count_children(levels, columns_of, sample)
