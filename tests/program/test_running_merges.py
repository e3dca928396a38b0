"""Programs whose batches are being merged: answers, undone and failed ticks, checkpoints and statistics."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import gpu_wcoj as gw
from gpu_wcoj.errors import MemoryBudgetError
from gpu_wcoj.join.settings import tune
from gpu_wcoj.trace.spine import MergePolicy
from gpu_wcoj.zset.index import TrieMerge

TRIANGLE = "triangle(a, b, c) :- edge(a, b), edge(b, c), edge(c, a)."
POLICY = MergePolicy(ratio=4, instalment=8, fuel=0.05)
"""Merges read few rows per inserted row, so that many are running at any time."""


def program(bag=False, **options):
    return gw.Program(TRIANGLE, bag=bag, threads=1, merge_policy=POLICY, **options)


def n_running(made):
    side = made._ledger.state.sides.primary
    return sum(len(one.running) for spines in side.circuit_state.spines for one in spines.values())


def changes(seed, bag, n_ticks=40, n_nodes=12):
    """Ticks of edges that come and go; in a set, edges that are there or not as it happens."""
    random, held = np.random.default_rng(seed), Counter()
    for _ in range(n_ticks):
        tick = []
        for _ in range(int(random.integers(1, 25))):
            edge = tuple(random.integers(0, n_nodes, 2).tolist())
            if held[edge] and random.random() < 0.5:
                held[edge] -= 1
                tick.append((*edge, -1))
            elif bag or not held[edge]:
                held[edge] += 1
                tick.append((*edge, 1))
        yield tick, {edge: n for edge, n in held.items() if n}


def table(tick):
    rows = np.array(tick, np.int64).reshape(-1, 3)
    return gw.ZSet.from_numpy({"src": rows[:, 0], "dst": rows[:, 1]}, rows[:, 2])


def content(made, name):
    return dict(made.relation(name).rows())


def recomputed(held, bag):
    """The triangles of the edges by definition, with products of weights."""
    found = {}
    for (a, b), x in held.items():
        for (b2, c), y in held.items():
            if b == b2 and (c, a) in held:
                found[a, b, c] = x * y * held[c, a] if bag else 1
    return found


@pytest.mark.parametrize("bag", [False, True], ids=["set", "bag"])
def test_the_sum_of_the_changes_is_recomputation(bag):
    made, total, running = program(bag), Counter(), 0
    for tick, held in changes(1, bag):
        total.update(dict(made.step({"edge": table(tick)})["triangle"].rows()))
        running += n_running(made)
        assert {row: n for row, n in total.items() if n} == recomputed(held, bag) == content(made, "triangle")
        assert content(made, "edge") == held
    assert running > 20


def test_ticks_are_undone_in_the_middle_of_merges():
    made, running = program(), 0
    ticks = list(changes(2, bag=False))
    for i, (tick, held) in enumerate(ticks):
        mark = made.mark()
        for other, _ in ticks[i : i + 3]:
            made.step({"edge": table(other)})
        running += n_running(made)
        made.return_to(mark)
        made.step({"edge": table(tick)})
        assert content(made, "edge") == held
        assert content(made, "triangle") == recomputed(held, bag=False)
    assert running > 20


def test_a_tick_that_runs_out_of_memory_while_merging_leaves_no_trace(monkeypatch):
    random, n_failed = np.random.default_rng(3), 0
    advance = TrieMerge.advance

    def failing(self, n_read):
        if random.random() < 0.3:
            advance(self, n_read // 2)
            raise MemoryError
        advance(self, n_read)

    monkeypatch.setattr(TrieMerge, "advance", failing)
    with tune(max_tick_rows=-1):  # tests of small ticks have their own
        made, before = program(), {}
    for tick, held in changes(4, bag=False):
        while True:
            try:
                made.step({"edge": table(tick)})
                break
            except MemoryBudgetError:
                n_failed += 1
                assert content(made, "edge") == before
        assert content(made, "edge") == held
        assert content(made, "triangle") == recomputed(held, bag=False)
        before = held
    assert n_failed > 5


def test_a_checkpoint_in_the_middle_of_a_merge_is_the_state(tmp_path):
    made, restored = program(), None
    for i, (tick, held) in enumerate(changes(5, bag=False)):
        made.step({"edge": table(tick)})
        if i % 10 == 9:
            assert n_running(made)
            made.checkpoint(tmp_path)
            restored = gw.Program.restore(tmp_path, threads=1, merge_policy=POLICY)
        if restored is not None:
            if i % 10 != 9:
                restored.step({"edge": table(tick)})
            assert content(restored, "edge") == held
            assert content(restored, "triangle") == recomputed(held, bag=False)


def test_statistics_and_explain_see_two_batches():
    made = program()
    for tick, held in changes(6, bag=False):
        made.step({"edge": table(tick)})
        for statistics in made.statistics():
            assert statistics.rows == len(held)
    side = made._ledger.state.sides.primary
    spines = [one for spines in side.circuit_state.spines for one in spines.values()]
    assert any(one.running for one in spines)
    assert sorted(map(len, made.state_rows.values())) == sorted(len(one.batches) for one in spines)
    assert "edge" in str(made.explain())
    assert made.nbytes > sum(batch.nbytes + batch.bytes_beside for one in spines for batch in one.batches)
    made.compact()
    assert n_running(made) == 0
    assert content(made, "edge") == held


def test_a_load_returns_the_memory_that_it_has_freed(monkeypatch):
    """Not a tick, which needs it again, and not a small load."""
    returned = []
    monkeypatch.setattr("cpu_fallback.tries.return_freed", lambda: returned.append(True))
    monkeypatch.setattr("gpu_wcoj.program.LOADED_BYTES", 30_000)
    made = gw.Program(TRIANGLE, threads=1)
    edges = np.stack([np.arange(4000), np.arange(4000) % 77], axis=1)
    made.load({"edge": edges[:1000]})
    made.step({"edge": edges[1000:]})
    assert returned == []
    made.load({"edge": edges + 10_000})
    assert returned == [True]


def test_the_state_takes_few_bytes_an_edge():
    """4.4 bytes in each of three orders: 4 for a value, and those of the keys and offsets."""
    random = np.random.default_rng(1)
    edges = np.unique(np.minimum(random.geometric(0.004, (60_000, 2)), 1 << 14), axis=0)
    text = "e(a, b) :- edge(a, b), a < b. t(a, b, c) :- e(a, b), e(b, c), e(a, c). .output t"
    made = gw.Program(text, threads=1)
    made.load({"edge": edges[edges[:, 0] < edges[:, 1]]})
    assert len(made.state_rows) == 3
    n = made.count("edge")
    assert sum(batch.nbytes for side in made._ledger.state.sides for batch in side.batches) <= 14 * n
