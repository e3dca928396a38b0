"""Parser of ``where`` (grammar ``where.lark``), and its expressions and conditions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gpu_wcoj.errors import MotifSyntaxError, TypeMismatchError, UnsupportedError, UnsupportedTypeError, nearest
from gpu_wcoj.query.ir import Constant, Span
from gpu_wcoj.query.motif.parse import check_text, parser_of, pointed_lines, span_of, tokens, trees
from gpu_wcoj.query.motif.pattern import Motif

if TYPE_CHECKING:
    from lark import Token, Tree

    Node = Tree[Token]

MAX_NESTING = 100
"""The largest nesting depth of an expression."""

MAX_VALUES = 1000
"""The largest number of values in a list after IN."""

_MAX_DIGITS = 30
"""The longest integer literal that is converted, in digits; longer ones are outside int64 anyway."""
_MIRRORED = {"<>": "!="}


@dataclass(frozen=True)
class Field:
    """``element.column``; the element is empty for a term's ``_hop`` or ``_direction``."""

    element: str
    column: str
    span: Span = field(default=Span(), compare=False)

    def __str__(self) -> str:
        return f"{self.element}.{self.column}" if self.element else self.column


@dataclass(frozen=True)
class Null:
    """The null value."""

    def __str__(self) -> str:
        return "NULL"


@dataclass(frozen=True)
class Operation:
    """Arithmetic, unary minus, ``like`` of a text and a pattern, or another function."""

    op: str
    operands: tuple[Value, ...]
    span: Span = field(default=Span(), compare=False)

    def __str__(self) -> str:
        if self.op.isalpha():
            return f"{self.op}({', '.join(map(str, self.operands))})"
        printed = [f"({operand})" if isinstance(operand, Operation) else str(operand) for operand in self.operands]
        return f" {self.op} ".join(printed) if len(printed) > 1 else f"{self.op}{printed[0]}"


Value = Field | Constant | Null | Operation


@dataclass(frozen=True)
class Test:
    """A comparison of two values; not true where one of them is null."""

    op: str
    left: Value
    right: Value
    span: Span = field(default=Span(), compare=False)

    def __str__(self) -> str:
        return f"{self.left} {self.op} {self.right}"


@dataclass(frozen=True)
class Among:
    """Membership of a value in a list, or its negation; not true for null.

    Attributes
    ----------
    has_null
        True if the list contains null; then the membership of a missing value is unknown.
    """

    value: Value
    values: tuple[Constant, ...]
    is_negated: bool = False
    has_null: bool = False
    span: Span = field(default=Span(), compare=False)

    def __str__(self) -> str:
        return f"{self.value} {'NOT ' if self.is_negated else ''}IN ({', '.join(map(str, self.values))})"


@dataclass(frozen=True)
class IsNull:
    """Null test of a value, or its negation."""

    value: Value
    is_negated: bool = False

    def __str__(self) -> str:
        return f"{self.value} IS {'NOT ' if self.is_negated else ''}NULL"


@dataclass(frozen=True)
class Truth:
    """A constant condition."""

    holds: bool


@dataclass(frozen=True)
class All:
    """Conjunction of conditions."""

    parts: tuple[Condition, ...]

    def __str__(self) -> str:
        return f"({' AND '.join(map(str, self.parts))})"


@dataclass(frozen=True)
class Any:
    """Disjunction of conditions."""

    parts: tuple[Condition, ...]

    def __str__(self) -> str:
        return f"({' OR '.join(map(str, self.parts))})"


@dataclass(frozen=True)
class Not:
    """Negation of a condition; unknown where the condition is unknown."""

    part: Condition


Condition = Test | Among | IsNull | Truth | All | Any | Not


def fields_of(value: Value | Condition) -> Iterator[Field]:
    """Yield all fields of an expression."""
    waiting: list[Value | Condition] = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Field):
            yield part
        elif isinstance(part, Operation):
            waiting += part.operands
        elif isinstance(part, Test):
            waiting += (part.left, part.right)
        elif isinstance(part, (Among, IsNull)):
            waiting.append(part.value)
        elif isinstance(part, (All, Any)):
            waiting += part.parts
        elif isinstance(part, Not):
            waiting.append(part.part)


