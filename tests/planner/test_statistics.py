"""Statistics of arrangements: those of brute force after every tick, whatever the batches."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

from gpu_wcoj.planner import statistics
from gpu_wcoj.planner.statistics import HEAVIEST, TrieStatistics, measure, statistics_of
from gpu_wcoj.trace.arrangement import Arrangement, ArrangementKey, PhaseRows
from gpu_wcoj.trace.spine import MergePolicy
from tests.helpers.kernel_kinds import KINDS, needed
from tests.helpers.long_tests import IS_LONG

POLICIES = [MergePolicy(), MergePolicy(ratio=4, most_batches=3), MergePolicy(ratio=1, most_batches=9)]


@pytest.fixture(params=KINDS)
def backend(request):
    return needed(request.param).backend()


def phase(backend, rows, arity):
    """The rows of a tick as arrangements receive them: in the relation's order, sorted, with weights."""
    ordered = sorted(rows.items())
    columns = [backend.asarray(np.array([row[i] for row, _ in ordered], np.int64)) for i in range(arity)]
    return PhaseRows(columns, backend.asarray(np.array([weight for _, weight in ordered], np.int64)))


def brute(state, order):
    """Statistics from the rows, by counting."""
    rows = [tuple(row[i] for i in order) for row in state]
    prefixes = [{row[:depth] for row in rows} for depth in range(1, len(order) + 1)]
    degrees = []
    for depth in range(1, len(order)):
        count = Counter(prefix[:depth] for prefix in prefixes[depth])
        buckets = Counter(n.bit_length() - 1 for n in count.values())
        degrees.append(
            statistics.Degrees(
                len(count),
                sum(count.values()),
                sum(n * n for n in count.values()),
                tuple(buckets[i] for i in range(max(buckets, default=-1) + 1)),
                tuple(sorted(count.items(), key=lambda one: (-one[1], one[0]))[:HEAVIEST]),
            )
        )
    return TrieStatistics(tuple(map(len, prefixes)), tuple(degrees))


def random_tick(chance, state, arity, n_rows, n_values):
    """New rows, rows that go, rows whose weights move; hubs."""
    change = Counter()
    for _ in range(n_rows):
        row = chance.choices(range(-n_values, n_values), k=arity)
        if chance.random() < 0.3:
            row[chance.randrange(arity)] = 0
        change[tuple(row)] += chance.choice((1, 1, 1, 2, -1))
    for row in chance.sample(sorted(state), min(len(state), chance.choice((0, n_rows // 2, n_rows)))):
        change[row] = -state[row]
    return {row: weight for row, weight in change.items() if weight}


@pytest.mark.drawn("policy", "order", each=True)
@pytest.mark.parametrize("policy", POLICIES, ids=repr)
@pytest.mark.parametrize("order", [(0,), (1, 0), (2, 0, 1), (0, 1, 2, 3)], ids=repr)
def test_those_of_brute_force(backend, order, policy):
    for seed in range(2 if backend.device is not None or not IS_LONG else 6):
        chance = random.Random(f"{order} {policy} {seed}")
        arrangement = Arrangement(ArrangementKey("r", order), backend, policy)
        state = {}
        assert measure(arrangement) == brute(state, order)
        for tick in range(12):
            n_rows = chance.choice((120, 30, 3, 1)) if tick else 200
            change = random_tick(chance, state, len(order), n_rows, chance.choice((2, 5, 40)))
            if chance.random() < 0.05:
                change = {row: -weight for row, weight in state.items()}
            arrangement.receive_delta([phase(backend, change, len(order))])
            arrangement.commit()
            state = Counter(state)
            state.update(change)
            state = {row: weight for row, weight in state.items() if weight}
            assert measure(arrangement) == brute(state, order), f"seed {seed}, tick {tick}: {arrangement}"


def test_heavy_hitters_that_all_change(backend):
    """More prefixes lose their rank than are kept in spare."""
    n = statistics.SPARE + 3 * HEAVIEST
    rows = {(i, j): 1 for i in range(n) for j in range(3)} | {(n + i, j): 1 for i in range(n) for j in range(2)}
    arrangement = Arrangement(ArrangementKey("r", (0, 1)), backend)
    arrangement.receive_delta([phase(backend, rows, 2)])
    arrangement.commit()
    assert measure(arrangement).degrees[0].heaviest[0] == ((0,), 3)
    change = {(i, j): -1 for i in range(n) for j in range(2)}
    batches = [arrangement.index(phase(backend, one, 2)) for one in (rows, change)]
    found = statistics_of(batches, 2)
    assert found == brute([row for row in rows if row not in change], (0, 1))
    assert found.degrees[0].heaviest[0] == ((n,), 2)


def test_one_more_row_does_not_count_the_large_batch_again(backend, monkeypatch):
    chance = random.Random(5)
    arrangement = Arrangement(ArrangementKey("r", (0, 1)), backend)
    rows = {(chance.randrange(300), i): 1 for i in range(5000)}
    arrangement.receive_delta([phase(backend, rows, 2)])
    arrangement.commit()
    first = measure(arrangement)
    assert measure(arrangement) is first
    looked_at = []
    for name in ("_moments", "_largest_positions"):
        inner = getattr(statistics, name)

        def counted(backend, degree, *more, inner=inner):
            looked_at.append(len(degree))
            return inner(backend, degree, *more)

        monkeypatch.setattr(statistics, name, counted)
    for i in range(5):
        rows[i, -1] = 1
        arrangement.receive_delta([phase(backend, {(i, -1): 1}, 2)])
        arrangement.commit()
        assert measure(arrangement) == brute(rows, (0, 1))
    assert 0 < max(looked_at) <= 5
