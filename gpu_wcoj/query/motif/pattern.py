"""What a motif says: terms, their vertices and edges, and the columns that it gives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from gpu_wcoj.query.terms import Span

Arrow = Literal["->", "<-", "<->", "-"]
Direction = Literal["out", "in"]


@dataclass(frozen=True)
class Vertex:
    """``(name)``, or ``()`` if the name is None."""

    name: str | None
    span: Span = field(default=Span(), compare=False)

    def __str__(self) -> str:
        return f"({self.name or ''})"


@dataclass(frozen=True)
class Link:
    """What stands between two vertices.

    Attributes
    ----------
    name
        The edge's name; None for ``[]``.
    arrow
        ``->``, ``<-``, ``<->`` (an edge each way) or ``-`` (one edge, whichever way).
    least, most
        Of ``*n`` and ``*n..m`` how many hops; None for one edge.
    is_range
        Whether it is ``*n..m``, whose paths tell their lengths.
    """

    name: str | None
    arrow: Arrow
    least: int | None = None
    most: int | None = None
    is_range: bool = False
    span: Span = field(default=Span(), compare=False)

    @property
    def is_chain(self) -> bool:
        """Whether it has a length."""
        return self.least is not None

    def __str__(self) -> str:
        length = "" if self.least is None else f"*{self.least}..{self.most}" if self.is_range else f"*{self.least}"
        begin = "<-" if self.arrow.startswith("<") else "-"
        end = "->" if self.arrow.endswith(">") else "-"
        return f"{begin}[{self.name or ''}{length}]{end}"


@dataclass(frozen=True)
class Term:
    """``(left)-[link]->(right)``, negated or not, or a vertex alone if there is no link."""

    left: Vertex
    link: Link | None = None
    right: Vertex | None = None
    is_negated: bool = False
    span: Span = field(default=Span(), compare=False)

    def __str__(self) -> str:
        return f"{'!' if self.is_negated else ''}{self.left}{self.link or ''}{self.right or ''}"

    @property
    def tells(self) -> tuple[str, ...]:
        """What the term says of itself beside its elements: of undirected edges the direction, of ranges the hops."""
        if self.link is None or not (self.link.is_range or self.link.arrow == "-"):
            return ()
        return ("_hop", "_pattern", "_direction") if self.link.is_chain else ("_pattern", "_direction")


@dataclass(frozen=True)
class Edge:
    """One edge of a motif that is spelled out.

    Attributes
    ----------
    key
        Its name, or ``#1`` and so on; edges with one key are one edge.
    source, target
        Keys of vertices, likewise.
    is_undirected
        Whether it may also lead from target to source.
    term
        Which term it stands in, of an undirected one.
    """

    key: str
    source: str
    target: str
    is_undirected: bool = False
    term: int = -1


@dataclass(frozen=True)
class Path:
    """One way to spell out a term: its elements in order, and what it tells of itself.

    Attributes
    ----------
    edges
        Along the way.
    told
        Values of `Term.tells`, where they are the same in all matches.
    names
        Names of vertices and edges, in the order in which they are columns; those of undirected chains that go
        backwards stand behind what the term tells.
    """

    edges: tuple[Edge, ...]
    names: tuple[str, ...]
    told: dict[str, int | str] = field(default_factory=dict, compare=False)


@dataclass(frozen=True)
class Motif:
    """A motif's terms.

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
        """Per term, the ways to spell it out."""
        from gpu_wcoj.query.motif.chains import paths_of

        return tuple(tuple(paths_of(number, term)) for number, term in enumerate(self.terms))

    @cached_property
    def vertices(self) -> tuple[str, ...]:
        """Names of vertices, also those that chains give to theirs."""
        named = [vertex.name for term in self.terms for vertex in (term.left, term.right) if vertex and vertex.name]
        inner = [end for path in self._all_paths() for edge in path.edges for end in (edge.source, edge.target)]
        return tuple(dict.fromkeys([*named, *(one for one in inner if not one.startswith("#"))]))

    @cached_property
    def edges(self) -> tuple[str, ...]:
        """Names of edges, also those that chains give to theirs."""
        found = (edge.key for path in self._all_paths() for edge in path.edges)
        return tuple(dict.fromkeys(one for one in found if not one.startswith("#")))

    @cached_property
    def telling(self) -> dict[int, dict[str, str]]:
        """Per term that tells something, what each of it is called as a column; numbered if there are several terms."""
        terms = [number for number, term in enumerate(self.terms) if term.tells and not term.is_negated]
        return {
            number: {what: f"{what}{place}" if len(terms) > 1 else what for what in self.terms[number].tells}
            for place, number in enumerate(terms, start=1)
        }

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of matches, in the order in which they first stand."""
        found: dict[str, None] = {}
        for number, ways in enumerate(self.paths):
            term = self.terms[number]
            if term.left.name:
                found[term.left.name] = None
            longest = ways[0] if ways else None
            found.update(dict.fromkeys(longest.names if longest else ()))
            if term.right is not None and term.right.name:
                found[term.right.name] = None
            found.update(dict.fromkeys(self.telling.get(number, {}).values()))
            found.update(dict.fromkeys(name for path in ways for name in path.names))
        return tuple(found)

    def _all_paths(self) -> Iterator[Path]:
        for ways in self.paths:
            yield from ways
