"""``gw.find``: the matches of a motif in a graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpu_wcoj.errors import entry_point
from gpu_wcoj.query.motif.form import Semantics
from gpu_wcoj.query.motif.pattern import Motif
from gpu_wcoj.views.matcher import Matcher
from gpu_wcoj.views.matches import Matches


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
    """Find the matches of a motif in a graph.

    Parameters
    ----------
    motif
        Terms such as ``(a)-[e]->(b); !(b)-[]->(a)``; see `gpu_wcoj.query.motif.parse`.
    graph
        A GraphFrame, or any object with ``vertices`` and ``edges``, instead of these two arguments.
    vertices
        A table with a column ``id`` and any others, one row per vertex. Without it, vertices are the ends of the edges.
    edges
        A table with columns ``src`` and ``dst`` and any others, one row per edge. Equal rows are different edges.
    where
        A condition on columns, as in SQL: ``"t.amount > 900 AND a.country IN ('CH', 'LI')"``. Conditions on a single
        element are applied before the join.
    semantics
        Elements that must differ: ``"homomorphism"``, none (as in GraphFrames and SQL); ``"edges-distinct"``, edges
        (as in Cypher); ``"nodes-distinct"``, vertices, and edges between the same vertices (networkx monomorphisms).
        Elements of the same name are always the same.
    columns
        Columns of the matches: elements, as structs of all their columns, or single columns, ``"a.id"``. By default
        all named elements, in order of first occurrence.
    ids
        Vertices restricted to lists of ids: ``{"a": [1, 2]}``.
    id, src, dst
        Names of the key columns.
    options
        Options of `gpu_wcoj.program.Program`, such as ``backend`` and ``threads``.

    Notes
    -----
    As in GraphFrames, there is a row per choice of edges, including unnamed edges: parallel edges give a row each.
    Unlike GraphFrames, a negated term only removes matches and never merges equal rows; terms may come in any order;
    and if several terms are undirected or ranges, their ``_hop``, ``_pattern`` and ``_direction`` are numbered:
    ``_direction1``, ``_direction2``.

    An undirected edge ``(a)-[e]-(b)`` is found once from either of its ends. At a loop these are one end, and the
    semantics decides: under ``"edges-distinct"`` and ``"nodes-distinct"`` the loop is one match, in the direction
    ``out``, as in Cypher (Neo4j, Memgraph), GQL, SQL/PGQ and networkx. Under ``"nodes-distinct"``, vertices of
    different names differ: ``(a)-[e]-(a)`` finds the loop, ``(a)-[e]-(b)`` does not. Under ``"homomorphism"`` it is two
    matches, ``out`` and ``in``, as in the union of both directions in GraphFrames. The same holds for undirected chains
    of loops.

    Raises
    ------
    MotifSyntaxError, UnsupportedError
        If the motif or the condition cannot be read or is not supported.
    ColumnError, SchemaError, UsageError
        If a name is unknown or a table has the wrong columns.

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
