"""The graph: a seeded R-MAT graph, 9 of 10 edges loaded, the others a stream of changes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gpu_wcoj import datasets

Edges = npt.NDArray[np.int64]

STANDARD = (17, 2_000_000, 1)
"""Scale, directed edges and seed of the graph that the known answers and the targets are for."""


@dataclass(frozen=True)
class Graph:
    """An undirected graph, each edge once as (smaller, larger), in random order.

    Attributes
    ----------
    edges
        int64, shape (n, 2).
    n_loaded
        How many edges, from the front, are there before the stream starts.
    """

    scale: int
    n_directed: int
    seed: int
    edges: Edges
    n_loaded: int

    @property
    def is_standard(self) -> bool:
        """Whether the known answers and the targets are for this graph."""
        return (self.scale, self.n_directed, self.seed) == STANDARD

    @property
    def loaded(self) -> Edges:
        """The edges that are there before the stream starts."""
        return self.edges[: self.n_loaded]

    @property
    def stream(self) -> Edges:
        """The edges that arrive."""
        return self.edges[self.n_loaded :]

    def ticks(self, n_rows: int, limit: int | None = None) -> list[Edges]:
        """The stream in ticks of `n_rows`, at most `limit` of them; the last one of an unlimited list may be short."""
        starts = range(0, len(self.stream), n_rows)
        return [self.stream[start : start + n_rows] for start in starts][:limit]


def generate(scale: int, n_directed: int, seed: int) -> Graph:
    """Generate the graph; nothing is read from disk."""
    edges = datasets.undirected(datasets.rmat(scale=scale, edges=n_directed, seed=seed))
    return Graph(scale, n_directed, seed, edges, n_loaded=len(edges) * 9 // 10)


def by_degree(edges: Edges) -> Edges:
    """The same graph with its vertices numbered by ascending degree, each edge again as (smaller, larger)."""
    degree = np.bincount(edges.ravel())
    rank = np.empty(len(degree), np.int64)
    rank[np.argsort(degree, kind="stable")] = np.arange(len(degree))
    return np.sort(rank[edges], axis=1)


def insertions(edges: Edges) -> pa.RecordBatch:
    """A change batch that adds these edges."""
    return pa.RecordBatch.from_arrays([pa.array(edges[:, 0]), pa.array(edges[:, 1])], names=["src", "dst"])


def deletions(edges: Edges) -> pa.RecordBatch:
    """A change batch that takes these edges away."""
    return insertions(edges).append_column("weight", pa.array(np.full(len(edges), -1, np.int64)))
