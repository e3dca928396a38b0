"""Expansion of variable-length edges, with the names that GraphFrames uses."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_wcoj.query.motif.pattern import Arrow, Direction, Edge, Path, Term, Vertex

_DIRECTIONS: dict[Arrow, tuple[Direction, ...]] = {"->": ("out",), "<-": ("in",), "-": ("out", "in"), "<->": ("out",)}


def expand_term(term_index: int, term: Term) -> Iterator[Path]:
    """Yield the path expansions of a term, the longest first.

    The vertices of a chain from ``(a)`` to ``(b)`` are called ``_ab1``, ``_ab2`` and so on, the edges of ``[e*n]``
    ``_e1``, ``_e2``; where neither end has a name, or the edge has none, these have none either. A negated term
    has a single expansion.

    Parameters
    ----------
    term_index
        Index of the term in its motif, for the keys of elements without a name.
    """
    link = term.link
    if link is None or term.right is None:
        return
    left, right = _key(term.left, term_index, "left"), _key(term.right, term_index, "right")
    if not link.is_chain:
        if link.arrow == "<->":
            first, second = (f"{link.name}{index}" if link.name else f"#{term_index}.{index}" for index in (1, 2))
            names = (first, second) if link.name else ()
            yield Path((Edge(first, left, right), Edge(second, right, left)), names)
            return
        key = link.name or f"#{term_index}"
        ends = (right, left) if link.arrow == "<-" else (left, right)
        edge = Edge(key, *ends, True, term_index) if link.arrow == "-" else Edge(key, *ends)
        yield Path((edge,), (link.name,) if link.name else ())
        return
    assert link.min_hops is not None
    assert link.max_hops is not None
    directions: tuple[Direction, ...] = _DIRECTIONS[link.arrow]
    for direction in directions:
        for hops in range(link.max_hops, link.min_hops - 1, -1):
            if link.arrow == "<->":  # an edge each way; no direction to report
                there = _chain(term_index, term, left, right, hops, "out")
                back = _chain(term_index, term, left, right, hops, "in")
                yield Path((*there.edges, *back.edges), (*there.names, *back.names))
            else:
                yield _chain(term_index, term, left, right, hops, direction)


def _chain(term_index: int, term: Term, left: str, right: str, hops: int, direction: Direction) -> Path:
    link, ends = term.link, (term.left.name or "", term.right.name or "" if term.right else "")
    assert link is not None
    begin, end = (left, right) if direction == "out" else (right, left)
    between = "".join(ends if direction == "out" else reversed(ends))
    inner = [f"_{between}{index}" if between else f"#{term_index}.{direction}{index}" for index in range(1, hops)]
    keys = [
        f"_{link.name}{index}" if link.name else f"#{term_index}.{direction}-{index}" for index in range(1, hops + 1)
    ]
    stops = [begin, *inner, end]
    edges = tuple(Edge(key, stops[index], stops[index + 1]) for index, key in enumerate(keys))
    elements = [element for index, key in enumerate(keys) for element in (key, *inner[index : index + 1])]
    constants: dict[str, int | str] = {}
    if term.columns:
        arrow = "->" if direction == "out" else "-"
        pattern = f"({ends[0]}){'-' if direction == 'out' else '<-'}[{link.name or ''}*{hops}]{arrow}({ends[1]})"
        constants = {"_hop": hops, "_pattern": pattern, "_direction": direction}
    return Path(edges, tuple(element for element in elements if not element.startswith("#")), constants)


def _key(vertex: Vertex, term_index: int, side: str) -> str:
    return vertex.name or f"#{term_index}.{side}"
