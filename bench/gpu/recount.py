"""Triangles counted by other code than the engine's: edges point from low to high degree, ranges are intersected.

On a GPU a kernel of its own does it, a warp for each edge; elsewhere, and to check that kernel, the array module's
sorted search does.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.gpu.graph import packed, unpacked
from bench.gpu.place import Place

SOURCE = r"""
extern "C" __global__ void count_triangles(const long long* keys, const long long* starts, unsigned long long* total,
                                           long long n_edges)
{
    // One warp an edge (u, v): every lane looks up some of the shorter of both lists in the longer one.
    long long warp = ((long long)blockIdx.x * blockDim.x + threadIdx.x) >> 5;
    long long n_warps = ((long long)gridDim.x * blockDim.x) >> 5;
    int lane = threadIdx.x & 31;
    unsigned long long found = 0;
    for (long long edge = warp; edge < n_edges; edge += n_warps) {
        long long u = keys[edge] >> 32, v = keys[edge] & 0xFFFFFFFFLL;
        long long a = starts[u], a_end = starts[u + 1], b = starts[v], b_end = starts[v + 1];
        if (a_end - a > b_end - b) {
            long long t = a;
            a = b;
            b = t;
            t = a_end;
            a_end = b_end;
            b_end = t;
        }
        for (long long i = a + lane; i < a_end; i += 32) {
            long long wanted = keys[i] & 0xFFFFFFFFLL, low = b, high = b_end;
            while (low < high) {
                long long middle = (low + high) >> 1;
                if ((keys[middle] & 0xFFFFFFFFLL) < wanted)
                    low = middle + 1;
                else
                    high = middle;
            }
            found += low < b_end && (keys[low] & 0xFFFFFFFFLL) == wanted;
        }
    }
    if (found)
        atomicAdd(total, found);
}
"""
PIECE_ROWS = 1 << 25


def triangles(place: Place, keys: Any, n_vertices: int) -> int:
    """Triangles of the undirected graph with these keys."""
    oriented, starts = by_degree(place.xp, keys, n_vertices)
    if place.is_cuda:
        return _by_kernel(place, oriented, starts)
    return by_search(place.xp, oriented, starts)


def by_degree(xp: Any, keys: Any, n_vertices: int) -> tuple[Any, Any]:
    """Sorted keys with the vertices numbered by ascending degree, and where each vertex's keys start."""
    low, high = unpacked(keys)
    ends = xp.sort(xp.concatenate([low, high]))
    bounds = xp.searchsorted(ends, xp.arange(n_vertices + 1))
    order = xp.argsort(bounds[1:] - bounds[:-1])
    rank = xp.empty(n_vertices, np.int64)
    rank[order] = xp.arange(n_vertices)
    low, high = xp.take(rank, low), xp.take(rank, high)
    oriented = xp.sort(packed(xp.minimum(low, high), xp.maximum(low, high)))
    return oriented, xp.searchsorted(oriented, xp.arange(n_vertices + 1) << 32).astype(np.int64)


def by_search(xp: Any, oriented: Any, starts: Any) -> int:
    """The count by searching every two-path's closing edge."""
    u, v = unpacked(oriented)
    low = xp.take(starts, v)
    sizes = xp.take(starts, v + 1) - low
    ends = xp.cumsum(sizes)
    found, begin, n_edges = 0, 0, len(oriented)
    while begin < n_edges:
        before = 0 if begin == 0 else int(ends[begin - 1])
        end = max(begin + 1, int(xp.searchsorted(ends, xp.full(1, before + PIECE_ROWS, np.int64), side="right")[0]))
        length = sizes[begin:end]
        row = xp.repeat(xp.arange(len(length)), length)
        place = xp.arange(len(row)) + xp.take(low[begin:end] - (ends[begin:end] - length - before), row)
        wanted = packed(xp.take(u[begin:end], row), xp.take(oriented, place) & 0xFFFFFFFF)
        at = xp.minimum(xp.searchsorted(oriented, wanted), n_edges - 1)
        found += int((xp.take(oriented, at) == wanted).sum())
        begin = end
    return found


def _by_kernel(place: Place, oriented: Any, starts: Any) -> int:
    xp = place.xp
    total = xp.zeros(1, np.uint64)
    kernel = xp.RawKernel(SOURCE, "count_triangles", options=("-std=c++17",))
    n_blocks = 32 * int(xp.cuda.Device().attributes["MultiProcessorCount"])
    kernel((n_blocks,), (256,), (oriented, starts, total, np.int64(len(oriented))))
    return int(total[0])
