"""Compilation of motifs to rules over vertices and edges, in bag semantics."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations, product

from gpu_wcoj.errors import ColumnError, SchemaError, UsageError, listed, nearest
from gpu_wcoj.query.check import check
from gpu_wcoj.query.ir import Atom, Constant
from gpu_wcoj.query.motif import condition as conditions
from gpu_wcoj.query.motif.cases import conjuncts
from gpu_wcoj.query.motif.compile import PathExpansion, share_ends
from gpu_wcoj.query.motif.condition import Condition, fields_of
from gpu_wcoj.query.motif.form import ROW, SEMANTICS, CompiledMotif, Element, Graph, Semantics
from gpu_wcoj.query.motif.parse import pointed_lines
from gpu_wcoj.query.motif.pattern import Edge, Motif, Path
from gpu_wcoj.query.rules import Declaration, Rule, Rules


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
            name = "motif" if len(expansions) == 1 else f"motif#{index}"
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
