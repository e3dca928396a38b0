"""Edges of several hops, spelled out as GraphFrames names them."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_wcoj.query.motif.pattern import Arrow, Direction, Edge, Path, Term, Vertex

_DIRECTIONS: dict[Arrow, tuple[Direction, ...]] = {"->": ("out",), "<-": ("in",), "-": ("out", "in"), "<->": ("out",)}


def paths_of(number: int, term: Term) -> Iterator[Path]:
    """The ways to spell out a term, the longest first.

    The vertices of a chain from ``(a)`` to ``(b)`` are called ``_ab1``, ``_ab2`` and so on, the edges of ``[e*n]``
    ``_e1``, ``_e2``; where neither end has a name, or the edge has none, these have none either. Of a negated term
    there is one way.

    Parameters
    ----------
    number
        Which term of its motif, for the keys of what has no name.
    """
    link = term.link
    if link is None or term.right is None:
        return
    left, right = _key(term.left, number, "left"), _key(term.right, number, "right")
    if not link.is_chain:
        if link.arrow == "<->":
            first, second = (f"{link.name}{at}" if link.name else f"#{number}.{at}" for at in (1, 2))
            names = (first, second) if link.name else ()
            yield Path((Edge(first, left, right), Edge(second, right, left)), names)
            return
        key = link.name or f"#{number}"
        ends = (right, left) if link.arrow == "<-" else (left, right)
        edge = Edge(key, *ends, True, number) if link.arrow == "-" else Edge(key, *ends)
        yield Path((edge,), (link.name,) if link.name else ())
        return
    assert link.least is not None
    assert link.most is not None
    directions: tuple[Direction, ...] = _DIRECTIONS[link.arrow]
    for direction in directions:
        for hops in range(link.most, link.least - 1, -1):
            if link.arrow == "<->":  # a way each, with nothing to tell
                there = _chain(number, term, left, right, hops, "out")
                back = _chain(number, term, left, right, hops, "in")
                yield Path((*there.edges, *back.edges), (*there.names, *back.names))
            else:
                yield _chain(number, term, left, right, hops, direction)


def _chain(number: int, term: Term, left: str, right: str, hops: int, direction: Direction) -> Path:
    link, ends = term.link, (term.left.name or "", term.right.name or "" if term.right else "")
    assert link is not None
    begin, end = (left, right) if direction == "out" else (right, left)
    between = "".join(ends if direction == "out" else reversed(ends))
    inner = [f"_{between}{at}" if between else f"#{number}.{direction}{at}" for at in range(1, hops)]
    keys = [f"_{link.name}{at}" if link.name else f"#{number}.{direction}-{at}" for at in range(1, hops + 1)]
    stops = [begin, *inner, end]
    edges = tuple(Edge(key, stops[at], stops[at + 1]) for at, key in enumerate(keys))
    elements = [one for at, key in enumerate(keys) for one in (key, *inner[at : at + 1])]
    told: dict[str, int | str] = {}
    if term.tells:
        arrow = "->" if direction == "out" else "-"
        shown = f"({ends[0]}){'-' if direction == 'out' else '<-'}[{link.name or ''}*{hops}]{arrow}({ends[1]})"
        told = {"_hop": hops, "_pattern": shown, "_direction": direction}
    return Path(edges, tuple(one for one in elements if not one.startswith("#")), told)


def _key(vertex: Vertex, number: int, side: str) -> str:
    return vertex.name or f"#{number}.{side}"
