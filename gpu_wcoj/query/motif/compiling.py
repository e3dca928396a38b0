"""Motifs as rules over the vertices and the edges, in bag semantics."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, product
from typing import Literal

from gpu_wcoj.errors import ColumnError, UnsupportedError, UsageError, listed, nearest
from gpu_wcoj.query.checks import check
from gpu_wcoj.query.motif import condition as conditions
from gpu_wcoj.query.motif.cases import Case, cases, combined, conjuncts, known
from gpu_wcoj.query.motif.condition import (
    Among,
    Condition,
    Field,
    IsNull,
    Null,
    Operation,
    Test,
    Truth,
    Value,
    fields_of,
)
from gpu_wcoj.query.motif.pattern import Edge, Motif, Path
from gpu_wcoj.query.motif.reading import pointed_lines
from gpu_wcoj.query.motif.spelled import Names
from gpu_wcoj.query.terms import (
    NULL,
    Atom,
    Call,
    Comparison,
    Constant,
    Declaration,
    Expression,
    Rule,
    Rules,
    Variable,
)

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
    """

    vertices: Collection[str] | None = None
    edges: Collection[str] | None = None
    has_vertices: bool = True
    id: str = "id"
    src: str = "src"
    dst: str = "dst"


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
    return _Compiler(motif, given, semantics, tuple(dict.fromkeys(asked)), tuple(ids), graph, where or "").compiled()


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
                raise ColumnError.__base__(pointed_lines(str(error), text, one.span, "<where>")) from None  # type: ignore[misc]


@dataclass
class _Compiler:
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
        ways = list(product(*(paths or (None,) for paths in self.motif.paths)))
        self.find_columns()
        parts = []
        outputs: list[Rule] = []
        for number, way in enumerate(ways, start=1):
            name = "motif" if len(ways) == 1 else f"motif#{number}"
            part, rules = _Way(self, way, name).written()
            parts.append(part)
            outputs += rules
        rules = (*self.rules, *outputs)
        read = {atom.relation for rule in rules for atom in rule.read}
        vertices = tuple(self.vertex_columns) if "vertices" in read else ()
        edges = tuple(self.edge_columns) if "edges" in read else ()
        declarations = tuple(
            Declaration(name, columns, (None,) * len(columns))
            for name, columns in (("vertices", vertices), ("edges", edges))
            if columns
        )
        found = Rules(rules, declarations, tuple(part.relation for part in parts))
        check(found)
        return Compiled(self.motif, found, vertices, edges, tuple(parts))

    def find_columns(self) -> None:
        """Which columns the inputs need: those that are asked for or compared, and numbers of rows."""
        fields = [one for condition in self.given for one in fields_of(condition) if one.element]
        rows_of_vertices = any(one.what == "row" and one.name in self.motif.vertices for one in self.asked)
        rows_of_edges = any(one.what == "row" and one.name in self.motif.edges for one in self.asked)
        edges = [edge for paths in self.motif.paths for path in paths[:1] for edge in path.edges]
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


def parallel(one: Edge, other: Edge) -> bool:
    """Whether two edges of a motif lead between the same vertices, so that one edge may be found for both."""
    if one.key == other.key:
        return False
    ends, others = (one.source, one.target), (other.source, other.target)
    if ends == others:
        return True
    return ends == others[::-1] and (one.is_undirected or other.is_undirected)


