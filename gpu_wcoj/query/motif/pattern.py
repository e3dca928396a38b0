"""Syntax tree of motifs: terms, vertices, edges, and the columns of matches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from gpu_wcoj.query.ir import Span

Arrow = Literal["->", "<-", "<->", "-"]
Direction = Literal["out", "in"]

MOTIF_FUNCTIONS = {
    "lower": "lower", "upper": "upper", "length": "strlen", "abs": "abs", "year": "year", "month": "month",
    "day": "day",
}  # fmt: skip
"""Functions of conditions, and their names in rules."""


@dataclass(frozen=True)
class Vertex:
    """``(name)``, or ``()`` if the name is None."""

    name: str | None
    span: Span = field(default=Span(), compare=False)

    def __str__(self) -> str:
        return f"({self.name or ''})"


@dataclass(frozen=True)
class Link:
    """The edge or chain between two vertices.

    Attributes
    ----------
    name
        The edge's name; None for ``[]``.
    arrow
        ``->``, ``<-``, ``<->`` (an edge each way) or ``-`` (an undirected edge).
    min_hops, max_hops
        Numbers of hops of ``*n`` and ``*n..m``; None for a single edge.
    is_range
        True for ``*n..m``, whose matches have a ``_hop`` column.
    """

    name: str | None
    arrow: Arrow
    min_hops: int | None = None
    max_hops: int | None = None
    is_range: bool = False
    span: Span = field(default=Span(), compare=False)

    @property
    def is_chain(self) -> bool:
        """True for a chain ``*n`` or ``*n..m``."""
        return self.min_hops is not None

    def __str__(self) -> str:
        length = (
            ""
            if self.min_hops is None
            else f"*{self.min_hops}..{self.max_hops}"
            if self.is_range
            else f"*{self.min_hops}"
        )
        begin = "<-" if self.arrow.startswith("<") else "-"
        end = "->" if self.arrow.endswith(">") else "-"
        return f"{begin}[{self.name or ''}{length}]{end}"


@dataclass(frozen=True)
class Term:
    """``(left)-[link]->(right)``, possibly negated, or a single vertex without a link."""

    left: Vertex
    link: Link | None = None
    right: Vertex | None = None
    is_negated: bool = False
    span: Span = field(default=Span(), compare=False)

    def __str__(self) -> str:
        return f"{'!' if self.is_negated else ''}{self.left}{self.link or ''}{self.right or ''}"

    @property
    def columns(self) -> tuple[str, ...]:
        """Further columns of the term: the direction if undirected, the hops of a range."""
        if self.link is None or not (self.link.is_range or self.link.arrow == "-"):
            return ()
        return ("_hop", "_pattern", "_direction") if self.link.is_chain else ("_pattern", "_direction")


@dataclass(frozen=True)
class Edge:
    """An edge of a path expansion.

    Attributes
    ----------
    key
        Its name, or ``#1`` and so on; edges with the same key are the same edge.
    source, target
        Keys of its vertices.
    is_undirected
        True if it may also lead from target to source.
    term
        Index of its term, for an undirected edge; else -1.
    """

    key: str
    source: str
    target: str
    is_undirected: bool = False
    term: int = -1


@dataclass(frozen=True)
class Path:
    """A path expansion of a term: its elements in order, and its term columns.

    Attributes
    ----------
    edges
        The edges along the path.
    constants
        Values of `Term.columns` that are the same in all matches.
    names
        Names of vertices and edges, in the order of their columns. The names of backward undirected chains come after
        the term columns.
    """

    edges: tuple[Edge, ...]
    names: tuple[str, ...]
    constants: dict[str, int | str] = field(default_factory=dict, compare=False)


@dataclass(frozen=True)
class Motif:
    """A motif: its terms.

    Examples
    --------
    >>> from gpu_wcoj.query.motif import parse
    >>> motif = parse("(a)-[t]->(b) ; (b)<-[*2]-(c); !(c)-[]->()")
    >>> print(motif)
    (a)-[t]->(b); (b)<-[*2]-(c); !(c)-[]->()
    >>> motif.vertices, motif.edges
    (('a', 'b', 'c', '_cb1'), ('t',))
    """

    terms: tuple[Term, ...]
    text: str = field(default="", compare=False)
    source: str = field(default="<text>", compare=False)

    def __str__(self) -> str:
        return "; ".join(map(str, self.terms))

    @cached_property
    def paths(self) -> tuple[tuple[Path, ...], ...]:
        """Per term, its path expansions."""
        from gpu_wcoj.query.motif.chains import expand_term

        return tuple(tuple(expand_term(index, term)) for index, term in enumerate(self.terms))

    @cached_property
    def vertices(self) -> tuple[str, ...]:
        """Names of vertices, including the inner vertices of chains."""
        named = [vertex.name for term in self.terms for vertex in (term.left, term.right) if vertex and vertex.name]
        inner = [end for path in self._all_paths() for edge in path.edges for end in (edge.source, edge.target)]
        return tuple(dict.fromkeys([*named, *(vertex for vertex in inner if not vertex.startswith("#"))]))

    @cached_property
    def edges(self) -> tuple[str, ...]:
        """Names of edges, including the edges of chains."""
        keys = (edge.key for path in self._all_paths() for edge in path.edges)
        return tuple(dict.fromkeys(key for key in keys if not key.startswith("#")))

    @cached_property
    def term_columns(self) -> dict[int, dict[str, str]]:
        """Column names of `Term.columns`, per term; numbered if several terms have such columns."""
        terms = [index for index, term in enumerate(self.terms) if term.columns and not term.is_negated]
        return {
            index: {what: f"{what}{place}" if len(terms) > 1 else what for what in self.terms[index].columns}
            for place, index in enumerate(terms, start=1)
        }

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of matches, in order of first occurrence."""
        names: dict[str, None] = {}
        for index, paths in enumerate(self.paths):
            term = self.terms[index]
            if term.left.name:
                names[term.left.name] = None
            longest = paths[0] if paths else None
            names.update(dict.fromkeys(longest.names if longest else ()))
            if term.right is not None and term.right.name:
                names[term.right.name] = None
            names.update(dict.fromkeys(self.term_columns.get(index, {}).values()))
            names.update(dict.fromkeys(name for path in paths for name in path.names))
        return tuple(names)

    def _all_paths(self) -> Iterator[Path]:
        for paths in self.paths:
            yield from paths
