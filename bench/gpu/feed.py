"""Changes on their way into a program: keys on a device, or NumPy's for the CPU, as a Z-set of edges."""

from __future__ import annotations

from typing import Any

import numpy as np

import gpu_wcoj as gw
from bench.engine.queries import Query
from bench.gpu.graph import unpacked
from bench.gpu.patterns import rules_of
from bench.gpu.place import Place
from gpu_wcoj.kernels.protocol import PROPOSALS


def program_of(place: Place, query: Query, **options: Any) -> gw.Program:
    """A program for this pattern; all its ticks run on the device, unless `options` route them."""
    if place.backend.device is not None:
        options = {"route": "device"} | options
    return gw.Program(rules_of(query), backend=place.backend, **options)


def change(place: Place, keys: Any, weight: int = 1) -> gw.ZSet:
    """The edges with these keys, each with this weight."""
    smaller, larger = unpacked(keys)
    columns = {"src": smaller, "dst": larger}
    weights = place.xp.full(len(keys), weight, np.int64)
    if place.backend.device is None:
        return gw.ZSet.from_numpy(np.stack([smaller, larger], axis=1), weights, tuple(columns))
    return gw.ZSet.from_device(columns, weights, backend=place.backend)


def load(place: Place, program: gw.Program, keys: Any) -> float:
    """Seconds to load these edges, without counting the answer."""
    return place.wall(lambda: program.load({"edge": change(place, keys)}))[0]


def tick(place: Place, program: gw.Program, query: Query, keys: Any, weight: int, rows: bool) -> tuple[float, int]:
    """Seconds of one tick, from arrays where the program runs to its answer, and by how many rows the answer grew."""

    def step() -> int:
        edges = {"edge": change(place, keys, weight)}
        if not rows:
            return int(program.step_counts(edges)[query.name].net)
        return int(program.step(edges)[query.name].stored_weights.sum())

    return place.wall(step)


def candidates(program: gw.Program) -> int:
    """How many candidates the last tick looked at."""
    paths = [
        counted
        for rules in program.last_tick.work.values()
        for variables in rules.values()
        for by_variable in variables.values()
        for counted in by_variable.values()
    ]
    return sum(int(counted[PROPOSALS]) for counted in paths)