def parse(text: str, motif: Motif, *, source: str = "<where>") -> Condition:
    """Parse a condition on a motif's elements.

    Comparisons of ``name.column``, numbers, texts in single quotes, ``TRUE`` and ``FALSE``, ``+ - * / %``, ``IN``,
    ``BETWEEN``, ``LIKE``, ``IS NULL``, joined by ``AND``, ``OR``, ``NOT``; the functions ``lower``, ``upper``,
    ``length``, ``abs``, ``year``, ``month`` and ``day``. ``/`` is float division. Column names that are not
    identifiers are quoted in backticks.

    Raises
    ------
    MotifSyntaxError
        If the text cannot be read, or names an element that the motif does not have.
    UnsupportedError, TypeMismatchError
        If the condition cannot be answered; with line and column.

    Examples
    --------
    >>> from gpu_wcoj.query.motif.parse import parse as parse_motif
    >>> print(parse("t.amount > 9 + a.limit", parse_motif("(a)-[t]->(b)")))
    t.amount > 9 + a.limit
    """
    check_text(text, "a condition")
    return _ConditionParser(text, motif, source).condition()


class _ConditionParser:
    """Translator of a parse tree to a condition."""

    def __init__(self, text: str, motif: Motif, source: str) -> None:
        self.text = text
        self.motif = motif
        self.source = source
        self.elements = (*motif.vertices, *motif.edges)
        self.term_columns = [name for names in motif.term_columns.values() for name in names.values()]

    def condition(self) -> Condition:
        from lark import UnexpectedInput

        parser = parser_of("where.lark", "condition")
        try:
            tree = parser.parse(self.text)
        except UnexpectedInput:
            from gpu_wcoj.query.motif.expected import where_error

            raise where_error(parser, self.text, self.source) from None
        (node,) = trees(tree)
        return self.truth(node, 0)

    def truth(self, node: Node, depth: int) -> Condition:
        """Translate an expression that is true, false or unknown."""
        while node.data == "group":
            (node,) = trees(node)
        self.check_depth(node, depth)
        parts = list(trees(node))
        if node.data == "all":
            return All(tuple(self.truth(part, depth + 1) for part in parts))
        if node.data == "any":
            return Any(tuple(self.truth(part, depth + 1) for part in parts))
        if node.data == "not":
            return Not(self.truth(parts[0], depth + 1))
        if node.data == "comparison":
            return self.comparison(node, parts, depth)
        is_negated = any(token.type == "NOT" for token in tokens(node))
        if node.data == "among":
            return self.among(node, parts, is_negated, depth)
        if node.data == "between":
            value, low, high = (self.value(part, depth + 1) for part in parts)
            span = span_of(node)
            inside = All((Test(">=", value, low, span), Test("<=", value, high, span)))
            return Not(inside) if is_negated else inside
        if node.data == "like":
            value, pattern = (self.value(part, depth + 1) for part in parts)
            if not isinstance(pattern, Constant) or not isinstance(pattern.value, str):
                raise self.error("the pattern of LIKE is not a text literal; write LIKE '...'", span_of(parts[1]))
            matched = Operation("like", (value, pattern), span_of(node))
            return Test("!=" if is_negated else "=", matched, Constant(True), span_of(node))
        if node.data == "null":
            return IsNull(self.value(parts[0], depth + 1), is_negated)
        if node.data == "literal":
            (token,) = tokens(node)
            if token.type == "BOOL":
                return Truth(token.lower() == "true")
        if node.data == "column":
            value = self.value(node, depth)
            return Test("=", value, Constant(True), span_of(node))
        raise self.error("expected a comparison, got a value", span_of(node))

    def comparison(self, node: Node, parts: list[Node], depth: int) -> Condition:
        left, right = (self.value(part, depth + 1) for part in parts)
        (token,) = tokens(node)
        op = _MIRRORED.get(str(token), str(token))
        if Null() in (left, right):
            what = f"'{op} NULL' is never true; write IS NULL or IS NOT NULL"
            raise self.error(what, span_of(node))
        return Test(op, left, right, span_of(node))

    def among(self, node: Node, parts: list[Node], is_negated: bool, depth: int) -> Condition:
        first, *elements = parts
        value = self.value(first, depth + 1)
        if len(elements) > MAX_VALUES:
            what = (
                f"the list is too long: got {len(elements):,} values, expected at most {MAX_VALUES:,}.\n"
                "  Pass longer lists of ids as ids={...}"
            )
            raise UnsupportedError(pointed_lines(what, self.text, span_of(node), self.source))
        constants: dict[Constant, None] = {}
        has_null = False
        for part in elements:
            element = self.value(part, depth + 1)
            if isinstance(element, Null):
                has_null = True
            elif isinstance(element, Constant):
                constants[element] = None
            else:
                what = "a list holds constants only; compare with '=' and OR instead"
                raise UnsupportedError(pointed_lines(what, self.text, span_of(part), self.source))
        kinds = {
            "a number" if type(constant.value) in (int, float) else type(constant.value).__name__
            for constant in constants
        }
        if len(kinds) > 1:
            what = "the values of a list have different types: expected only numbers, only texts or only truth values"
            raise TypeMismatchError(pointed_lines(what, self.text, span_of(node), self.source))
        return Among(value, tuple(constants), is_negated, has_null, span_of(node))

    def value(self, node: Node, depth: int) -> Value:
        """Translate an expression that is a number, a text or a truth value."""
        while node.data == "group":
            (node,) = trees(node)
        self.check_depth(node, depth)
        if node.data == "literal":
            (token,) = tokens(node)
            return self.literal(token)
        if node.data == "column":
            (token,) = tokens(node)
            return self.column(token)
        if node.data == "call":
            (name,) = tokens(node)
            return Operation(name.lower(), tuple(self.value(part, depth + 1) for part in trees(node)), span_of(node))
        if node.data in ("sum", "product", "minus"):
            (op,) = tokens(node)
            operands = tuple(self.value(part, depth + 1) for part in trees(node))
            if node.data == "minus" and isinstance(operands[0], Constant) and type(operands[0].value) in (int, float):
                return Constant(-operands[0].value)  # type: ignore[operator]  # it is a number
            return Operation(str(op), operands, span_of(node))
        raise self.error("expected a value, got a condition", span_of(node))

    def column(self, token: Token) -> Field:
        span = Span(token.line or 1, token.column or 1, len(token))
        if token.type == "NAME":
            if str(token) in self.term_columns:
                return Field("", str(token), span)
            if str(token) in self.elements:
                what = f"'{token}' is an element; name a column of it, as in {token}.{self.example(str(token))}"
            else:
                example = f"{self.elements[0]}.{token}"
                what = f"unknown column '{token}' of the matches; qualify it with an element, as in {example}"
            raise self.error(what, span)
        element, column = token.split(".", 1)
        if element not in self.elements:
            listing = ", ".join(self.elements)
            hint = nearest(element, self.elements)
            what = f"unknown element '{element}' of the motif: expected one of {listing}.{hint}"
            raise self.error(what, Span(span.line, span.column, len(element)))
        return Field(element, column.strip("`"), span)

    def example(self, element: str) -> str:
        return "id" if element in self.motif.vertices else "src"

    def literal(self, token: Token) -> Constant | Null:
        if token.type == "NULL":
            return Null()
        if token.type == "BOOL":
            return Constant(token.lower() == "true")
        span = Span(token.line or 1, token.column or 1, len(token))
        if token.type == "STRING":
            text = token[1:-1].replace("''", "'")
            if any(0xD800 <= ord(char) < 0xE000 for char in text):
                raise self.error("the text contains an unpaired surrogate", span)
            return Constant(text)
        digits = token.lstrip("0") or "0"
        if token.type == "INTEGER" and len(digits) > _MAX_DIGITS:
            raise self.error(f"integer {token[:_MAX_DIGITS]}... is outside int64, -2^63 to 2^63-1", span)
        try:
            return Constant(float(token) if token.type == "FLOAT" else int(digits))
        except UnsupportedTypeError as error:
            raise self.error(str(error), span) from None

    def check_depth(self, node: Node, depth: int) -> None:
        if depth > MAX_NESTING:
            raise self.error(f"conditions and calculations nest more than {MAX_NESTING} deep", span_of(node))

    def error(self, what: str, span: Span) -> MotifSyntaxError:
        return MotifSyntaxError(what, self.text, span.line, span.column, span.width, self.source)
