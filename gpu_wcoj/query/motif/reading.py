"""The text of a motif to a `Motif`: a grammar (``motif.lark``), and what is refused although it can be read."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpu_wcoj.errors import MotifSyntaxError, UnsupportedError, UsageError, pointed
from gpu_wcoj.query.motif.pattern import Arrow, Link, Motif, Term, Vertex
from gpu_wcoj.query.terms import Span

if TYPE_CHECKING:
    from lark import Lark, Token, Tree

    Node = Tree[Token]

TEXT_BYTES = 100_000
"""The longest text of a motif or a condition, in bytes of UTF-8."""
NAME_LENGTH = 255
"""The longest name, in characters."""
MOST_HOPS = 32
"""The longest chain."""
MOST_EDGES = 64
"""How many edges a motif may have, chains spelled out."""
MOST_TERMS = 64
"""How many terms a motif may have; the plan of one with many vertices of their own takes long."""
MOST_WAYS = 64
"""In how many ways a motif may be spelled out: the product over its ranges and undirected chains."""

_ARROWS: dict[tuple[str, str], Arrow] = {("-", "->"): "->", ("<-", "-"): "<-", ("<-", "->"): "<->", ("-", "-"): "-"}


def parse(text: str, *, source: str = "<text>") -> Motif:
    """The motif that `text` spells.

    Terms stand apart by ``;``. A term is ``(a)-[e]->(b)``, ``(a)<-[e]-(b)``, ``(a)<-[e]->(b)`` (an edge each way,
    called ``e1`` and ``e2``), ``(a)-[e]-(b)`` (one edge, whichever way) or ``(a)``; ``!`` before an edge asks that
    there be none. ``[e*3]`` is a chain of three edges, ``[e*2..4]`` one of two to four, ``[*..3]`` one of one to three.
    Names are of letters, digits and ``_``, and may be left out; a vertex or an edge that is named twice is one.

    Beyond GraphFrames, terms join with ``*n..m`` terms, ``*..m`` begins at one hop, and two edges of one name are one.

    Parameters
    ----------
    text
        At most 100,000 bytes.
    source
        What messages call the text, for example the name of its file.

    Raises
    ------
    MotifSyntaxError
        If the text cannot be read; with line, column and what was expected.
    UnsupportedError
        For what GraphFrames refuses and what has no one meaning: an edge or a vertex alone without any name, a negated
        edge that is named or not a single directed one, ``*n..`` without an end, one name for a vertex and an edge, two
        chains whose vertices would be called alike.

    Examples
    --------
    >>> parse("(a)-[e*2]->(b)").columns
    ('a', '_e1', '_ab1', '_e2', 'b')
    >>> parse("(u)-[e]-(v); (v)-[]->(w)").columns
    ('u', 'e', 'v', '_pattern', '_direction', 'w')
    """
    check_text(text, "a motif")
    return _Reader(text, source).motif()


def check_text(text: str, what: str) -> None:
    """Raise if it is no text or a very long one."""
    if not isinstance(text, str):
        raise UsageError(f"{what} is text (str), not {type(text).__name__}.")
    n_bytes = len(text.encode("utf-8", "surrogatepass"))
    if n_bytes > TEXT_BYTES:
        raise UsageError(f"the text of {what} has {n_bytes:,} bytes; {TEXT_BYTES:,} are allowed.")


@functools.cache
def parser_of(grammar: str, start: str) -> Lark:
    """The parser of one of this package's grammars."""
    from importlib.resources import files

    from lark import Lark

    text = files("gpu_wcoj.query.motif").joinpath(grammar).read_text(encoding="utf-8")
    return Lark(text, parser="lalr", lexer="contextual", start=start, propagate_positions=True)


