"""Which columns of the matches are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpu_wcoj.errors import ColumnError, UsageError, listed, nearest
from gpu_wcoj.query.motif.form import Element, Graph
from gpu_wcoj.query.motif.pattern import Motif


@dataclass(frozen=True)
class Wanted:
    """One column of the matches.

    Attributes
    ----------
    label
        What it is called.
    name
        The element, or the column that tells of a term.
    kind
        ``vertex``, ``edge`` or ``told``.
    field
        The one column of the element that it shows; None for a struct of all.
    """

    label: str
    name: str
    kind: str
    field: str | None = None


def wanted_columns(motif: Motif, columns: Sequence[str] | None, graph: Graph) -> tuple[Wanted, ...]:
    """What `columns` names: elements, as structs, or ``name.column``; all elements if it is None.

    Raises
    ------
    UsageError
        If something is named that the motif does not have, or twice.
    ColumnError
        If a table has no such column.
    """
    if isinstance(columns, str):
        raise UsageError(f"columns are a list of texts, and this is a text: {columns!r}.\n  Write [{columns!r}].")
    chosen = motif.columns if columns is None else tuple(columns)
    if not chosen:
        raise UsageError("no columns are asked for.\n  Name one at least, or leave columns out.")
    if len(set(chosen)) < len(chosen):
        twice = next(name for name in chosen if chosen.count(name) > 1)
        raise UsageError(f"the column '{twice}' is asked for twice.")
    return tuple(_wanted(motif, label, graph) for label in chosen)


def _wanted(motif: Motif, label: str, graph: Graph) -> Wanted:
    if not isinstance(label, str):
        raise UsageError(f"columns are named by texts, and this is of type '{type(label).__name__}': {label!r:.80}.")
    name, dot, column = label.partition(".")
    if name not in motif.columns:
        raise UsageError(
            f"the motif has no '{name}'.\n  It has: {listed(motif.columns)}.{nearest(name, motif.columns)}"
        )
    kind = "vertex" if name in motif.vertices else "edge" if name in motif.edges else "told"
    if not dot:
        return Wanted(label, name, kind)
    known = {"vertex": graph.vertices, "edge": graph.edges, "told": ()}[kind]
    if column not in (known or ()):
        what = {"vertex": "vertices", "edge": "edges", "told": name}[kind]
        raise ColumnError(what, column, known or ())
    return Wanted(label, name, kind, column)


def elements_of(wanted: Sequence[Wanted], graph: Graph, by_rows: bool) -> tuple[Element, ...]:
    """What the rules have to tell for these columns.

    Parameters
    ----------
    by_rows
        Whether vertices are told by their rows where more than their ids is asked for, so that a vertex whose other
        columns change is another one. Otherwise they are looked up by their ids.
    """
    found: dict[Element, None] = {}
    for one in wanted:
        if one.kind == "told":
            found[Element(one.name, "told")] = None
        elif one.kind == "vertex":
            is_id = one.field == graph.id or (one.field is None and set(graph.vertices or ()) == {graph.id})
            found[Element(one.name, "row" if by_rows and not is_id else "id")] = None
        elif one.field == graph.src:
            found[Element(one.name, "src")] = None
        elif one.field == graph.dst:
            found[Element(one.name, "dst")] = None
        elif one.field is None and set(graph.edges or ()) == {graph.src, graph.dst}:
            found |= {Element(one.name, "src"): None, Element(one.name, "dst"): None}
        else:
            found[Element(one.name, "row")] = None
    return tuple(found)
