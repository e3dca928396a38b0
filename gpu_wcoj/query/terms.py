"""What rules are made of, whatever language they came from: terms, expressions, atoms and comparisons."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property

from gpu_wcoj.errors import UnsupportedTypeError


@dataclass(frozen=True)
class Variable:
    """A name that a rule binds. A wildcard ``_`` is a variable with a fresh name that starts with ``_``.

    A name that ends in ``?`` is null-safe: for it null equals null, where it joins, stands twice or is negated.
    """

    name: str

    def __str__(self) -> str:
        return "_" if self.is_wildcard else self.name

    @property
    def is_wildcard(self) -> bool:
        """Whether it stands for ``_``."""
        return self.name.startswith("_#")

    @property
    def is_null_safe(self) -> bool:
        """Whether null equals null for it."""
        return self.name.endswith("?")


MOST_DIGITS = 60
"""Of a constant that is a decimal; beside decimals, those of the columns count."""


@dataclass(frozen=True, eq=False)
class Constant:
    r"""A literal value of the text: an int, float, Decimal, bool or str, or None for null.

    Equal to one of its own type and spelling only: -0.0 is not 0.0, nor is 1.50m 1.5m, as calculations tell them apart.
    A decimal is exact beside decimals and integers, and the nearest double beside
    doubles; a float beside decimals is what its shortest text says.

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
        if isinstance(self.value, Decimal) and not (self.value.is_finite() and _n_digits(self.value) <= MOST_DIGITS):
            raise UnsupportedTypeError(f"decimal {self.value} has more than {MOST_DIGITS} digits, or is no number.")

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
    """How many digits a decimal has, written without a power of 10."""
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    return max(len(digits) + max(0, exponent), -exponent)


NULL = Constant(None)
"""No value. In an atom it takes rows without one in that column; compared, it asks whether there is none."""

TRUE, FALSE = Constant(True), Constant(False)

ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}
"""Characters of a string constant and how the text spells them; others that do not print are ``\\uXXXX``."""


def _escaped(char: str) -> str:
    if char in ESCAPES:
        return ESCAPES[char]
    if char.isprintable():
        return char
    return f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}"


Term = Variable | Constant


@dataclass(frozen=True)
class Span:
    """Where a piece of text stands: line and column count from 1."""

    line: int = 0
    column: int = 0
    width: int = 1


