"""LSQB's nine queries on its data: the known answers at once, fed in 50 ticks, and with detours on the way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import gpu_wcoj as gw
from bench.lsqb.data import Rows, in_ticks, relations
from bench.lsqb.queries import ANSWERS, QUERIES, VIEWS, Query
from tests.helpers.long_tests import IS_LONG

N_TICKS = 50
CASES = [
    pytest.param(scale, query, known, id=f"{scale}-{query.name}")
    for scale, answers in ANSWERS.items()
    for query, known in zip(QUERIES, answers, strict=True)
    if known is not None
]
SMALL = [case for case in CASES if case.values[0] != "0.1"]


@pytest.fixture
def lsqb(shared_data: Path) -> Path:
    return shared_data / "lsqb"


def weighted(*parts: tuple[Rows, int]) -> pa.Table:
    """Rows that come and rows that go, as a table of changes."""
    rows = np.concatenate([part for part, _ in parts])
    weights = np.concatenate([np.full(len(part), weight) for part, weight in parts])
    return pa.table({"one": rows[:, 0], "other": rows[:, 1], "weight": weights})


def with_detours(ticks: list[dict[str, Rows]], seed: int) -> Iterator[dict[str, pa.Table]]:
    """The ticks; every fifth takes back half of an earlier one, the next brings that again with rows of its own."""
    draw = np.random.default_rng(seed)
    back: dict[str, Rows] = {}
    for number, tick in enumerate(ticks):
        gone: dict[str, Rows] = {}
        if number % 5 == 3:
            earlier = ticks[draw.integers(number)]
            gone = {name: rows[draw.random(len(rows)) < 0.5] for name, rows in earlier.items()}
        yield {
            name: weighted((rows, 1), (back.get(name, rows[:0]), 1), (gone.get(name, rows[:0]), -1))
            for name, rows in tick.items()
        }
        back = gone
    assert not any(map(len, back.values()))


@pytest.mark.parametrize(("scale", "query", "known"), CASES if IS_LONG else SMALL)
def test_at_once(lsqb: Path, scale: str, query: Query, known: int):
    inputs = relations(scale, query.inputs, lsqb)
    program = gw.Program(query.text, bag=True, backend="cpu")
    program.load(inputs)
    assert program.count("answer") == known
    if scale == "0.1":
        return
    stepped = gw.Program(query.text, bag=True, backend="cpu")
    assert stepped.step(inputs)["answer"].weights.sum() == known


@pytest.mark.drawn("scale", "query", "known", share=3)
@pytest.mark.parametrize(("scale", "query", "known"), CASES)
def test_in_50_ticks(lsqb: Path, scale: str, query: Query, known: int):
    program = gw.Program(query.text, bag=True, backend="cpu")
    total = 0
    for number, tick in enumerate(in_ticks(relations(scale, query.inputs, lsqb), N_TICKS, 1)):
        total += program.step_counts(tick)["answer"].net
        if number % 10 == 0 and scale != "0.1":
            assert program.count("answer") == total
    assert total == program.count("answer") == known


@pytest.mark.parametrize(("scale", "query", "known"), SMALL)
def test_in_50_ticks_with_detours(lsqb: Path, scale: str, query: Query, known: int):
    ticks = in_ticks(relations(scale, query.inputs, lsqb), N_TICKS, 2)
    program = gw.Program(query.text, bag=True, backend="cpu")
    counting = gw.Program(query.text, bag=True, backend="cpu")
    totals = [0, 0]
    seen_deletions = 0
    for number, tick in enumerate(with_detours(ticks, 3)):
        change = program.step(tick)["answer"]
        totals[0] += int(change.weights.sum())
        totals[1] += counting.step_counts(tick)["answer"].net
        seen_deletions += number % 5 == 3
        assert totals[0] == totals[1] == program.count("answer")
    assert seen_deletions == 10
    assert totals[0] == known


@pytest.mark.parametrize(
    ("scale", "query", "known"), [case for case in CASES if case.values[1].number in VIEWS and case.values[2]]
)
def test_with_relations_between(lsqb: Path, scale: str, query: Query, known: int):
    inputs = relations(scale, query.inputs, lsqb)
    text = VIEWS[query.number]
    program = gw.Program(text, bag=True, outputs=["answer"], backend="cpu")
    assert sorted(program.inputs) == sorted(query.inputs)
    assert sum(program.step_counts(tick)["answer"].net for tick in in_ticks(inputs, N_TICKS, 1)) == known
    assert program.count("answer") == known
