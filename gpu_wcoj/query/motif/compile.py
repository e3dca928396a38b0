"""Rules of a path expansion of a motif."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from typing import Literal

from gpu_wcoj.errors import ColumnError, SchemaError, UnsupportedError, UsageError, listed, nearest
from gpu_wcoj.query.check import check
from gpu_wcoj.query.ir import (
    AGGREGATES,
    FUNCTIONS,
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
from gpu_wcoj.query.motif import condition as conditions
from gpu_wcoj.query.motif.condition import (
    Condition,
    ConditionWriter,
    Field,
    Null,
    Truth,
    Untrue,
    Value,
    conjoin,
    conjuncts,
    fields_of,
    simplify,
)
from gpu_wcoj.query.motif.parse import Edge, Motif, Path, pointed_lines

# Inputs and outputs of the compilation of motifs.


Semantics = Literal["homomorphism", "edges-distinct", "nodes-distinct"]
SEMANTICS: tuple[Semantics, ...] = ("homomorphism", "edges-distinct", "nodes-distinct")

ROW = "_row"
"""The input column that holds row numbers."""

MOTIF = "motif"
"""The output that holds the matches."""


@dataclass(frozen=True)
class Element:
    """A column of a head: an element, and the part of it that the column holds.

    Attributes
    ----------
    name
        The element's name, or the name of a term column.
    what
        ``id`` of a vertex, ``row`` of a vertex or an edge, ``src`` or ``dst`` of an edge, ``told`` for a term column,
        ``column`` for any column of a table.
    column
        The name of that column; otherwise empty.
    """

    name: str
    what: Literal["id", "row", "src", "dst", "told", "column"]
    column: str = ""

    @property
    def label(self) -> str:
        """The name of the column in an answer."""
        return self.name if self.what == "told" else f"{self.name}.{self.column or self.what}"


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
    constants: Mapping[str, int | str] = dataclasses.field(default_factory=dict)
    patterns: Mapping[str, Mapping[str, str]] = dataclasses.field(default_factory=dict)


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

    def united(self, elements: Sequence[Element]) -> Rules:
        """Return the rules with one output, ``motif``, for the matches of all parts.

        It has a column for each of these elements, null in matches that lack it.

        Examples
        --------
        >>> from gpu_wcoj.query.motif.parse import parse
        >>> elements = (Element("a", "id"), Element("_hop", "told"))
        >>> print(compile_motif(parse("(a)-[*1..2]->(b)"), elements=elements).united(elements))
        .decl vertices(id)
        .decl edges(src, dst)
        .decl motif("a.id", _hop)
        motif(a, 2) :- vertices(a), vertices(x__ab1), vertices(b), edges(a, x__ab1), edges(x__ab1, b).
        motif(a, 1) :- vertices(a), vertices(b), edges(a, b).
        .output motif
        """
        columns_of = {part.relation: part for part in self.parts}
        rules = []
        for rule in self.rules.rules:
            part = columns_of.get(rule.head.relation)
            if part is not None:
                variables = dict(zip(part.elements, rule.head.terms, strict=False))
                terms = tuple(
                    variables[element] if element in variables else Constant(part.constants.get(element.name))
                    for element in elements
                )
                rule = replace(rule, head=Atom(MOTIF, terms or (Constant(0),)))
            rules.append(rule)
        names = tuple(element.label for element in elements) or ("matches",)
        declared = Declaration(MOTIF, names, (None,) * len(names))
        return replace(
            self.rules, rules=tuple(rules), declarations=(*self.rules.declarations, declared), outputs=(MOTIF,)
        )


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
    kinds: Mapping[tuple[str, str], str] = dataclasses.field(default_factory=dict)


# Variable names that are valid Datalog identifiers.


_RESERVED = {*AGGREGATES, *FUNCTIONS, "not", "true", "false", "null"}


class RuleVariables:
    """The variables of a rule, by the object that each stands for.

    Examples
    --------
    >>> names = RuleVariables()
    >>> new = names.variable
    >>> print(new("vertex 1", "a"), new("vertex 2", "a"), new("vertex 1", "a"), new("vertex 3", "1 x"))
    a a_2 a x_1_x
    """

    def __init__(self) -> None:
        self._variables: dict[object, Variable] = {}
        self._used: set[str] = set()

    def variable(self, what: object, name_hint: str) -> Variable:
        """Return the variable for `what`, named `name_hint` if that is valid and unused."""
        if what not in self._variables:
            name = re.sub(r"\W", "_", name_hint)
            if name in _RESERVED or not name or not name[0].isalpha():
                name = f"x_{name}"
            candidate, suffix = name, 1
            while candidate in self._used:
                suffix += 1
                candidate = f"{name}_{suffix}"
            self._used.add(candidate)
            self._variables[what] = Variable(candidate)
        return self._variables[what]


def share_ends(left: Edge, right: Edge) -> bool:
    """Return whether two edges have the same ends, so that both can match the same row."""
    if left.key == right.key:
        return False
    left_ends, right_ends = (left.source, left.target), (right.source, right.target)
    if left_ends == right_ends:
        return True
    return left_ends == right_ends[::-1] and (left.is_undirected or right.is_undirected)


class PathExpansion:
    """Compiler of a path expansion of a motif."""

    def __init__(self, compiler: MotifCompiler, paths: Sequence[Path | None], name: str) -> None:
        self.compiler = compiler
        self.motif, self.graph = compiler.motif, compiler.graph
        self.name = name
        self.paths = paths
        self.names = RuleVariables()
        self.constants: dict[str, int | str] = {}
        self.directions: dict[str, int] = {}
        self.patterns: dict[str, dict[str, str]] = {}
        self.positive: list[Edge] = []
        self.negative: list[Edge] = []
        for term_index, (term, path) in enumerate(zip(self.motif.terms, paths, strict=True)):
            if path is None:
                continue
            (self.negative if term.is_negated else self.positive).extend(path.edges)
            for what, column in self.motif.term_columns.get(term_index, {}).items():
                if what in path.constants:
                    self.constants[column] = path.constants[what]
                else:
                    self.directions[column] = term_index
                if what == "_pattern" and term.link is not None and not term.link.is_chain:
                    name = term.link.name or ""
                    self.patterns[column] = {
                        "out": f"{term.left}-[{name}]->{term.right}",
                        "in": f"{term.left}<-[{name}]-{term.right}",
                    }
        ends = [end for edge in self.positive for end in (edge.source, edge.target)]
        isolated = [term.left.name for term in self.motif.terms if term.link is None and term.left.name]
        negated_ends = [end for edge in self.negative for end in (edge.source, edge.target) if not end.startswith("#")]
        self.vertices = tuple(dict.fromkeys([*ends, *isolated, *negated_ends]))
        self.in_edges = set(ends)
        self.edges: dict[str, list[Edge]] = {}
        for edge in self.positive:
            self.edges.setdefault(edge.key, []).append(edge)

    # Fields and their elements.

    def field_value(self, field: Field) -> Value:
        """Return a field, or its value if it is the same in all matches of this expansion."""
        if field.element:
            is_there = field.element in self.vertices or field.element in self.edges
            return field if is_there else Null()
        if field.column in self.constants:
            return Constant(self.constants[field.column])
        if field.column.startswith("_pattern"):
            what = "'_pattern' cannot be compared; compare '_direction' instead"
            raise UnsupportedError(pointed_lines(what, self.compiler.text, field.span, "<where>"))
        return field

    def owner(self, field: Field) -> str:
        """Return the element that a field belongs to."""
        return field.element or f"way#{self.directions[field.column]}"

    def to_rules(self) -> tuple[Part, list[Rule]]:
        """Return the part of the answer and its rules."""
        single: dict[str, list[Condition]] = {}
        across: list[Condition] = []
        is_possible = True
        for condition in self.compiler.conjuncts:
            simplified = simplify(condition, self.field_value)
            if isinstance(simplified, Truth):
                is_possible = is_possible and simplified.holds
                continue
            owners = {self.owner(field) for field in fields_of(simplified)}
            if len(owners) == 1 and self.is_table(next(iter(owners))):
                single.setdefault(next(iter(owners)), []).append(simplified)
            else:
                across.append(simplified)
        cases = conjoin(across)
        needed: dict[str, list[str]] = {}
        for case in cases:
            for literal in case:
                for field in fields_of(literal.condition if isinstance(literal, Untrue) else literal):
                    columns = needed.setdefault(self.owner(field), [])
                    if field.column not in columns:
                        columns.append(field.column)
        for element in self.compiler.elements:
            if element.what == "column" and self.has_column(element):
                columns = needed.setdefault(element.name, [])
                if element.column not in columns:
                    columns.append(element.column)
        atoms = [*self.vertex_atoms(single, needed), *self.edge_atoms(single, needed)]
        distinct = self.distinct_comparisons()
        elements = tuple(element for element in self.compiler.elements if self.has_column(element))
        terms: tuple[Expression, ...] = tuple(self.column(element) for element in elements)
        negated = tuple(self.negated_atom(edge) for edge in self.negative)
        constants = {
            element.name: self.constants[element.name]
            for element in self.compiler.elements
            if element.name in self.constants
        }
        part = Part(self.name, elements, constants, self.patterns)
        head = Atom(self.name, terms or (Constant(0),))
        if not is_possible or not cases:
            vertex = self.vertex(self.vertices[0])
            cases, distinct = [()], (Comparison("!=", vertex, vertex),)
        rules = []
        for case, direction_case in product(cases, self.direction_cases()):
            literals = self.condition_writer().literals(case)
            comparisons = (*distinct, *direction_case, *literals.comparisons)
            rules.append(Rule(head, (*atoms, *literals.atoms), comparisons, (*negated, *literals.negated)))
        return part, rules

    def is_table(self, owner: str) -> bool:
        """Return whether conditions on an element can be pushed down to its table."""
        return owner in self.edges or (self.graph.has_vertices and owner in self.vertices)

    def has_column(self, element: Element) -> bool:
        """Return whether the head of this expansion has a column for an element."""
        if element.what == "told":
            return element.name in self.directions
        return element.name in self.vertices or element.name in self.edges

    def column(self, element: Element) -> Variable:
        """Return the variable of a column of the head."""
        if element.what == "told":
            return self.direction(self.directions[element.name])
        if element.what == "id":
            return self.vertex(element.name)
        if element.what == "row":
            return self.row(element.name)
        if element.what == "column":
            return self.field(Field(element.name, element.column))
        edge = self.edges[element.name][0]
        if edge.is_undirected:
            return self.attribute(element.name, getattr(self.graph, element.what))
        return self.vertex(edge.source if element.what == "src" else edge.target)

    # Variables.

    def vertex(self, key: str) -> Variable:
        """Return the variable of a vertex id."""
        return self.names.variable(("vertex", key), "any" if key.startswith("#") else key)

    def row(self, key: str) -> Variable:
        """Return the variable of an element's row number."""
        return self.names.variable(("row", key), "row" if key.startswith("#") else f"row_{key}")

    def direction(self, term: int) -> Variable:
        """Return the variable of an undirected edge's direction."""
        return self.names.variable(("direction", term), "way")

    def attribute(self, element: str, column: str) -> Variable:
        """Return the variable of a column of an element."""
        return self.names.variable(("attribute", element, column), f"{element}_{column}")

    def field(self, field: Field) -> Variable:
        """Return the variable of a field."""
        if not field.element:
            return self.direction(self.directions[field.column])
        if field.element in self.vertices:
            return (
                self.vertex(field.element)
                if field.column == self.graph.id
                else self.attribute(field.element, field.column)
            )
        edge = self.edges[field.element][0]
        if not edge.is_undirected and field.column in (self.graph.src, self.graph.dst):
            return self.vertex(edge.source if field.column == self.graph.src else edge.target)
        return self.attribute(field.element, field.column)

    # Atoms.

    def vertex_atoms(
        self, conditions: Mapping[str, list[Condition]], needed: Mapping[str, list[str]]
    ) -> Iterator[Atom]:
        """Yield the atoms of named vertices."""
        for key in self.vertices:
            if key.startswith("#"):
                continue
            ids = (Atom(f"ids#{key}", (self.vertex(key),)),) if key in self.compiler.ids else ()
            if not self.graph.has_vertices:
                if key not in self.in_edges:
                    yield Atom(self.ends_relation(), (self.vertex(key),))
                yield from ids
                continue
            columns = [self.graph.id, *(column for column in needed.get(key, ()) if column != self.graph.id)]
            if Element(key, "row") in self.compiler.elements:
                columns = [ROW, *columns]
            terms = {ROW: self.row(key), self.graph.id: self.vertex(key)}
            terms |= {
                column: self.attribute(key, column) for column in self.compiler.vertex_columns if column not in terms
            }
            yield self.selection_atom("vertices", "nodes#", key, columns, terms, conditions.get(key, ()), ids)

    def edge_atoms(self, conditions: Mapping[str, list[Condition]], needed: Mapping[str, list[str]]) -> Iterator[Atom]:
        """Yield the atoms of edges."""
        src, dst = self.graph.src, self.graph.dst
        has_rows = self.edges_with_rows()
        for key, edges in self.edges.items():
            further = [column for column in needed.get(key, ()) if column not in (src, dst)]
            for edge in edges:
                # Other atoms of the same edge have the same row: one atom binds its columns, which may be null.
                bound = further if edge is edges[0] else []
                columns = [*([ROW] if key in has_rows else ()), src, dst, *bound]
                terms: dict[str, Expression]
                terms = {ROW: self.row(key)}
                terms |= {
                    column: self.attribute(key, column)
                    for column in self.compiler.edge_columns
                    if column not in (ROW, src, dst)
                }
                if edge.is_undirected:
                    yield self.undirected_atom(edge, columns, terms, conditions.get(key, ()), needed)
                    continue
                terms |= {src: self.vertex(edge.source), dst: self.vertex(edge.target)}
                yield self.selection_atom("edges", "pairs#", key, columns, terms, conditions.get(key, ()), ())

    def edges_with_rows(self) -> set[str]:
        """Return the keys of the edges whose row numbers are needed."""
        elements_with_rows = {element.name for element in self.compiler.elements if element.what == "row"}
        shared = {key for key, edges in self.edges.items() if len(edges) > 1}
        if self.compiler.semantics == "edges-distinct" and len(self.edges) > 1:
            return set(self.edges)
        distinct: set[str] = set()
        if self.compiler.semantics == "nodes-distinct":
            for left, right in combinations(self.positive, 2):
                if share_ends(left, right):
                    distinct |= {left.key, right.key}
        return (elements_with_rows | shared | distinct) & set(self.edges)

    def selection_atom(
        self,
        table: str,
        prefix: str,
        key: str,
        columns: Sequence[str],
        terms: Mapping[str, Expression],
        conditions: Sequence[Condition],
        ids: Sequence[Atom],
    ) -> Atom:
        """Return an atom over an input, with conditions and ids of an element pushed down."""
        everything = list(self.compiler.vertex_columns if table == "vertices" else self.compiler.edge_columns)
        if columns == everything and not conditions and not ids:
            return Atom(table, tuple(terms[column] for column in columns))
        restricts = bool(conditions or ids)
        helper_key = (table, tuple(columns), tuple(conditions), tuple(ids)) if restricts else (table, tuple(columns))
        name_hint = f"picked#{key if not key.startswith('#') else ''}" if restricts else prefix
        name, is_new = self.compiler.helper(name_hint, helper_key)
        if is_new:
            expansion = PathExpansion(self.compiler, self.paths, self.name)
            column_terms: dict[str, Expression] = {
                column: (expansion.row(key) if column == ROW else Variable(expansion.plain_name(column, key, table)))
                for column in everything
            }
            used = {*columns, *(column.column for condition in conditions for column in fields_of(condition))}
            blanks = iter(range(1, len(everything) + 1))
            read = Atom(
                table,
                tuple(
                    column_terms[column]
                    if column in used or (ids and column == self.graph.id)
                    else Variable(f"_#{next(blanks)}")
                    for column in everything
                ),
            )
            head = Atom(name, tuple(column_terms[column] for column in columns))
            lists = tuple(Atom(id_atom.relation, (column_terms[self.graph.id],)) for id_atom in ids)
            for case in conjoin(conditions):
                literals = expansion.condition_writer(column_terms).literals(case)
                self.compiler.rules.append(
                    Rule(head, (read, *lists, *literals.atoms), literals.comparisons, literals.negated)
                )
        return Atom(name, tuple(terms[column] for column in columns))

    def plain_name(self, column: str, key: str, table: str) -> str:
        """Return the variable name of a column in a selection rule."""
        ends = (self.graph.id,) if table == "vertices" else (self.graph.src, self.graph.dst)
        name_hint = column if column in ends else f"{key}_{column}" if not key.startswith("#") else column
        return self.names.variable(("column", column), name_hint).name

    def undirected_atom(
        self,
        edge: Edge,
        columns: Sequence[str],
        terms: Mapping[str, Expression],
        conditions: Sequence[Condition],
        needed: Mapping[str, Sequence[str]],
    ) -> Atom:
        """Return an atom over edges in both directions.

        A loop is the same edge in both directions; only homomorphism semantics counts it twice.
        """
        src, dst = self.graph.src, self.graph.dst
        direction_columns = [name for name, term in self.directions.items() if term == edge.term]
        tells = (
            any(element.name in direction_columns for element in self.compiler.elements) or f"way#{edge.term}" in needed
        )
        ends = [
            column
            for column in (src, dst)
            if column in needed.get(edge.key, ())
            or Element(edge.key, "src" if column == src else "dst") in self.compiler.elements
        ]
        inner_terms: dict[str, Expression] = {**terms, src: Variable("src"), dst: Variable("dst")}
        base = self.selection_atom("edges", "pairs#", edge.key, columns, inner_terms, conditions, ())
        further = [column for column in columns if column not in (src, dst)]
        name, is_new = self.compiler.helper(
            f"either#{edge.key if not edge.key.startswith('#') else ''}",
            ("either", base.relation, tuple(columns), tells, tuple(ends)),
        )
        if is_new:
            further_terms = tuple(inner_terms[column] for column in further)
            for direction in ("out", "in"):
                begin, end = (src, dst) if direction == "out" else (dst, src)
                head = Atom(
                    name,
                    (
                        inner_terms[begin], inner_terms[end], *further_terms,
                        *([Constant(direction)] if tells else ()), *(inner_terms[column] for column in ends),
                    ),
                )  # fmt: skip
                is_once = direction == "in" and self.compiler.semantics != "homomorphism"
                unequal = (Comparison("!=", inner_terms[src], inner_terms[dst]),) if is_once else ()
                self.compiler.rules.append(Rule(head, (base,), unequal))
        return Atom(
            name,
            (
                self.vertex(edge.source), self.vertex(edge.target), *(terms[column] for column in further),
                *([self.direction(edge.term)] if tells else ()), *(self.attribute(edge.key, column) for column in ends),
            ),
        )  # fmt: skip

    def ends_relation(self) -> str:
        """Return the relation of the distinct ends of all edges."""
        name, is_new = self.compiler.helper("nodes#", ("ends",))
        if is_new:
            all_ends, once = (
                self.compiler.helper("ends#", ("every end",))[0],
                self.compiler.helper("once#", ("once",))[0],
            )
            columns = list(self.compiler.edge_columns)
            for end in (self.graph.src, self.graph.dst):
                terms = tuple(
                    Variable("id") if column == end else Variable(f"_#{index}")
                    for index, column in enumerate(columns, 1)
                )
                self.compiler.rules.append(Rule(Atom(all_ends, (Variable("id"),)), (Atom("edges", terms),)))
            count = Call("count", ())
            self.compiler.rules.append(Rule(Atom(once, (Variable("id"), count)), (Atom(all_ends, (Variable("id"),)),)))
            self.compiler.rules.append(
                Rule(Atom(name, (Variable("id"),)), (Atom(once, (Variable("id"), Variable("_#1"))),))
            )
        return name

    def negated_atom(self, edge: Edge) -> Atom:
        """Return the atom of a negated edge."""
        src, dst = self.graph.src, self.graph.dst
        terms = {src: self.vertex(edge.source), dst: self.vertex(edge.target)}
        atom = self.selection_atom("edges", "pairs#", edge.key, [src, dst], terms, (), ())
        return replace(
            atom,
            terms=tuple(
                Variable(f"_#{index}") if end.startswith("#") else term
                for index, (end, term) in enumerate(zip((edge.source, edge.target), atom.terms, strict=True), start=1)
            ),
        )

    # Conditions.

    def distinct_comparisons(self) -> tuple[Comparison, ...]:
        """Return the inequalities that the semantics requires."""
        if self.compiler.semantics == "homomorphism":
            return ()
        keys = list(self.edges)
        if self.compiler.semantics == "edges-distinct":
            return tuple(Comparison("!=", self.row(left), self.row(right)) for left, right in combinations(keys, 2))
        comparisons = [
            Comparison("!=", self.vertex(left), self.vertex(right)) for left, right in combinations(self.vertices, 2)
        ]
        pairs = dict.fromkeys(
            (left.key, right.key) for left, right in combinations(self.positive, 2) if share_ends(left, right)
        )
        return (*comparisons, *(Comparison("!=", self.row(left), self.row(right)) for left, right in pairs))

    def direction_cases(self) -> list[tuple[Comparison, ...]]:
        """Return disjoint cases that exclude backward chains equal to a forward chain.

        A chain of loops is the same path in both directions and counts as a forward chain. Under homomorphism semantics
        the directions are two matches, as for a single edge.
        """
        chains: list[list[tuple[Comparison, ...]]] = []
        for term, path in zip(self.motif.terms, self.paths, strict=True):
            is_backward = path is not None and path.constants.get("_direction") == "in"
            if not is_backward or term.link is None or term.link.arrow != "-":
                continue
            assert path is not None
            hops = [(self.vertex(edge.source), self.vertex(edge.target)) for edge in path.edges]
            loops = [Comparison("=", *hop) for hop in hops]
            chains.append([(*loops[:index], Comparison("!=", *hop)) for index, hop in enumerate(hops)])
        if self.compiler.semantics == "homomorphism":
            return [()]
        return [tuple(comparison for case in cases for comparison in case) for cases in product(*chains)]

    def condition_writer(self, terms: Mapping[str, Expression] | None = None) -> ConditionWriter:
        """Return a writer of conditions, over this expansion or over the columns in `terms`."""

        def term(field: Field) -> Expression:
            return terms[field.column] if terms is not None and field.column in terms else self.field(field)

        return ConditionWriter(term, self.kind, self.compiler.list_relation, self.compiler.text)

    def kind(self, field: Field) -> str | None:
        """Return the family of a field's type, or None if unknown."""
        if not field.element:
            return None
        if field.element in self.edges:
            return self.graph.kinds.get(("edges", field.column))
        if self.graph.has_vertices:
            return self.graph.kinds.get(("vertices", field.column))
        return self.graph.kinds.get(("edges", self.graph.src))


