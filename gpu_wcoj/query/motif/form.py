"""What a motif is compiled from and to."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal

from gpu_wcoj.query.motif.pattern import Motif
from gpu_wcoj.query.rules import Rules

Semantics = Literal["homomorphism", "edges-distinct", "nodes-distinct"]
SEMANTICS: tuple[Semantics, ...] = ("homomorphism", "edges-distinct", "nodes-distinct")

ROW = "_row"
"""The column of the inputs that numbers their rows."""


@dataclass(frozen=True)
class Element:
    """A column of a head: what it holds of which element.

    Attributes
    ----------
    name
        The element's name, or that of a column that tells of a term.
    what
        ``id`` of a vertex, ``row`` of either, ``src`` or ``dst`` of an edge, ``told`` of a term.
    """

    name: str
    what: Literal["id", "row", "src", "dst", "told"]


@dataclass(frozen=True)
class Part:
    """The matches of one way to spell a motif out.

    Attributes
    ----------
    relation
        The head.
    elements
        What its columns hold.
    told
        What is the same in all of its matches: ``_hop`` and the like.
    patterns
        Of columns that hold a direction, ``out`` or ``in``, and show a pattern, which.
    """

    relation: str
    elements: tuple[Element, ...]
    told: Mapping[str, int | str] = field(default_factory=dict)
    patterns: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Compiled:
    """A motif as rules.

    Attributes
    ----------
    rules
        The program, for bag semantics. Its inputs are ``vertices``, ``edges`` and, for a vertex or edge ``a`` that is
        restricted to a list, ``ids#a``.
    vertices, edges
        Columns of these inputs; ``_row`` is the number of the row. Empty if the input is not read.
    parts
        The outputs; a match is a row of one of them.
    """

    motif: Motif
    rules: Rules
    vertices: tuple[str, ...]
    edges: tuple[str, ...]
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Graph:
    """What is known of the tables before they are seen.

    Attributes
    ----------
    vertices, edges
        Names of their columns; None if they are not known, or there are no vertices but the ends of edges.
    has_vertices
        Whether there is a table of vertices.
    id, src, dst
        Which columns tell vertices apart.
    kinds
        Families of the types of columns (``integer``, ``float64``, ...), by table and name, as far as they are known.
    """

    vertices: Collection[str] | None = None
    edges: Collection[str] | None = None
    has_vertices: bool = True
    id: str = "id"
    src: str = "src"
    dst: str = "dst"
    kinds: Mapping[tuple[str, str], str] = field(default_factory=dict)
