"""Graphs of a few hundred vertices against special algorithms, for ticks of any size."""

from __future__ import annotations

import heapq
import random
from collections import defaultdict
from collections.abc import Callable

import pytest

import gpu_wcoj as gw
from tests.helpers.recursive_programs import ALL

Edge = tuple[int, ...]
Rows = dict[tuple[int, ...], int]


def walks(edges: set[Edge], start: int) -> set[int]:
    """Return the vertices that are reachable from `start` in one step or more."""
    following = defaultdict(list)
    for src, dst, *_ in edges:
        following[src].append(dst)
    reached: set[int] = set()
    waiting = [start]
    while waiting:
        for target in following[waiting.pop()]:
            if target not in reached:
                reached.add(target)
                waiting.append(target)
    return reached


def closed(edges: set[Edge]) -> Rows:
    return {(src, dst): 1 for src in {edge[0] for edge in edges} for dst in walks(edges, src)}


def odd(edges: set[Edge]) -> Rows:
    """Pairs with a walk of odd length: in a graph of vertices that are left and right by turns."""
    doubled = {(2 * src + side, 2 * dst + 1 - side) for src, dst in edges for side in (0, 1)}
    return {(src, dst // 2): 1 for src in {edge[0] for edge in edges} for dst in walks(doubled, 2 * src) if dst % 2}


def min_labels(edges: set[Edge]) -> Rows:
    both = edges | {(dst, src) for src, dst in edges}
    return {(vertex, min(walks(both, vertex))): 1 for vertex in {edge[0] for edge in both}}


def shortest(edges: set[Edge], start: int = 0) -> Rows:
    following = defaultdict(list)
    for src, dst, weight in edges:
        following[src].append((dst, weight))
    labels: dict[int, int] = {}
    waiting = [(0, start)]
    while waiting:
        distance, vertex = heapq.heappop(waiting)
        if vertex not in labels:
            labels[vertex] = distance
            for target, weight in following[vertex]:
                heapq.heappush(waiting, (distance + weight, target))
    return dict.fromkeys(labels.items(), 1)


CASES: dict[str, tuple[str, str, int, Callable[[set[Edge]], Rows]]] = {
    "closure, one step on": ("e", "p", 150, closed),
    "closure, both": ("e", "p", 100, closed),
    "closure, three at once": ("e", "p", 40, closed),
    "odd walks, one among edges": ("e", "p", 60, odd),
    "components by least label": ("e", "c", 300, min_labels),
    "shortest paths": ("t", "d", 300, shortest),
}


@pytest.mark.drawn("density", "name", share=6)
@pytest.mark.parametrize("density", [0.8, 1.3, 4.0])
@pytest.mark.parametrize("name", CASES)
def test_a_graph_that_changes(name, density, backend):
    relation, head, n_vertices, judge = CASES[name]
    chance = random.Random(f"{name} {density}")
    program = gw.Program(ALL[name], backend=backend.name)
    weighted = relation == "t"

    dense = density != 1.3
    vertices = [0, *(vertex if dense else chance.randrange(-(2**61), 2**61) for vertex in range(1, n_vertices))]

    def some() -> Edge:
        edge = chance.choice(vertices), chance.choice(vertices)
        return (*edge, chance.randint(0, 9)) if weighted else edge

    edges = {some() for _ in range(int(density * n_vertices))}
    change = dict.fromkeys(edges, 1)
    rows: Rows = {}
    previous: tuple[set[Edge], Rows] | None = None
    for tick_index in range(14):
        start = {"s": [(0,)]} if weighted and tick_index == 0 else {}
        change_found = program.step({relation: gw.ZSet.from_dict(change), **start})[head].to_dict()
        expected = judge(edges)
        gone, come = rows.keys() - expected.keys(), expected.keys() - rows.keys()
        assert change_found == dict.fromkeys(gone, -1) | dict.fromkeys(come, 1), f"tick {tick_index}"
        rows = expected
        if previous is not None and tick_index % 3 == 0:  # back to what was before
            before = previous[0]
            change = dict.fromkeys(before - edges, 1) | dict.fromkeys(edges - before, -1)
            edges = before
        else:
            previous = set(edges), rows
            n_changes = chance.choice((1, 1, 2, len(edges) // 10 + 1, len(edges) // 2 + 1))
            lost = set(chance.sample(sorted(edges), min(len(edges), n_changes // 2 + tick_index % 2)))
            new = {some() for _ in range(n_changes - n_changes // 2)} - edges
            change = dict.fromkeys(lost, -1) | dict.fromkeys(new, 1)
            edges = (edges - lost) | new
    assert program.count(head) == len(rows)
