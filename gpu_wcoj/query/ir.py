"""Parts of rules, common to all query languages: terms, expressions, atoms and comparisons."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property

from gpu_wcoj.errors import UnsupportedTypeError


@dataclass(frozen=True)
class Variable:
    """A variable of a rule; a wildcard ``_`` is one with a fresh name ``_#1``.

    A name that ends in ``?`` is null-safe: null equals null where it joins, occurs twice or is negated.
    """

    name: str

    def __str__(self) -> str:
        return "_" if self.is_wildcard else self.name

    @property
    def is_wildcard(self) -> bool:
        """Return whether the variable is ``_``."""
        return self.name.startswith("_#")

    @property
    def is_null_safe(self) -> bool:
        """Return whether null equals null for the variable."""
        return self.name.endswith("?")


MAX_DIGITS = 60
"""Most digits of a decimal constant; beside decimal columns, the digits of the columns limit it."""


@dataclass(frozen=True, eq=False)
class Constant:
    r"""A literal value of the text: an int, float, Decimal, bool or str, or None for null.

    It equals only constants of the same type and spelling: -0.0 is not 0.0, and 1.50m is not 1.5m, because calculations
    distinguish them. A decimal is exact beside decimals and integers, and the nearest double beside doubles; a float
    beside decimals has the value of its shortest text.

    Examples
    --------
    >>> Constant(1) == Constant(True)
    False
    >>> print(Constant('say "hi"'))
    "say \"hi\""
    >>> print(Constant(None), Constant(Decimal("0.05")))
    null 0.05m
    """

    value: int | float | bool | str | Decimal | None

    def __post_init__(self) -> None:
        if type(self.value) not in (int, float, bool, str, Decimal, type(None)):
            raise UnsupportedTypeError(
                f"a constant of type {type(self.value).__name__} is not supported; "
                "int, float, bool, str, Decimal and None are."
            )
        if type(self.value) is int and not -(2**63) <= self.value < 2**63:
            raise UnsupportedTypeError(f"integer {self.value} is outside int64, -2^63 to 2^63-1.")
        if type(self.value) is float and not math.isfinite(self.value):
            raise UnsupportedTypeError(f"float {self.value} is not a finite number.")
        if isinstance(self.value, Decimal) and not (self.value.is_finite() and _n_digits(self.value) <= MAX_DIGITS):
            raise UnsupportedTypeError(f"decimal {self.value} is not finite or has more than {MAX_DIGITS} digits.")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Constant):
            return NotImplemented
        if type(self.value) is not type(other.value) or self.value != other.value:
            return False
        return type(self.value) not in (float, Decimal) or str(self.value) == str(other.value)

    def __hash__(self) -> int:
        return hash((type(self.value), self.value))

    def __str__(self) -> str:
        if self.value is None:
            return "null"
        if isinstance(self.value, bool):
            return "true" if self.value else "false"
        if isinstance(self.value, str):
            return f'"{"".join(map(_escaped, self.value))}"'
        return f"{self.value:f}m" if isinstance(self.value, Decimal) else repr(self.value)


def _n_digits(value: Decimal) -> int:
    """Return the number of digits of a decimal, written without a power of 10."""
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    return max(len(digits) + max(0, exponent), -exponent)


NULL = Constant(None)
"""The null constant. In an atom it matches rows with null in that column; a comparison with it tests for null."""

TRUE, FALSE = Constant(True), Constant(False)

ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}
"""Escapes of characters in a string constant; other characters that do not print are ``\\uXXXX``."""


def _escaped(char: str) -> str:
    if char in ESCAPES:
        return ESCAPES[char]
    if char.isprintable():
        return char
    return f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}"


Term = Variable | Constant


@dataclass(frozen=True)
class Span:
    """Position of a piece of text: line and column count from 1."""

    line: int = 0
    column: int = 0
    width: int = 1


ARITHMETIC = ("+", "-", "*", "/", "%")
CHECKED = {"quotient": "/", "rest": "%"}
"""Functions equal to an operator, except that a divisor of 0 is an error for floats too."""
FUNCTIONS = {
    "cat": "two texts or more",
    "substr": "a text, a start and a length",
    "strlen": "a text",
    "lower": "a text",
    "upper": "a text",
    "downcase": "a text",
    "upcase": "a text",
    "like": "a text, a pattern and maybe an escape",
    "match": "a pattern and a text",
    "contains": "a part and a text",
    "double": "a number",
    "abs": "a number",
    "quotient": "two numbers",
    "rest": "two numbers",
    "year": "a date or timestamp",
    "month": "a date or timestamp",
    "day": "a date or timestamp",
    "eq": "two values",
    "ne": "two values",
    "lt": "two values",
    "le": "two values",
    "gt": "two values",
    "ge": "two values",
    "all": "conditions",
    "any": "conditions",
    "among": "a value and the values that it may be",
    "isnull": "a value",
    "istrue": "a condition",
    "case": "conditions, each with a value behind it, and maybe a last value",
}
"""Functions, and the arguments of each in words."""
MAX_ARGUMENTS = 100_000
"""Most arguments of a function that takes any number of them."""
COMPARING = {"eq": "=", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
"""Functions that compare two values, and the operator of each."""
OPPOSITE = {"eq": "ne", "ne": "eq", "lt": "ge", "le": "gt", "gt": "le", "ge": "lt"}
"""Functions that compare, and the function that is true exactly if the first is false."""
NULL_AWARE = frozenset((*COMPARING, "all", "any", "among", "isnull", "istrue", "case"))
"""Functions of SQL's three-valued logic: they take nulls, and return null if the result is unknown."""
ARGUMENT_COUNTS = {
    "cat": (2, 100), "substr": (3, 3), "like": (2, 3), "match": (2, 2), "contains": (2, 2),
    "quotient": (2, 2), "rest": (2, 2),
    **dict.fromkeys(COMPARING, (2, 2)), "all": (1, MAX_ARGUMENTS), "any": (1, MAX_ARGUMENTS),
    "among": (2, MAX_ARGUMENTS), "case": (2, MAX_ARGUMENTS),
}  # fmt: skip
"""Least and greatest number of arguments of a function; functions not listed here take one."""
CONSTRAINTS = ("match", "contains")
"""Boolean functions that may be conditions of a body by themselves, negated or not."""
SOUFFLE_FUNCTORS = (
    "autoinc", "band", "bnot", "bor", "bshl", "bshr", "bshru", "bxor", "fold", "land", "lnot", "lor", "lxor", "ord",
    "range", "to_float", "to_number", "to_string", "to_unsigned",
)  # fmt: skip
"""Functors of Soufflé that are not supported. Soufflé reserves their names; relations here may use them."""
AGGREGATES = ("count", "sum", "min", "max", "mean")


