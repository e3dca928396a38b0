"""What twins and backlogs cost, in counted work: no launch for a small tick, one merge for many of them."""

from __future__ import annotations

import math
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest

import gpu_wcoj as gw
from gpu_wcoj.engine.replicas import ASSUMED, Workload
from tests.engine.conftest import Pair

TRIANGLE = "h(a, b, c) :- e(a, b), e(b, c), e(a, c)."


class NamedCalls:
    """A backend's kernels, their calls counted by name."""

    def __init__(self, kernels):
        self.kernels, self.counts = kernels, {}

    def __getattr__(self, name):
        found = getattr(self.kernels, name)
        if not callable(found):
            return found

        def call(*arguments, **named):
            self.counts[name] = self.counts.get(name, 0) + 1
            return found(*arguments, **named)

        return call


@pytest.fixture
def counted(pair):
    """The pair, the calls of the primary side's kernels, and those of the twin's."""
    backends = [replace(backend, kernels=NamedCalls(backend.kernels)) for backend in (pair.primary, pair.twin)]
    return Pair(*backends), *(backend.kernels for backend in backends)


def graph(seed, n, n_vertices=300):
    return np.unique(np.random.default_rng(seed).integers(0, n_vertices, (n, 2)), axis=0)


def sides_of(program):
    return program._ledger.state.sides


def n_arrangements(program):
    return len(program.state_rows)


def test_there_is_no_twin_before_a_tick_needs_one(counted):
    pair, _, on_twin = counted
    program = gw.Program(TRIANGLE, **pair.options(route=5))
    program.step({"e": graph(1, 2000)})
    assert sides_of(program).twin is None
    assert on_twin.counts == {}
    assert program.last_tick.backlog_rows == {}
    program.step({"e": [(1, 2)]})
    assert sides_of(program).twin is not None
    assert program.last_tick.backend == "cpu"


def test_a_small_tick_launches_nothing_on_the_device(counted):
    pair, on_device, _ = counted
    program = gw.Program(TRIANGLE, **pair.options(route=5))
    program.step({"e": graph(1, 2000)})
    program.step({"e": [(1, 2)]})
    on_device.counts.clear()
    # A GPU counts nothing; the kernels that are called are counted everywhere.
    counts = getattr(pair.primary.device, "counted", nullcontext)()
    with counts as seen:
        program.step({"e": [(1, 3)]})
        program.step_counts({"e": [((1, 3), -1)]})
    if seen is not None:
        assert (seen.launches, seen.reads) == (0, 0)
    assert on_device.counts == {}


def test_a_big_tick_leaves_its_backlog_on_the_device(counted):
    pair, _, on_twin = counted
    program = gw.Program(TRIANGLE, **pair.options(route=5))
    program.step({"e": graph(1, 2000)})
    program.step({"e": [(1, 2)]})
    program.step({"e": graph(4, 50)})
    on_twin.counts.clear()
    for seed in (2, 3):
        program.step_counts({"e": graph(seed, 100)})
    assert on_twin.counts == {}
    backlog = sides_of(program).twin.backlog
    assert program.last_tick.backlog_rows["cpu"] == backlog.n_rows > 100
    for tick in backlog.ticks:
        assert all(batch.backend is program.backend for change in tick for batch in change)


def test_a_hundred_small_ticks_cost_the_device_one_merge_an_arrangement(counted):
    pair, on_device, _ = counted
    program, alone = (gw.Program(TRIANGLE, **pair.options(route=route)) for route in (5, "device"))
    rows = graph(1, 4000)
    small, big = graph(2, 100, 1000), graph(3, 300, 1000)
    merges = []
    for one in (program, alone):
        one.step({"e": rows})
        for row in small:
            if one is program:
                one.step({"e": [tuple(row.tolist())]})
        if one is alone:
            one.step({"e": small})
        on_device.counts.clear()
        one.step({"e": big})
        merges.append(dict(on_device.counts))
    assert program.last_tick.backlog_rows[pair.primary.name] == 0
    assert program.relation("e") == alone.relation("e")
    assert program.count("h") == alone.count("h")
    more = {name: merges[0][name] - merges[1].get(name, 0) for name in merges[0]}
    assert more["merge_tries"] == n_arrangements(program)
    assert more.get("consolidate", 0) == 0  # the small ticks are added up where they were made
    assert more.get("fill_common", 0) == more.get("count_common", 0) == 0


def test_a_hundred_big_ticks_cost_the_twin_one_merge_an_arrangement(counted, monkeypatch):
    monkeypatch.setattr("gpu_wcoj.engine.replicas.REBUILD_SHARE", 1e9)
    pair, _, on_twin = counted
    program = gw.Program(TRIANGLE, **pair.options(route=2))
    program.step({"e": graph(1, 4000)})
    program.step({"e": [(1, 2)]})
    merged = program.last_tick.merged_rows
    for seed in range(2, 22):
        program.step_counts({"e": graph(seed, 20, 1000)})
    on_twin.counts.clear()
    program.step({"e": [(7, 9_999)]})
    assert program.last_tick.backend == "cpu"
    assert on_twin.counts["merge_tries"] <= 2 * n_arrangements(program)  # the backlog, and perhaps the tick's own row
    assert merged < 100


