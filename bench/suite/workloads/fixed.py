"""Streams that are made as a whole: a graph with hubs, and a graph whose nodes arrive in order.

Both count triangles ``edge(a, b), edge(b, c), edge(a, c)`` of edges as they come.
"""

from __future__ import annotations

import numpy as np

from bench.gpu.hub import matching
from bench.rivals.arriving import Edges, generate
from bench.suite.workload import Change, Pattern, Stream, Workload

_BODY = Pattern((("edge", ("a", "b")), ("edge", ("b", "c")), ("edge", ("a", "c"))))
WORKLOADS = {
    name: Workload(name, family, _BODY.rule("triangle"), "triangle", {"edge": ("src", "dst")}, _BODY, _BODY.sql())
    for name, family in (("hub", "hub"), ("second-hub", "hub"), ("arriving", "arriving"))
}
_SHIFT, _LOW = 32, 0xFFFFFFFF


def hub(scale: int, change_rows: int) -> tuple[Stream, tuple[int, ...]]:
    """Vertex 0 is beside all others; a tick adds edges between its neighbours, each of which closes one triangle.

    Returns
    -------
    The stream, and by how many triangles each tick changes the answer.
    """
    n = 1 << scale
    leaves = _pairs(matching(np, n, min(change_rows, n // 4)))
    return _stream(n, leaves), (len(leaves),)


def second_hub(scale: int) -> tuple[Stream, tuple[int, ...]]:
    """Vertex 0 is beside all others; in one tick vertex 1 becomes so, too. `hub` says what is returned."""
    n = 1 << scale
    others = np.arange(2, n + 2, dtype=np.int64)
    return _stream(n, np.stack([np.ones(n, np.int64), others], axis=1)), (n,)


def arriving(scale: int, edges: int, seed: int, degree: int, nodes: int, n_ticks: int | None) -> Stream:
    """Nodes of a skewed graph in the order of their numbers, so many in a tick, from no node on; one is a hub.

    Parameters
    ----------
    degree
        Edges of node 87; 0 leaves the graph as it is generated.
    n_ticks
        At most; all if None.
    """
    graph = generate(scale, edges, seed, hub=(87, degree) if degree else None)
    none = np.empty((0, 2), np.int64)
    ticks = tuple({"edge": Change(one, none)} for one in graph.ticks(nodes, n_ticks))
    return Stream({"edge": none}, ticks)


def _stream(n: int, change: Edges) -> Stream:
    hub_edges = np.stack([np.zeros(n + 1, np.int64), np.arange(1, n + 2, dtype=np.int64)], axis=1)
    return Stream({"edge": hub_edges}, ({"edge": Change(change, np.empty((0, 2), np.int64))},))


def _pairs(keys: Edges) -> Edges:
    return np.stack([keys >> _SHIFT, keys & _LOW], axis=1)
