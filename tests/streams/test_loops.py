"""Subcircuits with a fixpoint against recomputation after random insertions and deletions."""

from __future__ import annotations

import pytest

import gpu_wcoj as gw
from gpu_wcoj import streams
from tests.helpers.long_tests import IS_LONG
from tests.helpers.stream_graphs import (
    closure,
    closure_afresh,
    closure_by_joins,
    closure_by_multiway,
    sequence,
    truss,
    truss_afresh,
    truss_from_changes,
)

CLOSURES = {"joins": closure_by_joins, "multiway": closure_by_multiway, "afresh": closure_afresh}
TRUSSES = {"from changes": truss_from_changes, "afresh": truss_afresh}
SEEDS = {"numba": range(3 if IS_LONG else 1), "numpy": range(1), "shim": range(1), "cuda": range(1)}
TICKS = {"numba": 16, "numpy": 9, "shim": 4, "cuda": 9}


@pytest.mark.drawn("text", "kind")
@pytest.mark.parametrize("text", [False, True], ids=["integers", "texts"])
@pytest.mark.parametrize("name", CLOSURES)
def test_transitive_closure(kind, name, text):
    for seed in SEEDS[kind.name]:
        circuit = streams.Circuit(backend=kind.backend())
        circuit.sink("reach", CLOSURES[name](circuit, circuit.source("edge")))
        total = gw.ZSet.empty()
        for change, edges in sequence(seed, TICKS[kind.name], 7, text):
            total = total + circuit.step({"edge": change})["reach"].to_host()
            assert total.to_dict() == dict.fromkeys(closure(edges), 1)


@pytest.mark.drawn("text")
@pytest.mark.parametrize("text", [False, True], ids=["integers", "texts"])
@pytest.mark.parametrize("name", TRUSSES)
def test_truss(kind, name, text):
    """The peel is not monotone: an edge that comes may keep others that were peeled before."""
    n_peeled = 0
    for seed in SEEDS[kind.name]:
        for k in (3, 4):
            circuit = streams.Circuit(backend=kind.backend())
            circuit.sink("truss", TRUSSES[name](circuit, circuit.source("edge"), k))
            total = gw.ZSet.empty()
            for change, edges in sequence(seed, TICKS[kind.name], 8, text, ordered=True):
                total = total + circuit.step({"edge": change})["truss"].to_host()
                assert total.to_dict() == dict.fromkeys(truss(edges, k), 1)
                n_peeled += 0 < len(total) < len(edges)
    assert n_peeled


def test_a_deletion_in_a_cycle_takes_back_what_only_it_supported():
    circuit = streams.Circuit(backend="cpu")
    circuit.sink("reach", closure_by_joins(circuit, circuit.source("edge")))
    cycle = [(1, 2), (2, 3), (3, 1), (3, 4)]
    first = circuit.step({"edge": cycle})["reach"]
    gone = circuit.step({"edge": [((3, 1), -1)]})["reach"]
    assert gone.to_dict() == dict.fromkeys([(1, 1), (2, 1), (2, 2), (3, 1), (3, 2), (3, 3)], -1)
    assert circuit.step({"edge": [(3, 1)]})["reach"] == -gone
    assert circuit.step({"edge": [(edge, -1) for edge in cycle]})["reach"] == -first


def test_only_what_changes_travels():
    """A long path stays; an edge elsewhere costs a few rows, however long the path."""
    circuit = streams.Circuit(backend="cpu")
    edges = circuit.source("edge")
    loop = circuit.subcircuit()
    edge, again = loop.introduce(edges), loop.feedback()
    step = again.incremental_join(edge, on={1: 0}).map([0, 2])
    looked_at = []
    reach = (edge + step).incremental_distinct().inspect(lambda value: looked_at.append(len(value)))
    again.connect(reach)
    circuit.sink("reach", loop.eliminate(reach))
    circuit.step({"edge": [(i, i + 1) for i in range(60)]})
    assert sum(looked_at) == 60 * 61 // 2
    looked_at.clear()
    circuit.step({"edge": [(100, 101)]})
    assert sum(looked_at) == 1
    looked_at.clear()
    circuit.step({"edge": [((59, 60), -1)]})
    assert sum(looked_at) == 60


def test_a_subcircuit_reads_several_streams_and_gives_several():
    circuit = streams.Circuit(backend="cpu")
    edges, starts = circuit.source("edge"), circuit.source("start")
    loop = circuit.subcircuit()
    edge, start, again = loop.introduce(edges), loop.introduce(starts), loop.feedback()
    reached = (start + again.incremental_join(edge, on={0: 0}).map([1])).incremental_distinct()
    again.connect(reached)
    circuit.sink("found", loop.eliminate(reached))
    circuit.sink("last", loop.export(reached))
    circuit.sink("edges", edges)
    out = circuit.step({"edge": [(1, 2), (2, 3), (5, 6)], "start": [(1,)]})
    assert out["found"].to_dict() == {(1,): 1, (2,): 1, (3,): 1}
    assert out["last"].to_dict() == {}
    assert len(out["edges"]) == 3
    assert circuit.step({"edge": [((1, 2), -1)], "start": [(5,)]})["found"].to_dict() == {
        (2,): -1, (3,): -1, (5,): 1, (6,): 1,
    }  # fmt: skip
