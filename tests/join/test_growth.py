"""Work, not time: how it grows with the graph, a node's degree and the state, and what deleted rows still cost."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import gpu_wcoj as gw
from gpu_wcoj.kernels.protocol import MARKS, PROBES, PROPOSALS, SURVIVORS
from gpu_wcoj.trace.spine import RATIO
from tests.helpers.counted_work import looked_at, random_edges, table, total_work
from tests.helpers.join_patterns import PATTERNS

HUB = "h(a, b, c) :- arc(a, b), arc(b, c), arc(c, a)."


def hub_graph(n):
    """arc(0, x), arc(x, 0) and arc(x, x + 1)."""
    x = np.arange(1, n + 1)
    nothing = np.zeros_like(x)
    return np.concatenate([np.stack(pair, axis=1) for pair in ((nothing, x), (x, nothing), (x, x + 1))])


class TestHubGraph:
    @pytest.mark.parametrize("way", ["step", "step_counts"])
    def test_work_is_linear_from_the_empty_state(self, way):
        totals = []
        for n in (5000, 10_000):
            program = gw.Program(HUB, threads=1)
            found = getattr(program, way)({"arc": table(hub_graph(n))})["h"]
            assert (len(found) if way == "step" else found.inserted) == 3 * (n - 1)
            totals.append(total_work(program))
            assert looked_at(totals[-1]) <= 12 * n
        assert (totals[1] <= 2.05 * totals[0]).all()

    @pytest.mark.parametrize("part", ["arc(0, x)", "arc(x, 0)", "arc(x, x + 1)"])
    def test_work_is_linear_for_each_part_that_arrives_last(self, part):
        at = ("arc(0, x)", "arc(x, 0)", "arc(x, x + 1)").index(part)
        totals = []
        for n in (5000, 10_000):
            parts = np.split(hub_graph(n), 3)
            program = gw.Program(HUB, threads=1)
            program.step({"arc": table(np.concatenate([own for i, own in enumerate(parts) if i != at]))})
            assert len(program.step({"arc": table(parts[at])})["h"]) == 3 * (n - 1)
            totals.append(total_work(program))
            assert looked_at(totals[-1]) <= 40 * n
        assert (totals[1] <= 2.05 * totals[0] + 100).all()

    @pytest.mark.long
    def test_a_million_in_seconds_and_in_memory_linear_in_them(self):
        """Peaks of n and 2 n: what n more cost is a few hundred bytes a node, three arcs and three triangles each."""
        small, large = (peak_of(HUB_SCRIPT, n) for n in (500_000, 1_000_000))
        assert large - small < 500_000 * 1200
        assert large < 2 << 30


HUB_SCRIPT = """
import sys
import gpu_wcoj as gw
from bench.suite.memory import peak_bytes
from tests.helpers.counted_work import table
from tests.join.test_growth import HUB, hub_graph
n = int(sys.argv[1])
changes = gw.Program(HUB, threads=1).step({"arc": table(hub_graph(n))})
assert len(changes["h"]) == 3 * (n - 1)
print(peak_bytes())
"""


def peak_of(script, *arguments):
    """What `script` prints last, run in a process of its own: its peak memory in bytes."""
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout.split()[-1])


class TestHighDegree:
    """A node of high degree, its neighbours of degree 10 at most, arrives in one tick."""

    def graph(self, degree, hub):
        random = np.random.default_rng(7)
        nodes = np.arange(degree)
        edges = np.concatenate([np.stack([nodes, random.permutation(nodes)], axis=1) for _ in range(4)])
        edges = np.unique(np.sort(edges[edges[:, 0] != edges[:, 1]], axis=1), axis=0)
        arriving = np.sort(np.stack([np.full(degree, hub), nodes], axis=1), axis=1)
        return edges, arriving

    @pytest.mark.drawn("name", "hub", "way", each=True)
    @pytest.mark.parametrize("way", ["step", "step_counts"])
    @pytest.mark.parametrize("hub", ["first", "last"])
    @pytest.mark.parametrize("name", ["triangle", "3-cycle", "4-clique", "diamond once"])
    def test_work_is_linear_in_its_degree(self, name, hub, way):
        totals = []
        for degree in (6500, 13_000):
            edges, arriving = self.graph(degree, -1 if hub == "first" else degree)
            program = gw.Program(PATTERNS[name], threads=1, outputs=["h"])
            program.step_counts({"e": table(edges)})
            found = getattr(program, way)({"e": table(arriving)})["h"]
            assert (len(found) if way == "step" else found.inserted) > 0 or name == "3-cycle"
            totals.append(total_work(program))
            assert looked_at(totals[-1]) <= 200 * degree
        assert looked_at(totals[1]) <= 2.1 * looked_at(totals[0])
        assert totals[1][PROBES] <= 2.1 * totals[0][PROBES]


@pytest.mark.usefixtures("large_ticks")
class TestGrowingState:
    @pytest.mark.drawn("name", share=2)
    @pytest.mark.parametrize("name", ["triangle", "4-clique", "4-cycle", "diamond once"])
    def test_a_fixed_change_probes_as_before_while_the_state_grows_away_from_it(self, name):
        random = np.random.default_rng(8)
        near = random_edges(random, 600, 60, power=1)
        totals = []
        for n_far in (0, 1000, 10_000, 100_000):
            program = gw.Program(PATTERNS[name], threads=1, outputs=["h"])
            far = 1000 + random_edges(random, n_far, 10 + n_far // 4, power=1)
            for part in np.array_split(np.concatenate([near[50:], far]), 10):
                program.step_counts({"e": table(part)})
            program.step({"e": table(near[:50])})
            totals.append(total_work(program))
        for n_far, total in zip((1000, 10_000, 100_000), totals[1:], strict=True):
            assert (total[[PROPOSALS, PROBES, MARKS]] <= totals[0][[PROPOSALS, PROBES, MARKS]] * np.log2(n_far)).all()
            assert looked_at(total) <= 1.5 * looked_at(totals[0])

    def test_merging_is_counted_apart_and_amortised(self):
        """With log(ticks) / log(RATIO) tiers, a row that is merged into one pays for RATIO rows of it at most."""
        edges = random_edges(np.random.default_rng(9), 40_000, 5000, power=1)
        for n_ticks in (50, 500, 4000):
            program = gw.Program("h(a, b) :- e(a, b), e(b, a).", threads=1)
            merged = 0
            for part in np.split(edges[: 10 * n_ticks], n_ticks):
                program.step_counts({"e": table(part)})
                merged += program.last_tick.merged_rows
            tiers = int(np.ceil(np.log(n_ticks) / np.log(RATIO)))
            assert 10 * n_ticks < merged <= 10 * n_ticks * tiers * (RATIO + 2) * len(program.state_rows)


class TestDeadRows:
    @pytest.mark.parametrize("n_ticks", [1, 100])
    @pytest.mark.parametrize("n_far", [0, 200_000])
    def test_a_hub_that_was_deleted_is_not_probed_again_and_again(self, n_far, n_ticks):
        n = 10_000
        x = np.arange(1, n + 1)
        hub = np.concatenate([np.stack([0 * x, x], axis=1), np.stack([x, 0 * x], axis=1)])
        far = 10 * n + random_edges(np.random.default_rng(10), n_far, 50_000, power=1)
        program = gw.Program(HUB, threads=1)
        program.step_counts({"arc": table(np.concatenate([hub, far]))})
        for part in np.array_split(np.random.default_rng(1).permutation(hub), n_ticks):
            program.step_counts({"arc": table(part, -1)})
        for tick in range(5):
            program.step_counts({"arc": [(0, 1 + tick), (1 + tick, 50_000 + tick)]})
            assert total_work(program)[:SURVIVORS].max() < 1000
