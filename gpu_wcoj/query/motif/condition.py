"""Parser of ``where`` (grammar ``where.lark``), and its expressions and conditions."""

from __future__ import annotations

import datetime as dt
import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import TYPE_CHECKING, Final, NamedTuple
from typing import Any as Anything

from gpu_wcoj.arrow.constants import is_value
from gpu_wcoj.data.schema import POINTS, DataType
from gpu_wcoj.errors import (
    CalculationError,
    MotifSyntaxError,
    TypeMismatchError,
    UnsupportedError,
    UnsupportedTypeError,
    nearest,
)
from gpu_wcoj.query.constant_folding import equality_key, negated, simplified_call
from gpu_wcoj.query.ir import COMPARING, NULL, TRUE, Atom, Call, Comparison, Constant, Expression, Span
from gpu_wcoj.query.motif.parse import (
    MOTIF_FUNCTIONS,
    Motif,
    check_text,
    parser_of,
    pointed_lines,
    span_of,
    tokens,
    trees,
)

if TYPE_CHECKING:
    from lark import Token, Tree


if TYPE_CHECKING:
    Node = Tree[Token]

MAX_NESTING = 100
"""Maximum levels of nested expressions."""

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
class Moment(Constant):
    """A date or time literal: the text that columns of its kind compare with.

    Attributes
    ----------
    kind
        ``date``, ``time``, ``timestamp`` or ``zoned``: the family of the columns.
    """

    kind: str = ""


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
            from gpu_wcoj.query.motif.parse import where_error

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
        if token.type == "TYPED":
            return self.moment(token, span)
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

    def moment(self, token: Token, span: Span) -> Moment:
        """Translate ``DATE '...'``, ``TIME '...'``, ``TIMESTAMP '...'`` or ``TIMESTAMPTZ '...'``."""
        word, _, rest = token.partition("'")
        kind, text = word.strip().upper(), rest[:-1].strip()
        try:
            if kind == "DATE":
                return Moment(dt.date.fromisoformat(text).isoformat(), "date")
            if kind == "TIME":
                return Moment(dt.time.fromisoformat(text).isoformat(), "time")
            moment = dt.datetime.fromisoformat(text)
        except ValueError:
            example = {"DATE": "2026-01-31", "TIME": "23:59:59"}.get(kind, "2026-01-31 23:59:59")
            raise self.error(f"'{text}' is not a valid {kind}; write it as {kind} '{example}'", span) from None
        if (moment.tzinfo is not None) != (kind == "TIMESTAMPTZ"):
            what = (
                "needs a zone, as in '2026-01-31 23:59:59+00:00'"
                if kind == "TIMESTAMPTZ"
                else "has no zone; write TIMESTAMPTZ"
            )
            raise self.error(f"{kind} {what}", span)
        return Moment(moment.isoformat(sep=" "), "zoned" if kind == "TIMESTAMPTZ" else "timestamp")

    def check_depth(self, node: Node, depth: int) -> None:
        if depth > MAX_NESTING:
            raise self.error(f"conditions and calculations nest more than {MAX_NESTING} deep", span_of(node))

    def error(self, what: str, span: Span) -> MotifSyntaxError:
        return MotifSyntaxError(what, self.text, span.line, span.column, span.width, self.source)


# Normal forms of conditions: conjuncts without negation, and disjoint conjunctions.
#
# In SQL's three-valued logic, unknown is not true. After negation is pushed down to the comparisons, a condition is a
# monotone formula of them. An OR becomes a filter; only an OR whose sides join elements is split, into disjoint cases,
# so that a bag of matches counts each match once.


MAX_CASES = 64
"""The largest number of conjunctions that the conditions of a motif become."""
MAX_SPLIT = 8
"""The largest number of sides of an OR that is split into conjunctions."""

Case = tuple["Condition | Untrue", ...]


@dataclass(frozen=True)
class Untrue:
    """A negated condition: it is false or unknown."""

    condition: Condition

    def __str__(self) -> str:
        return f"{self.condition} IS NOT TRUE"


_OPPOSITE = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_COMPARED: dict[str, Callable[[Anything, Anything], bool]] = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def conjuncts(condition: Condition) -> tuple[Condition, ...]:
    """Return the conjuncts of a condition, without `Not`.

    Examples
    --------
    >>> from gpu_wcoj.query.motif import parse as parse_motif
    >>> from gpu_wcoj.query.motif.condition import parse
    >>> condition = parse("NOT (a.x > 1 OR a.y = 'n') AND a.z < 3", parse_motif("(a)"))
    >>> print(*conjuncts(condition), sep="; ")
    a.x <= 1; a.y != "n"; a.z < 3
    """
    parts: list[Condition] = []
    waiting = [_push_negation(condition, False)]
    while waiting:
        part = waiting.pop(0)
        if isinstance(part, All):
            waiting = [*part.parts, *waiting]
        else:
            parts.append(part)
    return tuple(parts)


