"""A tick of one row costs the size of its change, measured by memory."""

from __future__ import annotations

import random
import runpy
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import gpu_wcoj as gw
from gpu_wcoj import streams
from tests.helpers.stream_graphs import truss

ROWS = 120_000
SCHEMA = {"group": "int64", "value": "int64", "key": "int64"}
FEW_BYTES = 400_000
"""Less than one column of the state, in four bytes a row; room for the pieces of a join, which have a fixed size."""

QUERIES = {
    "filter and map": lambda s: s.filter(lambda group: group < 2, of="group").map(["key", "value"]),
    "trace": lambda s: s.trace("key"),
    "timed trace": lambda s: s.trace("key", timed=True),
    "distinct": lambda s: s.incremental_distinct(),
    "count": lambda s: s.incremental_aggregate("group", streams.Count()),
    "sum": lambda s: s.incremental_aggregate("group", streams.Sum("value")),
    "mean of all": lambda s: s.incremental_aggregate([], streams.Mean("value")),
    "sum of floats": lambda s: s.map(
        lambda g, v: (g, v / 3), names={"g": "int64", "x": "double"}, of=["group", "value"]
    ).incremental_aggregate("g", streams.Sum("x")),
    "min": lambda s: s.incremental_aggregate("group", streams.Min("value")),
    "max of all": lambda s: s.incremental_aggregate([], streams.Max("value")),
    "top 3": lambda s: s.incremental_aggregate("group", streams.TopK(3, [("value", "desc")])),
    "count distinct": lambda s: s.incremental_aggregate("group", streams.CountDistinct("value")),
    "join": lambda s: s.incremental_join(s, on={"key": "value"}),
    "semijoin": lambda s: s.incremental_semijoin(s, on={"key": "value"}),
    "antijoin": lambda s: s.incremental_antijoin(s, on={"key": "value"}),
    "full join": lambda s: s.incremental_outer_join(s, on={"key": "value"}, keep="full"),
    "multiway": lambda s: s.scope.multiway("h(a, b, c) :- s(_, a, b), s(_, b, c), s(_, a, c).", {"s": s}),
    "closure": lambda s: closure(s.filter(lambda key: key < 300, of="key").map(["key", "value"])),
}


def closure(edges: streams.Stream) -> streams.Stream:
    circuit = edges.scope
    assert isinstance(circuit, streams.Circuit)
    loop = circuit.subcircuit()
    edge, again = loop.introduce(edges), loop.feedback()
    reach = (edge + again.incremental_join(edge, on={1: 0}).map([0, 2])).incremental_distinct()
    again.connect(reach)
    return loop.eliminate(reach)


@pytest.mark.parametrize("name", QUERIES)
def test_a_tick_of_one_row(name):
    rng = np.random.default_rng(5)
    columns = [rng.integers(0, 4, ROWS), rng.permutation(ROWS), rng.permutation(ROWS)]
    circuit = streams.Circuit(backend="cpu")
    circuit.sink("out", QUERIES[name](circuit.source("s", SCHEMA)))
    circuit.step({"s": gw.ZSet.from_numpy(np.stack(columns, 1), names=list(SCHEMA))})
    peaks = []
    for tick in range(12):
        row = tuple(int(column[tick // 2]) for column in columns)
        change = gw.ZSet.from_rows([(row, -1 if tick % 2 == 0 else 1)], names=list(SCHEMA))
        tracemalloc.start()
        circuit.step({"s": change})
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert sorted(peaks)[len(peaks) // 2] < FEW_BYTES, peaks


def test_the_example_prints_what_is_so(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["truss.py", "5"])
    module = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "truss.py"), run_name="__main__")
    assert callable(module["truss"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "431 edges, 20 of them in the 5-truss"
    assert len(lines) == 11
    draw = random.Random(1)
    edges = {tuple(sorted(draw.sample(range(60), 2))) for _ in range(500)}
    assert (len(edges), len(truss(edges, 5))) == (431, 20)
