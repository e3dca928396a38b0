"""Parser of Datalog text to `Rules`, with the grammar ``datalog.lark``."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

from gpu_wcoj.errors import DatalogSyntaxError, SchemaError, UnsupportedTypeError, UsageError, pointed
from gpu_wcoj.query.check import check
from gpu_wcoj.query.declared import declared_type
from gpu_wcoj.query.ir import (
    AGGREGATES,
    ARGUMENT_COUNTS,
    CONSTRAINTS,
    ESCAPES,
    FUNCTIONS,
    NULL,
    Aggregate,
    Atom,
    Call,
    Comparison,
    Constant,
    Expression,
    Span,
    Variable,
)
from gpu_wcoj.query.rules import Declaration, Directive, Rule, Rules

if TYPE_CHECKING:
    from lark import Lark, Token, Tree

    Node = Tree[Token]  # the syntax tree of one statement or a part of it

_Body = tuple[tuple[Atom, ...], tuple[Comparison, ...], tuple[Atom, ...]]

TEXT_BYTES = 1_000_000
"""Longest program text, in bytes of UTF-8."""
NAME_LENGTH = 255
"""Longest name of a relation, variable or column, in characters."""
NESTING = 100
"""Deepest nesting of calculations and aggregates, in levels."""

_INTEGER_DIGITS = 30
"""Integers of more digits are refused without conversion; messages show this many digits."""
_FLOAT_DIGITS = 15
"""Significant decimal digits that every double preserves; a longer float constant stays a float."""
RESERVED = ("cat", "substr", "strlen", *CONSTRAINTS)
"""Functions whose names no relation can have; other function names are relations outside of calculations."""
_UNESCAPED = {spelled[1]: char for char, spelled in ESCAPES.items()}
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))")


def parse(text: str, *, source: str = "<text>") -> Rules:
    """Parse and check a program.

    Parameters
    ----------
    text
        Rules ``head :- body.``, facts ``head.``, comments (``%``, ``//``, ``/* */``), and the lines ``.decl``,
        ``.input`` and ``.output``; see docs/datalog.md for the syntax of bodies. At most 1,000,000 bytes.
    source
        The name of the text in messages, for example the name of its file.

    Raises
    ------
    DatalogSyntaxError
        If the text cannot be read; with line, column and the expected tokens.
    UnsupportedError
        For negation or aggregation through recursion, ``;`` and relations without columns.
    ArityError, SchemaError, UnknownRelationError, UnsafeRuleError, TypeMismatchError
        If rules and declarations disagree; see `gpu_wcoj.query.check.check`.

    Examples
    --------
    >>> rules = parse("triangle(a, b, c) :- edge(a, b), edge(b, c), edge(a, c).")
    >>> rules.inputs, rules.heads
    (('edge',), ('triangle',))
    >>> print(parse("young(name) :- person(name, age, _), age < 30. // comments are left out"))
    young(name) :- person(name, age, _), age < 30.
    >>> print(parse("far(x, y, 2 * d + 1) :- way(x, y, d), not near(x, y), n = count : { way(x, _, _) }, n > 3."))
    far(x, y, (2 * d) + 1) :- way(x, y, d), !near(x, y), n = count : { way(x, _, _) }, n > 3.
    """
    if not isinstance(text, str):
        raise UsageError.wrong_type("the program", text, "text (str)")
    n_bytes = len(text.encode("utf-8", "surrogatepass"))
    if n_bytes > TEXT_BYTES:
        raise UsageError.mismatch(
            "the program text", "is too long", f"{n_bytes:,} bytes", f"at most {TEXT_BYTES:,} bytes"
        )
    return _read(text, source)


@functools.lru_cache(maxsize=64)
def _read(text: str, source: str) -> Rules:
    """Return the program of a text; equal texts share it, as `Rules` are immutable."""
    return _Reader(text, source).rules()


@functools.cache
def _parser() -> Lark:
    from importlib.resources import files

    from lark import Lark

    grammar = files("gpu_wcoj.query").joinpath("datalog.lark").read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", lexer="contextual", start="program", propagate_positions=True)


class _Reader:
    """Converter of the syntax tree of one text to rules."""

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
        directives = self.directives(node for node in statements if node.data in ("input", "output"))
        outputs = tuple(dict.fromkeys(directive.relation for directive in directives if directive.kind == "output"))
        inputs = [directive for directive in directives if directive.kind == "input"]
        named = (
            *inputs,
            *(directive for directive in directives if directive.kind == "output" and directive.parameters),
        )
        program = Rules(rules, declarations, outputs, self.text, directives=named)
        check(program, source=self.source)
        return program

    def statements(self) -> Iterator[Node]:
        from lark import UnexpectedInput

        try:
            tree = _parser().parse(self.text)
        except UnexpectedInput:
            from gpu_wcoj.query.expected import syntax_error

            raise syntax_error(_parser(), self.text, self.source) from None
        return _trees(tree)

    def rule(self, node: Node) -> Rule:
        self.n_wildcards = 0
        head, *body = list(_trees(node))
        (name,) = _tokens(head)
        terms = tuple(self.applied(term) if term.data == "applied" else self.expression(term) for term in _trees(head))
        atoms, comparisons, negated = self.body(body)
        return Rule(Atom(self.relation(name), terms, _span(head)), atoms, comparisons, negated)

    def body(self, parts: Sequence[Node], depth: int = 0) -> _Body:
        groups: dict[str, list[Node]] = {"atom": [], "comparison": [], "negated": []}
        for part in parts:
            node = next(_trees(part)) if part.data == "negated" else part
            is_compared = part.data == "comparison" or next(_tokens(node)) in CONSTRAINTS
            groups["comparison" if is_compared else "negated" if node is not part else "atom"].append(part)
        return (
            tuple(self.atom(part, depth) for part in groups["atom"]),
            tuple(self.comparison(part, depth) for part in groups["comparison"]),
            tuple(self.atom(next(_trees(part)), depth) for part in groups["negated"]),
        )

    def atom(self, node: Node, depth: int) -> Atom:
        (name,) = _tokens(node)
        return Atom(self.relation(name), tuple(self.expression(term, depth) for term in _trees(node)), _span(node))

    def comparison(self, node: Node, depth: int) -> Comparison:
        if node.data != "comparison":  # a constraint: a call that is true, or false if negated
            is_negated = node.data == "negated"
            constraint = self.call(next(_trees(node)) if is_negated else node, depth)
            return Comparison("=", constraint, Constant(not is_negated), _span(node))
        left, right = (self.expression(term, depth) for term in _trees(node))
        (operator,) = _tokens(node)
        return Comparison(str(operator), left, right, _span(node))

    def expression(self, node: Node, depth: int = 0) -> Expression:
        while node.data in ("expression", "group"):
            (node,) = _trees(node)
        if depth > NESTING:
            what, span = f"calculations nest more than {NESTING} deep; calculate a part in a rule before", _span(node)
            raise DatalogSyntaxError(what, self.text, span.line, span.column, span.width, self.source)
        inner, tokens = list(_trees(node)), list(_tokens(node))
        if node.data == "literal":
            return self.literal(tokens[0])
        if node.data == "minus" and inner[0].data == "literal":
            (literal,) = _tokens(inner[0])
            if literal.type in ("INTEGER", "FLOAT", "DECIMAL"):
                return self.literal(literal, is_negative=True)
        if node.data == "aggregate":
            return self.aggregate(node, depth)
        return self.call(node, depth)

    def call(self, node: Node, depth: int) -> Call:
        """Return the call of a function or operator."""
        name = next(_tokens(node))
        inner = list(_trees(node))
        call = Call(str(name), tuple(self.expression(argument, depth + 1) for argument in inner), _span(node))
        n_arguments = len(call.arguments)
        min_arguments, max_arguments = ARGUMENT_COUNTS.get(call.op, (1, 1))
        if call.op in FUNCTIONS and not min_arguments <= n_arguments <= max_arguments:
            raise self.error(f"'{call.op}' takes {FUNCTIONS[call.op]}: got {n_arguments} arguments", name)
        if call.op == "match" and isinstance(call.arguments[0], Constant):
            self.check_pattern(call.arguments[0], _span(inner[0]))
        return call

    def check_pattern(self, pattern: Constant, span: Span) -> None:
        """Raise for a constant that is not a regular expression."""
        from gpu_wcoj.dictionary import whole_pattern  # imported only by programs that use it

        if isinstance(pattern.value, str) and whole_pattern(pattern.value) is None:
            what = (
                f"{pattern} is not a regular expression in the syntax of RE2, which has no back references and no "
                "look-around"
            )
            raise DatalogSyntaxError(what, self.text, span.line, span.column, span.width, self.source)

    def applied(self, node: Node) -> Call:
        """Return an aggregate of a head, over the body of its rule."""
        (op,) = _tokens(node)
        arguments = tuple(self.expression(argument) for argument in _trees(node))
        if op == "count" and any(
            not isinstance(argument, Variable) or not argument.is_wildcard for argument in arguments
        ):
            what = "'count' counts the ways to satisfy the body: write count(), and derive before what is distinct"
            raise self.error(what, op)
        if op != "count" and not arguments:
            raise self.error(f"'{op}' takes a value, as {op}(x)", op)
        return Call(str(op), () if op == "count" else arguments, _span(node))

    def aggregate(self, node: Node, depth: int) -> Aggregate:
        (op,) = _tokens(node)
        parts = list(_trees(node))
        value = self.expression(parts.pop(0), depth + 1) if parts[0].data == "expression" else None
        if (value is None) != (op == "count"):
            what = "takes no value: count : { ... }" if op == "count" else f"takes a value: {op} x : {{ ... }}"
            raise self.error(f"'{op}' {what}", op)
        atoms, comparisons, negated = self.body(parts, depth + 1)
        return Aggregate(str(op), value, atoms, comparisons, negated, _span(node))

    def directives(self, nodes: Iterable[Node]) -> list[Directive]:
        """Return the ``.input`` and ``.output`` lines in order, one for each relation and kind."""
        by_relation: dict[tuple[str, str], Directive] = {}
        for node in nodes:
            parameters: dict[str, str] = {}
            for parameter in (child for part in _trees(node) for child in _trees(part)):
                name, _, value = _tokens(parameter)
                if name in parameters:
                    raise self.error(f"the parameter '{name}' is given twice", name)
                parameters[str(name)] = self.string(value) if value.type == "STRING" else str(value)
            for token in _tokens(node):
                directive = Directive(str(node.data), self.relation(token), tuple(parameters.items()), _span(node))
                earlier = by_relation.setdefault((directive.kind, directive.relation), directive)
                if earlier.parameters and parameters and earlier != directive:
                    what = f"'{directive.relation}' has two lines .{directive.kind} with other parameters"
                    raise SchemaError(
                        pointed(what, self.text, token.line or 0, token.column or 0, len(token), self.source)
                    )
                if parameters:
                    by_relation[directive.kind, directive.relation] = directive
        return list(by_relation.values())

    def declaration(self, node: Node) -> Declaration:
        (relation,) = _tokens(node)
        columns = list(_trees(node))
        names = tuple(self.column(token) for column in columns for token in _tokens(column))
        types = tuple(next((self.type(kind) for kind in _trees(column)), None) for column in columns)
        return Declaration(self.relation(relation), names, types, _span(node))

    def type(self, node: Node) -> str:
        name, *arguments = map(str, _tokens(node))
        if "-" in arguments:
            arguments = [arguments[0], f"-{arguments[-1]}"]
        if arguments:
            name += arguments[0] if arguments[0].startswith("[") else f"({', '.join(arguments)})"
        try:
            return declared_type(name)
        except UnsupportedTypeError as error:
            span = _span(node)
            raise UnsupportedTypeError(
                pointed(str(error), self.text, span.line, span.column, span.width, self.source)
            ) from None

    def literal(self, token: Token, is_negative: bool = False) -> Variable | Constant:
        if token.type == "NAME":
            if token == "_":
                self.n_wildcards += 1
                return Variable(f"_#{self.n_wildcards}")
            return Variable(self.name(token))
        if token.type == "SAFE":
            return Variable(f"{self.name(token, token[:-1])}?")
        if token.type == "NULL":
            return NULL
        if token.type == "BOOL":
            return Constant(token == "true")
        if token.type == "STRING":
            return Constant(self.string(token))
        sign = "-" if is_negative else ""
        digits = token.lstrip("0") or "0"
        if token.type == "INTEGER" and len(digits) > _INTEGER_DIGITS:
            raise self.error(f"integer {sign}{token[:_INTEGER_DIGITS]}... is outside int64, -2^63 to 2^63-1", token)
        try:
            if token.type == "DECIMAL":
                return Constant(Decimal(sign + token[:-1]))
            if token.type == "FLOAT":
                return float_constant(sign + token)
            return Constant(int(sign + digits))
        except UnsupportedTypeError as error:
            raise self.error(str(error), token) from None

    def relation(self, token: Token) -> str:
        """Return the name of a relation."""
        for names, what in ((AGGREGATES, "an aggregate"), (RESERVED, "a function"), (("not",), "negation")):
            if token in names:
                raise self.error(f"'{token}' is {what}; no relation can have this name", token)
        return self.name(token)

    def column(self, token: Token) -> str:
        """Return the name of a column: any text if it is quoted."""
        if token.type != "STRING":
            return self.name(token)
        name = self.string(token)
        if len(name) > NAME_LENGTH:
            raise self.error(f"the name has {len(name):,} characters; {NAME_LENGTH} are allowed", token)
        return name

    def name(self, token: Token, text: str = "") -> str:
        """Return `text`, or else the token, as a checked name."""
        text = text or str(token)
        if len(text) > NAME_LENGTH:
            raise self.error(f"the name has {len(text):,} characters; {NAME_LENGTH} are allowed", token)
        if text in ("true", "false", "null"):
            raise self.error(f"'{text}' is a constant and cannot be a name", token)
        if text == "_":
            raise self.error("'_' stands for a value and cannot be a name", token)
        return text

    def string(self, token: Token) -> str:
        """Return the text between the quotes, with escapes replaced."""

        def read(match: re.Match[str]) -> str:
            point = int(match[1] or match[2] or "0", 16)
            is_valid = match[3] in _UNESCAPED if match[3] else point < 0x110000 and not 0xD800 <= point < 0xE000
            if not is_valid:
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
                raise self.error(f"the text contains an unpaired surrogate (U+{ord(char):04X})", token, place, 1)
        return _ESCAPE.sub(read, inside)

    def error(self, what: str, token: Token, start: int = 0, width: int | None = None) -> DatalogSyntaxError:
        line, column = token.line or 1, (token.column or 1) + start
        return DatalogSyntaxError(what, self.text, line, column, width or len(token) - start, self.source)


def float_constant(text: str) -> Constant:
    """Return a float, or a decimal if the float's shortest text differs from `text`.

    A float whose shortest text has more than 15 digits stays a float.
    """
    constant = Constant(float(text))
    shortest = Decimal(repr(constant.value))
    if len(shortest.normalize().as_tuple().digits) > _FLOAT_DIGITS or shortest == Decimal(text):
        return constant
    return Constant(Decimal(text))


def _trees(node: Node) -> Iterator[Node]:
    from lark import Tree

    return (child for child in node.children if isinstance(child, Tree))


def _tokens(node: Node) -> Iterator[Token]:
    from lark import Token

    return (child for child in node.children if isinstance(child, Token))


def _span(node: Node) -> Span:
    meta = node.meta
    return Span(meta.line, meta.column, meta.end_pos - meta.start_pos)
