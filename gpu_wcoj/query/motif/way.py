"""The rules of one way to spell a motif out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, product
from typing import TYPE_CHECKING

from gpu_wcoj.errors import UnsupportedError
from gpu_wcoj.query.motif.cases import Untrue, combined, known
from gpu_wcoj.query.motif.condition import Condition, Field, Null, Truth, Value, fields_of
from gpu_wcoj.query.motif.expressions import Writer
from gpu_wcoj.query.motif.form import ROW, Element, Part
from gpu_wcoj.query.motif.pattern import Edge, Path
from gpu_wcoj.query.motif.reading import pointed_lines
from gpu_wcoj.query.motif.spelled import Names
from gpu_wcoj.query.rules import Rule
from gpu_wcoj.query.terms import Atom, Call, Comparison, Constant, Expression, Variable

if TYPE_CHECKING:
    from gpu_wcoj.query.motif.compiling import Compiler


def parallel(one: Edge, other: Edge) -> bool:
    """Whether two edges of a motif lead between the same vertices, so that one edge may be found for both."""
    if one.key == other.key:
        return False
    ends, others = (one.source, one.target), (other.source, other.target)
    if ends == others:
        return True
    return ends == others[::-1] and (one.is_undirected or other.is_undirected)


class Way:
    """The rules of one way to spell a motif out."""

    def __init__(self, compiler: Compiler, paths: Sequence[Path | None], name: str) -> None:
        self.compiler = compiler
        self.motif, self.graph = compiler.motif, compiler.graph
        self.name = name
        self.paths = paths
        self.names = Names()
        self.told: dict[str, int | str] = {}
        self.directions: dict[str, int] = {}
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
                    self.directions[column] = number
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
        """The element that a field belongs to."""
        return one.element or f"way#{self.directions[one.column]}"

    def written(self) -> tuple[Part, list[Rule]]:
        """The rules, and what their head holds."""
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
        chosen = combined(across)
        needed: dict[str, list[str]] = {}
        for case in chosen:
            for literal in case:
                for one in fields_of(literal.condition if isinstance(literal, Untrue) else literal):
                    columns = needed.setdefault(self.owner(one), [])
                    if one.column not in columns:
                        columns.append(one.column)
        atoms = [*self.vertex_atoms(own, needed), *self.edge_atoms(own, needed)]
        distinct = self.distinct()
        elements = tuple(one for one in self.compiler.asked if self.is_told(one))
        terms: tuple[Expression, ...] = tuple(self.column(one) for one in elements)
        negated = tuple(self.denied(edge) for edge in self.negative)
        told = {one.name: self.told[one.name] for one in self.compiler.asked if one.name in self.told}
        part = Part(self.name, elements, told, self.patterns)
        head = Atom(self.name, terms or (Constant(0),))
        if not is_possible or not chosen:
            vertex = self.vertex(self.vertices[0])
            chosen, distinct = [()], (Comparison("!=", vertex, vertex),)
        rules = []
        for case, turned in product(chosen, self.turned()):
            written = self.writer().literals(case)
            comparisons = (*distinct, *turned, *written.comparisons)
            rules.append(Rule(head, (*atoms, *written.atoms), comparisons, (*negated, *written.negated)))
        return part, rules

    def is_table(self, owner: str) -> bool:
        """Whether a condition on one element can restrict a relation of its own."""
        return owner in self.edges or (self.graph.has_vertices and owner in self.vertices)

    def is_told(self, one: Element) -> bool:
        """Whether this way tells something, so that its head has a column of it."""
        if one.what == "told":
            return one.name in self.directions
        return one.name in self.vertices or one.name in self.edges

    def column(self, one: Element) -> Variable:
        """What a column of the head is."""
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
        """The variable of a vertex' id."""
        return self.names.of(("vertex", key), "any" if key.startswith("#") else key)

    def row(self, key: str) -> Variable:
        """The variable of the number of an element's row."""
        return self.names.of(("row", key), "row" if key.startswith("#") else f"row_{key}")

    def direction(self, term: int) -> Variable:
        """The variable of an undirected edge's direction."""
        return self.names.of(("direction", term), "way")

    def attribute(self, element: str, column: str) -> Variable:
        """The variable of a column of an element."""
        return self.names.of(("attribute", element, column), f"{element}_{column}")

    def field(self, one: Field) -> Variable:
        """The variable of a field."""
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
        """What named vertices are."""
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
        """What edges are."""
        src, dst = self.graph.src, self.graph.dst
        has_rows = self.with_rows()
        for key, edges in self.edges.items():
            further = [one for one in needed.get(key, ()) if one not in (src, dst)]
            for edge in edges:
                columns = [*([ROW] if key in has_rows else ()), src, dst, *further]
                terms: dict[str, Expression]
                terms = {ROW: self.row(key)}
                terms |= {
                    one: self.attribute(key, one) for one in self.compiler.edge_columns if one not in (ROW, src, dst)
                }
                if edge.is_undirected:
                    yield self.either(edge, columns, terms, own.get(key, ()), needed)
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
            inner = Way(self.compiler, self.paths, self.name)
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
            for case in combined(own):
                written = inner.writer(own_terms).literals(case)
                self.compiler.rules.append(
                    Rule(head, (read, *lists, *written.atoms), written.comparisons, written.negated)
                )
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
        needed: Mapping[str, Sequence[str]],
    ) -> Atom:
        """An atom of edges seen from both ends; one of a loop is the same, and counts where nothing has to differ."""
        src, dst = self.graph.src, self.graph.dst
        told = [name for name, term in self.directions.items() if term == edge.term]
        tells = any(one.name in told for one in self.compiler.asked) or f"way#{edge.term}" in needed
        ends = [
            one
            for one in (src, dst)
            if one in needed.get(edge.key, ())
            or Element(edge.key, "src" if one == src else "dst") in self.compiler.asked
        ]
        inner_terms: dict[str, Expression] = {**terms, src: Variable("src"), dst: Variable("dst")}
        base = self.selected("edges", "pairs#", edge.key, columns, inner_terms, own, ())
        further = [one for one in columns if one not in (src, dst)]
        name, is_new = self.compiler.helper(
            f"either#{edge.key if not edge.key.startswith('#') else ''}",
            ("either", base.relation, tuple(columns), tells, tuple(ends)),
        )
        if is_new:
            rest = tuple(inner_terms[one] for one in further)
            for way in ("out", "in"):
                begin, end = (src, dst) if way == "out" else (dst, src)
                head = Atom(
                    name,
                    (
                        inner_terms[begin], inner_terms[end], *rest,
                        *([Constant(way)] if tells else ()), *(inner_terms[one] for one in ends),
                    ),
                )  # fmt: skip
                is_once = way == "in" and self.compiler.semantics != "homomorphism"
                unequal = (Comparison("!=", inner_terms[src], inner_terms[dst]),) if is_once else ()
                self.compiler.rules.append(Rule(head, (base,), unequal))
        return Atom(
            name,
            (
                self.vertex(edge.source), self.vertex(edge.target), *(terms[one] for one in further),
                *([self.direction(edge.term)] if tells else ()), *(self.attribute(edge.key, one) for one in ends),
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

    def turned(self) -> list[tuple[Comparison, ...]]:
        """Cases, of which at most one holds, in which backward chains are no forward ones read from the other end.

        A chain that consists of loops is the same path in both directions, and is taken as a forward one, unless
        nothing has to differ: then the directions are two matches, as they are for one edge.
        """
        chains: list[list[tuple[Comparison, ...]]] = []
        for term, path in zip(self.motif.terms, self.paths, strict=True):
            is_backward = path is not None and path.told.get("_direction") == "in"
            if not is_backward or term.link is None or term.link.arrow != "-":
                continue
            assert path is not None
            hops = [(self.vertex(one.source), self.vertex(one.target)) for one in path.edges]
            loops = [Comparison("=", *hop) for hop in hops]
            chains.append([(*loops[:at], Comparison("!=", *hop)) for at, hop in enumerate(hops)])
        if self.compiler.semantics == "homomorphism":
            return [()]
        return [tuple(one for case in cases for one in case) for cases in product(*chains)]

    def writer(self, terms: Mapping[str, Expression] | None = None) -> Writer:
        """What writes conditions into this way's rule or, over one input, one with these terms for its columns."""

        def term(one: Field) -> Expression:
            return terms[one.column] if terms is not None and one.column in terms else self.field(one)

        return Writer(term, self.kind, self.compiler.listed)

    def kind(self, one: Field) -> str | None:
        """The family of a field's type, if it is known."""
        if not one.element:
            return None
        if one.element in self.edges:
            return self.graph.kinds.get(("edges", one.column))
        if self.graph.has_vertices:
            return self.graph.kinds.get(("vertices", one.column))
        return self.graph.kinds.get(("edges", self.graph.src))
