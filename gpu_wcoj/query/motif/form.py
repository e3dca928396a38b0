"""Inputs and outputs of the compilation of motifs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal

from gpu_wcoj.query.motif.pattern import Motif
from gpu_wcoj.query.rules import Rules

Semantics = Literal["homomorphism", "edges-distinct", "nodes-distinct"]
SEMANTICS: tuple[Semantics, ...] = ("homomorphism", "edges-distinct", "nodes-distinct")

ROW = "_row"
"""The input column that holds row numbers."""


@dataclass(frozen=True)
class Element:
    """A column of a head: an element, and the part of it that the column holds.

    Attributes
    ----------
    name
        The element's name, or the name of a term column.
    what
        ``id`` of a vertex, ``row`` of a vertex or an edge, ``src`` or ``dst`` of an edge, ``told`` for a term column.
    """

    name: str
    what: Literal["id", "row", "src", "dst", "told"]


@dataclass(frozen=True)
class Part:
    """The matches of a path expansion of a motif.

    Attributes
    ----------
    relation
        The head.
    elements
        The contents of its columns.
    constants
        Term columns with the same value in all matches, such as ``_hop``.
    patterns
        Per pattern column stored as a direction, the pattern for ``out`` and for ``in``.
    """

    relation: str
    elements: tuple[Element, ...]
    constants: Mapping[str, int | str] = field(default_factory=dict)
    patterns: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class CompiledMotif:
    """A compiled motif.

    Attributes
    ----------
    rules
        The program, for bag semantics. Its inputs are ``vertices``, ``edges`` and, for a vertex or edge ``a`` that is
        restricted to a list, ``ids#a``.
    vertices, edges
        Columns of these inputs; ``_row`` is the row number. Empty if the input is not read.
    parts
        The outputs; each match is a row of one part.
    """

    motif: Motif
    rules: Rules
    vertices: tuple[str, ...]
    edges: tuple[str, ...]
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Graph:
    """Schema of the tables of a graph.

    Attributes
    ----------
    vertices, edges
        Names of their columns; None if unknown, or if vertices are only the ends of edges.
    has_vertices
        True if there is a table of vertices.
    id, src, dst
        Names of the key columns.
    kinds
        Families of the known column types (``integer``, ``float64``, ...), by table and name.
    """

    vertices: Collection[str] | None = None
    edges: Collection[str] | None = None
    has_vertices: bool = True
    id: str = "id"
    src: str = "src"
    dst: str = "dst"
    kinds: Mapping[tuple[str, str], str] = field(default_factory=dict)
