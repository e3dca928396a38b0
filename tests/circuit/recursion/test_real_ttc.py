"""The social-media case of TTC 2018: both rankings initially and after each of 20 change sets."""

from __future__ import annotations

from pathlib import Path

import pytest

import gpu_wcoj as gw
from bench.recursion.ttc import N_CHANGES, QUERIES, SIZES, Ranking, expected, ticks
from gpu_wcoj import streams
from tests.reference.fixpoint import fixpoint
from tests.reference.program_text import written


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("query", QUERIES)
def test_rankings(shared_data: Path, query: str, size: int):
    folder = shared_data / "ttc2018"
    ranking = Ranking(query, backend="cpu")
    rankings = [ranking.step(tick) for tick in ticks(folder, size)]
    assert len(rankings) == N_CHANGES + 1
    assert rankings == expected(folder, query, size)


@pytest.mark.parametrize("query", QUERIES)
def test_scores(shared_data: Path, query: str):
    """Not only the best three: every score equals the judge's."""
    ranking = Ranking(query, backend="cpu")
    program = written(QUERIES[query])
    state: dict[str, dict[tuple[object, ...], int]] = {}
    for tick_index, tick in enumerate(ticks(shared_data / "ttc2018", 1)):
        ranking.step(tick)
        for relation, rows in tick.items():
            state.setdefault(relation, {}).update(dict.fromkeys(rows, 1))
        if tick_index % 20 == 0:
            assert ranking.program.relation("score").to_dict() == fixpoint(program, state)["score"]


def test_friends_are_friends_both_ways(shared_data: Path):
    """Friendships are stored in both directions, so the query need not reverse them."""
    for size in SIZES:
        pairs: set[tuple[int, int]] = set()
        for tick in ticks(shared_data / "ttc2018", size):
            pairs.update(tick["friends"])
            assert pairs == {(right, left) for left, right in pairs}


@pytest.mark.parametrize("query", QUERIES)
def test_rankings_by_a_circuit(shared_data: Path, query: str):
    """The best three as a step of a circuit that is fed with the program's changes."""
    program = gw.Program(QUERIES[query], backend="cpu")
    circuit = gw.Circuit(backend="cpu")
    scores = circuit.source("score", {"p" if query == "Q1" else "c": "int64", "s": "int64", "t": "string"})
    best = scores.incremental_aggregate([], streams.TopK(3, [("s", "desc"), ("t", "desc")]))
    circuit.sink("best", best)
    present: set[tuple[int, int, str]] = set()
    rankings = []
    for tick in ticks(shared_data / "ttc2018", 4):
        changes = program.step({name: rows for name, rows in tick.items() if name in program.inputs and rows})
        for row, weight in circuit.step({"score": changes["score"]})["best"].rows():
            (present.add if weight > 0 else present.remove)(row)
        ranking = sorted(present, key=lambda row: (row[1], row[2]), reverse=True)
        rankings.append("|".join(str(subject) for subject, _, _ in ranking))
    assert rankings == expected(shared_data / "ttc2018", query, 4)
