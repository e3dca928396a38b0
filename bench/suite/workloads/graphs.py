"""Patterns in a graph: cycles, cliques and what is made of them, and paths.

``e`` holds each edge from its smaller vertex to the larger one, ``s`` both ways. Each occurrence counts once. Only a
barbell's ends may meet, since no comparison ties them together.
"""

from __future__ import annotations

import numpy as np

from bench.engine.graph import Edges, by_degree
from bench.engine.queries import CLIQUE, CYCLE, DIAMOND, TRIANGLE, Query
from bench.suite.record import Order
from bench.suite.streams import Data, Items
from bench.suite.workload import Pattern, Rows, Workload
from gpu_wcoj import datasets

SKEW = 0.57
"""The chance of R-MAT's first quadrant in a skewed graph; the next two share most of the rest. 0.25 is uniform."""


def pattern_of(query: Query) -> Pattern:
    """A pattern of `bench.engine`, over ``e`` and ``s`` as inputs."""
    atoms = tuple((relation, tuple(variables)) for relation, variables in query.atoms)
    return Pattern(atoms, tuple((left, "<", right) for left, right in query.comparisons))


def pattern(atoms: str, comparisons: str = "") -> Pattern:
    """One that is written short.

    Examples
    --------
    >>> pattern("eab sbc", "a!=c").rule("h")
    'h(a, b, c) :- e(a, b), s(b, c), a != c.'
    """
    signs = ("!=", "<")
    split = [
        next((one.partition(sign)[0], sign, one.partition(sign)[2]) for sign in signs if sign in one)
        for one in comparisons.split()
    ]
    return Pattern(tuple((one[0], tuple(one[1:])) for one in atoms.split()), tuple(split))


ROWS = {"e": 1, "s": 2}
"""Per relation, the rows of one edge."""
QUERIES = {"triangle": TRIANGLE, "cycle4": CYCLE, "diamond": DIAMOND, "clique4": CLIQUE}
"""Patterns that GraphBLAS can count, for a judge."""
CYCLIC = {
    **{name: pattern_of(query) for name, query in QUERIES.items()},
    "clique5": pattern("eab eac ead eaf ebc ebd ebf ecd ecf edf"),
    "kite": pattern("eab sac sbc sad sbd sdf", "c!=d a!=f b!=f c!=f"),
    "house": pattern("eab sbc scd sda saf sbf", "a!=c b!=d c!=f d!=f"),
    "bowtie": pattern("sxa sxb eab sxc sxd ecd", "a<c b!=c b!=d"),
    "barbell": pattern("exy sxa sxb eab syc syd ecd"),
}
"""A kite is a diamond with a tail at one tip, a house a 4-cycle with a triangle on one side."""
ACYCLIC = {f"path{n}": pattern(" ".join("e" + "abcdfg"[i : i + 2] for i in range(n))) for n in (3, 4, 5)}
"""Of so many edges, vertices ascending."""


def _workload(name: str, family: str, body: Pattern) -> Workload:
    relations = {relation for relation, _ in body.atoms}
    columns = dict.fromkeys(sorted(relations), ("src", "dst"))
    return Workload(
        name, family, body.rule(name), name, columns, body, body.sql(), depends_on_order=family == "cyclic",
        rows_of_change=sum(map(ROWS.__getitem__, relations)),
    )  # fmt: skip


WORKLOADS = {
    name: _workload(name, family, body)
    for family, bodies in (("cyclic", CYCLIC), ("acyclic", ACYCLIC))
    for name, body in bodies.items()
}


def edges_of(scale: int, n_directed: int, seed: int, a: float = SKEW) -> Edges:
    """Undirected edges of an R-MAT graph, as (smaller, larger), in random order; `a` is 0.25 for a uniform one."""
    side = a / 3 if a > 1 / 3 else (1 - a) / 3
    return datasets.undirected(datasets.rmat(scale=scale, edges=n_directed, seed=seed, a=a, b=side, c=side))


def data(workload: Workload, edges: Edges, order: Order = "generated") -> Data:
    """The graph's edges as items."""
    if order == "degree":
        edges = by_degree(edges)

    def rows_of(items: Items) -> dict[str, Rows]:
        one = edges[items]
        made = {"e": one, "s": np.concatenate([one, one[:, ::-1]])}
        return {name: np.ascontiguousarray(made[name]) for name in workload.columns}

    degrees = np.bincount(edges.ravel())
    return Data(len(edges), rows_of, degrees=degrees[degrees > 0])
