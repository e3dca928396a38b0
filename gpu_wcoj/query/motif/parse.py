"""Parser of motifs (grammar ``motif.lark``), and checks of their meaning."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from gpu_wcoj.errors import MotifSyntaxError, UnsupportedError, UsageError, nearest, pointed
from gpu_wcoj.query.ir import Span

if TYPE_CHECKING:
    from lark import Lark, Token, Tree


# Syntax tree of motifs: terms, vertices, edges, and the columns of matches.


Arrow = Literal["->", "<-", "<->", "-"]
Direction = Literal["out", "in"]

MOTIF_FUNCTIONS = {
    "lower": "lower", "upper": "upper", "length": "strlen", "abs": "abs", "year": "year", "month": "month",
    "day": "day",
}  # fmt: skip
"""Functions of conditions, and their names in rules."""


@dataclass(frozen=True)
class Vertex:
    """``(name)``, or ``()`` if the name is None."""

    name: str | None
    span: Span = field(default=Span(), compare=False)

    def __str__(self) -> str:
        return f"({self.name or ''})"


@dataclass(frozen=True)
class Link:
    """The edge or chain between two vertices.

    Attributes
    ----------
    name
        The edge's name; None for ``[]``.
    arrow
        ``->``, ``<-``, ``<->`` (an edge each way) or ``-`` (an undirected edge).
    min_hops, max_hops
        Numbers of hops of ``*n`` and ``*n..m``; None for a single edge.
    is_range
        True for ``*n..m``, whose matches have a ``_hop`` column.
    """

    name: str | None
    arrow: Arrow
    min_hops: int | None = None
    max_hops: int | None = None
    is_range: bool = False
    span: Span = field(default=Span(), compare=False)

    @property
    def is_chain(self) -> bool:
        """True for a chain ``*n`` or ``*n..m``."""
        return self.min_hops is not None

    def __str__(self) -> str:
        length = (
            ""
            if self.min_hops is None
            else f"*{self.min_hops}..{self.max_hops}"
            if self.is_range
            else f"*{self.min_hops}"
        )
        begin = "<-" if self.arrow.startswith("<") else "-"
        end = "->" if self.arrow.endswith(">") else "-"
        return f"{begin}[{self.name or ''}{length}]{end}"


@dataclass(frozen=True)
class Term:
    """``(left)-[link]->(right)``, possibly negated, or a single vertex without a link."""

    left: Vertex
    link: Link | None = None
    right: Vertex | None = None
    is_negated: bool = False
    span: Span = field(default=Span(), compare=False)

    def __str__(self) -> str:
        return f"{'!' if self.is_negated else ''}{self.left}{self.link or ''}{self.right or ''}"

    @property
    def columns(self) -> tuple[str, ...]:
        """Further columns of the term: the direction if undirected, the hops of a range."""
        if self.link is None or not (self.link.is_range or self.link.arrow == "-"):
            return ()
        return ("_hop", "_pattern", "_direction") if self.link.is_chain else ("_pattern", "_direction")


@dataclass(frozen=True)
class Edge:
    """An edge of a path expansion.

    Attributes
    ----------
    key
        Its name, or ``#1`` and so on; edges with the same key are the same edge.
    source, target
        Keys of its vertices.
    is_undirected
        True if it may also lead from target to source.
    term
        Index of its term, for an undirected edge; else -1.
    """

    key: str
    source: str
    target: str
    is_undirected: bool = False
    term: int = -1


@dataclass(frozen=True)
class Path:
    """A path expansion of a term: its elements in order, and its term columns.

    Attributes
    ----------
    edges
        The edges along the path.
    constants
        Values of `Term.columns` that are the same in all matches.
    names
        Names of vertices and edges, in the order of their columns. The names of backward undirected chains come after
        the term columns.
    """

    edges: tuple[Edge, ...]
    names: tuple[str, ...]
    constants: dict[str, int | str] = field(default_factory=dict, compare=False)


@dataclass(frozen=True)
class Motif:
    """A motif: its terms.

    Examples
    --------
    >>> from gpu_wcoj.query.motif import parse
    >>> motif = parse("(a)-[t]->(b) ; (b)<-[*2]-(c); !(c)-[]->()")
    >>> print(motif)
    (a)-[t]->(b); (b)<-[*2]-(c); !(c)-[]->()
    >>> motif.vertices, motif.edges
    (('a', 'b', 'c', '_cb1'), ('t',))
    """

    terms: tuple[Term, ...]
    text: str = field(default="", compare=False)
    source: str = field(default="<text>", compare=False)

    def __str__(self) -> str:
        return "; ".join(map(str, self.terms))

    @cached_property
    def paths(self) -> tuple[tuple[Path, ...], ...]:
        """Per term, its path expansions."""
        return tuple(tuple(expand_term(index, term)) for index, term in enumerate(self.terms))

    @cached_property
    def vertices(self) -> tuple[str, ...]:
        """Names of vertices, including the inner vertices of chains."""
        named = [vertex.name for term in self.terms for vertex in (term.left, term.right) if vertex and vertex.name]
        inner = [end for path in self._all_paths() for edge in path.edges for end in (edge.source, edge.target)]
        return tuple(dict.fromkeys([*named, *(vertex for vertex in inner if not vertex.startswith("#"))]))

    @cached_property
    def edges(self) -> tuple[str, ...]:
        """Names of edges, including the edges of chains."""
        keys = (edge.key for path in self._all_paths() for edge in path.edges)
        return tuple(dict.fromkeys(key for key in keys if not key.startswith("#")))

    @cached_property
    def term_columns(self) -> dict[int, dict[str, str]]:
        """Column names of `Term.columns`, per term; numbered if several terms have such columns."""
        terms = [index for index, term in enumerate(self.terms) if term.columns and not term.is_negated]
        return {
            index: {what: f"{what}{place}" if len(terms) > 1 else what for what in self.terms[index].columns}
            for place, index in enumerate(terms, start=1)
        }

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of matches, in order of first occurrence."""
        names: dict[str, None] = {}
        for index, paths in enumerate(self.paths):
            term = self.terms[index]
            if term.left.name:
                names[term.left.name] = None
            longest = paths[0] if paths else None
            names.update(dict.fromkeys(longest.names if longest else ()))
            if term.right is not None and term.right.name:
                names[term.right.name] = None
            names.update(dict.fromkeys(self.term_columns.get(index, {}).values()))
            names.update(dict.fromkeys(name for path in paths for name in path.names))
        return tuple(names)

    def _all_paths(self) -> Iterator[Path]:
        for paths in self.paths:
            yield from paths


