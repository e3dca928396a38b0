"""What ``where`` asks of a motif's elements: a grammar (``where.lark``), and expressions of truth and of values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gpu_wcoj.errors import MotifSyntaxError, TypeMismatchError, UnsupportedError, UnsupportedTypeError, nearest
from gpu_wcoj.query.motif.pattern import Motif
from gpu_wcoj.query.motif.reading import check_text, parser_of, pointed_lines, span_of, tokens, trees
from gpu_wcoj.query.terms import Constant, Span

if TYPE_CHECKING:
    from lark import Token, Tree

    Node = Tree[Token]

NESTING = 100
"""How deep an expression may nest."""

MOST_VALUES = 1000
"""The longest list behind IN."""

_DIGITS = 30
_MIRRORED = {"<>": "!="}


@dataclass(frozen=True)
class Field:
    """``element.column``; of what a term tells (``_hop``, ``_direction``) the element is empty."""

    element: str
    column: str
    span: Span = field(default=Span(), compare=False)

    def __str__(self) -> str:
        return f"{self.element}.{self.column}" if self.element else self.column


@dataclass(frozen=True)
class Null:
    """The value that is none."""

    def __str__(self) -> str:
        return "NULL"


@dataclass(frozen=True)
class Operation:
    """Arithmetic, a minus before one operand, ``like`` of a text and a pattern, or another function."""

    op: str
    operands: tuple[Value, ...]
    span: Span = field(default=Span(), compare=False)

    def __str__(self) -> str:
        if self.op.isalpha():
            return f"{self.op}({', '.join(map(str, self.operands))})"
        shown = [f"({one})" if isinstance(one, Operation) else str(one) for one in self.operands]
        return f" {self.op} ".join(shown) if len(shown) > 1 else f"{self.op}{shown[0]}"


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
    """Whether a value is one of a list, or is none of it; not true where it is null.

    Attributes
    ----------
    has_null
        Whether the list also has a null; then it is unknown whether a value that is not found is in the list.
    """

    value: Value
    among: tuple[Constant, ...]
    is_negated: bool = False
    has_null: bool = False
    span: Span = field(default=Span(), compare=False)

    def __str__(self) -> str:
        return f"{self.value} {'NOT ' if self.is_negated else ''}IN ({', '.join(map(str, self.among))})"


@dataclass(frozen=True)
class IsNull:
    """Whether a value is null, or is not."""

    value: Value
    is_negated: bool = False

    def __str__(self) -> str:
        return f"{self.value} IS {'NOT ' if self.is_negated else ''}NULL"


@dataclass(frozen=True)
class Truth:
    """What is always true, or never."""

    holds: bool


@dataclass(frozen=True)
class All:
    """Whether all parts are true."""

    parts: tuple[Condition, ...]

    def __str__(self) -> str:
        return f"({' AND '.join(map(str, self.parts))})"


@dataclass(frozen=True)
class Any:
    """Whether one part is true at least."""

    parts: tuple[Condition, ...]

    def __str__(self) -> str:
        return f"({' OR '.join(map(str, self.parts))})"


@dataclass(frozen=True)
class Not:
    """Whether the part is false, which it is not where it is unknown."""

    part: Condition


Condition = Test | Among | IsNull | Truth | All | Any | Not


def fields_of(value: Value | Condition) -> Iterator[Field]:
    """All fields of an expression."""
    waiting: list[Value | Condition] = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, Field):
            yield one
        elif isinstance(one, Operation):
            waiting += one.operands
        elif isinstance(one, Test):
            waiting += (one.left, one.right)
        elif isinstance(one, (Among, IsNull)):
            waiting.append(one.value)
        elif isinstance(one, (All, Any)):
            waiting += one.parts
        elif isinstance(one, Not):
            waiting.append(one.part)


def parse(text: str, motif: Motif, *, source: str = "<where>") -> Condition:
    """The condition that `text` spells, of a motif's elements.

    Comparisons of ``name.column``, numbers, texts in single quotes, ``TRUE`` and ``FALSE``, ``+ - * / %``, ``IN``,
    ``BETWEEN``, ``LIKE``, ``IS NULL``, joined by ``AND``, ``OR``, ``NOT``; the functions ``lower``, ``upper``,
    ``length``, ``abs``, ``year``, ``month`` and ``day``. ``/`` divides as floats do. Columns of odd names stand in
    backticks.

    Raises
    ------
    MotifSyntaxError
        If the text cannot be read, or names an element that the motif does not have.
    UnsupportedError, TypeMismatchError
        If it cannot be answered; with line and column.

    Examples
    --------
    >>> from gpu_wcoj.query.motif.reading import parse as parse_motif
    >>> print(parse("t.amount > 9 + a.limit", parse_motif("(a)-[t]->(b)")))
    t.amount > 9 + a.limit
    """
    check_text(text, "a condition")
    return _Reader(text, motif, source).condition()


class _Reader:
    """The grammar's tree of one text, turned into a condition."""

    def __init__(self, text: str, motif: Motif, source: str) -> None:
        self.text = text
        self.motif = motif
        self.source = source
        self.elements = (*motif.vertices, *motif.edges)
        self.told = [name for names in motif.telling.values() for name in names.values()]

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
        """An expression that is true, false or unknown."""
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
                raise self.error("a pattern is a text: write LIKE '...'", span_of(parts[1]))
            found = Operation("like", (value, pattern), span_of(node))
            return Test("!=" if is_negated else "=", found, Constant(True), span_of(node))
        if node.data == "null":
            return IsNull(self.value(parts[0], depth + 1), is_negated)
        if node.data == "literal":
            (token,) = tokens(node)
            if token.type == "BOOL":
                return Truth(token.lower() == "true")
        if node.data == "column":
            value = self.value(node, depth)
            return Test("=", value, Constant(True), span_of(node))
        raise self.error("expected a comparison here, and this is a value", span_of(node))

    def comparison(self, node: Node, parts: list[Node], depth: int) -> Condition:
        left, right = (self.value(part, depth + 1) for part in parts)
        (token,) = tokens(node)
        op = _MIRRORED.get(str(token), str(token))
        if Null() in (left, right):
            what = f"'{op} NULL' is never true; write IS NULL or IS NOT NULL"
            raise self.error(what, span_of(node))
        return Test(op, left, right, span_of(node))

    def among(self, node: Node, parts: list[Node], is_negated: bool, depth: int) -> Condition:
        first, *rest = parts
        value = self.value(first, depth + 1)
        if len(rest) > MOST_VALUES:
            what = (
                f"the list has {len(rest):,} values; {MOST_VALUES:,} are allowed.\n  Pass longer lists of ids as ids="
            )
            raise UnsupportedError(pointed_lines(what + "{...}", self.text, span_of(node), self.source))
        found: dict[Constant, None] = {}
        has_null = False
        for part in rest:
            one = self.value(part, depth + 1)
            if isinstance(one, Null):
                has_null = True
            elif isinstance(one, Constant):
                found[one] = None
            else:
                what = "a list holds constants; compare with '=' and OR instead"
                raise UnsupportedError(pointed_lines(what, self.text, span_of(part), self.source))
        kinds = {"a number" if type(one.value) in (int, float) else type(one.value).__name__ for one in found}
        if len(kinds) > 1:
            what = "the values of a list are all numbers, all texts or all truth values"
            raise TypeMismatchError(pointed_lines(what, self.text, span_of(node), self.source))
        return Among(value, tuple(found), is_negated, has_null, span_of(node))

    def value(self, node: Node, depth: int) -> Value:
        """An expression that is a number, a text or a truth value."""
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
        raise self.error("expected a value here, and this is a condition", span_of(node))

    def column(self, token: Token) -> Field:
        span = Span(token.line or 1, token.column or 1, len(token))
        if token.type == "NAME":
            if str(token) in self.told:
                return Field("", str(token), span)
            if str(token) in self.elements:
                what = f"'{token}' is an element; name a column of it, as in {token}.{self.example(str(token))}"
            else:
                known = f"{self.elements[0]}.{token}"
                what = f"'{token}' is no column of the matches; write it behind the name of an element, as in {known}"
            raise self.error(what, span)
        element, column = token.split(".", 1)
        if element not in self.elements:
            known = ", ".join(self.elements)
            what = f"the motif has no element '{element}'; it has {known}.{nearest(element, self.elements)}"
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
                raise self.error("half a surrogate pair is no character", span)
            return Constant(text)
        digits = token.lstrip("0") or "0"
        if token.type == "INTEGER" and len(digits) > _DIGITS:
            raise self.error(f"integer {token[:_DIGITS]}... is outside int64, -2^63 to 2^63-1", span)
        try:
            return Constant(float(token) if token.type == "FLOAT" else int(digits))
        except UnsupportedTypeError as error:
            raise self.error(str(error), span) from None

    def check_depth(self, node: Node, depth: int) -> None:
        if depth > NESTING:
            raise self.error(f"conditions and calculations nest more than {NESTING} deep", span_of(node))

    def error(self, what: str, span: Span) -> MotifSyntaxError:
        return MotifSyntaxError(what, self.text, span.line, span.column, span.width, self.source)
