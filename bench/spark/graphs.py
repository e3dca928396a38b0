"""The graphs, each edge once, and the same with vertices numbered by degree."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.engine.graph import Edges, by_degree
from gpu_wcoj import datasets

EPINIONS = Path(__file__).parents[3] / "shared" / "data" / "graphs" / "soc-Epinions1_und.txt.gz"


@dataclass(frozen=True)
class Graph:
    """A graph, each edge once as (smaller, larger), in random order, written as Parquet.

    Attributes
    ----------
    edges
        int64, shape (n, 2), as generated or read.
    paths
        The file, by vertex order: ``as given`` and ``by degree``, in which binary joins have smaller results.
    """

    name: str
    edges: Edges
    paths: dict[str, Path]


def rmat(scale: int, edges: int, seed: int, folder: Path) -> Graph:
    """A generated graph."""
    return _written(f"rmat-{scale}", datasets.undirected(datasets.rmat(scale, edges, seed)), folder)


def epinions(folder: Path) -> Graph | None:
    """Who trusts whom on Epinions; None where the file is not there."""
    if not EPINIONS.exists():
        return None
    read = np.loadtxt(EPINIONS, dtype=np.int64, comments="#", usecols=(0, 1))
    return _written("epinions", datasets.undirected(read[read[:, 0] != read[:, 1]]), folder)


def table(edges: Edges) -> pa.Table:
    """The edges as a table."""
    return pa.table({"src": edges[:, 0], "dst": edges[:, 1]})


def _written(name: str, edges: Edges, folder: Path) -> Graph:
    paths = {}
    for order, rows in (("as given", edges), ("by degree", by_degree(edges))):
        paths[order] = folder / f"{name}-{order.replace(' ', '-')}.parquet"
        pq.write_table(table(rows), paths[order])
    return Graph(name, edges, paths)
