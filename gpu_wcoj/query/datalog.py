"""Datalog text to `Rules`: a grammar (``datalog.lark``), the values of its tokens, and where each piece stands."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpu_wcoj.errors import DatalogSyntaxError, UnsupportedError, UnsupportedTypeError, UsageError, pointed
from gpu_wcoj.query.checks import check, check_inputs
from gpu_wcoj.query.declared import declared_type
from gpu_wcoj.query.terms import ESCAPES, Atom, Comparison, Constant, Declaration, Rule, Rules, Span, Term, Variable

if TYPE_CHECKING:
    from lark import Lark, Token, Tree

    Node = Tree[Token]  # what the grammar makes of one statement or a part of it

TEXT_BYTES = 1_000_000
"""The longest program text, in bytes of UTF-8."""
NAME_LENGTH = 255
"""The longest name of a relation, variable or column, in characters."""

_INTEGER_DIGITS = 30
_UNESCAPED = {spelled[1]: char for char, spelled in ESCAPES.items()}
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))")


def parse(text: str, *, source: str = "<text>") -> Rules:
    """The program that `text` spells, checked.

    Parameters
    ----------
    text
        Rules ``head :- body.`` with comparisons, ``_``, constants, comments (``%``, ``//``, ``/* */``), and the lines
        ``.decl``, ``.input`` and ``.output``. At most 1,000,000 bytes.
    source
        What messages call the text, for example the name of its file.

    Raises
    ------
    DatalogSyntaxError
        If the text cannot be read; with line, column and what was expected.
    UnsupportedError
        For facts, negation, recursion, aggregates, arithmetic and relations without columns.
    ArityError, SchemaError, UnknownRelationError, UnsafeRuleError, TypeMismatchError
        If rules and declarations disagree; see `gpu_wcoj.query.checks.check`.

    Examples
    --------
    >>> rules = parse("triangle(a, b, c) :- edge(a, b), edge(b, c), edge(a, c).")
    >>> rules.inputs, rules.heads
    (('edge',), ('triangle',))
    >>> print(parse("young(name) :- person(name, age, _), age < 30. // comments are left out"))
    young(name) :- person(name, age, _), age < 30.
    """
    if not isinstance(text, str):
        raise UsageError(f"a program is text (str), not {type(text).__name__}.")
    n_bytes = len(text.encode("utf-8", "surrogatepass"))
    if n_bytes > TEXT_BYTES:
        raise UsageError(f"the program text has {n_bytes:,} bytes; {TEXT_BYTES:,} are allowed.")
    return _Reader(text, source).rules()


@functools.cache
def _parser() -> Lark:
    from importlib.resources import files

    from lark import Lark

    grammar = files("gpu_wcoj.query").joinpath("datalog.lark").read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", lexer="basic", start="program", propagate_positions=True)


class _Reader:
    """The grammar's tree of one text, turned into terms."""

    def __init__(self, text: str, source: str) -> None:
        self.text = text
        self.source = source
        self.n_wildcards = 0

    def rules(self) -> Rules:
        statements = list(self.statements())
        rules = tuple(self.rule(node) for node in statements if node.data == "rule")
        if not rules:
            raise DatalogSyntaxError(
                "there is no rule; write one such as 'h(x) :- r(x, y).'", self.text, 1, 1, 1, self.source
            )
        declarations = tuple(self.declaration(node) for node in statements if node.data == "declaration")
        inputs, outputs = (
            [self.name(token) for node in statements if node.data == kind for token in _tokens(node)]
            for kind in ("input", "output")
        )
        found = Rules(rules, declarations, tuple(dict.fromkeys(outputs)), self.text)
        check(found, source=self.source)
        check_inputs(found, inputs)
        return found

    def statements(self) -> Iterator[Node]:
        from lark import UnexpectedInput

        try:
            tree = _parser().parse(self.text)
        except UnexpectedInput:
            from gpu_wcoj.query.expected import explained

            raise explained(_parser(), self.text, self.source) from None
        return _trees(tree)

    def rule(self, node: Node) -> Rule:
        self.n_wildcards = 0
        head, *body = list(_trees(node))
        return Rule(
            self.atom(head),
            tuple(self.atom(part) for part in body if part.data == "atom"),
            tuple(self.comparison(part) for part in body if part.data == "comparison"),
        )

    def atom(self, node: Node) -> Atom:
        (name,) = _tokens(node)
        if name == "not":
            span = _span(node)
            what = "negation with 'not' is not supported yet, and no relation can have this name"
            raise UnsupportedError(pointed(what, self.text, span.line, span.column, len(name), self.source))
        return Atom(self.name(name), tuple(self.term(term) for term in _trees(node)), _span(node))

    def comparison(self, node: Node) -> Comparison:
        left, right = (self.term(term) for term in _trees(node))
        (operator,) = _tokens(node)
        return Comparison(str(operator), left, right, _span(node))

    def declaration(self, node: Node) -> Declaration:
        (relation,) = _tokens(node)
        columns = list(_trees(node))
        names = tuple(self.name(token) for column in columns for token in _tokens(column))
        types = tuple(next((self.type(kind) for kind in _trees(column)), None) for column in columns)
        return Declaration(self.name(relation), names, types, _span(node))

    def type(self, node: Node) -> str:
        name, *arguments = map(str, _tokens(node))
        if arguments:
            name += arguments[0] if arguments[0].startswith("[") else f"({', '.join(arguments)})"
        try:
            return declared_type(name)
        except UnsupportedTypeError as error:
            span = _span(node)
            raise UnsupportedTypeError(
                pointed(str(error), self.text, span.line, span.column, span.width, self.source)
            ) from None

    def term(self, node: Node) -> Term:
        (token,) = _tokens(node)
        if token.type == "NAME":
            if token == "_":
                self.n_wildcards += 1
                return Variable(f"_#{self.n_wildcards}")
            return Variable(self.name(token))
        if token.type == "BOOL":
            return Constant(token == "true")
        if token.type == "STRING":
            return Constant(self.string(token))
        digits = token.lstrip("-0") or "0"
        if token.type == "INTEGER" and len(digits) > _INTEGER_DIGITS:
            raise self.error(f"integer {token[:_INTEGER_DIGITS]}... is outside int64, -2^63 to 2^63-1", token)
        try:
            if token.type == "FLOAT":
                return Constant(float(token))
            return Constant(-int(digits) if token.startswith("-") else int(digits))
        except UnsupportedTypeError as error:
            raise self.error(str(error), token) from None

    def name(self, token: Token) -> str:
        if len(token) > NAME_LENGTH:
            raise self.error(f"the name has {len(token):,} characters; {NAME_LENGTH} are allowed", token)
        if token == "_":
            raise self.error("'_' stands for a value; it is no name", token)
        return str(token)

    def string(self, token: Token) -> str:
        """What stands between the quotes, with escapes read."""

        def read(match: re.Match[str]) -> str:
            point = int(match[1] or match[2] or "0", 16)
            known = match[3] in _UNESCAPED if match[3] else point < 0x110000 and not 0xD800 <= point < 0xE000
            if not known:
                raise self.error(
                    f"there is no escape '{match[0]}'; allowed are {' '.join(ESCAPES.values())},"
                    " and \\uXXXX or \\UXXXXXXXX of a character",
                    token,
                    match.start() + 1,
                    len(match[0]),
                )
            return _UNESCAPED[match[3]] if match[3] else chr(point)

        inside = token[1:-1]
        for place, char in enumerate(inside, start=1):
            if 0xD800 <= ord(char) < 0xE000:
                raise self.error("half a surrogate pair is no character", token, place, 1)
        return _ESCAPE.sub(read, inside)

    def error(self, what: str, token: Token, start: int = 0, width: int | None = None) -> DatalogSyntaxError:
        line, column = token.line or 1, (token.column or 1) + start
        return DatalogSyntaxError(what, self.text, line, column, width or len(token) - start, self.source)


def _trees(node: Node) -> Iterator[Node]:
    from lark import Tree

    return (child for child in node.children if isinstance(child, Tree))


def _tokens(node: Node) -> Iterator[Token]:
    from lark import Token

    return (child for child in node.children if isinstance(child, Token))


def _span(node: Node) -> Span:
    meta = node.meta
    return Span(meta.line, meta.column, meta.end_pos - meta.start_pos)