# Compilation of motifs to rules over vertices and edges, in bag semantics.


def compile_motif(
    motif: Motif,
    *,
    where: str | None = None,
    semantics: Semantics = "homomorphism",
    elements: Sequence[Element] | None = None,
    ids: Collection[str] = (),
    graph: Graph | None = None,
) -> CompiledMotif:
    """Compile a motif to rules.

    Each match is a row, whose weight is the number of choices of edges; unnamed edges and vertices count, too. A
    named vertex is a row of the vertices, if there is such a table. Conditions on a single element are pushed down to
    its relation; conditions on several elements are part of the join.

    Parameters
    ----------
    where
        See `gpu_wcoj.query.motif.condition.parse`.
    semantics
        Elements that must differ: none; edges of different names; or vertices, and edges between the same vertices.
    elements
        Columns of the matches; by default the ids of all named vertices and the rows of all named edges.
    ids
        Vertices restricted to lists of ids.
    graph
        The tables' columns.

    Examples
    --------
    >>> from gpu_wcoj.query.motif import parse
    >>> print(compile_motif(parse("(a)-[t]->(b); !(b)-[]->(a)"), where="t.amount > 900").rules)
    .decl vertices(id)
    .decl edges(_row, src, dst, amount)
    picked#t(row_t, src, dst) :- edges(row_t, src, dst, t_amount), t_amount > 900.
    pairs#(src, dst) :- edges(_, src, dst, _).
    motif(a, row_t, b) :- vertices(a), vertices(b), picked#t(row_t, a, b), !pairs#(b, a).
    .output motif
    """
    if semantics not in SEMANTICS:
        raise UsageError.unknown_name("semantics", semantics, SEMANTICS)
    graph = graph or Graph()
    if elements is None:
        elements = default_elements(motif)
    for name in ids:
        if name not in motif.vertices:
            raise UsageError(
                f"ids= names an unknown vertex '{name}': expected one of {listed(motif.vertices)}."
                f"{nearest(name, motif.vertices)}"
            )
    parts = () if where is None else conjuncts(conditions.parse(where, motif))
    _check_fields(parts, motif, graph, where or "")
    return MotifCompiler(
        motif, parts, semantics, tuple(dict.fromkeys(elements)), tuple(ids), graph, where or ""
    ).compile()


