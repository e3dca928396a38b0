"""Requested columns of matches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpu_wcoj.errors import ColumnError, UsageError
from gpu_wcoj.query.motif.form import Element, Graph
from gpu_wcoj.query.motif.pattern import Motif


@dataclass(frozen=True)
class MatchColumn:
    """A requested column of matches.

    Attributes
    ----------
    label
        Name of the column.
    name
        The element, or the term column.
    kind
        ``vertex``, ``edge`` or ``told``.
    field
        The column of the element; None for a struct of all columns.
    """

    label: str
    name: str
    kind: str
    field: str | None = None


def match_columns(motif: Motif, columns: Sequence[str] | None, graph: Graph) -> tuple[MatchColumn, ...]:
    """Parse the requested columns: elements, or ``name.column``; None for all elements.

    Raises
    ------
    UsageError
        If a name is unknown or given twice.
    ColumnError
        If a table has no such column.
    """
    if isinstance(columns, str):
        raise UsageError.wrong_type("columns", columns, "a list of str", f"Write [{columns!r}].")
    chosen = motif.columns if columns is None else tuple(columns)
    if not chosen:
        raise UsageError.with_parts(
            "columns is empty",
            subject="columns",
            got=columns,
            expected="at least one column",
            remedy="Or leave it out.",
        )
    if len(set(chosen)) < len(chosen):
        twice = next(name for name in chosen if chosen.count(name) > 1)
        raise UsageError.duplicate("the column", twice, "in columns")
    return tuple(_match_column(motif, label, graph) for label in chosen)


def _match_column(motif: Motif, label: str, graph: Graph) -> MatchColumn:
    if not isinstance(label, str):
        raise UsageError.wrong_type("an element of columns", label, "str")
    name, dot, column = label.partition(".")
    if name not in motif.columns:
        raise UsageError.unknown_name("column of the motif", name, motif.columns)
    kind = "vertex" if name in motif.vertices else "edge" if name in motif.edges else "told"
    if not dot:
        return MatchColumn(label, name, kind)
    column_names = {"vertex": graph.vertices, "edge": graph.edges, "told": ()}[kind]
    if column not in (column_names or ()):
        what = {"vertex": "vertices", "edge": "edges", "told": name}[kind]
        raise ColumnError(what, column, column_names or ())
    return MatchColumn(label, name, kind, column)


def elements_of(columns: Sequence[MatchColumn], graph: Graph, by_rows: bool) -> tuple[Element, ...]:
    """Return the elements that the rules must output for these columns.

    Parameters
    ----------
    by_rows
        True to output row numbers of vertices where columns other than the id are requested, so that matches change
        with those columns. Otherwise vertices are looked up by their ids.
    """
    elements: dict[Element, None] = {}
    for column in columns:
        if column.kind == "told":
            elements[Element(column.name, "told")] = None
        elif column.kind == "vertex":
            is_id = column.field == graph.id or (column.field is None and set(graph.vertices or ()) == {graph.id})
            elements[Element(column.name, "row" if by_rows and not is_id else "id")] = None
        elif column.field == graph.src:
            elements[Element(column.name, "src")] = None
        elif column.field == graph.dst:
            elements[Element(column.name, "dst")] = None
        elif column.field is None and set(graph.edges or ()) == {graph.src, graph.dst}:
            elements |= {Element(column.name, "src"): None, Element(column.name, "dst"): None}
        else:
            elements[Element(column.name, "row")] = None
    return tuple(elements)