class _Reader:
    """The grammar's tree of one text, turned into terms and judged."""

    def __init__(self, text: str, source: str) -> None:
        self.text = text
        self.source = source

    def motif(self) -> Motif:
        from lark import UnexpectedInput

        try:
            tree = parser_of("motif.lark", "motif").parse(self.text)
        except UnexpectedInput:
            from gpu_wcoj.query.motif.expected import motif_error

            raise motif_error(parser_of("motif.lark", "motif"), self.text, self.source) from None
        motif = Motif(tuple(self.term(node) for node in trees(tree)), self.text, self.source)
        self.check_size(motif)
        self.check_names(motif)
        self.check_chains(motif)
        self.check_told(motif)
        return motif

    def term(self, node: Node) -> Term:
        left, *rest = trees(node)
        is_negated = any(token.type == "NOT" for token in tokens(node))
        first = self.vertex(left)
        span = span_of(node)
        if not rest:
            if is_negated:
                raise self.refused("an edge can be negated, as in !(a)-[]->(b), a vertex cannot", span)
            if first.name is None:
                what = "a vertex alone needs a name, as (a): without one, it gives no column"
                raise self.refused(what, span)
            return Term(first, span=span)
        middle, right = rest
        term = Term(first, self.link(middle), self.vertex(right), is_negated, span)
        self.check_term(term)
        return term

    def vertex(self, node: Node) -> Vertex:
        name = next((token for token in tokens(node) if token.type == "NAME"), None)
        return Vertex(None if name is None else self.name(name), span_of(node))

    def link(self, node: Node) -> Link:
        given = {token.type: token for token in tokens(node)}
        begin, *_, end = tokens(node)
        arrow = _ARROWS[str(begin), str(end)]
        name = self.name(given["NAME"]) if "NAME" in given else None
        length = next(iter(trees(node)), None)
        if length is None:
            return Link(name, arrow, span=span_of(node))
        least, most, is_range = self.hops(length)
        return Link(name, arrow, least, most, is_range, span_of(node))

    def hops(self, node: Node) -> tuple[int, int, bool]:
        given = {token.type: token for token in tokens(node)}
        if "DOTS" in given and "MOST" not in given:
            what = (
                "a chain needs a greatest number of hops: each has columns of its own, and there is no end of them.\n"
                "  Write it, as in [*1..4]; what is reachable at all is a recursive rule:\n"
                "  reach(x, y) :- edge(x, y).  reach(x, z) :- reach(x, y), edge(y, z)"
            )
            raise self.refused(what, span_of(node))
        if not {"DOTS", "LEAST"} & given.keys():
            raise self.error("expected the number of hops after '*', as in [*2] or [*1..3]", given["STAR"])
        numbers = [self.number(given[kind]) for kind in ("LEAST", "MOST") if kind in given]
        least = numbers[0] if "LEAST" in given else 1
        most = numbers[-1]
        if least < 1:
            raise self.error("a chain has one hop at least", given["LEAST"])
        if least > most:
            raise self.error(
                f"there are no chains of {least} to {most} hops: the first number is the least", given["STAR"]
            )
        return least, most, "DOTS" in given

    def number(self, token: Token) -> int:
        digits = token.lstrip("0") or "0"
        if len(digits) > 9 or int(digits) > MOST_HOPS:
            raise self.error(f"a chain of {token[:12]} hops is too long; {MOST_HOPS} are allowed", token)
        return int(digits)

    def name(self, token: Token) -> str:
        if len(token) > NAME_LENGTH:
            raise self.error(f"the name has {len(token):,} characters; {NAME_LENGTH} are allowed", token)
        return str(token)

    # What is refused.

    def check_term(self, term: Term) -> None:
        link, right = term.link, term.right
        assert link is not None
        assert right is not None
        has_names = term.left.name or right.name
        if term.is_negated:
            if link.name is not None:
                what = f"a negated edge has no name: '{link.name}' would never be in a match; write [] for it"
                raise self.refused(what, link.span)
            kind = {"<->": "an edge each way", "-": "an undirected edge"}.get(link.arrow)
            if link.is_chain or kind:
                kind = "a chain" if link.is_chain else kind
                what = f"{kind} cannot be negated; negate single edges, as in !(a)-[]->(b); !(b)-[]->(a)"
                raise self.refused(what, term.span)
            if not has_names:
                what = "a negated edge needs a vertex with a name: without one it asks for a graph without edges"
                raise self.refused(what, term.span)
        elif not has_names and link.name is None:
            raise self.refused(
                "an edge needs a name, or one of its vertices does: without any it gives no column", term.span
            )
        if link.is_chain and link.arrow == "<->" and (link.name is not None or link.is_range):
            what = f"a chain each way is two terms; write them apart, with names of their own: {self.apart(term)}"
            raise self.refused(what, term.span)

    def apart(self, term: Term) -> str:
        assert term.link is not None
        length = str(term.link).split("*", 1)[1].split("]", 1)[0]
        names = ("e", "f") if term.link.name is None else (f"{term.link.name}1", f"{term.link.name}2")
        return f"{term.left}-[{names[0]}*{length}]->{term.right}; {term.right}-[{names[1]}*{length}]->{term.left}"

    def check_size(self, motif: Motif) -> None:
        """Refuse what is too large, before anything is spelled out."""
        if len(motif.terms) > MOST_TERMS:
            what = f"the motif has {len(motif.terms):,} terms; {MOST_TERMS} are allowed"
            raise self.refused(what, motif.terms[MOST_TERMS].span)
        n_edges = n_ways = 0
        ways = 1
        for term in motif.terms:
            link = term.link
            if link is None:
                continue
            hops = 1 if link.most is None else link.most
            n_edges += hops * (2 if link.arrow == "<->" else 1)
            if link.least is not None:
                ways *= (hops - link.least + 1) * (2 if link.arrow == "-" else 1)
            n_ways = max(n_ways, ways)
            if n_edges > MOST_EDGES:
                raise self.refused(f"the motif has more than {MOST_EDGES} edges, chains spelled out", term.span)
            if ways > MOST_WAYS:
                what = f"the lengths of its chains can be chosen in {ways} ways and more; {MOST_WAYS} are allowed"
                raise self.refused(what, term.span)

    def check_names(self, motif: Motif) -> None:
        """Refuse one name for a vertex and an edge, also where a chain gives it."""
        both = [name for name in motif.edges if name in motif.vertices]
        if both:
            what = f"the name '{both[0]}' is a vertex's and an edge's; give one of them another name"
            raise self.refused(what, self.last_of(motif, both[0]))

    def last_of(self, motif: Motif, name: str) -> Span:
        """Where a name stands last, or the term that gives it."""
        found = Span()
        for term, ways in zip(motif.terms, motif.paths, strict=True):
            for part in (term.left, term.link, term.right):
                if part is not None and part.name == name:
                    found = part.span
            if any(name in path.names for path in ways) and found.line == 0:
                found = term.span
        return found

    def check_chains(self, motif: Motif) -> None:
        """Refuse chains whose vertices or edges would be called as those of another one, and are not meant to be."""
        chains = [
            (term, {name for path in ways for name in path.names})
            for term, ways in zip(motif.terms, motif.paths, strict=True)
            if term.link is not None and term.link.is_chain
        ]
        for at, (term, names) in enumerate(chains):
            assert term.link is not None
            for other, known in chains[:at]:
                common = sorted(names & known)
                if common:
                    what = (
                        f"this chain and '{other}' would both call something '{common[0]}'.\n"
                        "  Spell one of them out, with names of its own: (a)-[e1]->(x); (x)-[e2]->(b)"
                    )
                    raise self.refused(what, term.span)

    def check_told(self, motif: Motif) -> None:
        """Refuse names that are those of further columns."""
        told = {name for names in motif.telling.values() for name in names.values()}
        for name in (*motif.vertices, *motif.edges):
            if name in told:
                what = f"'{name}' is also the column that tells of an undirected edge or a range; take another name"
                raise self.refused(what, self.last_of(motif, name))

    def error(self, what: str, token: Token) -> MotifSyntaxError:
        return MotifSyntaxError(what, self.text, token.line or 1, token.column or 1, len(token), self.source)

    def refused(self, what: str, span: Span) -> UnsupportedError:
        return UnsupportedError(pointed_lines(what, self.text, span, self.source))


def pointed_lines(what: str, text: str, span: Span, source: str) -> str:
    """As `pointed`, with the lines of `what` behind the first below the text."""
    first, *rest = what.split("\n")
    return "\n".join([pointed(first, text, span.line, span.column, span.width, source), *rest])


def trees(node: Node) -> Iterator[Node]:
    """The parts of a node that are nodes."""
    from lark import Tree

    return (child for child in node.children if isinstance(child, Tree))


def tokens(node: Node) -> Iterator[Token]:
    """The parts of a node that are tokens."""
    from lark import Token

    return (child for child in node.children if isinstance(child, Token))


def span_of(node: Node) -> Span:
    """Where a node stands."""
    meta = node.meta
    return Span(meta.line, meta.column, meta.end_pos - meta.start_pos)
