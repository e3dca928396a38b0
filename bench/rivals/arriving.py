"""A graph whose nodes arrive in the order of their numbers, each with the edges that leave it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from gpu_wcoj import datasets

Edges = npt.NDArray[np.int64]

HUB = (87, 13_127)
"""The number and the edges of the node that an order of lookups chosen once does not get over, as published."""


@dataclass(frozen=True)
class Arriving:
    """Distinct directed edges by source, int64 of shape (n, 2)."""

    edges: Edges

    def ticks(self, nodes: int, limit: int | None = None) -> Iterator[Edges]:
        """The edges of `nodes` nodes at a time, until none are left or there were `limit` ticks; some are empty."""
        begin, tick = 0, 0
        while begin < len(self.edges) and tick != limit:
            tick += 1
            end = int(np.searchsorted(self.edges[:, 0], tick * nodes))
            yield self.edges[begin:end]
            begin = end

    def paths(self, nodes: int) -> int:
        """How many paths of two edges there are once so many nodes have come.

        Examples
        --------
        >>> Arriving(np.array([[0, 1], [0, 2], [1, 2], [2, 0]])).paths(2)
        1
        """
        edges = self.edges[: np.searchsorted(self.edges[:, 0], nodes)]
        n = int(edges.max(initial=0)) + 1
        return int(np.bincount(edges[:, 0], minlength=n) @ np.bincount(edges[:, 1], minlength=n))

    def write(self, path: Path) -> None:
        """A line of text per edge: source and target."""
        np.savetxt(path, self.edges, "%d")


def generate(scale: int, n_edges: int, seed: int, hub: tuple[int, int] | None = HUB) -> Arriving:
    """An R-MAT graph, of which one node gets as many edges as `hub` says, to targets drawn by chance.

    Examples
    --------
    >>> graph = generate(10, 5000, 1, hub=(7, 300))
    >>> [len(edges) for edges in graph.ticks(1, 9)][7], [len(edges) for edges in graph.ticks(512)]
    (300, [3980, 1303])
    """
    edges = datasets.rmat(scale=scale, edges=n_edges, seed=seed)
    if hub is not None:
        node, degree = hub
        others = np.delete(np.arange(1 << scale), node)
        targets = np.random.default_rng(seed).choice(others, degree, replace=False)
        edges = edges[edges[:, 0] != node]
        edges = np.concatenate([edges, np.stack([np.full(degree, node), targets], axis=1)])
    return Arriving(edges[np.lexsort((edges[:, 1], edges[:, 0]))])
