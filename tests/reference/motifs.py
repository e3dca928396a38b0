"""Motifs by their definition: every choice of a row for every edge, then every choice of a row for what is left."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise, product
from typing import Any

TERM = re.compile(r"\s*(!?)\((\w*)\)(?:(<?)-\[(\w*?)(?:\*(\d*)(\.\.)?(\d*))?\]-(>?)\((\w*)\))?\s*$")

Row = dict[str, Any]
Edge = tuple[str, str, str]
Way = tuple[list[Edge], list[str], list[tuple[str, str]], Row]
"""Edges (name, from, to), other vertices, edges that may not be, and what the way tells; names with # are not shown."""


def matches(
    text: str, vertices: Sequence[Row] | None, edges: Sequence[Row], semantics: str = "homomorphism"
) -> Iterator[Row]:
    """Every match, as a row of each named element: a dict, None where there is none, and what terms tell."""
    read = [TERM.match(term).groups() for term in text.split(";")]  # type: ignore[union-attr]
    terms = [list(ways(number, *groups)) for number, groups in enumerate(read)]
    undirected = [not groups[2] and not groups[7] and groups[8] is not None for groups in read]
    telling = [at for at, term in enumerate(terms) if term[0][3]]
    if len(telling) > 1:
        for place, at in enumerate(telling, start=1):
            terms[at] = [(*one[:3], {f"{name}{place}": value for name, value in one[3].items()}) for one in terms[at]]
    names = dict.fromkeys(
        name
        for choice in product(*terms)
        for one, others, denied, told in choice
        for name in [*(end for edge in one for end in edge), *others, *(end for pair in denied for end in pair), *told]
        if "#" not in name
    )
    ids = [row["id"] for row in vertices] if vertices is not None else None
    if ids is None:
        ids = sorted({row[end] for row in edges for end in ("src", "dst")})
    rows = {one: {"id": one} for one in ids} if vertices is None else {row["id"]: row for row in vertices}
    for choice in product(*terms):
        wanted = [edge for one, _, _, _ in choice for edge in one]
        others = [name for _, named, _, _ in choice for name in named]
        denied = [pair for _, _, pairs, _ in choice for pair in pairs]
        told = {name: value for _, _, _, what in choice for name, value in what.items()}
        others += [end for pair in denied for end in pair if "#" not in end]
        for bound, taken in _edges(wanted, edges, {}, {}):
            free = [name for name in dict.fromkeys(others) if name not in bound]
            for chosen in product(ids, repeat=len(free)):
                found = {**bound, **dict(zip(free, chosen, strict=True))}
                if any(found[name] not in rows for name in found if "#" not in name):
                    continue
                if any(_is_there(pair, found, edges) for pair in denied):
                    continue
                if semantics == "edges-distinct" and len(set(taken.values())) < len(taken):
                    continue
                if semantics != "homomorphism" and any(
                    is_either
                    and "in" in told.values()
                    and all(edges[taken[e]]["src"] == edges[taken[e]]["dst"] for e, _, _ in one)
                    for is_either, (one, _, _, told) in zip(undirected, choice, strict=True)
                ):  # both ways are one
                    continue
                if semantics == "nodes-distinct" and (
                    len(set(found.values())) < len(found) or len(set(taken.values())) < len(taken)
                ):
                    continue
                shown: Row = dict.fromkeys(names)
                shown |= {name: rows[one] for name, one in found.items() if "#" not in name}
                shown |= {name: edges[at] for name, at in taken.items() if "#" not in name}
                yield {**shown, **told}


def _edges(
    wanted: Sequence[Edge], edges: Sequence[Row], bound: Row, taken: dict[str, int]
) -> Iterator[tuple[Row, dict[str, int]]]:
    if not wanted:
        yield bound, taken
        return
    (name, begin, end), *rest = wanted
    for at, row in enumerate(edges):
        if taken.get(name, at) != at or bound.get(begin, row["src"]) != row["src"]:
            continue
        further = {**bound, begin: row["src"]}
        if further.get(end, row["dst"]) != row["dst"]:
            continue
        yield from _edges(rest, edges, {**further, end: row["dst"]}, {**taken, name: at})


def _is_there(pair: tuple[str, str], found: Row, edges: Sequence[Row]) -> bool:
    begin, end = pair
    return any(
        found.get(begin, row["src"]) == row["src"]
        and found.get(end, row["dst"]) == row["dst"]
        and (begin != end or row["src"] == row["dst"])
        for row in edges
    )


def ways(
    number: int, negated: str, left: str, back: str, name: str, least: str | None, dots: str | None, most: str,
    ahead: str, right: str | None,
) -> Iterator[Way]:  # fmt: skip
    """The ways to spell out a term."""
    if right is None:
        yield [], [left], [], {}
        return
    a, b = left or f"#{number}a", right or f"#{number}b"
    if negated:
        yield [], [], [(b, a) if back else (a, b)], {}
    elif least is None and back and ahead:
        yield (
            [(f"{name}1" if name else f"#{number}e1", a, b), (f"{name}2" if name else f"#{number}e2", b, a)],
            [],
            [],
            {},
        )
    elif least is None:
        edge = name or f"#{number}e"
        out = {"_pattern": f"({left})-[{name}]->({right})", "_direction": "out"}
        into = {"_pattern": f"({left})<-[{name}]-({right})", "_direction": "in"}
        if not back:
            yield [(edge, a, b)], [], [], {} if ahead else out
        if not ahead:
            yield [(edge, b, a)], [], [], {} if back else into
    elif back and ahead:
        there = _chain(number, a, b, left + right, "", int(least), "", "", False)
        again = _chain(number + 1000, b, a, right + left, "", int(least), "", "", False)
        yield [*there[0], *again[0]], [], [], {}
    else:
        low = int(least or 1)
        for hops in range(low, (int(most) if dots else low) + 1):
            tells = bool(dots) or not (back or ahead)
            if not back:
                yield _chain(
                    number, a, b, left + right, name, hops, f"({left})-[{name}*{hops}]->({right})", "out", tells
                )
            if not ahead:
                yield _chain(
                    number, b, a, right + left, name, hops, f"({left})<-[{name}*{hops}]-({right})", "in", tells
                )


def _chain(
    number: int, begin: str, end: str, between: str, name: str, hops: int, pattern: str, direction: str, tells: bool
) -> Way:
    inner = [f"_{between}{at}" if between else f"#{number}v{at}" for at in range(1, hops)]
    stops = [begin, *inner, end]
    edges = [(f"_{name}{at}" if name else f"#{number}e{at}", *ends) for at, ends in enumerate(pairwise(stops), 1)]
    return edges, [], [], {"_hop": hops, "_pattern": pattern, "_direction": direction} if tells else {}
