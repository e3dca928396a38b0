"""Parser of motifs (grammar ``motif.lark``), and checks of their meaning."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpu_wcoj.errors import MotifSyntaxError, UnsupportedError, UsageError, pointed
from gpu_wcoj.query.ir import Span
from gpu_wcoj.query.motif.pattern import Arrow, Link, Motif, Term, Vertex

if TYPE_CHECKING:
    from lark import Lark, Token, Tree

    Node = Tree[Token]

MAX_TEXT_BYTES = 100_000
"""The longest text of a motif or a condition, in bytes of UTF-8."""
MAX_NAME_LENGTH = 255
"""The longest name, in characters."""
MAX_HOPS = 32
"""The longest chain, in hops."""
MAX_EDGES = 64
"""The largest number of edges of a motif, with chains expanded."""
MAX_TERMS = 64
"""The largest number of terms of a motif; planning many separate vertices is slow."""
MAX_EXPANSIONS = 64
"""The largest number of path expansions of a motif: a product over ranges and undirected chains."""

_ARROWS: dict[tuple[str, str], Arrow] = {("-", "->"): "->", ("<-", "-"): "<-", ("<-", "->"): "<->", ("-", "-"): "-"}


def parse(text: str, *, source: str = "<text>") -> Motif:
    """Parse a motif.

    Terms are separated by ``;``. A term is ``(a)-[e]->(b)``, ``(a)<-[e]-(b)``, ``(a)<-[e]->(b)`` (an edge each way,
    called ``e1`` and ``e2``), ``(a)-[e]-(b)`` (an undirected edge) or ``(a)``; ``!`` negates an edge: no such edge may
    exist. ``[e*3]`` is a chain of three edges, ``[e*2..4]`` of two to four, ``[*..3]`` of one to three.
    Names consist of letters, digits and ``_``, and are optional; elements of the same name are the same element.

    Extensions of GraphFrames: terms join with ``*n..m`` terms, ``*..m`` begins at one hop, and edges may share a name.

    Parameters
    ----------
    text
        At most 100,000 bytes.
    source
        Name of the text in messages, for example its file name.

    Raises
    ------
    MotifSyntaxError
        If the text cannot be read; with line, column and what was expected.
    UnsupportedError
        For ambiguous motifs and motifs that GraphFrames rejects: an edge or a single vertex without any name, a
        negated edge that is named or not a single directed edge, ``*n..`` without an end, a name of both a vertex and
        an edge, two chains whose elements would get the same names.

    Examples
    --------
    >>> parse("(a)-[e*2]->(b)").columns
    ('a', '_e1', '_ab1', '_e2', 'b')
    >>> parse("(u)-[e]-(v); (v)-[]->(w)").columns
    ('u', 'e', 'v', '_pattern', '_direction', 'w')
    """
    check_text(text, "a motif")
    return _MotifParser(text, source).motif()


def check_text(text: str, what: str) -> None:
    """Raise if `text` is not a string or is too long."""
    if not isinstance(text, str):
        raise UsageError.wrong_type(what, text, "str")
    n_bytes = len(text.encode("utf-8", "surrogatepass"))
    if n_bytes > MAX_TEXT_BYTES:
        raise UsageError.mismatch(
            f"the text of {what}", "is too long", f"{n_bytes:,} bytes", f"at most {MAX_TEXT_BYTES:,} bytes"
        )


@functools.cache
def parser_of(grammar: str, start: str) -> Lark:
    """Return the parser of a grammar file of this package."""
    from importlib.resources import files

    from lark import Lark

    text = files("gpu_wcoj.query.motif").joinpath(grammar).read_text(encoding="utf-8")
    return Lark(text, parser="lalr", lexer="contextual", start=start, propagate_positions=True)


class _MotifParser:
    """Translator of a parse tree to a motif, with its checks."""

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
        self.check_term_columns(motif)
        return motif

    def term(self, node: Node) -> Term:
        left, *remaining = trees(node)
        is_negated = any(token.type == "NOT" for token in tokens(node))
        first = self.vertex(left)
        span = span_of(node)
        if not remaining:
            if is_negated:
                raise self.unsupported("a vertex cannot be negated; negate an edge, as in !(a)-[]->(b)", span)
            if first.name is None:
                what = "a single vertex needs a name, such as (a): without a name it has no column"
                raise self.unsupported(what, span)
            return Term(first, span=span)
        middle, right = remaining
        term = Term(first, self.link(middle), self.vertex(right), is_negated, span)
        self.check_term(term)
        return term

    def vertex(self, node: Node) -> Vertex:
        name = next((token for token in tokens(node) if token.type == "NAME"), None)
        return Vertex(None if name is None else self.checked_name(name), span_of(node))

    def link(self, node: Node) -> Link:
        tokens_by_type = {token.type: token for token in tokens(node)}
        begin, *_, end = tokens(node)
        arrow = _ARROWS[str(begin), str(end)]
        name = self.checked_name(tokens_by_type["NAME"]) if "NAME" in tokens_by_type else None
        length = next(iter(trees(node)), None)
        if length is None:
            return Link(name, arrow, span=span_of(node))
        min_hops, max_hops, is_range = self.hops(length)
        return Link(name, arrow, min_hops, max_hops, is_range, span_of(node))

    def hops(self, node: Node) -> tuple[int, int, bool]:
        tokens_by_type = {token.type: token for token in tokens(node)}
        if "DOTS" in tokens_by_type and "MOST" not in tokens_by_type:
            what = (
                "a chain needs a maximum number of hops, because each hop has its own columns.\n"
                "  Write it, as in [*1..4]; for reachability, write a recursive rule:\n"
                "  reach(x, y) :- edge(x, y).  reach(x, z) :- reach(x, y), edge(y, z)"
            )
            raise self.unsupported(what, span_of(node))
        if not {"DOTS", "LEAST"} & tokens_by_type.keys():
            raise self.error("expected the number of hops after '*', as in [*2] or [*1..3]", tokens_by_type["STAR"])
        bounds = [self.hop_count(tokens_by_type[kind]) for kind in ("LEAST", "MOST") if kind in tokens_by_type]
        min_hops = bounds[0] if "LEAST" in tokens_by_type else 1
        max_hops = bounds[-1]
        if min_hops < 1:
            raise self.error("a chain has at least one hop", tokens_by_type["LEAST"])
        if min_hops > max_hops:
            raise self.error(
                f"the range of hops is empty: got {min_hops} to {max_hops}, expected the minimum first",
                tokens_by_type["STAR"],
            )
        return min_hops, max_hops, "DOTS" in tokens_by_type

    def hop_count(self, token: Token) -> int:
        digits = token.lstrip("0") or "0"
        if len(digits) > 9 or int(digits) > MAX_HOPS:
            raise self.error(f"a chain is too long: got {token[:12]} hops, expected at most {MAX_HOPS}", token)
        return int(digits)

    def checked_name(self, token: Token) -> str:
        if len(token) > MAX_NAME_LENGTH:
            raise self.error(
                f"the name is too long: got {len(token):,} characters, expected at most {MAX_NAME_LENGTH}", token
            )
        return str(token)

    # Checks.

    def check_term(self, term: Term) -> None:
        link, right = term.link, term.right
        assert link is not None
        assert right is not None
        has_names = term.left.name or right.name
        if term.is_negated:
            if link.name is not None:
                what = f"a negated edge cannot have a name, because '{link.name}' is in no match; write [] instead"
                raise self.unsupported(what, link.span)
            kind = {"<->": "an edge each way", "-": "an undirected edge"}.get(link.arrow)
            if link.is_chain or kind:
                kind = "a chain" if link.is_chain else kind
                what = f"{kind} cannot be negated; negate single edges, as in !(a)-[]->(b); !(b)-[]->(a)"
                raise self.unsupported(what, term.span)
            if not has_names:
                what = "a negated edge needs a vertex with a name: without it, the condition is a graph without edges"
                raise self.unsupported(what, term.span)
        elif not has_names and link.name is None:
            raise self.unsupported(
                "an edge or one of its vertices needs a name: without a name it has no column", term.span
            )
        if link.is_chain and link.arrow == "<->" and (link.name is not None or link.is_range):
            what = f"a chain each way is not supported; write two terms with separate names: {self.two_terms(term)}"
            raise self.unsupported(what, term.span)

    def two_terms(self, term: Term) -> str:
        assert term.link is not None
        length = str(term.link).split("*", 1)[1].split("]", 1)[0]
        names = ("e", "f") if term.link.name is None else (f"{term.link.name}1", f"{term.link.name}2")
        return f"{term.left}-[{names[0]}*{length}]->{term.right}; {term.right}-[{names[1]}*{length}]->{term.left}"

    def check_size(self, motif: Motif) -> None:
        """Raise if the motif is too large, before paths are expanded."""
        if len(motif.terms) > MAX_TERMS:
            what = f"the motif is too large: got {len(motif.terms):,} terms, expected at most {MAX_TERMS}"
            raise self.unsupported(what, motif.terms[MAX_TERMS].span)
        n_edges = max_expansions = 0
        n_expansions = 1
        for term in motif.terms:
            link = term.link
            if link is None:
                continue
            hops = 1 if link.max_hops is None else link.max_hops
            n_edges += hops * (2 if link.arrow == "<->" else 1)
            if link.min_hops is not None:
                n_expansions *= (hops - link.min_hops + 1) * (2 if link.arrow == "-" else 1)
            max_expansions = max(max_expansions, n_expansions)
            if n_edges > MAX_EDGES:
                raise self.unsupported(
                    f"the motif is too large: got more than {MAX_EDGES} edges, with chains expanded", term.span
                )
            if n_expansions > MAX_EXPANSIONS:
                what = (
                    f"the chains have too many combinations of lengths: got at least {n_expansions},"
                    f" expected at most {MAX_EXPANSIONS}"
                )
                raise self.unsupported(what, term.span)

    def check_names(self, motif: Motif) -> None:
        """Raise if a vertex and an edge share a name, including names of chains."""
        both = [name for name in motif.edges if name in motif.vertices]
        if both:
            what = f"the name '{both[0]}' is used for a vertex and an edge; rename one of them"
            raise self.unsupported(what, self.last_span(motif, both[0]))

    def last_span(self, motif: Motif, name: str) -> Span:
        """Return the place of the last occurrence of a name, or of its term."""
        span = Span()
        for term, paths in zip(motif.terms, motif.paths, strict=True):
            for part in (term.left, term.link, term.right):
                if part is not None and part.name == name:
                    span = part.span
            if any(name in path.names for path in paths) and span.line == 0:
                span = term.span
        return span

    def check_chains(self, motif: Motif) -> None:
        """Raise if the elements of two chains would get the same names."""
        chains = [
            (term, {name for path in paths for name in path.names})
            for term, paths in zip(motif.terms, motif.paths, strict=True)
            if term.link is not None and term.link.is_chain
        ]
        for index, (term, names) in enumerate(chains):
            assert term.link is not None
            for other_term, other_names in chains[:index]:
                common = sorted(names & other_names)
                if common:
                    what = (
                        f"this chain and '{other_term}' would both have an element '{common[0]}'.\n"
                        "  Expand one of them by hand, with separate names: (a)-[e1]->(x); (x)-[e2]->(b)"
                    )
                    raise self.unsupported(what, term.span)

    def check_term_columns(self, motif: Motif) -> None:
        """Raise if an element has the name of a term column."""
        term_columns = {name for names in motif.term_columns.values() for name in names.values()}
        for name in (*motif.vertices, *motif.edges):
            if name in term_columns:
                what = f"'{name}' is also a column of an undirected edge or a range; choose another name"
                raise self.unsupported(what, self.last_span(motif, name))

    def error(self, what: str, token: Token) -> MotifSyntaxError:
        return MotifSyntaxError(what, self.text, token.line or 1, token.column or 1, len(token), self.source)

    def unsupported(self, what: str, span: Span) -> UnsupportedError:
        return UnsupportedError(pointed_lines(what, self.text, span, self.source))


def pointed_lines(what: str, text: str, span: Span, source: str) -> str:
    """Return a message as `pointed` does, with the further lines of `what` below it."""
    first, *details = what.split("\n")
    return "\n".join([pointed(first, text, span.line, span.column, span.width, source), *details])


def trees(node: Node) -> Iterator[Node]:
    """Return the child nodes of a node."""
    from lark import Tree

    return (child for child in node.children if isinstance(child, Tree))


def tokens(node: Node) -> Iterator[Token]:
    """Return the tokens of a node."""
    from lark import Token

    return (child for child in node.children if isinstance(child, Token))


def span_of(node: Node) -> Span:
    """Return the place of a node in the text."""
    meta = node.meta
    return Span(meta.line, meta.column, meta.end_pos - meta.start_pos)
