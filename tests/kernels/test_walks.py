"""Loops row at a time: fixpoints equal those of the reference, and maintenance the difference of two fixpoints."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest

import gpu_wcoj as gw
from gpu_wcoj.circuit.recursion import loop, semi_naive
from gpu_wcoj.kernels.protocol import FIXPOINT, LIMIT, PAUSED, WIDE, Walks
from tests.helpers.comparison import stored
from tests.helpers.kernel_kinds import Kind, needed
from tests.reference import kernels as reference

TEXTS = {
    "reach": "r(x) :- s(x). r(y) :- r(x), e(x, y).",
    "two heads": "a(x) :- s(x). b(y) :- a(x), e(x, y), !s(y). a(y) :- b(x), e(x, y), e(y, z), z != x.",
    "an intersection": "t(x, y) :- e(x, y). t(x, z) :- t(x, y), e(y, z), e(z, w), e(w, x), w <= y.",
    "numbers": "n(x, 0) :- s(x). n(x * 2 - 9, y + 1) :- n(x, y), y < 5. n(x % 4, y / 2) :- n(x, y), x > 1 - y, s(y).",
    "least": "d(x, min(0)) :- s(x). d(y, min(c + z)) :- d(x, c), e(x, y), e(y, z).",
    "greatest": "d(x, max(0)) :- s(x). d(y, max(c)) :- d(x, c), e(x, y).",
}


@pytest.fixture(params=["numba", "numpy"])
def kind(request: pytest.FixtureRequest) -> Kind:
    """Each kind of kernels that walk: loops run vectorised on a device."""
    return needed(request.param)


def inputs_of(name: str) -> list[str]:
    return [relation for relation in ("e", "s") if f"{relation}(" in TEXTS[name]]


class Recorder:
    """Records what the fixpoints and maintenances of a program are given and return."""

    def __init__(self, kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
        self.backend = kind.backend()
        self.runs: list[object] = []
        kernels = self.backend.kernels
        runs = self.runs

        class Fixpoint(kernels.fixpoint):
            def __init__(self, walks: Walks, orders: Sequence[int]) -> None:
                super().__init__(walks, orders)
                self.walks, self.orders, self.first, self.results = walks, orders, [], []
                runs.append(self)

            def add(self, head: int, columns, rank: int) -> None:
                super().add(head, columns, rank)
                self.first += [(head, *map(int, row)) for row in zip(*columns, strict=True)]

            def run(self, *limits: int) -> int:
                self.results.append(super().run(*limits))
                return self.results[-1]

        monkeypatch.setattr(type(kernels), "fixpoint", Fixpoint)

    def program(self, name: str, chance: random.Random) -> gw.Program:
        """A program of random rows, some of which have gone again before."""
        program = gw.Program(TEXTS[name], backend=self.backend, inputs=inputs_of(name))
        edges = {(chance.randrange(9), chance.randrange(9)) for _ in range(14)}
        gone = [(row, -1) for row in chance.sample(sorted(edges), 4)]
        program.step({"e": sorted(edges)} if "e" in program.inputs else {"s": [(7,)]})
        if "e" in program.inputs:
            program.step({"e": gone})
        if "s" in program.inputs:
            program.step({"s": sorted({(chance.randrange(9),) for _ in range(3)})})
        return program


def plain(walks: Walks) -> reference.Walked:
    """The walks as lists."""
    levels = walks.levels
    return reference.Walked(
        walks.operations.tolist(), [level.values.tolist() for level in levels],
        [None if level.parent_offsets is None else level.parent_offsets.tolist() for level in levels],
        [None if level.weights is None else level.weights.tolist() for level in levels],
        walks.registers.tolist(), walks.starts,
    )  # fmt: skip


@pytest.mark.parametrize("name", TEXTS)
def test_fixpoints_equal_the_reference(name, kind, monkeypatch):
    monkeypatch.setattr(type(kind.backend().kernels), "walked_rows", 1 << 14)
    monkeypatch.setattr(semi_naive, "BUDGET_PER_ROW", 1e-3)
    monkeypatch.setattr(loop, "GIVE_UP", 1 << 62)  # so that every tick is a fixpoint
    for seed in range(4):
        with monkeypatch.context() as patch:
            recorder = Recorder(kind, patch)
            recorder.program(name, random.Random(f"{name} {seed}"))
        assert recorder.runs
        for run in recorder.runs:
            assert run.results[-1] == FIXPOINT
            assert set(run.results[:-1]) <= {PAUSED}
            rows, ranks = run.rows(0, run.bounds[1])
            widths = run.walks.widths
            found = [
                (tuple(row[: 1 + widths[row[0]]]), rank)
                for row, rank in zip(rows.tolist(), ranks.tolist(), strict=True)
            ]
            expected = reference.fixpoint(plain(run.walks), run.orders, run.first)
            assert len(set(found)) == len(found)
            assert set(found) == set(expected)


def chained(kind: Kind, n: int, monkeypatch: pytest.MonkeyPatch):
    """The recorded fixpoint of a chain, as a new run from its first row on."""
    with monkeypatch.context() as patch:
        patch.setattr(type(kind.backend().kernels), "walked_rows", 1 << 14)
        recorder = Recorder(kind, patch)
        program = gw.Program(TEXTS["reach"], backend=recorder.backend)
        program.step({"s": [(0,)], "e": [(i, i + 1) for i in range(n)]})
    (recorded, *_) = recorder.runs
    run = type(recorded)(recorded.walks, recorded.orders)
    run.add(0, [np.zeros(1, np.int64)], 0)
    return run


def test_limits_stop_a_fixpoint_where_it_can_go_on(kind, monkeypatch):
    """With its rows up to the last whole iteration."""
    large = 1 << 40
    run = chained(kind, 30, monkeypatch)
    assert run.run(12, large, large, large) == LIMIT
    assert (run.rank, run.bounds) == (12, (12, 13))
    run = chained(kind, 30, monkeypatch)
    assert run.run(large, 0, large, large) == WIDE
    assert (run.rank, run.bounds) == (1, (1, 2))
    run = chained(kind, 30, monkeypatch)
    assert run.run(large, large, 1, large) == WIDE
    assert (run.rank, run.bounds) == (0, (0, 1))
    run = chained(kind, 30, monkeypatch)
    results = []
    while not results or results[-1] == PAUSED:
        results.append(run.run(large, large, large, 10))
    assert len(results) > 5
    assert results[-1] == FIXPOINT
    rows, ranks = run.rows(0, run.bounds[1])
    assert rows[:, 1].tolist() == ranks.tolist() == list(range(31))


@pytest.mark.drawn("name", "kind", each=True)
@pytest.mark.parametrize("name", ["reach", "two heads", "an intersection", "numbers"])
def test_maintenance_is_the_difference_of_two_fixpoints(name, kind, monkeypatch):
    """After every tick the stored rows and ranks are those of a program that begins anew."""
    monkeypatch.setattr(type(kind.backend().kernels), "walked_rows", 1 << 14)
    monkeypatch.setattr(loop, "GIVE_UP", 1e-9)
    for seed in range(2):
        chance = random.Random(f"{name} {seed}")
        program = gw.Program(TEXTS[name], backend=kind.backend(), inputs=inputs_of(name))
        there: dict[str, set[tuple[int, ...]]] = {relation: set() for relation in program.inputs}
        for _ in range(8):
            changes = {}
            for relation, rows in there.items():
                row = tuple(chance.randrange(6) for _ in range(program.arity(relation)))
                gone = [other for other in chance.sample(sorted(rows), min(len(rows), 1)) if other != row]
                changes[relation] = [(other, -1) for other in gone] + [(row, 1)] * (row not in rows)
                rows.difference_update(gone)
                rows.add(row)
            program.step({relation: rows for relation, rows in changes.items() if rows})
            afresh = gw.Program(TEXTS[name], backend=kind.backend(), inputs=inputs_of(name))
            afresh.step({relation: sorted(rows) for relation, rows in there.items()})
            assert stored(program) == stored(afresh)
