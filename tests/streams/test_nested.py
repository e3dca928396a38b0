"""Operators in a subcircuit follow changes of ticks and iterations as recomputation does."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

import gpu_wcoj as gw
from gpu_wcoj import streams
from gpu_wcoj.backend import Backend
from tests.helpers.kernel_kinds import Kind
from tests.helpers.long_tests import IS_LONG
from tests.helpers.stream_changes import SCHEMA, as_zset, nested_changes
from tests.helpers.stream_operators import LINEAR, NON_LINEAR, Build

SEEDS = {"numba": range(4 if IS_LONG else 1), "numpy": range(1), "shim": range(1), "cuda": range(1)}
SIZES = {"numba": (4, 4), "numpy": (3, 3), "shim": (2, 3), "cuda": (3, 3)}
"""Ticks and iterations."""
NOTHING = as_zset({})
Grid = Sequence[Sequence[gw.ZSet]]


def sums(changes: Grid) -> list[list[gw.ZSet]]:
    """Return the sums up to every time."""
    sums_found: list[list[gw.ZSet]] = []
    for t, line in enumerate(changes):
        sums_found.append([])
        for i, change in enumerate(line):
            near = sums_found[t][i - 1] if i else NOTHING
            before, both = (
                (sums_found[t - 1][i], sums_found[t - 1][i - 1] if i else NOTHING) if t else (NOTHING, NOTHING)
            )
            sums_found[t].append(change + near + before - both)
    return sums_found


def recomputed(place: Backend, lifted: Build, grids: Sequence[Grid]) -> list[list[gw.ZSet]]:
    """The changes of a function, time by time, from its values at all times."""
    circuit = streams.Circuit(backend=place)
    circuit.sink("out", lifted(*(circuit.source(f"s{i}", SCHEMA) for i in range(len(grids)))))
    inputs = [sums(grid) for grid in grids]

    def value(t: int, i: int) -> gw.ZSet:
        if t < 0 or i < 0:
            return gw.ZSet.empty()
        return circuit.step({f"s{n}": grid[t][i] for n, grid in enumerate(inputs)})["out"].to_host()

    return [
        [(value(t, i) - value(t, i - 1)) - (value(t - 1, i) - value(t - 1, i - 1)) for i in range(len(grids[0][0]))]
        for t in range(len(grids[0]))
    ]


def nested(place: Backend, incremental: Build, grids: Sequence[Grid]) -> list[list[gw.ZSet]]:
    """Return the outputs of the operator in a subcircuit by time."""
    n_iterations = len(grids[0][0])
    circuit = streams.Circuit(backend=place)
    loop = circuit.subcircuit(until=lambda time: time.iteration == n_iterations - 1)
    streams_given = [loop.generate(lambda time, grid=grid: grid[time.tick][time.iteration]) for grid in grids]
    outputs: list[list[gw.ZSet]] = [[] for _ in grids[0]]
    incremental(*streams_given).inspect(lambda value: outputs[loop.time.tick].append(value.to_host()))
    for _ in grids[0]:
        circuit.step()
    return outputs


@pytest.mark.drawn("name", "kind", share=6)
@pytest.mark.parametrize("name", NON_LINEAR)
def test_incremental_forms_under_nested_time(kind, name):
    query = NON_LINEAR[name]
    for seed in SEEDS[kind.name]:
        grids = [
            nested_changes(100 * seed + n, *SIZES[kind.name], query.relation or "outer" in name)
            for n in range(query.n_inputs)
        ]
        place = kind.backend()
        expected = recomputed(place, query.lifted, grids)
        assert nested(place, query.incremental, grids) == expected, seed


@pytest.mark.parametrize("name", ["map rows", "filter rows", "negate", "flat map rows", "index with", "plus itself"])
def test_linear_operators_under_nested_time(kind, name):
    for seed in SEEDS[kind.name]:
        grid = nested_changes(seed, *SIZES[kind.name], relation=False)
        place = kind.backend()
        assert nested(place, LINEAR[name], [grid]) == recomputed(place, LINEAR[name], [grid])


def test_compositions_under_nested_time():
    """Of a join, an aggregate and a distinct."""

    def incremental(a: streams.Stream, b: streams.Stream) -> streams.Stream:
        pairs = a.incremental_join(b, on="k", select=["v", "t_right"]).incremental_distinct()
        return pairs.incremental_aggregate(["t_right"], streams.Max("v")).incremental_antijoin(a, on={"t_right": "t"})

    def lifted(a: streams.Stream, b: streams.Stream) -> streams.Stream:
        pairs = a.join(b, on="k", select=["v", "t_right"]).distinct()
        return pairs.aggregate(["t_right"], streams.Max("v")).antijoin(a, on={"t_right": "t"})

    place = Kind("numba").backend()
    for seed in range(6):
        grids = [nested_changes(seed + n, 5, 5, relation=False) for n in (0, 50)]
        assert nested(place, incremental, grids) == recomputed(place, lifted, grids)


def test_work_at_later_iterations_is_only_of_rows_that_had_changed_there():
    """A tick that changes one row early settles as soon as the last iteration at which that row had changed."""
    circuit = streams.Circuit(backend="cpu")
    loop = circuit.subcircuit()
    source = loop.introduce(circuit.source("s", {"x": "int64"}))
    again = loop.feedback()
    value = source + again
    again.connect(value.map(lambda x: x + 1).filter(lambda x: x < 50).incremental_distinct())
    times = []
    value.incremental_distinct().inspect(lambda _: times.append(loop.time.iteration))
    circuit.step({"s": [(0,)]})
    assert max(times) == 50
    times.clear()
    circuit.step({"s": [(49,)]})
    assert max(times) <= 50
    times.clear()
    circuit.step()
    assert times == [0]
