"""The runs beside dogs3: ticks of a graph in node order, counts that are compared, a rival that may be missing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from bench.rivals import dogs, engine
from bench.rivals.arriving import Arriving, generate
from bench.rivals.tick import CountError, Run, Tick, check

ROOT = Path(__file__).parents[2]
GRAPH = generate(6, 400, 3, hub=(5, 40))
SAMPLE_PROPOSALS = 12_000
"""Those that the sample of a count of everything makes, at most."""


def brute(graph, nodes):
    """Edges and triangles of each tick, by looking at all pairs of edges that leave a node."""
    there, found = set(), []
    for edges in graph.ticks(nodes):
        counts = []
        for state in (there, there | set(map(tuple, edges.tolist()))):
            out = {}
            for a, b in state:
                out.setdefault(a, set()).add(b)
            counts.append(sum(len(out[a] & out.get(b, set())) for a, b in state))
            there = state
        found.append((len(edges), counts[1] - counts[0]))
    return found


def counts(run):
    return [(tick.edges, tick.triangles) for tick in run.ticks]


def test_ticks_are_all_edges_once():
    for nodes in (1, 7, 100):
        assert np.array_equal(np.concatenate(list(GRAPH.ticks(nodes))), GRAPH.edges)
    assert len(list(GRAPH.ticks(1))[5]) == 40
    assert len(list(GRAPH.ticks(1, 3))) == 3
    assert len({tuple(edge) for edge in GRAPH.edges.tolist()}) == len(GRAPH.edges)


@pytest.mark.parametrize("way", ["counts", "rows", "kept"])
@pytest.mark.parametrize("nodes", [1, 16])
def test_engine_counts_what_brute_force_does(nodes, way):
    assert counts(engine.run(GRAPH, way, nodes, None, 60)) == brute(GRAPH, nodes)


@pytest.fixture
def program():
    built = dogs.TARGET / "release" / "dogs3"
    if not built.exists() or shutil.which("cargo") is None:
        pytest.skip("make bench-rivals builds differential-dogs3, where cargo is")
    return dogs.build()


@pytest.mark.long
@pytest.mark.parametrize("query", ["delta", "wcoj"])
@pytest.mark.parametrize("nodes", [1, 16])
def test_dogs3_counts_what_brute_force_does(program, tmp_path, nodes, query):
    GRAPH.write(tmp_path / "edges")
    assert counts(dogs.run(program, tmp_path / "edges", query, nodes, None, 60)) == brute(GRAPH, nodes)
    assert len(dogs.run(program, tmp_path / "edges", query, nodes, 2, 60).ticks) == 2


@pytest.mark.long
def test_dogs3_is_ended_at_the_limit(program, tmp_path):
    """A source with an edge to each node, and one from each: more proposals than a second does."""
    n = 20_000
    star = [(0, i) for i in range(1, n)] + [(i, n) for i in range(1, n)]
    Arriving(np.array(star)).write(tmp_path / "edges")
    run = dogs.run(program, tmp_path / "edges", "delta", n, None, 1)
    assert (run.ticks, run.stopped, run.unfinished) == ([], "ended after 1 s", None)


@pytest.mark.long
def test_dogs3_is_compared_on_the_ticks_that_it_finished(program, tmp_path):
    """The first tick brings a triangle, the second one a star that takes more proposals than three seconds do."""
    n = 20_000
    star = [(0, 1), (0, 2), (1, 2)] + [(n, i) for i in range(n + 1, 2 * n)] + [(i, 2 * n) for i in range(n + 1, 2 * n)]
    graph = Arriving(np.array(star))
    graph.write(tmp_path / "edges")
    run = dogs.run(program, tmp_path / "edges", "delta", n, None, 3)
    own = engine.run(graph, "rows", n, None, 60)
    check([own, run])
    assert [tick.triangles for tick in own.ticks] == [1, 0]
    assert len(run.ticks) == 1
    assert run.stopped == "ended after 3 s"
    compared = run.beside(own)
    assert compared["ticks"] == compared["unfinished_tick"]["number"] == 1
    assert 0 < compared["unfinished_tick"]["cpu_seconds_at_least"] < 4


@pytest.mark.long
def test_dogs3_is_held_to_its_memory(program, tmp_path):
    GRAPH.write(tmp_path / "edges")
    assert dogs.run(program, tmp_path / "edges", "wcoj", 64, None, 60, 2_000_000_000).stopped is None
    n = 20_000
    star = [(0, i) for i in range(1, n)] + [(i, n) for i in range(1, n)]
    Arriving(np.array(star)).write(tmp_path / "edges")
    run = dogs.run(program, tmp_path / "edges", "delta", n, None, 60, 300_000_000)
    assert (run.ticks, run.stopped) == ([], "ended in tick 0, which takes more than 0.3 GB of memory")


@pytest.mark.long
def test_dogs3_says_what_is_wrong_with_its_input(program, tmp_path):
    (tmp_path / "edges").write_text("1 2\n1 2 3\n")
    with pytest.raises(RuntimeError, match="'1 2 3' is no edge; a line is 'source target'"):
        dogs.run(program, tmp_path / "edges", "wcoj", 1, None, 60)


def test_without_cargo_the_reason_is_given(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(dogs.NotBuiltError, match="cargo is not installed"):
        dogs.build()


def test_a_build_that_fails_is_told(monkeypatch, tmp_path):
    (tmp_path / "cargo").write_text("#!/bin/sh\necho 'error: no network' >&2\nexit 101\n")
    (tmp_path / "cargo").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(dogs.NotBuiltError, match="does not build differential-dogs3: error: no network"):
        dogs.build()


def test_counts_that_differ_are_an_error():
    right = Run("engine", 1, [Tick(3, 1, 0.1), Tick(2, 5, 0.1)])
    check([right, Run("other", 1, [Tick(3, 1, 0.2)], "ended")])
    with pytest.raises(CountError, match="tick 1 of 1 nodes: other found 4 triangles for 2 edges, engine 5 for 2"):
        check([right, Run("other", 1, [Tick(3, 1, 0.2), Tick(2, 4, 0.2)])])


@pytest.mark.long
def test_command_without_cargo(tmp_path):
    command = [sys.executable, "-m", "bench.rivals", "--scale", "6", "--edges", "300", "--hub", "3", "20"]
    command += ["--nodes", "8", "--output", str(tmp_path)]
    bare = {**os.environ, "PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT)}
    if shutil.which("cargo", path=bare["PATH"]):
        pytest.skip("cargo is a program of the system here")
    done = subprocess.run(command, env=bare, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "dogs3 is left out: cargo is not installed" in done.stdout
    (result,) = tmp_path.glob("*.json")
    runs = json.loads(result.read_text())["runs"]
    assert [run["contender"] for run in runs] == ["engine, counts", "engine, rows", "engine, kept"]
    assert runs[0]["triangles"] == runs[1]["triangles"] == runs[2]["triangles"] > 0


def hub_tick(degree, way="counts"):
    """The tick that brings a node with so many edges to a graph that stays the same, one node a tick."""
    graph = generate(12, 40_000, 3, hub=(60, degree))
    return engine.run(graph, way, 1, 61, 60).ticks[60]


def test_work_for_a_large_node_follows_its_edges():
    """Not their square, as where the order of lookups is chosen once; counted, so that no clock plays a part.

    Larger ones are held against a count of everything first, by a sample whose size does not follow them.
    """
    ticks = {degree: hub_tick(degree) for degree in (500, 1000, 2000, 4000)}
    for degree, tick in ticks.items():
        assert tick.edges == degree
        assert tick.triangles > 0
        assert tick.proposals < 10 * degree
    for degree in (500, 1000, 2000):
        assert ticks[2 * degree].proposals < 2.2 * ticks[degree].proposals + SAMPLE_PROPOSALS


def test_paths_that_are_kept_are_bounded(monkeypatch):
    monkeypatch.setattr(engine, "KEPT_ROWS", 100)
    run = engine.run(GRAPH, "kept", 16, None, 60)
    counted = brute(GRAPH, 16)
    assert counts(run) == counted[: len(run.ticks)]
    assert len(run.ticks) < len(counted)
    assert f"ended before tick {len(run.ticks)}, which would keep" in run.stopped
    assert GRAPH.paths(16 * (len(run.ticks) + 1)) > 100 >= GRAPH.paths(16 * len(run.ticks))


def test_contenders_are_compared_over_ticks_that_both_did():
    slow = Run("slow", 1, [Tick(3, 1, 9.0, 4.0), Tick(8, 5, 9.0, 6.0)], "ended")
    fast = Run("fast", 1, [Tick(3, 1, 9.0, 1.0), Tick(8, 5, 9.0, 1.0), Tick(1, 0, 9.0, 1.0)])
    assert slow.beside(fast) == {
        "contender": "slow", "beside": "fast", "nodes_per_tick": 1, "ticks": 2, "times": 5.0, "times_largest": 6.0,
    }  # fmt: skip
    assert "times" not in Run("none", 1, [], "ended").beside(fast)
    assert replace(slow, unfinished=30.0).beside(fast)["unfinished_tick"] == {
        "number": 2, "edges": 1, "cpu_seconds_at_least": 30.0, "times_at_least": 30.0,
    }  # fmt: skip
    assert "unfinished_tick" not in replace(fast, unfinished=30.0).beside(slow)


def test_triangles_of_a_complete_graph():
    graph = Arriving(np.array(list(combinations(range(9), 2))))
    assert sum(tick.triangles for tick in engine.run(graph, "counts", 2, None, 60).ticks) == 84
