"""Counts and times of a join's steps, collected on request.

The kernels count their work in any case; prefixes, rows, bytes and times are measured here. On a device a measurement
begins and ends by waiting for it, so a measured tick takes longer.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import reduce

import numpy as np

from gpu_wcoj.backend import Backend
from gpu_wcoj.join.plan import DeltaQuery
from gpu_wcoj.kernels.protocol import N_WORK, Int64Array


@dataclass(eq=False)
class Gauge:
    """Measurements of one step: extended prefixes, resulting rows and their bytes, seconds."""

    prefixes: int = 0
    rows: int = 0
    nbytes: int = 0
    seconds: float = 0.0

    def add(self, other: Gauge) -> Gauge:
        """Return the sum of two gauges."""
        return Gauge(
            self.prefixes + other.prefixes, self.rows + other.rows, self.nbytes + other.nbytes,
            self.seconds + other.seconds,
        )  # fmt: skip


@dataclass(eq=False)
class Meter:
    """Measurements of one run along a path or a variant of it; threads' blocks have one each.

    Attributes
    ----------
    path_index, variant
        Index of the path in its query, and of the variant; 0 for the path itself. A full recomputation has an index of
        its own, see `gpu_wcoj.join.whole`.
    work
        Per step, by name, the kernels' counters.
    changes
        Changed rows that started the run.
    prefixes
        Number of these that reached the first step.
    seconds
        Seconds for binding the seeds.
    """

    path_index: int
    variant: int
    work: dict[str, Int64Array]
    gauges: dict[str, Gauge] = field(default_factory=dict)
    changes: int = 0
    prefixes: int = 0
    seconds: float = 0.0

    def gauge(self, step: str) -> Gauge:
        """Return the gauge of a step."""
        return self.gauges.setdefault(step, Gauge())

    def total_gauges(self, name: str) -> dict[str, Gauge]:
        """Return the gauges; with a name, their sum under it."""
        if not name or not self.gauges:
            return dict(self.gauges)
        return {name: reduce(Gauge.add, self.gauges.values())}

    @contextmanager
    def seeding(self, backend: Backend) -> Generator[None]:
        """Measure the enclosed code as binding the path's seeds."""
        start = now(backend)
        yield
        self.seconds += now(backend) - start


def now(backend: Backend) -> float:
    """Return the time in seconds after waiting for all launched work."""
    if backend.device is not None:
        backend.to_host(backend.xp.zeros(1, np.int64))
    return time.perf_counter()


@dataclass(frozen=True)
class StepCounts:
    """Counts of one step in one tick.

    Attributes
    ----------
    work
        The kernels' counters; see `gpu_wcoj.kernels.protocol`.
    """

    work: tuple[int, ...] = (0,) * N_WORK
    prefixes: int = 0
    rows: int = 0
    nbytes: int = 0
    seconds: float = 0.0

    def add(self, work: Iterable[int], gauge: Gauge) -> StepCounts:
        """Return the counts with one more run."""
        return StepCounts(
            tuple(a + b for a, b in zip(self.work, work, strict=True)),
            self.prefixes + gauge.prefixes,
            self.rows + gauge.rows,
            self.nbytes + gauge.nbytes,
            self.seconds + gauge.seconds,
        )


@dataclass(frozen=True)
class PathCounts:
    """Counts of one path, or one of its variants, in one tick; see `Meter`."""

    changes: int
    prefixes: int
    seconds: float
    steps: Mapping[str, StepCounts]


@dataclass(frozen=True)
class JoinCounts:
    """Counts of one join in one tick, by path index and variant."""

    query: DeltaQuery
    paths: Mapping[tuple[int, int], PathCounts]


def sum_meters(query: DeltaQuery, meters: Iterable[Meter], backend: Backend) -> JoinCounts:
    """Add up all runs along one join's paths. Waits once for a device."""
    runs = [meter for meter in meters if meter.changes or meter.prefixes or meter.work or meter.gauges]
    counted = [(meter, step) for meter in runs for step in meter.work]
    arrays = [meter.work[step] for meter, step in counted]
    rows = backend.to_host(backend.xp.stack(arrays)).tolist() if arrays else []
    work: dict[tuple[int, str], list[int]] = {
        (id(meter), step): row for (meter, step), row in zip(counted, rows, strict=True)
    }
    paths: dict[tuple[int, int], PathCounts] = {}
    for meter in runs:
        key = meter.path_index, meter.variant
        before = paths.get(key, PathCounts(0, 0, 0.0, {}))
        steps = dict(before.steps)
        for step in dict.fromkeys((*meter.gauges, *meter.work)):
            step_work = work.get((id(meter), step), [0] * N_WORK)
            steps[step] = steps.get(step, StepCounts()).add(step_work, meter.gauges.get(step, Gauge()))
        paths[key] = PathCounts(
            before.changes + meter.changes, before.prefixes + meter.prefixes, before.seconds + meter.seconds, steps
        )
    return JoinCounts(query, dict(sorted(paths.items())))