ARITHMETIC = ("+", "-", "*", "/", "%")
CHECKED = {"quotient": "/", "rest": "%"}
"""Functions that are such an operator, but for floats, too, an error where the second one is 0."""
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
"""Functions, and what each takes."""
MOST_PARTS = 100_000
"""How many arguments a function of any number takes at most."""
COMPARING = {"eq": "=", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
"""Functions that compare two values, and the operator that each is."""
OPPOSITE = {"eq": "ne", "ne": "eq", "lt": "ge", "le": "gt", "gt": "le", "ge": "lt"}
"""Functions that compare, and the one that is true where the other is false."""
NULL_AWARE = frozenset((*COMPARING, "all", "any", "among", "isnull", "istrue", "case"))
"""Functions of SQL's three-valued logic: they take nulls, and give null where the answer is unknown."""
TAKEN = {
    "cat": (2, 100), "substr": (3, 3), "like": (2, 3), "match": (2, 2), "contains": (2, 2),
    "quotient": (2, 2), "rest": (2, 2),
    **dict.fromkeys(COMPARING, (2, 2)), "all": (1, MOST_PARTS), "any": (1, MOST_PARTS), "among": (2, MOST_PARTS),
    "case": (2, MOST_PARTS),
}  # fmt: skip
"""How many arguments a function takes at least and at most; one where it does not stand here."""
CONSTRAINTS = ("match", "contains")
"""Functions that stand in a body by themselves, negated or not; their value is whether they hold."""
SOUFFLE_FUNCTORS = (
    "autoinc", "band", "bnot", "bor", "bshl", "bshr", "bshru", "bxor", "fold", "land", "lnot", "lor", "lxor", "ord",
    "range", "to_float", "to_number", "to_string", "to_unsigned",
)  # fmt: skip
"""Functors of Soufflé's that are not supported. It reserves their names; here a relation may have one, as ``land``."""
AGGREGATES = ("count", "sum", "min", "max", "mean")


@dataclass(frozen=True)
class Call:
    """``op(arguments)``: arithmetic (``+ - * / %``, ``-`` of one argument) or one of `FUNCTIONS`.

    Integers are int64, and a result outside it is an error; ``/`` cuts off towards zero and ``%`` has the sign of what
    is divided, as in C; to divide by zero is an error. Floats follow IEEE 754, where it is none; ``quotient(x, y)`` and
    ``rest(x, y)`` are ``x / y`` and ``x % y``, and an error by zero for floats, too. Decimals are exact, of at most 18
    digits, mix with integers and have no ``/``. A float and an integer or decimal mix only where that is a constant, or
    ``double(x)``.
    ``substr`` counts characters from 0, and takes what there is of them. ``like(text, pattern)`` is SQL's: ``%`` stands
    for any characters and ``_`` for one. ``match(pattern, text)`` says whether a text as a whole is of a regular
    expression, in the syntax of RE2, and ``contains(part, text)`` whether a text has a part; both stand in a body by
    themselves, too. ``lower`` and ``upper`` map a text as Unicode does it in full, as Python and Java; ``downcase`` and
    ``upcase`` make one character of each, as DuckDB. As a direct argument of a head, one of `AGGREGATES` may be called
    as well: ``total(x, sum(v))``.

    `NULL_AWARE` functions follow SQL's three-valued logic. ``eq``, ``ne``, ``lt``, ``le``, ``gt``, ``ge`` compare;
    ``all`` is AND, ``any`` is OR, and ``eq(c, false)`` is NOT; ``among`` is IN. ``isnull`` and ``istrue`` are never
    null. ``case`` gives the value behind the first condition that is true, else the last value, else null. What is
    calculated within them is null where an argument is. A calculation without a value is an error only where the rest
    of the condition does not decide: ``all(ne(x, 0), gt(1 / x, 2))`` is false for 0.

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
        """The distinct variables, in the order in which they first stand; see `variables_of`."""
        return variables_of(self.arguments)

    @cached_property
    def takes_nulls(self) -> bool:
        """Return whether the function, or one that is called in its arguments, is among `NULL_AWARE`.

        Such a call stays one piece in core form, with all that is calculated in it.
        """
        return self.op in NULL_AWARE or any(
            isinstance(argument, Call) and argument.takes_nulls for argument in self.arguments
        )


def _is_closed(piece: Call | Constant) -> bool:
    """Whether its text stands as one operand, also behind a minus."""
    if isinstance(piece, Call):
        return piece.op.isalpha()
    return isinstance(piece.value, (bool, str, type(None))) or str(piece).startswith("-")


@dataclass(frozen=True)
class Aggregate:
    """``op value : { body }``: one of `AGGREGATES` over the ways to satisfy a body.

    Variables that also stand outside of all braces of the rule are keys, which the rule binds; the others are the
    body's own. ``count`` and ``sum`` of nothing are 0; ``min``, ``max`` and ``mean`` of nothing derive nothing.

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
        """The value's text, in parentheses where what is before or behind it would be read with it."""
        text = str(self.value)
        return f"({text})" if text.startswith("-") or text.rsplit(" ", 1)[-1] in AGGREGATES else text


Expression = Variable | Constant | Call | Aggregate


def variables_of(parts: Iterable[Expression]) -> tuple[Variable, ...]:
    """The distinct variables of expressions, in the order in which they first stand; not those of aggregates."""
    variables: dict[Variable, None] = {}
    for part in parts:
        if isinstance(part, Variable):
            variables[part] = None
        elif isinstance(part, Call):
            variables.update(dict.fromkeys(part.variables))
    return tuple(variables)


def valued_variables(parts: Iterable[Expression]) -> tuple[Variable, ...]:
    """The distinct variables that expressions need a value of; those that stand in null-aware calls may be null.

    Examples
    --------
    >>> x, y = Variable("x"), Variable("y")
    >>> [str(one) for one in valued_variables([Call("+", (x, Constant(1))), Call("eq", (x, y))])]
    ['x']
    """
    return variables_of(part for part in parts if not (isinstance(part, Call) and part.takes_nulls))


_TOTAL = {*NULL_AWARE, "double", "downcase", "lower", "strlen", "upcase", "upper", "year", "month", "day"}


def is_total(expression: Expression) -> bool:
    """Return whether an expression has a value for every binding; for arithmetic, which may leave int64, False.

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
    """The aggregates of expressions, in the order in which they stand; not those within other ones."""
    for part in parts:
        if isinstance(part, Aggregate):
            yield part
        elif isinstance(part, Call):
            yield from aggregates_of(part.arguments)


def plain(expression: Expression) -> Term:
    """A variable or constant of a rule in core form, where no other expressions are."""
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
        """The distinct variables, in the order in which they first stand; see `variables_of`."""
        return variables_of(self.terms)


@dataclass(frozen=True)
class Comparison:
    """``left op right`` between two terms, with `op` one of `COMPARISONS`.

    With `NULL` on one side, ``=`` and ``!=`` ask whether the other side has no value or one, and bind nothing.
    """

    op: str
    left: Expression
    right: Expression
    span: Span = field(default=Span(), compare=False)

    def __str__(self) -> str:
        return f"{self.left} {self.op} {self.right}"

    @property
    def is_null_test(self) -> bool:
        """Whether a side is null."""
        return NULL in (self.left, self.right)

    @property
    def variables(self) -> tuple[Variable, ...]:
        """The distinct variables, left one first; see `variables_of`."""
        return variables_of((self.left, self.right))


NEVER = Comparison("!=", Constant(0), Constant(0))
"""What never holds. Rules that say so stay, though they derive nothing: their heads' columns have types by them."""
