"""Paths of one step and few seeds, evaluated in one kernel call.

Otherwise a tick of one row would spend its time in preparing kernel arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gpu_wcoj.join.plan import DeltaPath
from gpu_wcoj.join.running import PathRunner
from gpu_wcoj.kernels.protocol import N_WORK, Int64Array, Level

FEW_SEEDS = 16
"""Seeds up to which a path of one step is evaluated by one kernel call."""

_SeedArguments = tuple[Sequence[Sequence[Level]], Sequence[Sequence[int]], Sequence[int], Int64Array, bool, Int64Array]
"""The arguments of `Kernels.extend_seeds`."""


class SeedMatches(NamedTuple):
    """The bindings of a path.

    Attributes
    ----------
    seeds
        One row per variable of the path's seed.
    counts
        Number of values of each seed.
    rows
        Index of the seed and the value, per binding; empty if only counts were requested.
    """

    seeds: Int64Array
    counts: Int64Array
    rows: Int64Array

    def values(self, path: DeltaPath) -> dict[str, Int64Array]:
        """Return the bindings, by variable."""
        values = {name: self.seeds[row][self.rows[0]] for row, name in enumerate(path.seed.variables)}
        values[path.steps[0].variable] = self.rows[1]
        return values


def extend_seeds_once(runner: PathRunner, path_index: int, phase: int, fill: bool) -> SeedMatches | None:
    """Evaluate one path of a set's tick in one kernel call; with `fill` list bindings.

    The result is None if the path has more than one step or too many seeds for that.
    """
    way, execution = runner.bound_paths[path_index][0], runner.execution
    if not way.path.is_single or execution.weighted or execution.share is not None:
        return None
    delta = way.seeds[0].delta(phase)
    if delta is None:
        return _no_matches(runner)
    if delta.n_rows > FEW_SEEDS:
        return None
    levels: list[tuple[Level, ...]] = []
    columns: list[tuple[int, ...]] = []
    first = [0]
    for (use, arrangement), (_, _, bound) in zip(way.other_atoms, way.path.binding, strict=True):
        seen = way.visible_batches(use, arrangement, phase)
        if not seen:
            return _no_matches(runner)
        for batch in seen:
            levels.append(batch.levels)
            columns.append(bound)
        first.append(len(levels))
    backend = execution.backend
    work = backend.xp.zeros(N_WORK, np.int64)
    arguments = levels, columns, first, delta.matrix, fill, work
    counts, rows = (
        _extend_metered(runner, path_index, arguments)
        if execution.measures
        else backend.kernels.extend_seeds(*arguments)
    )
    runner.seeds += delta.n_rows
    runner.finished.append((path_index, {way.path.steps[0].variable: work}))
    return SeedMatches(delta.matrix, counts, rows)


def _no_matches(runner: PathRunner) -> SeedMatches:
    xp = runner.execution.backend.xp
    return SeedMatches(xp.empty((0, 0), np.int64), xp.empty(0, np.int64), xp.empty((2, 0), np.int64))


def _extend_metered(runner: PathRunner, path_index: int, arguments: _SeedArguments) -> tuple[Int64Array, Int64Array]:
    """Call `Kernels.extend_seeds`, measured: all seeds are prefixes of the one step."""
    from gpu_wcoj.join.meter import Meter, now

    backend, step = runner.execution.backend, runner.query.paths[path_index].steps[0].name
    *_, seeds, _, work = arguments
    meter = Meter(path_index, 0, {step: work}, changes=seeds.shape[1], prefixes=seeds.shape[1])
    runner.meters.append(meter)
    start, gauge = now(backend), meter.gauge(step)
    counts, rows = backend.kernels.extend_seeds(*arguments)
    gauge.seconds = now(backend) - start
    gauge.prefixes, gauge.rows, gauge.nbytes = seeds.shape[1], rows.shape[1], int(rows.nbytes)
    return counts, rows
