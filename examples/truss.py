"""The k-truss of a changing graph, as a circuit of one's own: python examples/truss.py [K].

A k-truss is the part of a graph that remains if edges in fewer than k - 2 triangles are removed repeatedly. Edges may
support each other, so rules cannot express it: the loop has to start from all edges. Here it is a subcircuit that runs
to its fixpoint within each tick. Between ticks, and within the loop, only changes are computed.
"""

from __future__ import annotations

import random
import sys
import time

import numpy as np

import gpu_wcoj as gw
from gpu_wcoj import streams
from gpu_wcoj.streams import Stream


def sides(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
    """Each triangle's three edges, each with the third corner."""
    ends = np.concatenate([a, a, b]), np.concatenate([b, c, c]), np.concatenate([c, b, a])
    return np.tile(np.arange(len(a)), 3), ends


def truss(circuit: gw.Circuit, edges: Stream, k: int) -> Stream:
    """The edges (a, b), a < b, of the k-truss: left(0) = edges, left(i + 1) = those that left(i) supports."""
    loop = circuit.subcircuit("peel")
    edge, again = loop.introduce(edges), loop.feedback()
    left = edge + again
    triangles = loop.multiway("triangle(a, b, c) :- e(a, b), e(b, c), e(a, c).", {"e": left})
    support = triangles.flat_map(sides, names=["a", "b", "c"]).incremental_aggregate(["a", "b"], streams.Count())
    supported = support.filter(lambda n: n >= k - 2, of="count").map(["a", "b"])
    again.connect(supported - edge)
    return loop.eliminate(left)


def main() -> None:
    """Build a graph, then delete edges of it and put them back, one tick each."""
    k = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    draw = random.Random(1)
    pairs = {tuple(sorted(draw.sample(range(60), 2))) for _ in range(500)}
    edges = sorted((a, b) for a, b in pairs)

    circuit = gw.Circuit()
    source = circuit.source("edge", {"a": "int64", "b": "int64"})
    circuit.sink("truss", truss(circuit, source, k))
    first = circuit.step({"edge": edges})["truss"]
    print(f"{len(edges)} edges, {len(first)} of them in the {k}-truss")
    for edge in draw.sample(edges, 5):
        for weight in (-1, 1):
            start = time.perf_counter()
            change = circuit.step({"edge": [(edge, weight)]})["truss"]
            took = 1000 * (time.perf_counter() - start)
            verb = "inserting" if weight > 0 else "deleting"
            print(f"{verb} {edge} changes {len(change)} edges of it, in {took:.1f} ms")


if __name__ == "__main__":
    main()