def _push_negation(condition: Condition, is_negated: bool) -> Condition:
    """Return the condition, or its negation, with negation pushed down to comparisons."""
    while isinstance(condition, Not):
        condition, is_negated = condition.part, not is_negated
    if isinstance(condition, (All, Any)):
        parts = tuple(_push_negation(part, is_negated) for part in condition.parts)
        return All(parts) if isinstance(condition, All) != is_negated else Any(parts)
    if isinstance(condition, IsNull):
        return _null_test(condition.value, condition.is_negated != is_negated)
    if isinstance(condition, Among):
        is_out = condition.is_negated != is_negated
        if (is_out and condition.has_null) or not (is_out or condition.values):
            return Truth(False)
        return replace(condition, is_negated=is_out, has_null=False)
    if not is_negated:
        return condition
    if isinstance(condition, Truth):
        return Truth(not condition.holds)
    return replace(condition, op=_OPPOSITE[condition.op])


def _null_test(value: Value, is_negated: bool) -> Condition:
    """Return a null test on the fields of a value; an operation is null if a field is."""
    if isinstance(value, (Field, Null, Constant)):
        return IsNull(value, is_negated)
    parts = tuple(IsNull(field, is_negated) for field in dict.fromkeys(fields_of(value)))
    if not parts:
        return Truth(is_negated)
    return All(parts) if is_negated else Any(parts)


def simplify(condition: Condition, values: Callable[[Field], Value]) -> Condition:
    """Replace fields by their values, and remove the decided parts of a condition."""
    if isinstance(condition, Truth):
        return condition
    if isinstance(condition, (All, Any)):
        is_all = isinstance(condition, All)
        parts = [simplify(part, values) for part in condition.parts]
        if any(isinstance(part, Truth) and part.holds != is_all for part in parts):
            return Truth(not is_all)
        undecided = tuple(part for part in parts if not isinstance(part, Truth))
        if len(undecided) == 1:
            return undecided[0]
        return (All(undecided) if is_all else Any(undecided)) if undecided else Truth(is_all)
    if isinstance(condition, Not):
        raise AssertionError("negation was not pushed down to the comparisons")
    if isinstance(condition, IsNull):
        value = _substitute(condition.value, values)
        if isinstance(value, Field):
            return replace(condition, value=value)
        return Truth(isinstance(value, Null) != condition.is_negated)
    if isinstance(condition, Among):
        value = _substitute(condition.value, values)
        if isinstance(value, Null):
            return Truth(False)
        if isinstance(value, Constant):
            return Truth(any(_compare("=", value, constant) for constant in condition.values) != condition.is_negated)
        return replace(condition, value=value)
    left_value, right_value = _substitute(condition.left, values), _substitute(condition.right, values)
    if isinstance(left_value, Null) or isinstance(right_value, Null):
        return Truth(False)
    if isinstance(left_value, Constant) and isinstance(right_value, Constant):
        return Truth(_compare(condition.op, left_value, right_value))
    return replace(condition, left=left_value, right=right_value)


def _compare(op: str, left: Constant, right: Constant) -> bool:
    kinds = {
        constant.kind
        if isinstance(constant, Moment)
        else "a number"
        if type(constant.value) in (int, float)
        else type(constant.value).__name__
        for constant in (left, right)
    }
    if len(kinds) > 1:
        raise TypeMismatchError(
            f"'{left} {op} {right}' compares values of different types: expected values of the same type."
        )
    return _COMPARED[op](left.value, right.value)


def _substitute(value: Value, values: Callable[[Field], Value]) -> Value:
    if isinstance(value, Field):
        return values(value)
    if not isinstance(value, Operation):
        return value
    operands = tuple(_substitute(operand, values) for operand in value.operands)
    if any(isinstance(operand, Null) for operand in operands):
        return Null()
    numbers = [operand.value for operand in operands if isinstance(operand, Constant)]
    if len(numbers) < len(operands) or value.op.isalpha():
        return replace(value, operands=operands)
    if any(type(number) not in (int, float) for number in numbers):
        raise TypeMismatchError(
            f"'{replace(value, operands=operands)}' has an operand of the wrong type: expected numbers."
        )
    return Constant(_calculate(value, [number for number in numbers if isinstance(number, (int, float))]))