class _Way:
    """The rules of one way to spell a motif out."""

    def __init__(self, compiler: _Compiler, paths: Sequence[Path | None], name: str) -> None:
        self.compiler = compiler
        self.motif, self.graph = compiler.motif, compiler.graph
        self.name = name
        self.paths = paths
        self.names = Names()
        self.told: dict[str, int | str] = {}
        self.directions: dict[str, str] = {}
        self.patterns: dict[str, dict[str, str]] = {}
        self.positive: list[Edge] = []
        self.negative: list[Edge] = []
        for number, (term, path) in enumerate(zip(self.motif.terms, paths, strict=True)):
            if path is None:
                continue
            (self.negative if term.is_negated else self.positive).extend(path.edges)
            for what, column in self.motif.telling.get(number, {}).items():
                if what in path.told:
                    self.told[column] = path.told[what]
                else:
                    self.directions[column] = path.edges[0].key
                if what == "_pattern" and term.link is not None and not term.link.is_chain:
                    name = term.link.name or ""
                    self.patterns[column] = {
                        "out": f"{term.left}-[{name}]->{term.right}",
                        "in": f"{term.left}<-[{name}]-{term.right}",
                    }
        ends = [end for edge in self.positive for end in (edge.source, edge.target)]
        alone = [term.left.name for term in self.motif.terms if term.link is None and term.left.name]
        denied = [end for edge in self.negative for end in (edge.source, edge.target) if not end.startswith("#")]
        self.vertices = tuple(dict.fromkeys([*ends, *alone, *denied]))
        self.in_edges = set(ends)
        self.edges: dict[str, list[Edge]] = {}
        for edge in self.positive:
            self.edges.setdefault(edge.key, []).append(edge)

    # What is known of this way.

    def known(self, one: Field) -> Value:
        """A field, or what it is in all matches of this way."""
        if one.element:
            is_there = one.element in self.vertices or one.element in self.edges
            return one if is_there else Null()
        if one.column in self.told:
            return Constant(self.told[one.column])
        if one.column.startswith("_pattern"):
            what = "compare '_direction' instead: it says as much"
            raise UnsupportedError(pointed_lines(what, self.compiler.text, one.span, "<where>"))
        return one

    def owner(self, one: Field) -> str:
        return one.element or self.directions[one.column]

    def written(self) -> tuple[Part, list[Rule]]:
        own: dict[str, list[Condition]] = {}
        across: list[Condition] = []
        is_possible = True
        for given in self.compiler.given:
            left = known(given, self.known)
            if isinstance(left, Truth):
                is_possible = is_possible and left.holds
                continue
            owners = {self.owner(one) for one in fields_of(left)}
            if len(owners) == 1 and self.is_table(next(iter(owners))):
                own.setdefault(next(iter(owners)), []).append(left)
            else:
                across.append(left)
        chosen = combined([cases(one) for one in across])
        needed: dict[str, list[str]] = {}
        for case in chosen:
            for literal in case:
                for one in fields_of(literal):
                    columns = needed.setdefault(self.owner(one), [])
                    if one.column not in columns:
                        columns.append(one.column)
        atoms = [*self.vertex_atoms(own, needed), *self.edge_atoms(own, needed)]
        distinct = self.distinct()
        elements = tuple(one for one in self.compiler.asked if self.is_told(one))
        columns = tuple(self.column(one) for one in elements)
        negated = tuple(self.denied(edge) for edge in self.negative)
        told = {one.name: self.told[one.name] for one in self.compiler.asked if one.name in self.told}
        part = Part(self.name, elements, told, self.patterns)
        if not columns:
            columns = (Constant(0),)
        head = Atom(self.name, columns)
        if not is_possible or not chosen:
            chosen = [(Test("!=", Constant(0), Constant(0)),)]
        rules = []
        for case in chosen:
            found, lists, denied_lists = self.literals(case)
            rules.append(Rule(head, (*atoms, *lists), (*distinct, *found), (*negated, *denied_lists)))
        return part, rules

    def is_table(self, owner: str) -> bool:
        """Whether a condition on one element can restrict a relation of its own."""
        return owner in self.edges or self.graph.has_vertices

    def is_told(self, one: Element) -> bool:
        if one.what == "told":
            return one.name in self.directions
        return one.name in self.vertices or one.name in self.edges

    def column(self, one: Element) -> Variable:
        if one.what == "told":
            return self.direction(self.directions[one.name])
        if one.what == "id":
            return self.vertex(one.name)
        if one.what == "row":
            return self.row(one.name)
        edge = self.edges[one.name][0]
        if edge.is_undirected:
            return self.attribute(one.name, getattr(self.graph, one.what))
        return self.vertex(edge.source if one.what == "src" else edge.target)

    # Variables.

    def vertex(self, key: str) -> Variable:
        return self.names.of(("vertex", key), "any" if key.startswith("#") else key)

    def row(self, key: str) -> Variable:
        return self.names.of(("row", key), "row" if key.startswith("#") else f"row_{key}")

    def direction(self, key: str) -> Variable:
        return self.names.of(("direction", key), "way" if key.startswith("#") else f"way_{key}")

    def attribute(self, element: str, column: str) -> Variable:
        return self.names.of(("attribute", element, column), f"{element}_{column}")

    def field(self, one: Field) -> Variable:
        if not one.element:
            return self.direction(self.directions[one.column])
        if one.element in self.vertices:
            return self.vertex(one.element) if one.column == self.graph.id else self.attribute(one.element, one.column)
        edge = self.edges[one.element][0]
        if not edge.is_undirected and one.column in (self.graph.src, self.graph.dst):
            return self.vertex(edge.source if one.column == self.graph.src else edge.target)
        return self.attribute(one.element, one.column)

    # Atoms.

    def vertex_atoms(self, own: Mapping[str, list[Condition]], needed: Mapping[str, list[str]]) -> Iterator[Atom]:
        for key in self.vertices:
            if key.startswith("#"):
                continue
            ids = (Atom(f"ids#{key}", (self.vertex(key),)),) if key in self.compiler.ids else ()
            if not self.graph.has_vertices:
                if key not in self.in_edges:
                    yield Atom(self.ends(), (self.vertex(key),))
                yield from ids
                continue
            columns = [self.graph.id, *(one for one in needed.get(key, ()) if one != self.graph.id)]
            if Element(key, "row") in self.compiler.asked:
                columns = [ROW, *columns]
            terms = {ROW: self.row(key), self.graph.id: self.vertex(key)}
            terms |= {one: self.attribute(key, one) for one in self.compiler.vertex_columns if one not in terms}
            yield self.selected("vertices", "nodes#", key, columns, terms, own.get(key, ()), ids)

    def edge_atoms(self, own: Mapping[str, list[Condition]], needed: Mapping[str, list[str]]) -> Iterator[Atom]:
        src, dst = self.graph.src, self.graph.dst
        has_rows = self.with_rows()
        for key, edges in self.edges.items():
            further = [one for one in needed.get(key, ()) if one not in (src, dst) and not one.startswith("_direction")]
            for edge in edges:
                columns = [*([ROW] if key in has_rows else ()), src, dst, *further]
                terms: dict[str, Expression]
                terms = {ROW: self.row(key)}
                terms |= {
                    one: self.attribute(key, one) for one in self.compiler.edge_columns if one not in (ROW, src, dst)
                }
                if edge.is_undirected:
                    yield self.either(edge, columns, terms, own.get(key, ()), needed.get(key, ()))
                    continue
                terms |= {src: self.vertex(edge.source), dst: self.vertex(edge.target)}
                yield self.selected("edges", "pairs#", key, columns, terms, own.get(key, ()), ())

    def with_rows(self) -> set[str]:
        """The edges whose rows have to be known."""
        asked = {one.name for one in self.compiler.asked if one.what == "row"}
        shared = {key for key, edges in self.edges.items() if len(edges) > 1}
        if self.compiler.semantics == "edges-distinct" and len(self.edges) > 1:
            return set(self.edges)
        distinct: set[str] = set()
        if self.compiler.semantics == "nodes-distinct":
            for one, other in combinations(self.positive, 2):
                if parallel(one, other):
                    distinct |= {one.key, other.key}
        return (asked | shared | distinct) & set(self.edges)

    def selected(
        self,
        table: str,
        plain: str,
        key: str,
        columns: Sequence[str],
        terms: Mapping[str, Expression],
        own: Sequence[Condition],
        ids: Sequence[Atom],
    ) -> Atom:
        """An atom of the columns of an input, or of those of its rows that an element may be."""
        everything = list(self.compiler.vertex_columns if table == "vertices" else self.compiler.edge_columns)
        if columns == everything and not own and not ids:
            return Atom(table, tuple(terms[one] for one in columns))
        restricts = bool(own or ids)
        known_by = (table, tuple(columns), tuple(own), tuple(ids)) if restricts else (table, tuple(columns))
        wanted = f"picked#{key if not key.startswith('#') else ''}" if restricts else plain
        name, is_new = self.compiler.helper(wanted, known_by)
        if is_new:
            inner = _Way(self.compiler, self.paths, self.name)
            own_terms: dict[str, Expression] = {
                one: (inner.row(key) if one == ROW else Variable(inner.plain(one, key, table))) for one in everything
            }
            used = {*columns, *(one.column for part in own for one in fields_of(part))}
            fresh = iter(range(1, len(everything) + 1))
            read = Atom(
                table,
                tuple(
                    own_terms[one] if one in used or (ids and one == self.graph.id) else Variable(f"_#{next(fresh)}")
                    for one in everything
                ),
            )
            head = Atom(name, tuple(own_terms[one] for one in columns))
            lists = tuple(Atom(one.relation, (own_terms[self.graph.id],)) for one in ids)
            for case in combined([cases(one) for one in own]):
                found, atoms, denied = inner.literals(case, own_terms)
                self.compiler.rules.append(Rule(head, (read, *lists, *atoms), found, denied))
        return Atom(name, tuple(terms[one] for one in columns))

    def plain(self, column: str, key: str, table: str) -> str:
        """What a column is called in a rule that only selects."""
        ends = (self.graph.id,) if table == "vertices" else (self.graph.src, self.graph.dst)
        wanted = column if column in ends else f"{key}_{column}" if not key.startswith("#") else column
        return self.names.of(("column", column), wanted).name

    def either(
        self,
        edge: Edge,
        columns: Sequence[str],
        terms: Mapping[str, Expression],
        own: Sequence[Condition],
        needed: Sequence[str],
    ) -> Atom:
        """An atom of edges seen from both ends."""
        src, dst = self.graph.src, self.graph.dst
        tells = any(one.what == "told" and self.directions.get(one.name) == edge.key for one in self.compiler.asked)
        tells = tells or any(one.startswith("_direction") for one in needed)
        ends = [
            one
            for one in (src, dst)
            if one in needed or Element(edge.key, "src" if one == src else "dst") in self.compiler.asked
        ]
        own_ways = [one for one in own if any(not field.element for field in fields_of(one))]
        own_rows = [one for one in own if one not in own_ways]
        inner_terms: dict[str, Expression] = {**terms, src: Variable("src"), dst: Variable("dst")}
        base = self.selected("edges", "pairs#", edge.key, columns, inner_terms, own_rows, ())
        further = [one for one in columns if one not in (src, dst)]
        name, is_new = self.compiler.helper(
            f"either#{edge.key if not edge.key.startswith('#') else ''}",
            ("either", base.relation, tuple(columns), tells, tuple(ends), tuple(own_ways)),
        )
        if is_new:
            rest = tuple(inner_terms[one] for one in further)
            for way in ("out", "in"):
                held = [known(one, lambda field: field if field.element else Constant(way)) for one in own_ways]  # noqa: B023
                begin, end = (src, dst) if way == "out" else (dst, src)
                head = Atom(
                    name,
                    (
                        inner_terms[begin], inner_terms[end], *rest,
                        *([Constant(way)] if tells else ()), *(inner_terms[one] for one in ends),
                    ),
                )  # fmt: skip
                for case in combined([cases(one) for one in held]):
                    found, atoms, denied = self.literals(case, inner_terms)
                    self.compiler.rules.append(Rule(head, (base, *atoms), found, denied))
        return Atom(
            name,
            (
                self.vertex(edge.source), self.vertex(edge.target), *(terms[one] for one in further),
                *([self.direction(edge.key)] if tells else ()), *(self.attribute(edge.key, one) for one in ends),
            ),
        )  # fmt: skip

    def ends(self) -> str:
        """A relation of the ends of all edges, each once."""
        name, is_new = self.compiler.helper("nodes#", ("ends",))
        if is_new:
            every, once = self.compiler.helper("ends#", ("every end",))[0], self.compiler.helper("once#", ("once",))[0]
            columns = list(self.compiler.edge_columns)
            for end in (self.graph.src, self.graph.dst):
                terms = tuple(
                    Variable("id") if one == end else Variable(f"_#{at}") for at, one in enumerate(columns, 1)
                )
                self.compiler.rules.append(Rule(Atom(every, (Variable("id"),)), (Atom("edges", terms),)))
            count = Call("count", ())
            self.compiler.rules.append(Rule(Atom(once, (Variable("id"), count)), (Atom(every, (Variable("id"),)),)))
            self.compiler.rules.append(
                Rule(Atom(name, (Variable("id"),)), (Atom(once, (Variable("id"), Variable("_#1"))),))
            )
        return name

    def denied(self, edge: Edge) -> Atom:
        """An edge that there may not be."""
        src, dst = self.graph.src, self.graph.dst
        terms = {src: self.vertex(edge.source), dst: self.vertex(edge.target)}
        atom = self.selected("edges", "pairs#", edge.key, [src, dst], terms, (), ())
        return replace(
            atom,
            terms=tuple(
                Variable(f"_#{at}") if end.startswith("#") else term
                for at, (end, term) in enumerate(zip((edge.source, edge.target), atom.terms, strict=True), start=1)
            ),
        )

    # Conditions.

    def distinct(self) -> tuple[Comparison, ...]:
        """What the semantics asks."""
        if self.compiler.semantics == "homomorphism":
            return ()
        keys = list(self.edges)
        if self.compiler.semantics == "edges-distinct":
            return tuple(Comparison("!=", self.row(one), self.row(other)) for one, other in combinations(keys, 2))
        found = [
            Comparison("!=", self.vertex(one), self.vertex(other)) for one, other in combinations(self.vertices, 2)
        ]
        pairs = dict.fromkeys(
            (one.key, other.key) for one, other in combinations(self.positive, 2) if parallel(one, other)
        )
        return (*found, *(Comparison("!=", self.row(one), self.row(other)) for one, other in pairs))

    def literals(
        self, case: Case, terms: Mapping[str, Expression] | None = None
    ) -> tuple[tuple[Comparison, ...], tuple[Atom, ...], tuple[Atom, ...]]:
        """A conjunction as comparisons, and as atoms of lists, to hold and not to.

        Parameters
        ----------
        terms
            In a rule over one input, its columns.
        """

        def expression(value: Value) -> Expression:
            if isinstance(value, Field):
                return terms[value.column] if terms is not None and value.column in terms else self.field(value)
            if isinstance(value, Operation):
                operands = tuple(map(expression, value.operands))
                if value.op == "/":
                    operands = tuple(Call("double", (one,)) for one in operands)
                return Call(value.op, operands)
            assert isinstance(value, Constant)
            return value

        comparisons, held, denied = [], [], []
        for literal in case:
            if isinstance(literal, IsNull):
                op = "!=" if literal.is_negated else "="
                comparisons.append(Comparison(op, expression(literal.value), NULL))
            elif isinstance(literal, Test):
                comparisons.append(Comparison(literal.op, expression(literal.left), expression(literal.right)))
            else:
                comparisons_of, atom = self.among(literal, expression(literal.value))
                comparisons += comparisons_of
                (denied if literal.is_negated else held).extend(atom)
        return tuple(comparisons), tuple(held), tuple(denied)

    def among(self, literal: Among, value: Expression) -> tuple[list[Comparison], list[Atom]]:
        if len(literal.among) == 1:
            return [Comparison("!=" if literal.is_negated else "=", value, literal.among[0])], []
        if literal.is_negated:
            return [Comparison("!=", value, one) for one in literal.among], []
        return [], [Atom(self.compiler.listed(literal.among), (value,))]
