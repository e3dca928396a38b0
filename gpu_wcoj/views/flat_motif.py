"""Motifs as rules over plain tables; the answer of the rules has flat columns."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count
from typing import Any, Self

from gpu_wcoj.errors import UsageError
from gpu_wcoj.query.ir import Atom, Rules, Variable
from gpu_wcoj.query.motif.compile import MOTIF, ROW, CompiledMotif, Element, Graph, compile_motif
from gpu_wcoj.query.motif.parse import Motif, parse
from gpu_wcoj.views.matcher import MotifOptions, graph_of
from gpu_wcoj.views.matches import MatchColumn, PackedColumn, match_columns

TABLES = {"vertex": "vertices", "edge": "edges"}
"""The table of each kind of element."""


@dataclass(frozen=True, eq=False)
class FlatMotif:
    """A motif as rules over tables of vertices and edges.

    Attributes
    ----------
    columns
        The requested columns of the matches.
    rules
        The rules, for bag semantics, with one output ``motif`` of flat columns.
    places
        The flat columns that hold parts of elements. Parts that are the same in all matches share one.
    """

    motif: Motif
    graph: Graph
    columns: tuple[MatchColumn, ...]
    compiled: CompiledMotif
    rules: Rules
    places: Mapping[Element, int]

    @classmethod
    def compile(
        cls,
        motif: str | Motif,
        kinds: Mapping[str, Mapping[str, str]],
        options: MotifOptions,
        by_key: Collection[str] = (),
        **more: Any,
    ) -> Self:
        """Compile a motif for tables with columns of these families.

        Parameters
        ----------
        by_key
            Elements of which the answer has only the id, or for edges the row number.
        more
            Further attributes of a subclass.

        Raises
        ------
        GpuWcojError
            If the tables lack columns, or the motif or its options are wrong.
        """
        parsed = motif if isinstance(motif, Motif) else parse(motif)
        graph = graph_of(kinds.get("vertices"), kinds["edges"], options)
        columns = match_columns(parsed, options.columns, graph)
        elements = tuple(dict.fromkeys(element for column in columns for element in _elements(column, graph, by_key)))
        compiled = compile_motif(
            parsed, where=options.where, semantics=options.semantics, elements=elements,
            ids=tuple(options.ids or ()), graph=graph,
        )  # fmt: skip
        heads = [rule.head.terms for rule in compiled.united(elements).rules if rule.head.relation == MOTIF]
        terms = zip(*heads, strict=True)
        first: dict[object, Element] = {}
        shared = [first.setdefault(column, element) for element, column in zip(elements, terms, strict=True)]
        flat = list(dict.fromkeys(shared))
        places = {element: flat.index(same) for element, same in zip(elements, shared, strict=True)}
        return cls(parsed, graph, columns, compiled, compiled.united(flat), places, **more)

    @property
    def inputs(self) -> dict[str, tuple[str, ...]]:
        """The columns that the rules read of each table."""
        read = {"vertices": self.compiled.vertices, "edges": self.compiled.edges}
        return {name: columns for name, columns in read.items() if columns}

    @property
    def numbers_edges(self) -> bool:
        """True if the edges need row numbers."""
        return ROW in self.compiled.edges

    @cached_property
    def packed(self) -> tuple[PackedColumn, ...]:
        """The columns of the matches, as made of the flat columns of the answer."""
        return tuple(map(self.pack, self.columns))

    def pack(self, column: MatchColumn) -> PackedColumn:
        """Return a column of the matches, as made of the flat columns of the answer."""
        place = self.places
        if column.kind == "told":
            patterns = [part.patterns.get(column.name, {}) for part in self.compiled.parts]
            texts = {told: text for pattern in patterns for told, text in pattern.items()}
            return PackedColumn(column.label, ((column.name, place[Element(column.name, "told")]),), texts=texts)
        names = columns_of(column, self.graph)
        fields = tuple((name, place[_element(column, name, self.graph)]) for name in names)
        if column.field is not None:
            return PackedColumn(column.label, fields)
        key = self.graph.id if column.kind == "vertex" else self.graph.src
        missing = place[_element(column, key, self.graph)] if len(self.compiled.parts) > 1 else None
        return PackedColumn(column.label, fields, is_struct=True, key=missing)

    def over(self, relations: Mapping[str, tuple[str, Sequence[str]]], name: str) -> Rules:
        """Return the rules over relations of any names and columns, with an output of that name.

        Parameters
        ----------
        relations
            For ``edges`` and ``vertices``, the relation and its columns in order.

        Raises
        ------
        UsageError
            If the motif tells equal edges apart, which takes row numbers.
        """
        if self.numbers_edges:
            raise UsageError.unsupported(
                "a motif that tells equal edges apart, in a connection",
                remedy="Use gpu_wcoj.view, which numbers rows; or leave out semantics= and name no edge twice.",
            )
        read, wildcards = self.inputs, count(1)

        def placed(atom: Atom) -> Atom:
            if atom.relation not in read:
                return atom
            terms = dict(zip(read[atom.relation], atom.terms, strict=True))
            relation, columns = relations[atom.relation]
            placed_terms = (
                terms[column] if column in terms else Variable(f"_#{atom.relation}{next(wildcards)}")
                for column in columns
            )
            return replace(atom, relation=relation, terms=tuple(placed_terms))

        rules = tuple(
            replace(rule, atoms=tuple(map(placed, rule.atoms)), negated=tuple(map(placed, rule.negated)))
            for rule in self.rules.rules
        )
        declarations = tuple(one for one in self.rules.declarations if one.relation not in read)
        return replace(self.rules, rules=rules, declarations=declarations).renamed({MOTIF: name})


def columns_of(column: MatchColumn, graph: Graph) -> list[str]:
    """Return the columns of a table that a requested column of matches holds."""
    if column.field is not None:
        return [column.field]
    return list((graph.vertices if column.kind == "vertex" else graph.edges) or ())


def _element(column: MatchColumn, name: str, graph: Graph) -> Element:
    """Return the flat column for one column of the table of a requested element."""
    if column.kind == "vertex" and name == graph.id:
        return Element(column.name, "id")
    if column.kind == "edge" and name in (graph.src, graph.dst):
        return Element(column.name, "src" if name == graph.src else "dst")
    return Element(column.name, "column", name)


def _elements(column: MatchColumn, graph: Graph, by_key: Collection[str]) -> Iterator[Element]:
    """Yield the flat columns of a requested column."""
    if column.kind == "told":
        yield Element(column.name, "told")
    elif column.name in by_key:
        yield Element(column.name, "id" if column.kind == "vertex" else "row")
    else:
        for name in columns_of(column, graph):
            yield _element(column, name, graph)