def _calculate(operation: Operation, numbers: Sequence[int | float]) -> int | float:
    if len(numbers) == 1:
        return -numbers[0]
    left, right = numbers
    if operation.op in "/%" and right == 0:
        raise CalculationError(f"'{operation}'", "divides by zero")
    if operation.op == "%":
        both_whole = isinstance(left, int) and isinstance(right, int)
        return int(math.copysign(abs(left) % abs(right), left)) if both_whole else math.fmod(left, right)
    calculate: dict[str, Callable[[int | float, int | float], int | float]] = {
        "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
    }  # fmt: skip
    return calculate[operation.op](left, right)


def split_cases(condition: Condition) -> list[Case]:
    """Split a condition into disjoint conjunctions; usually into itself.

    An OR is split where each of its sides compares columns of two elements for equality and thus joins them.

    Examples
    --------
    >>> from gpu_wcoj.query.motif import parse as parse_motif
    >>> from gpu_wcoj.query.motif.condition import parse
    >>> for text in ("a.x = 1 OR b.y = 2", "a.x = b.x OR a.y = b.y AND a.z > 1"):
    ...     for case in split_cases(parse(text, parse_motif("(a); (b)"))):
    ...         print(*case, sep=" and ")
    (a.x = 1 OR b.y = 2)
    a.x = b.x
    a.y = b.y and a.z > 1 and a.x = b.x IS NOT TRUE
    """
    if not isinstance(condition, Any) or len(condition.parts) > MAX_SPLIT or not all(map(_joins, condition.parts)):
        return [(condition,)]
    return [
        (*(part.parts if isinstance(part, All) else (part,)), *map(Untrue, condition.parts[:position]))
        for position, part in enumerate(condition.parts)
    ]


def _joins(condition: Condition) -> bool:
    """Return whether a condition compares columns of two elements for equality."""
    if isinstance(condition, All):
        return any(map(_joins, condition.parts))
    if not isinstance(condition, Test) or condition.op != "=":
        return False
    left, right = condition.left, condition.right
    return isinstance(left, Field) and isinstance(right, Field) and left.element != right.element


def conjoin(conditions: Sequence[Condition]) -> list[Case]:
    """Return disjoint conjunctions whose union is the conjunction of all conditions.

    At most `MAX_CASES` are returned: beyond that, an OR is not split.
    """
    combinations: list[Case] = [()]
    for condition in conditions:
        alternatives = split_cases(condition)
        alternatives = alternatives if len(combinations) * len(alternatives) <= MAX_CASES else [(condition,)]
        combinations = [(*case, *alternative) for case, alternative in product(combinations, alternatives)]
    return combinations


# Translation of conditions to comparisons and atoms of rules.


MAX_COMPARED = 4
"""Longest NOT IN list, in values, that becomes comparisons; longer lists become a relation."""

_FLOATS = ("float32", "float64")
_NOT_NUMBERS = {
    "string": ("texts", "Write a text in single quotes."),
    "bool": ("truth values", "Write TRUE or FALSE."),
    "date": ("dates", "Write DATE '2026-01-31'."),
    "timestamp": ("timestamps", "Write TIMESTAMP '2026-01-31 10:00:00'."),
    "zoned": ("timestamps with a zone", "Write TIMESTAMPTZ '2026-01-31 10:00:00+01'."),
    "time": ("times", "Write TIME '10:00:00'."),
}
"""Families of types that do not compare with numbers: their words in messages, and the remedy."""
_TIMES: Final[Mapping[str, Sequence[str]]] = {
    "date": ("date32[day]",),
    "timestamp": ("timestamp[us]", "timestamp[ns]"),
    "zoned": ("timestamp[us, tz=UTC]", "timestamp[ns, tz=UTC]"),
    "time": ("time64[ns]",),
}
"""Types of dates and times that hold any text of their family."""


class Literals(NamedTuple):
    """A conjunction as parts of a rule."""

    comparisons: tuple[Comparison, ...]
    atoms: tuple[Atom, ...]
    negated: tuple[Atom, ...]


