"""Motifs as rules over the vertices and the edges, in bag semantics."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations, product

from gpu_wcoj.errors import ColumnError, SchemaError, UsageError, listed, nearest
from gpu_wcoj.query.checks import check
from gpu_wcoj.query.motif import condition as conditions
from gpu_wcoj.query.motif.cases import conjuncts
from gpu_wcoj.query.motif.condition import Condition, fields_of
from gpu_wcoj.query.motif.form import ROW, SEMANTICS, Compiled, Element, Graph, Semantics
from gpu_wcoj.query.motif.pattern import Edge, Motif, Path
from gpu_wcoj.query.motif.reading import pointed_lines
from gpu_wcoj.query.motif.way import Way, parallel
from gpu_wcoj.query.rules import Declaration, Rule, Rules
from gpu_wcoj.query.terms import Atom, Constant


def compiled(
    motif: Motif,
    *,
    where: str | None = None,
    semantics: Semantics = "homomorphism",
    asked: Sequence[Element] | None = None,
    ids: Collection[str] = (),
    graph: Graph | None = None,
) -> Compiled:
    """The rules of a motif.

    Every match is a row, as many times as there are ways to take its edges: edges without a name count, too, and so do
    vertices without one. A named vertex is a row of the vertices, where there are any. What ``where`` asks of one
    element restricts its relation before anything is joined; what it asks of several stands in the join.

    Parameters
    ----------
    where
        See `gpu_wcoj.query.motif.condition.parse`.
    semantics
        What has to differ: nothing, edges (those of one name aside), or vertices and, between the same ones, edges.
    asked
        What matches tell; by default all named vertices by their ids, and all named edges by their rows.
    ids
        Vertices that are restricted to lists of ids.
    graph
        The tables' columns.

    Examples
    --------
    >>> from gpu_wcoj.query.motif import parse
    >>> print(compiled(parse("(a)-[t]->(b); !(b)-[]->(a)"), where="t.amount > 900").rules)
    .decl vertices(id)
    .decl edges(_row, src, dst, amount)
    picked#t(row_t, src, dst) :- edges(row_t, src, dst, t_amount), t_amount > 900.
    pairs#(src, dst) :- edges(_, src, dst, _).
    motif(a, row_t, b) :- vertices(a), vertices(b), picked#t(row_t, a, b), !pairs#(b, a).
    .output motif
    """
    if semantics not in SEMANTICS:
        raise UsageError(f"there is no semantics {semantics!r}; there are {listed(SEMANTICS)}.")
    graph = graph or Graph()
    if asked is None:
        asked = default_asked(motif)
    for name in ids:
        if name not in motif.vertices:
            raise UsageError(
                f"ids are given of '{name}', which is no vertex of the motif.\n"
                f"  Its vertices are: {listed(motif.vertices)}.{nearest(name, motif.vertices)}"
            )
    given = () if where is None else conjuncts(conditions.parse(where, motif))
    _check_fields(given, motif, graph, where or "")
    return Compiler(motif, given, semantics, tuple(dict.fromkeys(asked)), tuple(ids), graph, where or "").compiled()


def default_asked(motif: Motif) -> tuple[Element, ...]:
    """All that a motif names, and what its terms tell."""
    told = {name for names in motif.telling.values() for name in names.values()}
    return tuple(
        Element(name, "told" if name in told else "id" if name in motif.vertices else "row") for name in motif.columns
    )


def _check_fields(given: Sequence[Condition], motif: Motif, graph: Graph, text: str) -> None:
    for condition in given:
        for one in fields_of(condition):
            if not one.element:
                continue
            is_vertex = one.element in motif.vertices
            columns = graph.vertices if is_vertex else graph.edges
            if is_vertex and not graph.has_vertices:
                columns = (graph.id,)
            if columns is not None and one.column not in columns:
                error = ColumnError("vertices" if is_vertex else "edges", one.column, columns)
                raise SchemaError(pointed_lines(str(error), text, one.span, "<where>"))


@dataclass
class Compiler:
    """The rules of a motif, as far as they have been written."""

    motif: Motif
    given: Sequence[Condition]
    semantics: Semantics
    asked: tuple[Element, ...]
    ids: tuple[str, ...]
    graph: Graph
    text: str

    def __post_init__(self) -> None:
        self.rules: list[Rule] = []
        self.helpers: dict[tuple[object, ...], str] = {}
        self.taken: set[str] = set()
        self.lists: dict[tuple[Constant, ...], str] = {}
        self.vertex_columns = dict.fromkeys([self.graph.id])
        self.edge_columns = dict.fromkeys([self.graph.src, self.graph.dst])

    def compiled(self) -> Compiled:
        """All of them."""
        ways = list(product(*(paths or (None,) for paths in self.motif.paths)))
        self.find_columns(ways)
        parts = []
        outputs: list[Rule] = []
        for number, way in enumerate(ways, start=1):
            name = "motif" if len(ways) == 1 else f"motif#{number}"
            part, rules = Way(self, way, name).written()
            parts.append(part)
            outputs += rules
        written = (*self.rules, *outputs)
        read = {atom.relation for rule in written for atom in rule.read}
        vertices = tuple(self.vertex_columns) if "vertices" in read else ()
        edges = tuple(self.edge_columns) if "edges" in read else ()
        declarations = tuple(
            Declaration(name, columns, (None,) * len(columns))
            for name, columns in (("vertices", vertices), ("edges", edges))
            if columns
        )
        found = Rules(written, declarations, tuple(part.relation for part in parts))
        check(found)
        return Compiled(self.motif, found, vertices, edges, tuple(parts))

    def find_columns(self, ways: Iterable[Sequence[Path | None]]) -> None:
        """Which columns the inputs need: those that are asked for or compared, and numbers of rows."""
        fields = [one for condition in self.given for one in fields_of(condition) if one.element]
        rows_of_vertices = any(one.what == "row" and one.name in self.motif.vertices for one in self.asked)
        rows_of_edges = any(one.what == "row" and one.name in self.motif.edges for one in self.asked)
        for way in ways:
            edges = [edge for path in way if path is not None for edge in path.edges]
            if self.semantics != "homomorphism" and len(edges) > 1:
                rows_of_edges = rows_of_edges or self.semantics == "edges-distinct" or self.are_parallel(edges)
            keys = [edge.key for edge in edges]
            rows_of_edges = rows_of_edges or len(set(keys)) < len(keys)
        if rows_of_vertices:
            self.vertex_columns = dict.fromkeys([ROW, *self.vertex_columns])
        if rows_of_edges:
            self.edge_columns = dict.fromkeys([ROW, *self.edge_columns])
        for one in fields:
            if one.element in self.motif.vertices:
                self.vertex_columns[one.column] = None
            else:
                self.edge_columns[one.column] = None

    def are_parallel(self, edges: Sequence[Edge]) -> bool:
        """Whether one row may be found for two of the edges even where all vertices differ."""
        return any(parallel(one, other) for one, other in combinations(edges, 2))

    def helper(self, wanted: str, key: tuple[object, ...]) -> tuple[str, bool]:
        """The name of a helper relation, and whether it is still to be written."""
        if key in self.helpers:
            return self.helpers[key], False
        name, number = f"{wanted}", 1
        while name in self.taken:
            number += 1
            name = f"{wanted}{number}"
        self.taken.add(name)
        self.helpers[key] = name
        return name, True

    def listed(self, values: tuple[Constant, ...]) -> str:
        """A relation of the values of a list."""
        if values not in self.lists:
            self.lists[values] = f"list#{len(self.lists) + 1}"
            for value in values:
                self.rules.append(Rule(Atom(self.lists[values], (value,)), ()))
        return self.lists[values]