@dataclass(frozen=True)
class Call:
    """``op(arguments)``: arithmetic or one of `FUNCTIONS`.

    Arithmetic is ``+ - * / %``, and ``-`` of one argument.

    Integers are int64, and a result outside of int64 is an error; ``/`` truncates towards zero and ``%`` has the sign
    of the dividend, as in C; division by zero is an error. Floats follow IEEE 754, so division by zero gives infinity
    or NaN; ``quotient(x, y)`` and ``rest(x, y)`` are ``x / y`` and ``x % y`` with an error for division by zero, of
    floats too. Decimals are exact, have at most 18 digits, mix with integers and have no ``/``. A float mixes with an
    integer or decimal only if that is a constant or ``double(x)``.

    ``substr`` counts characters from 0, and stops at the end of the text. ``like(text, pattern)`` is SQL's: ``%``
    matches any characters and ``_`` one. ``match(pattern, text)`` returns whether the entire text matches a regular
    expression in the syntax of RE2, and ``contains(part, text)`` whether a text contains a part; both may also be
    conditions of a body by themselves. ``lower`` and ``upper`` use the full Unicode mapping, as Python and Java;
    ``downcase`` and ``upcase`` map each character to one character, as DuckDB. As a direct argument of a head, one of
    `AGGREGATES` may be called as well: ``total(x, sum(v))``.

    `NULL_AWARE` functions follow SQL's three-valued logic. ``eq``, ``ne``, ``lt``, ``le``, ``gt``, ``ge`` compare;
    ``all`` is AND, ``any`` is OR, and ``eq(c, false)`` is NOT; ``among`` is IN. ``isnull`` and ``istrue`` are never
    null. ``case`` returns the value after the first condition that is true, else the last value, else null. A
    calculation within them is null if an argument is null. A calculation without a value is an error only if the other
    conditions do not decide the result: ``all(ne(x, 0), gt(1 / x, 2))`` is false for 0.

    Examples
    --------
    >>> print(Call("*", (Call("+", (Variable("a"), Constant(1))), Variable("b"))))
    (a + 1) * b
    >>> print(Call("cat", (Variable("a"), Constant("!"))))
    cat(a, "!")
    """

    op: str
    arguments: tuple[Expression, ...]
    span: Span = field(default=Span(), compare=False)

    def __str__(self) -> str:
        if self.op.isalpha():
            return f"{self.op}({', '.join(map(str, self.arguments))})"
        if len(self.arguments) == 1:
            (only,) = self.arguments
            return f"-({only})" if isinstance(only, (Call, Constant)) and not _is_closed(only) else f"-{only}"
        parts = [
            str(argument) if not isinstance(argument, Call) or _is_closed(argument) else f"({argument})"
            for argument in self.arguments
        ]
        return f" {self.op} ".join(parts)

    @cached_property
    def variables(self) -> tuple[Variable, ...]:
        """The distinct variables by first occurrence; see `variables_of`."""
        return variables_of(self.arguments)

    @cached_property
    def takes_nulls(self) -> bool:
        """Return whether the function, or one called in its arguments, is in `NULL_AWARE`.

        Core form keeps such a call together with all calculations in its arguments.
        """
        return self.op in NULL_AWARE or any(
            isinstance(argument, Call) and argument.takes_nulls for argument in self.arguments
        )