def test_a_backlog_of_many_ticks_is_taken_in_however_small_they_are(pair, monkeypatch):
    monkeypatch.setattr("gpu_wcoj.engine.replicas.MAX_BACKLOG_TICKS", 10)
    program = gw.Program(TRIANGLE, **pair.options(route=5))
    program.step({"e": graph(1, 500)})
    most = 0
    for number in range(40):
        program.step({"e": [(number, 1000)]})
        most = max(most, len(sides_of(program).primary.backlog.ticks))
    assert most == 11
    assert program.last_tick.backend == "cpu"


class TestMemory:
    """`twin_memory` bounds the twin and what stands out."""

    def test_a_state_that_is_too_large_has_no_twin(self, pair):
        program = gw.Program(TRIANGLE, **pair.options(route=5, twin_memory=1000))
        program.step({"e": graph(1, 2000)})
        program.step({"e": [(1, 2)]})
        assert sides_of(program).twin is None
        assert program.last_tick.backend == pair.primary.name

    def test_a_twin_that_has_grown_too_large_is_dropped(self, pair):
        program = gw.Program(TRIANGLE, **pair.options(route=50, twin_memory=30_000))
        alone = gw.Program(TRIANGLE, backend="cpu")
        had_twin = []
        for part in np.array_split(np.random.default_rng(1).permutation(graph(1, 3000)), 80):
            assert program.step({"e": part})["h"] == alone.step({"e": part})["h"]
            had_twin.append(sides_of(program).twin is not None)
        assert set(had_twin) == {True, False}
        assert sorted(had_twin, reverse=True) == had_twin  # once dropped, it is not built again
        assert program.relation("e") == alone.relation("e")

    def test_a_large_backlog_is_taken_in_at_once(self, pair, monkeypatch):
        monkeypatch.setattr("gpu_wcoj.engine.replicas.BACKLOG_SHARE", 1e-5)
        program = gw.Program(TRIANGLE, **pair.options(route=50, twin_memory=10**8))
        program.step({"e": graph(1, 4000)})
        program.step({"e": graph(2, 20)})
        backlogs = []
        for seed in range(3, 9):
            program.step({"e": graph(seed, 60)})
            backlogs.append(len(sides_of(program).twin.backlog.ticks))
        assert max(backlogs) <= 2
        assert program.last_tick.backend == pair.primary.name

    def test_a_twin_is_dropped_rather_than_brought_up_to_date_at_a_higher_price(self, pair):
        program, alone = gw.Program(TRIANGLE, **pair.options(route=50)), gw.Program(TRIANGLE, backend="cpu")
        had_twin = []
        for n, seed in ((1000, 1), (20, 2), (300, 3), (300, 4), (20, 5)):
            rows = graph(seed, n)
            assert program.step({"e": rows})["h"] == alone.step({"e": rows})["h"]
            had_twin.append(sides_of(program).twin is not None)
        assert had_twin == [False, True, True, False, True]
        assert program.last_tick.backend == "cpu"


class TestByCosts:
    """Without force, a side is made ready when what it would have saved pays for it."""

    @pytest.fixture
    def program(self, pair, monkeypatch, tmp_path):
        monkeypatch.setattr("gpu_wcoj.engine.replicas.store_path", lambda: tmp_path / "routing.json")
        program = gw.Program(TRIANGLE, **pair.options(route="auto"))
        program.load({"e": graph(1, 60_000, 5000)})
        return program

    def test_the_assumed_threshold_is_shown_as_assumed(self, program):
        text = program.explain()
        assert "rows run on the CPU at 34 values a row (assumed; not measured on this machine" in text
        assert program.last_tick.backend == program.backend.name

    def test_small_ticks_pay_for_the_twin_first(self, program):
        ran_on = []
        for number in range(20):
            program.step_counts({"e": [(number, 9000)]})
            ran_on.append(program.last_tick.backend)
        n_paying = math.ceil(ASSUMED.build_per_row * 59_900 / ASSUMED.saving(Workload(1))) - 1
        assert n_paying > 3
        assert abs(ran_on.index("cpu") - n_paying) <= 1
        assert set(ran_on[ran_on.index("cpu") :]) == {"cpu"}

    @pytest.mark.drawn("pair")
    def test_a_big_tick_takes_the_device_back_at_once(self, program):
        for number in range(20):
            program.step_counts({"e": [(number, 9000)]})
        program.step_counts({"e": graph(3, 60_000, 5000)})
        assert program.last_tick.backend == program.backend.name
        assert not sides_of(program).primary.backlog


CLIQUE = "h(a, b, c, d) :- e(a, b), e(b, c), e(a, c), e(a, d), e(b, d), e(c, d)."


@pytest.mark.long
def test_equal_rows_run_where_their_joins_cost_less(pair, monkeypatch, tmp_path):
    """A tick of 2,000 rows looks at 500 values a row for 4-cliques, and at none for edges in both directions."""
    monkeypatch.setattr("gpu_wcoj.engine.replicas.store_path", lambda: tmp_path / "routing.json")
    edges, tick = graph(1, 8_000, 200), graph(2, 2_000, 200)
    ran_on = {}
    for text in (CLIQUE, "h(a, b) :- e(a, b), e(b, a)."):
        program = gw.Program(text, **pair.options(route="auto"))
        program.load({"e": edges})
        for number in range(40):  # pay for the twin
            program.step_counts({"e": [(number, 9000)]})
        assert program.last_tick.backend == "cpu"
        program.step_counts({"e": tick})
        ran_on[text] = program.last_tick.backend
    assert list(ran_on.values()) == [pair.primary.name, "cpu"]