if TYPE_CHECKING:
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


# Syntax errors of motifs and conditions, with the expected tokens in words.


_MOTIF_WORDS = {
    "NOT": "",
    "LPAR": "a term such as (a)-[e]->(b)",
    "_RPAR": "')'",
    "_LBRACKET": "'['",
    "_RBRACKET": "']'",
    "_SEMICOLON": "';'",
    "LEFT": "",
    "LINE": "",
    "RIGHT": "",
    "STAR": "",
    "DOTS": "'..'",
    "NAME": "a name",
    "LEAST": "a number of hops",
    "MOST": "a number of hops",
    "$END": "the end",
}
_WHERE_WORDS = {
    "OPERATOR": "a comparison (=, !=, <, <=, >, >=, IN, BETWEEN, LIKE, IS NULL)",
    "_AND": "AND",
    "_OR": "OR",
    "COLUMN": "a column such as a.id or a value",
    "_LPAR": "'('",
    "_RPAR": "')'",
    "_COMMA": "','",
    "_NULL": "NULL",
    "_IN": "IN, BETWEEN or LIKE",
    "$END": "the end",
}
_MAX_PRINTED = 40
"""Length at which a token is cut off in messages, in characters."""


def motif_error(parser: Lark, text: str, source: str) -> MotifSyntaxError:
    """Return the syntax error of a motif that `parser` rejects."""
    previous, start, token_text, accepts = _stop_position(parser, text)
    remaining = text[start:]
    what, width = "", max(1, len(token_text))
    if remaining.startswith(("-->", "--", "<--")) or (
        remaining.startswith(("-", ">")) and text[:start].rstrip().endswith("-")
    ):
        what = "an edge needs brackets, with or without a name: (a)-[]->(b)"
    elif remaining.startswith(":"):
        what = "labels are not supported in a motif; compare a column in where, as in where=\"a.label = 'x'\""
    elif remaining.startswith("{"):
        what = 'properties are not supported in a motif; compare columns in where, as in where="a.age > 30"'
    elif remaining.startswith(",") and "_SEMICOLON" in accepts:
        what = "expected ';' between terms, got ','"
    elif not remaining and previous is not None and previous.type == "_SEMICOLON":
        what = "expected a term after the last ';'; remove that ';'"
    elif "_SEMICOLON" in accepts and remaining.startswith(("-", "<")):
        what = "a term has a single edge; write (a)-[]->(b); (b)-[]->(c)"
    elif not text.strip():
        what = "the motif is empty: expected a term such as (a)-[e]->(b)"
    elif {"NAME", "_RPAR"} <= accepts:
        what = f"expected ')' or a name of the letters a to z, digits and '_'{_after(previous, token_text)}"
    elif accepts == {"LPAR"} and previous is not None and previous.type != "_SEMICOLON":
        what = f"expected a vertex such as (b){_after(previous, token_text)}"
    else:
        words = dict.fromkeys(word for kind, word in _MOTIF_WORDS.items() if kind in accepts and word)
        if {"LEFT", "LINE"} & accepts and "_SEMICOLON" in accepts:
            words = dict.fromkeys(["an edge such as -[e]->", "';'", "the end"])
        elif {"RIGHT", "LINE"} & accepts and "LPAR" not in accepts:
            words = dict.fromkeys(["'->'", "'-'"])
        elif "_RBRACKET" in accepts:
            words["'*'" if "STAR" in accepts else "']'"] = None
        what = f"expected {_join_words(list(words))}{_after(previous, token_text)}"
    return _error(what, text, start, width, source)