@dataclass(frozen=True)
class ConditionWriter:
    """Translator of conditions to parts of rules.

    Attributes
    ----------
    term
        Returns the term of a field in the rule.
    kind
        Returns the family of a field's type (``integer``, ``float64``, ...), or None if unknown.
    list_relation
        Returns the relation that holds the values of a list.
    text
        The text of the condition, for messages.
    """

    term: Callable[[Field], Expression]
    kind: Callable[[Field], str | None]
    list_relation: Callable[[tuple[Constant, ...]], str]
    text: str

    def literals(self, case: Case) -> Literals:
        """Translate a conjunction."""
        comparisons: list[Comparison] = []
        atoms: list[Atom] = []
        negated: list[Atom] = []
        for literal in case:
            if isinstance(literal, (All, Any, Untrue)):
                comparisons.append(Comparison("=", simplified_call("istrue", self.condition(literal)), TRUE))
            elif isinstance(literal, IsNull):
                op = "!=" if literal.is_negated else "="
                comparisons.append(Comparison(op, self.to_term(literal.value)[0], NULL))
            elif isinstance(literal, Test):
                left, right = self.compared(literal.left, literal.right, literal.span)
                comparisons.append(Comparison(literal.op, left, right))
            elif not isinstance(literal, Among):
                raise AssertionError(f"'{literal}' was not simplified")
            elif len(literal.values) <= (MAX_COMPARED if literal.is_negated else 1):
                op = "!=" if literal.is_negated else "="
                for value in literal.values:
                    left, right = self.compared(literal.value, value, literal.span)
                    comparisons.append(Comparison(op, left, right))
            else:
                (negated if literal.is_negated else atoms).append(self.among(literal))
        return Literals(tuple(comparisons), tuple(atoms), tuple(negated))

    def condition(self, condition: Condition | Untrue) -> Expression:
        """Translate a condition to a null-aware call."""
        if isinstance(condition, Untrue):
            return negated(simplified_call("istrue", self.condition(condition.condition)))
        if isinstance(condition, (All, Any)):
            return simplified_call(
                "all" if isinstance(condition, All) else "any", *map(self.condition, condition.parts)
            )
        if isinstance(condition, IsNull):
            test = simplified_call("isnull", self.to_term(condition.value)[0])
            return negated(test) if condition.is_negated else test
        if isinstance(condition, Among):
            test = simplified_call("among", *self.value_and_list(condition))
            return negated(test) if condition.is_negated else test
        assert isinstance(condition, Test), f"'{condition}' was not simplified"
        left, right = self.compared(condition.left, condition.right, condition.span)
        return simplified_call(next(name for name, op in COMPARING.items() if op == condition.op), left, right)

    def among(self, literal: Among) -> Atom:
        """Return an atom of the list's relation that tests membership."""
        value, *values = self.value_and_list(literal)
        return Atom(self.list_relation(tuple(value_ for value_ in values if isinstance(value_, Constant))), (value,))

    def value_and_list(self, literal: Among) -> tuple[Expression, ...]:
        """Return a value, and the values of its list converted to its type."""
        value, kind = self.to_term(literal.value)
        for constant in literal.values:
            self.check_types((constant, None), (literal.value, kind), literal.span)
            if (
                kind == "date"
                and isinstance(constant, Moment)
                and not is_value(constant.value, DataType("date32[day]"))
            ):
                span = literal.span
                raise TypeMismatchError(
                    f"the time '{constant.value}' is in a list that is compared with dates.\n  Write dates."
                ).at_place(self.text, span.line, span.column, span.width, "<where>")
        values = tuple(Constant(one.value) if isinstance(one, Moment) else one for one in literal.values)
        are_integers = [isinstance(constant.value, int) for constant in values]
        if kind in _FLOATS or (kind is None and not all(are_integers) and any(are_integers)):
            values = tuple(
                Constant(float(constant.value)) if type(constant.value) is int else constant for constant in values
            )
        elif kind == "integer" and not all(are_integers):
            value = Call("double", (value,))
            values = tuple(
                Constant(float(constant.value)) if type(constant.value) is int else constant for constant in values
            )
        distinct = {equality_key(constant, is_double=kind in _FLOATS): constant for constant in values}
        return (value, *distinct.values())

    def to_term(self, value: Value) -> tuple[Expression, str | None]:
        """Translate a value; return its term and the family of its type."""
        if isinstance(value, Field):
            return self.term(value), self.kind(value)
        if isinstance(value, Moment):
            return Constant(value.value), value.kind
        if isinstance(value, Constant):
            return value, {int: "whole", float: "float64"}.get(type(value.value))
        assert not isinstance(value, Null), "null values are simplified before"
        return self.calculation(value)

    def calculation(self, value: Operation) -> tuple[Expression, str | None]:
        """Translate an operation; return its term and the family of its type."""
        operands = [self.to_term(operand) for operand in value.operands]
        if value.op in MOTIF_FUNCTIONS:
            kind = operands[0][1] if value.op == "abs" else None if value.op in ("lower", "upper") else "integer"
            return Call(MOTIF_FUNCTIONS[value.op], tuple(operand for operand, _ in operands)), kind
        if value.op == "like":
            return Call("like", tuple(operand for operand, _ in operands)), "bool"
        if value.op == "/":
            return Call("/", tuple(_double(operand, kind) for operand, kind in operands)), "float64"
        if len(operands) == 1:
            return Call("-", (operands[0][0],)), operands[0][1]
        left, right = self.unify_types(*operands)
        kinds = [kind for _, kind in operands]
        family = "float64" if set(kinds) & set(_FLOATS) else next((kind for kind in kinds if kind != "whole"), "whole")
        return Call(value.op, (left, right)), family

    def compared(self, left: Value, right: Value, span: Span) -> tuple[Expression, Expression]:
        """Translate two values that are compared."""
        terms = self.to_term(left), self.to_term(right)
        self.check_types((left, terms[0][1]), (right, terms[1][1]), span)
        return self.unify_types(*terms)

    def check_types(self, left: tuple[Value, str | None], right: tuple[Value, str | None], span: Span) -> None:
        """Raise `TypeMismatchError`, with the place, if values of these types do not compare."""
        try:
            for (value, _), (opposite, kind) in ((left, right), (right, left)):
                _check_moment(value, kind)
                _check_constant(value, opposite, kind)
            _check_families(left, right)
        except TypeMismatchError as error:
            raise error.at_place(self.text, span.line, span.column, span.width, "<where>") from None

    def unify_types(
        self, left: tuple[Expression, str | None], right: tuple[Expression, str | None]
    ) -> tuple[Expression, Expression]:
        """Return two operands of one type; an integer beside a float becomes a float."""
        kinds = left[1], right[1]
        if set(kinds) & set(_FLOATS):
            first, second = (
                _double(operand, kind) if kind == "integer" else operand for operand, kind in (left, right)
            )
            return first, second
        return left[0], right[0]


