"""Programs that are counted afresh: queries, a skewed graph, and what lies behind a program."""

from __future__ import annotations

from gpu_wcoj.datasets import rmat, undirected

PATH = "h(a, b, c, d, f, g) :- e(a, b), e(b, c), e(c, d), e(d, f), e(f, g). .output h"

TRIANGLE = "h(a, b, c) :- e(a, b), e(b, c), e(a, c). .output h"


def heads_of(program):
    return program._ledger.state.sides.ahead.circuit.heads


def skewed():
    """A graph with hubs, most of it first and the rest."""
    edges = undirected(rmat(scale=10, edges=16_000, seed=1))
    return edges[:10_000], edges[10_000:]
