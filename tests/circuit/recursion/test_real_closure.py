"""The transitive closure of wiki-Vote, 11,947,132 pairs, while edges go and come."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pyarrow.csv as pa_csv
import pytest

import gpu_wcoj as gw
from tests.helpers.long_tests import IS_LONG

TEXT = "p(x, y) :- e(x, y). p(x, z) :- p(x, y), e(y, z)."
PAIRS = 11_947_132
TICKS = 100 if IS_LONG else 25
Graph = dict[int, set[int]]


def edges_of(path: Path) -> list[tuple[int, int]]:
    lines = path.parent / path.name
    names = pa_csv.ReadOptions(column_names=["src", "dst"], skip_rows=4)
    table = pa_csv.read_csv(lines, names, pa_csv.ParseOptions(delimiter="\t"))
    return list(zip(table["src"].to_pylist(), table["dst"].to_pylist(), strict=True))


def closure(graph: Graph, n_vertices: int) -> list[int]:
    """Return the reachable set per vertex as the bits of an integer, by components."""
    order: list[list[int]] = []
    place, low = [0] * n_vertices, [0] * n_vertices
    done = [False] * n_vertices
    waiting: list[int] = []
    counter = 0
    for start in graph:
        if place[start]:
            continue
        counter += 1
        place[start] = low[start] = counter
        waiting.append(start)
        path = [(start, iter(graph[start]))]
        while path:
            vertex, following = path[-1]
            target = next(following, None)
            if target is None:
                path.pop()
                if path:
                    low[path[-1][0]] = min(low[path[-1][0]], low[vertex])
                if low[vertex] == place[vertex]:
                    component = []
                    while not component or component[-1] != vertex:
                        component.append(waiting.pop())
                        done[component[-1]] = True
                    order.append(component)
            elif not place[target]:
                counter += 1
                place[target] = low[target] = counter
                waiting.append(target)
                path.append((target, iter(graph.get(target, ()))))
            elif not done[target]:
                low[vertex] = min(low[vertex], place[target])
    reached = [0] * n_vertices
    for component in order:  # each behind all that it leads to
        bits = 0
        for vertex in component:
            for target in graph.get(vertex, ()):
                bits |= reached[target] | (1 << target)
        if len(component) > 1:
            for vertex in component:
                bits |= 1 << vertex
        for vertex in component:
            reached[vertex] = bits
    return reached


def test_the_judge_itself():
    graph: Graph = {0: {1}, 1: {2}, 2: {0, 3}, 3: {4}, 5: {5, 4}}
    assert closure(graph, 6) == [0b011111] * 3 + [0b010000, 0, 0b110000]


def applied(reached: list[int], change: gw.ZSet) -> int:
    """Apply a change to `reached` in place and return its number of rows; each row changes it."""
    columns = change.to_numpy()
    src, dst, weights = columns.values()
    assert np.all(np.abs(weights) == 1)
    for sign in (1, -1):
        rows = np.flatnonzero(weights == sign)
        rows = rows[np.argsort(src[rows], kind="stable")]
        vertices, starts = np.unique(src[rows], return_index=True)
        for vertex, targets in zip(vertices.tolist(), np.split(dst[rows], starts[1:]), strict=False):
            bits = _bits(targets)
            assert reached[vertex] & bits == (0 if sign > 0 else bits), f"{vertex}: {sign}"
            reached[vertex] ^= bits
    return len(src)


def _bits(vertices: np.ndarray) -> int:
    marks = np.zeros(int(vertices.max(initial=0)) + 1, np.uint8)
    marks[vertices] = 1
    return int.from_bytes(np.packbits(marks, bitorder="little").tobytes(), "little")


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("text", [TEXT], ids=["one step on"])
def test_edges_go_and_come(shared_data: Path, text: str):
    edges = edges_of(shared_data / "graphs" / "wiki-Vote.txt.gz")
    assert len(edges) == 103_689
    n_vertices = max(map(max, edges)) + 1
    graph: Graph = {vertex: set() for vertex in range(n_vertices)}
    for src, dst in edges:
        graph[src].add(dst)
    program = gw.Program(text, backend="cpu")
    reached = [0] * n_vertices
    first = program.step({"e": np.array(edges)})["p"]
    assert len(first) == PAIRS
    applied(reached, first)
    del first
    assert reached == closure(graph, n_vertices)

    chance = random.Random(2018)
    gone: list[tuple[int, int]] = []
    sizes = []
    for tick_index in range(TICKS):
        way = chance.random()
        if way < 0.5:
            src, dst = edges[chance.randrange(len(edges))]
            while dst not in graph[src]:
                src, dst = edges[chance.randrange(len(edges))]
            gone.append((src, dst))
        elif gone and way < 0.85:
            src, dst = gone.pop(chance.randrange(len(gone)))
        else:
            src, dst = chance.randrange(n_vertices), chance.randrange(n_vertices)
        weight = -1 if way < 0.5 else 1
        (graph[src].discard if weight < 0 else graph[src].add)(dst)
        change = program.step({"e": gw.ZSet.from_dict({(src, dst): weight})})["p"]
        sizes.append(applied(reached, change))
        assert reached == closure(graph, n_vertices), f"tick {tick_index}: {weight:+} ({src}, {dst})"
    assert sum(size > 0 for size in sizes) > TICKS // 10
    assert program.count("p") == sum(bits.bit_count() for bits in reached)
