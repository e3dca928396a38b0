"""Parser of Datalog text to `Rules`, with the grammar ``datalog.lark``."""

from __future__ import annotations

import functools
import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from difflib import get_close_matches
from typing import TYPE_CHECKING

from gpu_wcoj.data.column import whole_pattern
from gpu_wcoj.data.schema import declared_type
from gpu_wcoj.errors import (
    DatalogSyntaxError,
    SchemaError,
    UnsupportedError,
    UnsupportedTypeError,
    UsageError,
    nearest,
    pointed,
)
from gpu_wcoj.query.check import check
from gpu_wcoj.query.ir import (
    AGGREGATES,
    ARGUMENT_COUNTS,
    CONSTRAINTS,
    ESCAPES,
    FUNCTIONS,
    NULL,
    SOUFFLE_FUNCTORS,
    Aggregate,
    Atom,
    Call,
    Comparison,
    Constant,
    Declaration,
    Directive,
    Expression,
    Rule,
    Rules,
    Span,
    Variable,
    functions_by_name,
)
from gpu_wcoj.query.languages import language_of
from gpu_wcoj.user_functions import Function

if TYPE_CHECKING:
    from lark import Lark, Token, Tree


if TYPE_CHECKING:
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


def parse(text: str, *, source: str = "<text>", functions: Iterable[Function] = ()) -> Rules:
    """Parse and check a program.

    Parameters
    ----------
    text
        Rules ``head :- body.``, facts ``head.``, comments (``%``, ``//``, ``/* */``), and the lines ``.decl``,
        ``.input`` and ``.output``; see docs/datalog.md for the syntax of bodies. At most 1,000,000 bytes.
    source
        The name of the text in messages, for example the name of its file.
    functions
        Python functions that the text may call; no relation can have the name of one.

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
    return _read(text, source, tuple(functions_by_name(functions).values()))


@functools.lru_cache(maxsize=64)
def _read(text: str, source: str, functions: tuple[Function, ...]) -> Rules:
    """Return the program of a text; equal texts share it, as `Rules` are immutable."""
    return _Reader(text, source, functions).rules()


@functools.lru_cache(maxsize=16)
def _parser(names: tuple[str, ...] = ()) -> Lark:
    """Return the parser of texts that may call Python functions of these names."""
    from importlib.resources import files

    from lark import Lark

    grammar = files("gpu_wcoj.query").joinpath("datalog.lark").read_text(encoding="utf-8")
    grammar = grammar.replace("FUNCTION.2: /(", "".join(("FUNCTION.2: /(", *(f"{name}|" for name in names))))
    return Lark(grammar, parser="lalr", lexer="contextual", start="program", propagate_positions=True)


class _Reader:
    """Converter of the syntax tree of one text to rules."""

    def __init__(self, text: str, source: str, functions: Iterable[Function] = ()) -> None:
        self.text = text
        self.source = source
        self.functions = {function.name: function for function in functions}
        self.n_wildcards = 0

    def rules(self) -> Rules:
        statements = list(self.statements())
        rules = tuple(self.rule(node) for node in statements if node.data == "rule")
        if not rules:
            raise DatalogSyntaxError(
                "the program has no rule; write one such as 'h(x) :- r(x, y).'", self.text, 1, 1, 1, self.source
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

        names = tuple(sorted(self.functions))
        try:
            tree = _parser(names).parse(self.text)
        except UnexpectedInput:
            raise syntax_error(_parser(names), self.text, self.source, names) from None
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
            is_compared = part.data == "comparison" or next(_tokens(node)) in (*CONSTRAINTS, *self.functions)
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
            if constraint.function is not None and constraint.function.returns.family != "bool":
                kind = constraint.function.returns.name
                what = f"'{constraint.op}' returns '{kind}': a condition must return bool; compare it with a value"
                raise self.error(what, next(_tokens(next(_trees(node)) if is_negated else node)))
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
        function = self.functions.get(str(name))
        arguments = tuple(self.expression(argument, depth + 1) for argument in inner)
        call = Call(str(name), arguments, _span(node), function)
        n_arguments = len(call.arguments)
        if function is not None and n_arguments != len(function.parameters):
            raise self.error(f"'{call.op}' is {function.signature}: got {n_arguments} arguments", name)
        min_arguments, max_arguments = ARGUMENT_COUNTS.get(call.op, (1, 1))
        if call.op in FUNCTIONS and not min_arguments <= n_arguments <= max_arguments:
            raise self.error(f"'{call.op}' takes {FUNCTIONS[call.op]}: got {n_arguments} arguments", name)
        if call.op == "match" and isinstance(call.arguments[0], Constant):
            self.check_pattern(call.arguments[0], _span(inner[0]))
        return call

    def check_pattern(self, pattern: Constant, span: Span) -> None:
        """Raise for a constant that is not a regular expression."""
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
        functions = (*RESERVED, *self.functions)
        for names, what in ((AGGREGATES, "an aggregate"), (functions, "a function"), (("not",), "negation")):
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
                    f"unknown escape '{match[0]}'; allowed are {' '.join(ESCAPES.values())},"
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


# Syntax errors of Datalog: expected tokens, common slips, unsupported features.


_UNKNOWN_AGGREGATES = {"avg", "average", "range"}
DIRECTIVES = (".decl", ".input", ".output")

_WORDS = {
    "OPERATOR": "a comparison (=, !=, <, <=, >, >=)",
    "BRACKET": "'[...]'",
    "INTEGER": "a number",
    "EQUALS": "'='",
    "_LBRACE": "'{'",
    "_IF": "':-'",
    "_LPAR": "'('",
    "_COLON": "':'",
    "_COMMA": "','",
    "_RPAR": "')'",
    "_RBRACE": "'}'",
    "_DOT": "'.'",
}
_SLIPS = {"==": "=", "=<": "<=", "=>": ">=", "<>": "!="}
_TERMS = {"NAME", "SAFE", "NULL", "INTEGER", "FLOAT", "DECIMAL", "STRING", "BOOL"}
_OPERANDS = _TERMS | {"MINUS", "_LPAR", "_RPAR", "_RBRACE", "_NOT"}
_MAX_TEXT_LENGTH = 40
"""Longest token shown in a message, in characters."""
_FILE_NAME = re.compile(r"[^\n(),]+\.(?:dl|sql|motif|edn)", re.IGNORECASE)
_SQL_BEGINS = ("SELECT", "WITH", "CREATE", "FROM")
_SQL_STATEMENTS = {
    "PIVOT", "UNPIVOT", "VALUES", "TABLE", "INSERT", "UPDATE", "DELETE", "MERGE", "ALTER", "DROP", "EXPLAIN",
    "DESCRIBE", "SHOW", "SUMMARIZE",
}  # fmt: skip
_MIN_SIMILARITY = 0.75
"""Least similarity of a first word to an SQL keyword for the hint about SQL, as a ratio of `difflib`."""
_TWO_WORDS = re.compile(r"(?:\s|/\*.*?\*/)*([A-Za-z]+)\s+[\w*\"']", re.DOTALL)
_SHOWN_LANGUAGES = {"sql": "SQL", "motif": "a motif", "edn": "EDN"}


@dataclass(frozen=True)
class _Place:
    """Position where parsing stopped, and its context.

    Attributes
    ----------
    found
        The text there: of a token, one character, or empty at the end of the text.
    kind
        The kind of token; empty at the end and where no token could be read.
    last, last_but_one
        The tokens before it.
    accepts
        The kinds of token that could stand there.
    inside
        Whether a parenthesis is open.
    in_directive
        Whether the parenthesis belongs to a line ``.input`` or ``.output``.
    """

    token_text: str
    kind: str
    position: int
    previous: Token | None
    before_previous: Token | None
    accepts: frozenset[str]
    inside: bool
    in_directive: bool

    @property
    def is_statement(self) -> bool:
        return "_DECL" in self.accepts

    @property
    def is_literal(self) -> bool:
        """Return whether an atom or comparison of a body could start there."""
        return "_NOT" in self.accepts

    def follows(self, *kinds: str) -> bool:
        return self.previous is not None and self.previous.type in kinds


def syntax_error(
    parser: Lark, text: str, source: str, functions: Sequence[str] = ()
) -> DatalogSyntaxError | UnsupportedError:
    """Return the error for a text that the parser refuses; `functions` are declared names."""
    place = _stopped(parser, text)
    refused = _unsupported(place, text, functions)
    if _FILE_NAME.fullmatch(text.strip()):
        return DatalogSyntaxError(
            "this is the name of a file, and a program is its text",
            text,
            1,
            1,
            len(text),
            source,
            "Read the file first.",
        )
    what, start, length = refused or _slip(place, text) or (_expected(place), place.position, len(place.token_text))
    line = text.count("\n", 0, start) + 1
    column = start - text.rfind("\n", 0, start)
    if refused:
        return UnsupportedError(pointed(what, text, line, column, length, source))
    return DatalogSyntaxError(what, text, line, column, length, source, _hint(text))


def _hint(text: str) -> str:
    """Return a hint for a text that looks like another language, or an empty string."""
    try:
        language = language_of(text)
    except UsageError:
        return ""
    if language == "datalog":
        advice = "ask gpu_wcoj.query or view with language='sql', or with --language sql"
        return f"This is read as Datalog. If it is SQL, {advice}." if _is_like_sql(text) else ""
    advice = "gpu_wcoj.find or view" if language == "motif" else "gpu_wcoj.query or view"
    return f"It begins as {_SHOWN_LANGUAGES[language]} does: ask with {advice}, or with --language {language}."


def _is_like_sql(text: str) -> bool:
    """Return whether the first of two leading words resembles an SQL keyword."""
    words = _TWO_WORDS.match(text)
    first = "" if words is None else words[1].upper()
    return first in _SQL_STATEMENTS or bool(get_close_matches(first, _SQL_BEGINS, n=1, cutoff=_MIN_SIMILARITY))


def _stopped(parser: Lark, text: str) -> _Place:
    from lark import Token, UnexpectedCharacters, UnexpectedToken

    reader = parser.parse_interactive(text)
    read: deque[Token] = deque(maxlen=3)
    token_text, kind, position = "", "", 0
    try:
        for token in reader.iter_parse():
            read.append(token)
        reader.feed_eof(read[-1] if read else None)  # type: ignore[no-untyped-call]  # untyped in lark
    except UnexpectedCharacters as error:
        position = error.pos_in_stream  # type: ignore[assignment]  # lark declares it as always None
        token_text = text[position]
    except UnexpectedToken as error:
        if error.token.type == "$END":
            position = (read[-1].end_pos if read else 0) or 0
        else:
            if read and read[-1] is error.token:
                _ = read.pop()
            token_text, kind, position = str(error.token), error.token.type, error.token.start_pos or 0
    stack = reader.parser_state.value_stack
    inside = any(isinstance(value, Token) and value.type == "_LPAR" for value in stack)
    in_directive = any(isinstance(value, Token) and value.type in ("_INPUT", "_OUTPUT") for value in stack)
    accepts = frozenset(reader.accepts())  # type: ignore[no-untyped-call]  # untyped in lark
    previous, before_previous = [*reversed(read), None, None][:2]
    return _Place(token_text, kind, position, previous, before_previous, accepts, inside, in_directive)


Complaint = tuple[str, int, int]


def _unsupported(place: _Place, text: str, functions: Sequence[str]) -> Complaint | None:
    """Return the unsupported feature, its offset and its length; None for any other mistake."""
    previous, token_text, here = place.previous, place.token_text, (place.position, len(place.token_text))
    if place.is_statement and token_text == ".":
        name = re.compile(r"\.\w*").match(text, place.position)
        directive = name[0] if name else "."
        if directive != ".":
            supported = f"{', '.join(DIRECTIVES)} are.{nearest(directive, DIRECTIVES)}"
            return f"'{_short(directive)}' is not supported; {supported}", place.position, len(directive)
    if token_text == ";":
        return "';' (or) is not supported; write one rule with the same head for each case", *here
    if token_text == "^" and "PLUS" in place.accepts:
        return "'^' is not supported; + - * / % are", *here
    if previous is None or not place.follows("NAME") or place.in_directive:
        return None
    there = (previous.start_pos or 0, len(previous))
    in_body = "PLUS" in place.accepts
    if previous in SOUFFLE_FUNCTORS and place.kind == "_LPAR":
        return f"Soufflé's '{previous}' is not supported; {', '.join(FUNCTIONS)} are", *there
    if previous.lower() in _UNKNOWN_AGGREGATES and in_body and place.kind in {*_TERMS, "_LPAR", "_COLON"}:
        return f"the aggregate '{previous}' is not supported; {', '.join(AGGREGATES)} are", *there
    if place.kind == "_LPAR" and in_body:
        names = (*functions, *FUNCTIONS)
        what = f"functions such as '{_short(previous)}(...)' are not supported; {', '.join(names)} are"
        near = nearest(previous, names)
        return f"{what}.{near}" if near else what, *there
    if place.kind in ("_IF", "_DOT") and not place.inside and "_LPAR" in place.accepts and not in_body:
        return f"relation '{_short(previous)}' has no columns; relations without columns are not supported", *there
    return None


def _slip(place: _Place, text: str) -> Complaint | None:
    """Return the message, offset and length of a common slip; None if it is not one of them."""
    if place.previous is not None and place.follows("OPERATOR"):
        start = place.previous.start_pos or 0
        written = text[start : start + 2]
        if written in _SLIPS:
            return f"'{written}' is not a comparison operator; write '{_SLIPS[written]}'", start, 2
    if place.token_text == '"':
        return "this text is not closed by '\"' on its line", place.position, 1
    if place.token_text == "'":
        return 'texts stand in double quotes: write "..."', place.position, 1
    if place.token_text == "[":
        return "this '[' is not closed by ']' on its line", place.position, 1
    if place.kind == "_LPAR" and place.previous is not None and place.follows("BOOL", "NULL"):
        what = f"'{place.previous}' is a constant and cannot be a name"
        return what, place.previous.start_pos or 0, len(place.previous)
    if place.kind in ("BOOL", "NULL") and "INTEGER" not in place.accepts and "NAME" in place.accepts:
        what = f"'{place.token_text}' is a constant and cannot be a name"
        return what, place.position, len(place.token_text)
    if text.startswith("/*", place.position):
        return "this comment is not closed by '*/'", place.position, 2
    return None


def _expected(place: _Place) -> str:
    accepts = set(place.accepts) - {"$END"}
    words = []
    if place.is_statement:
        accepts -= {"NAME", "_DECL", "_INPUT", "_OUTPUT", "_LPAR"}
        words = ["a rule or a declaration"]
    elif accepts >= {"STRING", "INTEGER"}:
        accepts -= {*_OPERANDS, "_COLON"}
        if place.in_directive:
            words = ["a name, a number or a text"]
        else:
            words = ["a relation or a comparison" if place.is_literal else "a variable or a constant"]
    elif "NAME" in accepts:
        accepts -= {"NAME", "STRING", "_RPAR"}
        if place.follows("_COLON"):
            words = ["a type"]
        elif place.inside:
            words = ["the name of a parameter" if place.in_directive else "the name of a column"]
        else:
            words = ["the name of a relation"]
    elif accepts == {"_COLON"}:
        return _after("expected ':' and the body of the aggregate, as in sum x : { r(x) },", place)
    words += [word for kind, word in _WORDS.items() if kind in accepts]
    listing = f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else words[0]
    return _after(f"expected {listing}", place)


def _after(what: str, place: _Place) -> str:
    after = f" after '{_short(place.previous)}'" if place.previous else ""
    return f"{what}{after}" + ("" if place.token_text else ", where the text ends")


def _short(text: str) -> str:
    return text if len(text) <= _MAX_TEXT_LENGTH else f"{text[:_MAX_TEXT_LENGTH]}..."