def where_error(parser: Lark, text: str, source: str) -> MotifSyntaxError:
    """Return the syntax error of a condition that `parser` rejects."""
    previous, start, token_text, accepts = _stop_position(parser, text)
    remaining, width = text[start:], max(1, len(token_text))
    is_value = "COLUMN" in accepts
    if remaining.startswith('"'):
        what = "texts are quoted in single quotes: '...'; column names that are not identifiers in backticks"
    elif remaining.startswith("'"):
        what = "this text has no closing single quote"
    elif remaining.startswith("`"):
        what = "backticks quote the column after the name of its element: a.`a column`"
    elif remaining.startswith("=") and previous is not None and previous.type == "OPERATOR":
        what = "'==' is not supported; write '='"
    elif remaining.startswith(("&", "|")):
        what = f"write {'AND' if remaining[0] == '&' else 'OR'}"
    elif not is_value and token_text == "(" and previous is not None:
        allowed = ", ".join(MOTIF_FUNCTIONS)
        name = previous[:_MAX_PRINTED]
        what = f"unknown function '{name}' in where: expected one of {allowed}.{nearest(previous, MOTIF_FUNCTIONS)}"
    elif not text.strip():
        what = "where is empty: expected a condition such as a.id = 1; or leave out where"
    else:
        if is_value:
            accepts -= {"_LPAR", "_RPAR"}
        words = [word for kind, word in _WHERE_WORDS.items() if kind in accepts]
        if "OPERATOR" in accepts and "_IN" in accepts:
            words.remove(_WHERE_WORDS["_IN"])
        what = f"expected {_join_words(words)}{_after(previous, token_text)}"
    return _error(what, text, start, width, source)


def _stop_position(parser: Lark, text: str) -> tuple[Token | None, int, str, set[str]]:
    """Return the last token, the stop position, the text there and the accepted tokens."""
    from lark import UnexpectedCharacters, UnexpectedToken

    reader = parser.parse_interactive(text)
    read: list[Token | None] = [None, None]
    start, token_text = len(text.rstrip()), ""
    try:
        for token in reader.iter_parse():
            read = [read[-1], token]
        reader.feed_eof(read[-1])  # type: ignore[no-untyped-call]  # lark leaves it so
    except UnexpectedCharacters as error:
        start = error.pos_in_stream  # type: ignore[assignment]  # lark declares it as always None
        token_text = text[start]
    except UnexpectedToken as error:
        if error.token.type != "$END":
            if read[-1] is error.token:
                read = [None, read[0]]
            start, token_text = error.token.start_pos or 0, str(error.token)
    accepts = set(reader.accepts())  # type: ignore[no-untyped-call]  # lark leaves it so
    return read[-1], start, token_text, accepts


def _join_words(words: list[str]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else (words or ["something else"])[0]


def _after(previous: Token | None, token_text: str) -> str:
    after = f" after '{previous[:_MAX_PRINTED]}'" if previous else ""
    return after + ("" if token_text else ", where the text ends")


def _error(what: str, text: str, start: int, width: int, source: str) -> MotifSyntaxError:
    line = text.count("\n", 0, start) + 1
    column = start - text.rfind("\n", 0, start)
    return MotifSyntaxError(what, text, line, column, width, source)


# Expansion of variable-length edges, with the names that GraphFrames uses.


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