def _is_closed(piece: Call | Constant) -> bool:
    """Return whether the text of an operand needs no parentheses, also after a minus."""
    if isinstance(piece, Call):
        return piece.op.isalpha()
    return isinstance(piece.value, (bool, str, type(None))) or str(piece).startswith("-")


@dataclass(frozen=True)
class Aggregate:
    """``op value : { body }``: one of `AGGREGATES` over the bindings that satisfy a body.

    Variables that also occur outside of all braces of the rule are keys, which the rule binds; all other variables are
    local to the braces. ``count`` and ``sum`` of nothing are 0; ``min``, ``max`` and ``mean`` of nothing derive no row.

    Examples
    --------
    >>> x, v = Variable("x"), Variable("v")
    >>> print(Aggregate("sum", v, (Atom("paid", (x, v)),), (Comparison(">", v, Constant(0)),)))
    sum v : { paid(x, v), v > 0 }
    """

    op: str
    value: Expression | None
    atoms: tuple[Atom, ...]
    comparisons: tuple[Comparison, ...] = ()
    negated: tuple[Atom, ...] = ()
    span: Span = field(default=Span(), compare=False)

    def __str__(self) -> str:
        value = "" if self.value is None else f"{self._value()} "
        body = ", ".join([*map(str, self.atoms), *(f"!{atom}" for atom in self.negated), *map(str, self.comparisons)])
        return f"{self.op} {value}: {{ {body} }}"

    def _value(self) -> str:
        """Return the text of the value, in parentheses if its neighbours would be parsed with it."""
        text = str(self.value)
        return f"({text})" if text.startswith("-") or text.rsplit(" ", 1)[-1] in AGGREGATES else text


