"""The social-media case of TTC 2018: both rankings after the initial state and after each of the 20 change sets."""

from __future__ import annotations

from pathlib import Path

import pytest

import gpu_wcoj as gw
from bench.recursion.ttc import N_CHANGES, QUERIES, SIZES, Ranking, expected, ticks
from gpu_wcoj import streams
from tests.reference.fixpoint import fixpoint
from tests.reference.written import written


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("query", QUERIES)
def test_rankings(shared_data: Path, query: str, size: int):
    folder = shared_data / "ttc2018"
    ranking = Ranking(query, backend="cpu")
    found = [ranking.step(tick) for tick in ticks(folder, size)]
    assert len(found) == N_CHANGES + 1
    assert found == expected(folder, query, size)


@pytest.mark.parametrize("query", QUERIES)
def test_scores(shared_data: Path, query: str):
    """Not only the best three: every score equals the judge's."""
    ranking = Ranking(query, backend="cpu")
    program = written(QUERIES[query])
    state: dict[str, dict[tuple[object, ...], int]] = {}
    for number, tick in enumerate(ticks(shared_data / "ttc2018", 1)):
        ranking.step(tick)
        for relation, rows in tick.items():
            state.setdefault(relation, {}).update(dict.fromkeys(rows, 1))
        if number % 20 == 0:
            assert ranking.program.relation("score").to_dict() == fixpoint(program, state)["score"]


def test_friends_are_friends_both_ways(shared_data: Path):
    """So the query need not turn them around."""
    for size in SIZES:
        pairs: set[tuple[int, int]] = set()
        for tick in ticks(shared_data / "ttc2018", size):
            pairs.update(tick["friends"])
            assert pairs == {(other, one) for one, other in pairs}


@pytest.mark.parametrize("query", QUERIES)
def test_rankings_by_a_circuit(shared_data: Path, query: str):
    """The three best as a step of a circuit, which is fed with what the program says has changed."""
    program = gw.Program(QUERIES[query], backend="cpu")
    circuit = gw.Circuit(backend="cpu")
    scores = circuit.source("score", {"p" if query == "Q1" else "c": "int64", "s": "int64", "t": "string"})
    best = scores.incremental_aggregate([], streams.TopK(3, [("s", "desc"), ("t", "desc")]))
    circuit.sink("best", best)
    held: set[tuple[int, int, str]] = set()
    found = []
    for tick in ticks(shared_data / "ttc2018", 4):
        changes = program.step({name: rows for name, rows in tick.items() if name in program.inputs and rows})
        for row, weight in circuit.step({"score": changes["score"]})["best"].rows():
            (held.add if weight > 0 else held.remove)(row)
        ranking = sorted(held, key=lambda row: (row[1], row[2]), reverse=True)
        found.append("|".join(str(subject) for subject, _, _ in ranking))
    assert found == expected(shared_data / "ttc2018", query, 4)
