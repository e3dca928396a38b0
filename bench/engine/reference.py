"""GraphBLAS: the time that everything is a multiple of, and counts that come from other code than the engine's."""

# pyright: reportUnusedExpression=false
# (a << b writes into a)

from __future__ import annotations

import time

import graphblas as gb
import numpy as np
from graphblas import Matrix

from bench.engine.graph import Edges, by_degree
from bench.engine.queries import CLIQUE, CYCLE, DIAMOND, TRIANGLE, Query

MAX_CLIQUE_VERTICES = 1 << 14
MAX_CYCLE_PATHS = 50_000_000


def lower(edges: Edges) -> Matrix:
    """The strictly lower adjacency matrix of the graph, vertices numbered by ascending degree, INT64 ones."""
    ranked = by_degree(edges)
    n = int(ranked.max()) + 1
    return Matrix.from_coo(ranked[:, 1], ranked[:, 0], np.ones(len(ranked), np.int64), nrows=n, ncols=n)


def count_triangles(matrix: Matrix) -> int:
    """``sum(L·L under the mask L)`` over (plus, pair)."""
    closed = Matrix(gb.dtypes.INT64, matrix.nrows, matrix.ncols)
    closed(matrix.S) << gb.semiring.plus_pair(matrix @ matrix)
    return int(closed.reduce_scalar().new().value or 0)


def yardstick(edges: Edges, repeats: int = 3) -> tuple[float, int]:
    """Seconds to count the triangles of the whole graph on one thread, best of `repeats`, and their number.

    Building the matrix is not counted.
    """
    gb.ss.config["nthreads"] = 1
    matrix = lower(edges)
    seconds, count = [], 0
    for _ in range(repeats):
        start = time.perf_counter()
        count = count_triangles(matrix)
        seconds.append(time.perf_counter() - start)
    return min(seconds), count


def recount(query: Query, edges: Edges) -> int | None:
    """How many rows the whole answer has, or None where this would take minutes."""
    matrix = lower(edges)
    if query is TRIANGLE:
        return count_triangles(matrix)
    if query is DIAMOND:
        return _diamonds(matrix)
    if query is CYCLE and int((np.bincount(edges.ravel()) ** 2).sum()) <= MAX_CYCLE_PATHS:
        return _cycles(matrix)
    if query is CLIQUE and matrix.nrows <= MAX_CLIQUE_VERTICES:
        return _cliques(matrix)
    return None


def _pairs(matrix: Matrix) -> int:
    """``sum(t * (t - 1) / 2)`` over the entries t."""
    _, _, values = matrix.to_coo()
    return int((values * (values - 1) // 2).sum())


def _both_ways(matrix: Matrix) -> Matrix:
    return gb.binary.plus(matrix | matrix.T).new()


def _diamonds(matrix: Matrix) -> int:
    adjacency = _both_ways(matrix)
    common = Matrix(gb.dtypes.INT64, matrix.nrows, matrix.ncols)
    common(matrix.S) << gb.semiring.plus_pair(adjacency @ adjacency)
    return _pairs(common)


def _cycles(matrix: Matrix) -> int:
    adjacency = _both_ways(matrix)
    paths = gb.semiring.plus_pair(adjacency @ adjacency).new()
    return _pairs(gb.select.tril(paths, -1).new()) // 2


def _cliques(matrix: Matrix) -> int:
    count = 0
    for vertex in range(matrix.nrows):
        neighbours, _ = matrix[vertex, :].new().to_coo()
        if len(neighbours) > 2:
            count += count_triangles(matrix[neighbours, neighbours].new())
    return count