Expression = Variable | Constant | Call | Aggregate


def variables_of(parts: Iterable[Expression]) -> tuple[Variable, ...]:
    """Return the distinct variables of expressions, without those of aggregates.

    They are in the order of first occurrence.
    """
    variables: dict[Variable, None] = {}
    for part in parts:
        if isinstance(part, Variable):
            variables[part] = None
        elif isinstance(part, Call):
            variables.update(dict.fromkeys(part.variables))
    return tuple(variables)


def valued_variables(parts: Iterable[Expression]) -> tuple[Variable, ...]:
    """Return the distinct variables of expressions outside of null-aware calls.

    Such variables must not be null.

    Examples
    --------
    >>> x, y = Variable("x"), Variable("y")
    >>> [str(variable) for variable in valued_variables([Call("+", (x, Constant(1))), Call("eq", (x, y))])]
    ['x']
    """
    return variables_of(part for part in parts if not (isinstance(part, Call) and part.takes_nulls))


_TOTAL = {*NULL_AWARE, "double", "downcase", "lower", "strlen", "upcase", "upper", "year", "month", "day"}


def is_total(expression: Expression) -> bool:
    """Return whether an expression has a value for every binding.

    Arithmetic has not, as it may leave int64.

    Examples
    --------
    >>> x = Variable("x")
    >>> is_total(Call("lower", (x,))), is_total(Call("/", (x, x))), is_total(Call("any", (Call("-", (x,)), x)))
    (True, False, False)
    """
    if isinstance(expression, Aggregate):
        parts = [] if expression.value is None else [expression.value]
        parts += [term for atom in (*expression.atoms, *expression.negated) for term in atom.terms]
        parts += [side for comparison in expression.comparisons for side in (comparison.left, comparison.right)]
        return all(map(is_total, parts))
    if isinstance(expression, Call):
        is_known = expression.op in _TOTAL or (expression.op == "like" and len(expression.arguments) == 2)
        return is_known and all(map(is_total, expression.arguments))
    return True


def aggregates_of(parts: Iterable[Expression]) -> Iterator[Aggregate]:
    """Yield the aggregates of expressions in order, without those nested in other aggregates."""
    for part in parts:
        if isinstance(part, Aggregate):
            yield part
        elif isinstance(part, Call):
            yield from aggregates_of(part.arguments)


def plain(expression: Expression) -> Term:
    """Return an expression of a rule in core form as a term; core form has no other expressions."""
    assert isinstance(expression, (Variable, Constant)), f"'{expression}' is not in core form"
    return expression


COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")
MIRRORED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True)
class Atom:
    """``relation(term, ...)``: one occurrence of a relation in a body, or a head."""

    relation: str
    terms: tuple[Expression, ...]
    span: Span = field(default=Span(), compare=False)

    def __str__(self) -> str:
        return f"{self.relation}({', '.join(map(str, self.terms))})"

    @property
    def variables(self) -> tuple[Variable, ...]:
        """The distinct variables by first occurrence; see `variables_of`."""
        return variables_of(self.terms)


@dataclass(frozen=True)
class Comparison:
    """``left op right`` between two terms, with `op` one of `COMPARISONS`.

    With `NULL` on one side, ``=`` and ``!=`` test whether the other side is null, and bind nothing.
    """

    op: str
    left: Expression
    right: Expression
    span: Span = field(default=Span(), compare=False)

    def __str__(self) -> str:
        return f"{self.left} {self.op} {self.right}"

    @property
    def is_null_test(self) -> bool:
        """Return whether a side is null."""
        return NULL in (self.left, self.right)

    @property
    def variables(self) -> tuple[Variable, ...]:
        """The distinct variables, from left to right; see `variables_of`."""
        return variables_of((self.left, self.right))


NEVER = Comparison("!=", Constant(0), Constant(0))
"""A comparison that never holds. Rules with it derive nothing; they stay because they give their heads column types."""