def _check_moment(moment: Value, kind: str | None) -> None:
    """Raise `TypeMismatchError` if a date or time literal is compared with another type."""
    if isinstance(moment, Moment) and kind not in (None, moment.kind) and not {moment.kind, kind} <= POINTS:
        name = "time" if moment.kind == "zoned" else moment.kind
        raise TypeMismatchError(
            f"the {name} '{moment.value}' is compared with values of type '{kind}': expected the same type.\n"
            "  Write a literal of that type."
        )


def _check_constant(constant: Value, opposite: Value, kind: str | None) -> None:
    """Raise `TypeMismatchError` if a text is compared with numbers, or a number with texts."""
    if not isinstance(constant, Constant) or isinstance(constant, Moment):
        return
    is_text, is_number = isinstance(constant.value, str), type(constant.value) in (int, float)
    if (
        is_text
        and kind is not None
        and kind in _TIMES
        and not any(is_value(constant.value, DataType(time)) for time in _TIMES[kind])
    ):
        has, remedy = _NOT_NUMBERS[kind]
        raise TypeMismatchError(
            f"the text '{constant.value}' is compared with '{opposite}', which has {has}.\n  {remedy}"
        )
    if (is_text and _is_number(kind)) or (is_number and kind in _NOT_NUMBERS):
        what = f"the text '{constant.value}'" if is_text else f"the number {constant.value}"
        has, remedy = ("numbers", "Write a number.") if is_text else _NOT_NUMBERS[kind or ""]
        raise TypeMismatchError(f"{what} is compared with '{opposite}', which has {has}.\n  {remedy}")


def _is_number(kind: str | None) -> bool:
    return kind in ("integer", "whole", "decimal", "wide", *_FLOATS)


def _check_families(left: tuple[Value, str | None], right: tuple[Value, str | None]) -> None:
    """Raise `TypeMismatchError` if columns of two kinds are compared, as texts and numbers."""
    kinds = ["a number" if _is_number(kind) else kind for _, kind in (left, right)]
    is_constant = any(isinstance(value, Constant) for value, _ in (left, right))
    if None not in kinds and kinds[0] != kinds[1] and not is_constant and not set(kinds) <= POINTS:
        shown = [_NOT_NUMBERS.get(kind or "", ("numbers", ""))[0] for kind in kinds]
        if shown[0] != shown[1]:
            raise TypeMismatchError(
                f"'{left[0]}' has {shown[0]} and is compared with '{right[0]}', which has {shown[1]}.\n"
                "  Compare columns of one type."
            )


def _double(value: Expression, kind: str | None) -> Expression:
    if isinstance(value, Constant):
        return Constant(float(value.value)) if isinstance(value.value, int) else value
    return value if kind in _FLOATS else Call("double", (value,))
