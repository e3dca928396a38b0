"""Circuits with a loop, over changing graphs, and what they shall give, worked out afresh."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np

from gpu_wcoj import streams
from gpu_wcoj.streams import Circuit, Stream

Edge = tuple[object, object]


def sequence(seed: int, ticks: int, n: int, text: bool, ordered: bool = False) -> Iterator[tuple[list, set[Edge]]]:
    """Yield random insertions and deletions of edges per tick, and the edges after each tick."""
    rng = random.Random(seed)
    names = [f"node {chr(97 + i)}" if text else i for i in range(n)]
    present: set[Edge] = set()
    for tick in range(ticks):
        change = []
        if tick and tick % 7 == 0:
            gone = set(present)
        else:
            gone = {edge for edge in sorted(present) if rng.random() < 0.15}
        change += [(edge, -1) for edge in sorted(gone)]
        present -= gone
        for _ in range(rng.randrange(n, 3 * n) if ordered else rng.randrange(n)):
            a, b = rng.sample(range(n), 2)
            edge = names[min(a, b)] if ordered else names[a], names[max(a, b)] if ordered else names[b]
            if edge not in present:
                present.add(edge)
                change.append((edge, 1))
        yield [pair for pair in change if change.count(pair) == 1], set(present)


def closure(edges: set[Edge]) -> set[Edge]:
    """All pairs with a path from the first to the second."""
    remaining = set(edges)
    while True:
        more = {(x, z) for x, y in remaining for y2, z in edges if y == y2} - remaining
        if not more:
            return remaining
        remaining |= more


def truss(edges: set[Edge], k: int) -> set[Edge]:
    """The largest subgraph in which every edge is in k - 2 triangles; edges (a, b) with a < b."""
    while True:
        near: dict[object, set[object]] = {}
        for a, b in edges:
            near.setdefault(a, set()).add(b)
            near.setdefault(b, set()).add(a)
        supported = {(a, b) for a, b in edges if len(near[a] & near[b]) >= k - 2}
        if supported == edges:
            return edges
        edges = supported


def closure_by_joins(circuit: Circuit, edges: Stream) -> Stream:
    """Linear, from changes: a join and a distinct under nested time."""
    loop = circuit.subcircuit("closure")
    edge, again = loop.introduce(edges), loop.feedback()
    step = again.incremental_join(edge, on={1: 0}).map([0, 2])
    reach = (edge + step).incremental_distinct()
    again.connect(reach)
    return loop.eliminate(reach)


def closure_by_multiway(circuit: Circuit, edges: Stream) -> Stream:
    """Non-linear, with three atoms in one body."""
    loop = circuit.subcircuit("closure")
    edge, again = loop.introduce(edges), loop.feedback()
    rule = "step(x, w) :- reach(x, y), edge(y, z), reach(z, w)."
    far = loop.multiway(rule, {"reach": again, "edge": edge})
    near = loop.multiway("step(x, z) :- reach(x, y), edge(y, z).", {"reach": again, "edge": edge})
    reach = (edge + near + far).incremental_distinct()
    again.connect(reach)
    return loop.eliminate(reach)


def closure_afresh(circuit: Circuit, edges: Stream) -> Stream:
    """From all edges, every tick: operators that look at one iteration alone."""
    loop = circuit.subcircuit("closure")
    edge, again = loop.hold(edges.integrate()), loop.feedback()
    reach = (edge + again.join(edge, on={1: 0}).map([0, 2])).distinct()
    again.connect(reach)
    return loop.export(reach).differentiate()


def _supported(triangles: Stream, k: int, incremental: bool) -> Stream:
    """The edges that stand in k - 2 triangles (a, b, c)."""

    def three(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
        left, right, third = np.concatenate([a, a, b]), np.concatenate([b, c, c]), np.concatenate([c, b, a])
        return np.tile(np.arange(len(a)), 3), (left, right, third)

    sides = triangles.flat_map(three, names=["a", "b", "c"])
    count = sides.incremental_aggregate if incremental else sides.aggregate
    return count(["a", "b"], streams.Count()).filter(lambda n: n >= k - 2, of="count").map(["a", "b"])


TRIANGLE = "triangle(a, b, c) :- e(a, b), e(b, c), e(a, c)."


def truss_from_changes(circuit: Circuit, edges: Stream, k: int) -> Stream:
    """The peel starts from all edges; only changes travel: x(0) = E, x(i + 1) = supported(x(i))."""
    loop = circuit.subcircuit("truss")
    edge, again = loop.introduce(edges), loop.feedback()
    left = edge + again
    supported = _supported(loop.multiway(TRIANGLE, {"e": left}), k, incremental=True)
    again.connect(supported - edge)
    return loop.eliminate(left)


def truss_afresh(circuit: Circuit, edges: Stream, k: int) -> Stream:
    """The peel from all edges, every tick."""
    loop = circuit.subcircuit("truss")
    again = loop.feedback()
    left = loop.introduce(edges.integrate()) + again
    again.connect(_supported(loop.multiway(TRIANGLE, {"e": left}, incremental=False), k, incremental=False))
    return loop.export(left).differentiate()
