"""``gw.find``: the matches of a motif in a graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpu_wcoj.errors import entry_point
from gpu_wcoj.finding.matcher import Matcher
from gpu_wcoj.finding.matches import Matches
from gpu_wcoj.query.motif.form import Semantics
from gpu_wcoj.query.motif.pattern import Motif


@entry_point
def find(
    motif: str | Motif,
    graph: Any = None,
    /,
    *,
    vertices: Any = None,
    edges: Any = None,
    where: str | None = None,
    semantics: Semantics = "homomorphism",
    columns: Sequence[str] | None = None,
    ids: Mapping[str, Any] | None = None,
    id: str = "id",  # noqa: A002  # the column is called so
    src: str = "src",
    dst: str = "dst",
    **options: Any,
) -> Matches:
    """The matches of a motif in a graph.

    Parameters
    ----------
    motif
        Terms such as ``(a)-[e]->(b); !(b)-[]->(a)``; see `gpu_wcoj.query.motif.parse`.
    graph
        A GraphFrame, or whatever has ``vertices`` and ``edges``, in place of these two.
    vertices
        A table with a column ``id`` and any others; a row each. Without it, vertices are the ends of the edges.
    edges
        A table with columns ``src`` and ``dst`` and any others. Every row is an edge, also if another one is equal.
    where
        What columns have to satisfy, as in SQL: ``"t.amount > 900 AND a.country IN ('CH', 'LI')"``. What it asks of
        one element restricts that before anything is joined.
    semantics
        What has to differ: ``"homomorphism"``, nothing (as in GraphFrames and SQL); ``"edges-distinct"``, edges (as in
        Cypher); ``"nodes-distinct"``, vertices, and edges between the same ones (as networkx finds monomorphisms). What
        has one name is one.
    columns
        What matches show: elements, as structs of all their columns, or single columns, ``"a.id"``. By default every
        element that has a name, in the order in which they first stand.
    ids
        Vertices that are restricted to a list of ids each: ``{"a": [1, 2]}``.
    id, src, dst
        What these columns are called.
    options
        Those of `gpu_wcoj.program.Program`: ``backend``, ``threads`` and the like.

    Notes
    -----
    As in GraphFrames, a match is a row for each choice of edges, also of those without a name: parallel edges give a
    row each. Unlike there, a negated term only leaves matches out, and never merges equal rows; terms may stand in any
    order; and where several terms are undirected or ranges, their ``_hop``, ``_pattern`` and ``_direction`` are
    numbered: ``_direction1``, ``_direction2``.

    An undirected edge ``(a)-[e]-(b)`` is found once from either of its ends. At a loop these are one end, and the
    semantics decides: under ``"edges-distinct"`` and ``"nodes-distinct"`` the loop is one match, in the direction
    ``out``, as in Cypher (Neo4j, Memgraph), GQL, SQL/PGQ and networkx. Vertices of two names are two under the latter:
    there ``(a)-[e]-(a)`` finds it and ``(a)-[e]-(b)`` does not. Under ``"homomorphism"`` it is two, ``out`` and
    ``in``, as GraphFrames unites both directions and tells them apart. The same holds for undirected chains of loops.

    Raises
    ------
    MotifSyntaxError, UnsupportedError
        If the motif or the condition cannot be read or answered.
    ColumnError, SchemaError, UsageError
        If names or tables do not fit.

    Examples
    --------
    >>> transfers = {"src": ["x", "y", "z", "z"], "dst": ["y", "z", "x", "w"], "amount": [950, 990, 910, 5]}
    >>> rings = find("(a)-[t1]->(b); (b)-[t2]->(c); (c)-[t3]->(a)", edges=transfers, where="t1.amount < t2.amount",
    ...              semantics="nodes-distinct", columns=["a.id", "t1.amount", "t2.amount"])
    >>> rings.rows()
    [(('x', 950, 990), 1), (('z', 910, 950), 1)]
    """
    matcher = Matcher(
        motif, graph, vertices=vertices, edges=edges, where=where, semantics=semantics, columns=columns, ids=ids,
        id=id, src=src, dst=dst, is_kept=False, **options,
    )  # fmt: skip
    return matcher.first()