def default_elements(motif: Motif) -> tuple[Element, ...]:
    """Return all named elements of a motif, and the columns of its terms."""
    term_columns = {name for names in motif.term_columns.values() for name in names.values()}
    return tuple(
        Element(name, "told" if name in term_columns else "id" if name in motif.vertices else "row")
        for name in motif.columns
    )


def _check_fields(condition_list: Sequence[Condition], motif: Motif, graph: Graph, text: str) -> None:
    for condition in condition_list:
        for field in fields_of(condition):
            if not field.element:
                continue
            is_vertex = field.element in motif.vertices
            columns = graph.vertices if is_vertex else graph.edges
            if is_vertex and not graph.has_vertices:
                columns = (graph.id,)
            if columns is not None and field.column not in columns:
                error = ColumnError("vertices" if is_vertex else "edges", field.column, columns)
                raise SchemaError(pointed_lines(str(error), text, field.span, "<where>"))


@dataclass
class MotifCompiler:
    """Compiler of one motif."""

    motif: Motif
    conjuncts: Sequence[Condition]
    semantics: Semantics
    elements: tuple[Element, ...]
    ids: tuple[str, ...]
    graph: Graph
    text: str

    def __post_init__(self) -> None:
        self.rules: list[Rule] = []
        self.helpers: dict[tuple[object, ...], str] = {}
        self.used_names: set[str] = set()
        self.lists: dict[tuple[Constant, ...], str] = {}
        self.vertex_columns = dict.fromkeys([self.graph.id])
        self.edge_columns = dict.fromkeys([self.graph.src, self.graph.dst])

    def compile(self) -> CompiledMotif:
        """Compile the motif."""
        expansions = list(product(*(paths or (None,) for paths in self.motif.paths)))
        self.find_columns(expansions)
        parts = []
        outputs: list[Rule] = []
        for index, expansion in enumerate(expansions, start=1):
            name = MOTIF if len(expansions) == 1 else f"{MOTIF}#{index}"
            part, rules = PathExpansion(self, expansion, name).to_rules()
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
        program = Rules(written, declarations, tuple(part.relation for part in parts))
        check(program)
        return CompiledMotif(self.motif, program, vertices, edges, tuple(parts))

    def find_columns(self, expansions: Iterable[Sequence[Path | None]]) -> None:
        """Determine the input columns: requested or compared columns, and row numbers."""
        fields = [field for condition in self.conjuncts for field in fields_of(condition) if field.element]
        fields += [Field(element.name, element.column) for element in self.elements if element.what == "column"]
        rows_of_vertices = any(field.what == "row" and field.name in self.motif.vertices for field in self.elements)
        rows_of_edges = any(field.what == "row" and field.name in self.motif.edges for field in self.elements)
        for expansion in expansions:
            edges = [edge for path in expansion if path is not None for edge in path.edges]
            if self.semantics != "homomorphism" and len(edges) > 1:
                rows_of_edges = rows_of_edges or self.semantics == "edges-distinct" or self.are_parallel(edges)
            keys = [edge.key for edge in edges]
            rows_of_edges = rows_of_edges or len(set(keys)) < len(keys)
        if rows_of_vertices:
            self.vertex_columns = dict.fromkeys([ROW, *self.vertex_columns])
        if rows_of_edges:
            self.edge_columns = dict.fromkeys([ROW, *self.edge_columns])
        for field in fields:
            if field.element in self.motif.vertices:
                self.vertex_columns[field.column] = None
            else:
                self.edge_columns[field.column] = None

    def are_parallel(self, edges: Sequence[Edge]) -> bool:
        """Return whether two of the edges can match the same row while all vertices differ."""
        return any(share_ends(left, right) for left, right in combinations(edges, 2))

    def helper(self, prefix: str, key: tuple[object, ...]) -> tuple[str, bool]:
        """Return the name of a helper relation, and whether it is new."""
        if key in self.helpers:
            return self.helpers[key], False
        name, suffix = f"{prefix}", 1
        while name in self.used_names:
            suffix += 1
            name = f"{prefix}{suffix}"
        self.used_names.add(name)
        self.helpers[key] = name
        return name, True

    def list_relation(self, values: tuple[Constant, ...]) -> str:
        """Return the relation that holds the values of a list."""
        if values not in self.lists:
            self.lists[values] = f"list#{len(self.lists) + 1}"
            for value in values:
                self.rules.append(Rule(Atom(self.lists[values], (value,)), ()))
        return self.lists[values]
