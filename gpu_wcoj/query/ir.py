"""Parts of rules, common to all query languages: terms, expressions, atoms and comparisons."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from decimal import Decimal
from functools import cached_property
from itertools import count
from typing import Any, TypeVar

from gpu_wcoj.data.schema import DataType
from gpu_wcoj.errors import UnsupportedTypeError, UsageError
from gpu_wcoj.user_functions import Function, GroupFunctions, TypedFunction


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
WORDS = ("not", "true", "false", "null")
"""Words that have a meaning in a text, beside the names of functions and aggregates."""
AGGREGATES = ("count", "sum", "min", "max", "mean")


def functions_by_name(functions: Iterable[Function]) -> dict[str, Function]:
    """Return Python functions by name.

    Raises
    ------
    UsageError
        If two have one name, also in upper and lower case, as SQL does not tell them apart; or if a name is that of a
        function, an aggregate or a word of the language.

    Examples
    --------
    >>> from gpu_wcoj.user_functions import function
    >>> functions_by_name([function(abs, "int64", returns="int64", name="size")])
    {'size': Function(size(int64) -> int64)}
    """
    by_name: dict[str, Function] = {}
    folded: dict[str, str] = {}
    for function in functions:
        name = function.name
        if name.lower() in (*FUNCTIONS, *AGGREGATES, *WORDS):
            raise UsageError.with_parts(
                f"the function '{name}' has the name of a built-in function or word",
                subject="functions", got=name, remedy="Give it another one: gpu_wcoj.function(..., name='my_name').",
            )  # fmt: skip
        if folded.setdefault(name.lower(), name) != name or by_name.get(name, function) is not function:
            raise UsageError.duplicate("the function", name, remedy="Give each function a name of its own: name='...'.")
        by_name[name] = function
    return by_name


@dataclass(frozen=True)
class Call:
    """``op(arguments)``: arithmetic, one of `FUNCTIONS`, or a call of `function`.

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
    function: TypedFunction | None = None

    def __str__(self) -> str:
        if self.function is not None:
            return self.function.describe_call(list(map(str, self.arguments)))
        if self.op.isidentifier():
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
        """Return whether the function, or one in its arguments, is called for null.

        Those are the functions in `NULL_AWARE`, SQL expressions, and Python functions that are declared with `nulls`.

        Core form keeps such a call together with all calculations in its arguments.
        """
        if self.op in NULL_AWARE or (self.function is not None and self.function.takes_nulls):
            return True
        return any(isinstance(argument, Call) and argument.takes_nulls for argument in self.arguments)

    @property
    def may_be_null(self) -> bool:
        """Return whether the result may be null: that of a Python function may be, too."""
        return self.takes_nulls or self.function is not None


def _is_closed(piece: Call | Constant) -> bool:
    """Return whether the text of an operand needs no parentheses, also after a minus."""
    if isinstance(piece, Call):
        return piece.op.isidentifier()
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


def unique_names(names: Iterable[str], start: int = 2, key: Callable[[str], str] = str) -> tuple[str, ...]:
    """Return names of columns, with numbers appended to repeated ones.

    Parameters
    ----------
    start
        The first number.
    key
        Returns equal texts for names that count as equal.

    Examples
    --------
    >>> unique_names(["x", "y", "x", "X"]), unique_names(["x", "X"], 1, str.lower)
    (('x', 'y', 'x_2', 'X'), ('x', 'X_1'))
    """
    result: dict[str, str] = {}
    for name in names:
        number, candidate = start, name
        while key(candidate) in result:
            candidate = f"{name}_{number}"
            number += 1
        result[key(candidate)] = candidate
    return tuple(result.values())


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


# Programs in the common form of all query languages: rules and declarations.


_T = TypeVar("_T")
_Body = TypeVar("_Body", "Rule", Aggregate)

DEMAND = "demand#"
"""Prefix of the names of inputs that hold keys of aggregates, see `Rules.demands`."""


@dataclass(frozen=True)
class Computed:
    """``variable = call`` of a rule in core form: the arguments are variables and constants.

    A call that takes nulls may have calls as arguments. Its variable may be null, and that of a Python function, too.
    """

    variable: Variable
    call: Call

    def __str__(self) -> str:
        return f"{self.variable} = {self.call}"


@dataclass(frozen=True)
class Rule:
    """``head :- atoms, not negated, comparisons.`` A rule without a body is a fact.

    In core form, the input of the planner, the terms of atoms and comparisons are variables and constants, calculations
    are listed in `computed`, each after those that it uses, and every variable of a negated atom is bound by a positive
    atom or computed. In other rules the terms may be any expressions.
    """

    head: Atom
    atoms: tuple[Atom, ...]
    comparisons: tuple[Comparison, ...] = ()
    negated: tuple[Atom, ...] = ()
    computed: tuple[Computed, ...] = ()

    def __str__(self) -> str:
        negated = (f"!{atom}" for atom in self.negated)
        body = ", ".join([*map(str, self.atoms), *negated, *map(str, self.computed), *map(str, self.comparisons)])
        return f"{self.head} :- {body}." if body else f"{self.head}."

    @cached_property
    def variables(self) -> tuple[Variable, ...]:
        """The distinct variables of the atoms of the body, by first occurrence."""
        return tuple(dict.fromkeys(variable for atom in self.atoms for variable in atom.variables))

    @cached_property
    def occurrences(self) -> Counter[Variable]:
        """The number of terms, sides of comparisons and calculations that each variable is in."""
        parts = (*self.head.terms, *_parts(self), *(part for one in self.computed for part in (one.variable, one.call)))
        return Counter(variable for part in parts for variable in variables_of((part,)))

    @cached_property
    def aggregates(self) -> tuple[Aggregate, ...]:
        """The aggregates of the rule in order, without those nested in other aggregates."""
        return tuple(aggregates_of((*self.head.terms, *_parts(self))))

    @cached_property
    def says_null(self) -> bool:
        """Return whether null occurs in the head, an atom or a comparison."""
        parts = (*self.head.terms, *_parts(self))
        return any(isinstance(part, Constant) and part == NULL for part in parts)

    @cached_property
    def read(self) -> tuple[Atom, ...]:
        """All atoms of the body, negated ones and those of aggregates included."""
        return tuple(_read(self, self.aggregates))


def numbered_variables(rule: Rule) -> dict[Expression, int]:
    """Return the variables of a body, numbered by first occurrence."""
    terms = [term for atom in (*rule.atoms, *rule.negated) for term in atom.terms]
    terms += [term for comparison in rule.comparisons for term in (comparison.left, comparison.right)]
    terms += [term for computed in rule.computed for term in (computed.variable, *computed.call.variables)]
    return {
        term: index for index, term in enumerate(dict.fromkeys(term for term in terms if isinstance(term, Variable)))
    }


def body_signature(rule: Rule, numbers: Mapping[Expression, int]) -> Hashable:
    """Return a key of the body that does not depend on variable names."""

    def numbered_terms(terms: Sequence[Expression]) -> tuple[Hashable, ...]:
        return tuple(map(numbered_term, terms))

    def numbered_term(term: Expression) -> Hashable:
        if isinstance(term, Call):
            return term.op, numbered_terms(term.arguments)
        return (numbers[term], term.name.endswith("?")) if isinstance(term, Variable) else term

    return (
        tuple((atom.relation, numbered_terms(atom.terms)) for atom in rule.atoms),
        tuple((atom.relation, numbered_terms(atom.terms)) for atom in rule.negated),
        frozenset(
            (comparison.op, numbered_terms((comparison.left, comparison.right))) for comparison in rule.comparisons
        ),
        tuple(
            (numbers[computed.variable], computed.call.op, numbered_terms(computed.call.arguments))
            for computed in rule.computed
        ),
    )


def _parts(body: Rule | Aggregate) -> Iterator[Expression]:
    for atom in (*body.atoms, *body.negated):
        yield from atom.terms
    for comparison in body.comparisons:
        yield from (comparison.left, comparison.right)


def _read(body: Rule | Aggregate, within: Iterable[Aggregate]) -> Iterator[Atom]:
    yield from (*body.atoms, *body.negated)
    for aggregate in within:
        inner = (*_parts(aggregate),) if aggregate.value is None else (aggregate.value, *_parts(aggregate))
        yield from _read(aggregate, aggregates_of(inner))


@dataclass(frozen=True)
class Declaration:
    """``.decl relation(column: type, ...)``: columns and their types, None if undeclared.

    Names that Datalog cannot spell are quoted, as ``"first name"``.

    Attributes
    ----------
    is_binding
        Whether rows must have these types; otherwise the types only describe the present tables.
    records
        The columns whose texts are records; see `gpu_wcoj.query.souffle.records`.
    is_nullary
        Whether the text declares no columns; then there is one of type bool, which holds true.
    """

    relation: str
    columns: tuple[str, ...]
    types: tuple[str | None, ...]
    span: Span = field(default=Span(), compare=False)
    is_binding: bool = field(default=True, compare=False)
    records: tuple[int, ...] = field(default=(), compare=False)
    is_nullary: bool = field(default=False, compare=False)

    def __str__(self) -> str:
        names = map(_column, self.columns)
        pairs = zip(names, self.types, strict=True)
        columns = ", ".join(name if kind is None else f"{name}: {kind}" for name, kind in pairs)
        return f".decl {self.relation}({columns})"


def _column(name: str) -> str:
    is_name = re.fullmatch(r"[^\W\d]\w*", name) and name not in ("true", "false", "null", "_")
    return name if is_name else str(Constant(name))


@dataclass(frozen=True)
class Directive:
    """``.input relation(name=value, ...)``, ``.output ...``: its file, or its size.

    Attributes
    ----------
    kind
        ``input``, ``output``, ``printsize``, ``test``, whose parameter is the expected ``count``, or ``limitsize``,
        whose parameter ``n`` is the number of rows at which a recursion ends.
    parameters
        Names and values, in order. In the text, values other than names and numbers are quoted.
    """

    kind: str
    relation: str
    parameters: tuple[tuple[str, str], ...] = ()
    span: Span = field(default=Span(), compare=False)

    def __str__(self) -> str:
        if self.kind == "test":
            return f".test {self.relation} {dict(self.parameters)['count']}"
        pairs = ", ".join(f"{name}={_parameter(value)}" for name, value in self.parameters)
        return f".{self.kind} {self.relation}" + (f"({pairs})" if pairs else "")


def _parameter(value: str) -> str:
    return value if re.fullmatch(r"[^\W\d]\w*|[0-9]+", value) else str(Constant(value))


@dataclass(frozen=True)
class Grouping:
    """A head of a program in core form that aggregates another relation by its first columns.

    Attributes
    ----------
    relation
        The head; its columns are the keys and then the result.
    source
        The aggregated relation: the keys, then the value (for ``count``: none), then columns that distinguish rows
        with equal keys and values. Rows whose value is null do not count.
    keys
        The number of key columns. The head has no row for a group without rows, even if there are no keys.
    op
        ``count``, ``sum``, ``min``, ``max`` or ``mean``.
    is_weighted
        Whether a mean uses each row with its weight, as a sum does, instead of once.
    of_derivations
        Whether a row of a set counts once for each of its derivations.
    """

    relation: str
    source: str
    keys: int
    op: str
    is_weighted: bool = False
    of_derivations: bool = False

    def __str__(self) -> str:
        by = f"its first {self.keys} columns" if self.keys > 1 else "its first column" if self.keys else "nothing"
        source = f"the derivations of {self.source}" if self.of_derivations else self.source
        return f"{self.relation}: {self.op} of {source} by {by}"


@dataclass(frozen=True)
class Extreme:
    """A head of a program in core form that keeps one minimum or maximum per group.

    Rows that agree in all other columns form a group.

    Attributes
    ----------
    column
        The column of the value.
    op
        ``min`` or ``max``.
    """

    relation: str
    column: int
    op: str

    def __str__(self) -> str:
        return f"{self.relation}: {self.op} of column {self.column}"


MAX_FIRST_ROWS = 1 << 31
"""Largest sum of limit and offset of a head that keeps first rows, so that sums of capped weights fit int64."""


@dataclass(frozen=True)
class SortKey:
    """A column by which rows are sorted.

    Attributes
    ----------
    nulls_first
        Whether nulls precede all values; otherwise they follow them. The direction does not matter.
    """

    column: int
    is_descending: bool = False
    nulls_first: bool = False

    def __str__(self) -> str:
        return f"column {self.column}{' descending' * self.is_descending}{', nulls first' * self.nulls_first}"


@dataclass(frozen=True)
class FirstRows:
    """A head that keeps the first rows of another relation, which has the same columns.

    Attributes
    ----------
    keys
        The order of the rows. Rows that agree in all keys are ordered by their columns, ascending, nulls last.
    limit, offset
        Of each group, `limit` rows are kept after `offset` rows; a row counts as often as its weight says.
    groups
        Columns of the groups; none for one group of all rows.
    """

    relation: str
    source: str
    keys: tuple[SortKey, ...]
    limit: int
    offset: int = 0
    groups: tuple[int, ...] = ()

    def __str__(self) -> str:
        by = f" by {'; '.join(map(str, self.keys))}" if self.keys else ""
        after = f" after {self.offset:,}" if self.offset else ""
        each = f" of each group by column {', '.join(map(str, self.groups))}" if self.groups else ""
        return f"{self.relation}: the first {self.limit:,} rows{after} of {self.source}{each}{by}"


@dataclass(frozen=True)
class ComputedGroups:
    """A head that DuckDB computes from the rows of another relation, group by group.

    Its columns are the columns of the groups, or for windows all columns of the rows, and then the results.

    Attributes
    ----------
    keys
        The number of columns of a group; the source has them first.
    kinds
        The types of the source's columns, in Arrow's spelling.
    expressions
        The results, in DuckDB's dialect: aggregates; or windows over the partition ``"$group"``, or ``unnest``. They
        read the columns ``"$0"``, ``"$1"``, ... of the source.
    returns
        The types of the results.
    is_window
        Whether each row has results, for ``unnest`` any number of them, and not each group.
    texts
        The results as the user has written them.
    """

    relation: str
    source: str
    keys: int
    kinds: tuple[str, ...]
    expressions: tuple[str, ...]
    returns: tuple[str, ...]
    is_window: bool = False
    texts: tuple[str, ...] = field(default=(), compare=False)

    @property
    def functions(self) -> GroupFunctions:
        """The results, with their types."""
        returns = tuple(map(DataType, self.returns))
        return GroupFunctions(self.expressions, returns, self.is_window, self.texts)

    @property
    def n_passed(self) -> int:
        """Number of columns of the source that the head has, too."""
        return len(self.kinds) if self.is_window else self.keys

    def __str__(self) -> str:
        by = f"its first {self.keys} columns" if self.keys > 1 else "its first column" if self.keys else "nothing"
        each = "of each row of" if self.is_window else "of"
        return f"{self.relation}: {self.functions} {each} {self.source} by {by}"


@dataclass(frozen=True)
class Sorting:
    """The order in which the rows of an output are returned by a query that is answered once.

    Attributes
    ----------
    n_shown
        Number of columns that are returned; the others are there to sort by.
    """

    relation: str
    keys: tuple[SortKey, ...]
    n_shown: int


@dataclass(frozen=True)
class Facts:
    """Rows of an input in the text of a program in core form, present from the first tick on."""

    relation: str
    rows: tuple[tuple[int | float | bool | str | Decimal | None, ...], ...]


@dataclass(frozen=True)
class Rules:
    """A program: its rules in order, its declarations, its outputs.

    ``str(rules)`` is a program text that parses to an equal value; in core form it is for display only.

    Attributes
    ----------
    directives
        All ``.input`` lines, then the ``.output`` lines that have parameters, and lines about sizes; one of each kind
        for a relation.
    groupings, extremes, facts
        The helpers of a program in core form.
    first_rows
        The heads that keep the first rows of others.
    computed_groups
        The heads that DuckDB computes group by group.
    sorting
        The order of an answer; None if there is none.
    written
        Of a program in core form, the program as it is written.
    source
        The name of the text in messages.

    Examples
    --------
    >>> x, y = Variable("x"), Variable("y")
    >>> swap = Rule(Atom("swap", (y, x)), (Atom("pair", (x, y)),), (Comparison("<", x, Constant(5)),))
    >>> print(Rules((swap,), (Declaration("pair", ("left", "right"), ("int64", None)),), ("swap",)))
    .decl pair(left: int64, right)
    swap(y, x) :- pair(x, y), x < 5.
    .output swap
    """

    rules: tuple[Rule, ...]
    declarations: tuple[Declaration, ...] = ()
    outputs: tuple[str, ...] = ()
    text: str = field(default="", compare=False)
    groupings: tuple[Grouping, ...] = ()
    extremes: tuple[Extreme, ...] = ()
    directives: tuple[Directive, ...] = ()
    facts: tuple[Facts, ...] = ()
    first_rows: tuple[FirstRows, ...] = ()
    computed_groups: tuple[ComputedGroups, ...] = ()
    sorting: Sorting | None = None
    written: Rules | None = field(default=None, compare=False, repr=False)
    source: str = field(default="<text>", compare=False, repr=False)

    def __str__(self) -> str:
        inputs = [directive for directive in self.directives if directive.kind in ("input", "limitsize")]
        written: dict[str, list[Directive]] = {}
        for directive in self.directives:
            if directive not in inputs:
                written.setdefault(directive.relation, []).append(directive)
        outputs = [line for name in self.outputs for line in written.get(name) or [Directive("output", name)]]
        facts = [Rule(Atom(fact.relation, tuple(map(Constant, row))), ()) for fact in self.facts for row in fact.rows]
        core = (*self.groupings, *self.extremes, *self.first_rows, *self.computed_groups)
        return "\n".join(map(str, (*self.declarations, *inputs, *facts, *self.rules, *core, *outputs)))

    @property
    def limits(self) -> tuple[Directive, ...]:
        """The lines that end recursions, which are part of what the program means."""
        return tuple(directive for directive in self.directives if directive.kind == "limitsize")

    @property
    def size_limits(self) -> dict[str, int]:
        """Per relation with a limit, the number of rows at which its recursion ends."""
        return {limit.relation: int(dict(limit.parameters)["n"]) for limit in self.limits}

    @property
    def helpers(self) -> tuple[Grouping | FirstRows | ComputedGroups, ...]:
        """The heads without rules, each of which reads one relation."""
        return (*self.groupings, *self.first_rows, *self.computed_groups)

    @cached_property
    def heads(self) -> tuple[str, ...]:
        """The relations that rules define, by first occurrence."""
        without_rules = (helper.relation for helper in self.helpers)
        return tuple(dict.fromkeys([*(rule.head.relation for rule in self.rules), *without_rules]))

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """The relations that take rows: read but not defined, or named by ``.input``."""
        heads = set(self.heads)
        used = dict.fromkeys(atom.relation for rule in self.rules for atom in rule.read)
        named_in_text = heads.union(declaration.relation for declaration in self.declarations)
        named = (
            directive.relation
            for directive in self.directives
            if directive.kind == "input" and directive.relation in named_in_text
        )
        read = (name for name in used if name not in heads and not name.startswith(DEMAND))
        return tuple(dict.fromkeys([*read, *named]))

    def unread(self, relation: str) -> frozenset[int]:
        """Return the columns of a relation that are ``_``, or occur once, in every rule.

        A rule whose derivations are aggregated reads all columns.

        Examples
        --------
        >>> a, b = Variable("a"), Variable("b")
        >>> Rules((Rule(Atom("h", (a,)), (Atom("r", (a, b)),)),)).unread("r")
        frozenset({1})
        """
        atoms = [(atom, rule) for rule in self.rules for atom in rule.read if atom.relation == relation]
        if not self.derivation_sources.isdisjoint(rule.head.relation for _, rule in atoms):
            return frozenset()
        columns = range(self.arity.get(relation, 0))
        return frozenset(
            column for column in columns if all(_is_left(atom.terms[column], rule) for atom, rule in atoms)
        )

    @property
    def derivation_sources(self) -> frozenset[str]:
        """Heads of sets whose numbers of derivations are aggregated."""
        return frozenset(grouping.source for grouping in self.groupings if grouping.of_derivations)

    @property
    def has_aggregates(self) -> bool:
        """Return whether a rule has an aggregate, which counts rows with equal columns separately."""
        return bool(self.groupings or self.extremes or any(rule.aggregates for rule in self.rules))

    def without_columns(self, unread: Mapping[str, Collection[int]]) -> Rules:
        """Return the program without the given columns of inputs, which it must not read.

        In bag semantics the answers are the same over tables without these columns.

        Examples
        --------
        >>> a, b = Variable("a"), Variable("_#1")
        >>> print(Rules((Rule(Atom("h", (a,)), (Atom("r", (a, b)),)),)).without_columns({"r": [1]}))
        h(a) :- r(a).
        """
        rules = tuple(
            replace(_cut_body(rule, unread), head=replace(rule.head, terms=_cut_all(rule.head.terms, unread)))
            for rule in self.rules
        )
        declarations = tuple(
            replace(
                declaration,
                columns=_left(declaration.columns, unread[declaration.relation]),
                types=_left(declaration.types, unread[declaration.relation]),
            )
            if declaration.relation in unread
            else declaration
            for declaration in self.declarations
        )
        return replace(self, rules=rules, declarations=declarations)

    def renamed(self, names: Mapping[str, str]) -> Rules:
        """Return the program with other names of relations.

        Examples
        --------
        >>> a = Variable("a")
        >>> print(Rules((Rule(Atom("h", (a,)), (Atom("r", (a,)),)),)).renamed({"h": "view", "r": "table"}))
        view(a) :- table(a).
        """
        rules: Rules = _renamed(self, names)
        return rules

    def united(self, added: Rules, prefix: str) -> Rules:
        """Return this program together with another one, whose outputs and inputs keep their names.

        A head of `added` that is not an output is shared if this program defines the same; else it gets a free name.

        Parameters
        ----------
        prefix
            Part of the new names.

        Examples
        --------
        >>> a, b = Variable("a"), Variable("b")
        >>> helper = Rule(Atom("x#1", (a,)), (Atom("r", (a, b)),))
        >>> view = Rules((helper, Rule(Atom("h", (a,)), (Atom("x#1", (a,)),))), outputs=("h",))
        >>> print(view.united(Rules((helper, Rule(Atom("k", (a,)), (Atom("x#1", (a,)),))), outputs=("k",)), "k"))
        x#1(a) :- r(a, b).
        h(a) :- x#1(a).
        k(a) :- x#1(a).
        .output h
        .output k
        """
        program = added.renamed(_Union(self, added, prefix).names)
        declared = {declaration.relation for declaration in self.declarations}
        present = {*self.heads}
        kinds = ("input", "limitsize")
        directives = [one for one in program.directives if one.kind in kinds and one not in self.directives]
        return Rules(
            (*self.rules, *(rule for rule in program.rules if rule.head.relation not in present)),
            (*self.declarations, *(one for one in program.declarations if one.relation not in declared)),
            (*self.outputs, *program.outputs),
            directives=(*self.directives, *directives),
            first_rows=tuple(dict.fromkeys([*self.first_rows, *program.first_rows])),
            computed_groups=tuple(dict.fromkeys([*self.computed_groups, *program.computed_groups])),
        )

    def reduced(self, outputs: Sequence[str]) -> Rules:
        """Return the program with the rules that these outputs need.

        Examples
        --------
        >>> a = Variable("a")
        >>> both = Rules((Rule(Atom("h", (a,)), (Atom("r", (a,)),)), Rule(Atom("k", (a,)), (Atom("s", (a,)),))))
        >>> print(both.reduced(["k"]))
        k(a) :- s(a).
        .output k
        """
        reads = self.read_by_head
        needed: set[str] = set()
        waiting = list(outputs)
        while waiting:
            name = waiting.pop()
            if name not in needed:
                needed.add(name)
                waiting += reads.get(name, ())
        dropped = {*self.heads} - needed
        return replace(
            self,
            rules=tuple(rule for rule in self.rules if rule.head.relation in needed),
            declarations=tuple(one for one in self.declarations if one.relation not in dropped),
            outputs=tuple(outputs),
            text="",
            directives=tuple(
                one for one in self.directives if one.kind in ("input", "limitsize") and one.relation not in dropped
            ),
            first_rows=tuple(first for first in self.first_rows if first.relation in needed),
            computed_groups=tuple(groups for groups in self.computed_groups if groups.relation in needed),
        )

    @property
    def read_by_head(self) -> dict[str, set[str]]:
        """Per head, the relations that its rules read."""
        reads: dict[str, set[str]] = {}
        for rule in self.rules:
            reads.setdefault(rule.head.relation, set()).update(atom.relation for atom in rule.read)
        for helper in self.helpers:
            reads.setdefault(helper.relation, set()).add(helper.source)
        return reads

    @cached_property
    def functions(self) -> dict[str, Function]:
        """The Python functions of users that the program calls, by name, without functors."""
        functions: dict[str, Function] = {}
        waiting: list[Rule | Aggregate | Expression] = [*self.rules]
        while waiting:
            piece = waiting.pop()
            if isinstance(piece, Call):
                if type(piece.function) is Function:
                    functions[piece.op] = piece.function
                waiting += piece.arguments
            elif isinstance(piece, (Rule, Aggregate)):
                waiting += _parts(piece)
                if isinstance(piece, Aggregate):
                    waiting += [] if piece.value is None else [piece.value]
                else:
                    waiting += [*piece.head.terms, *(computed.call for computed in piece.computed)]
        return dict(sorted(functions.items()))

    @cached_property
    def demands(self) -> dict[str, str]:
        """The inputs that hold the rows of heads: ``{"keys#1": "demand#1"}``.

        They are the keys for which a recursion needs an aggregate; see `gpu_wcoj.query.desugar`. Each tick fills them.
        """
        used = dict.fromkeys(atom.relation for rule in self.rules for atom in rule.atoms)
        return {f"keys#{name.removeprefix(DEMAND)}": name for name in used if name.startswith(DEMAND)}

    @property
    def arity(self) -> dict[str, int]:
        """Number of columns of each relation that is declared or used by rules."""
        atoms = (atom for rule in self.rules for atom in (rule.head, *rule.read))
        arity = {declaration.relation: len(declaration.columns) for declaration in self.declarations}
        arity |= {atom.relation: len(atom.terms) for atom in atoms}
        arity |= {grouping.relation: grouping.keys + 1 for grouping in self.groupings}
        arity |= {groups.relation: groups.n_passed + len(groups.returns) for groups in self.computed_groups}
        for first in self.first_rows:  # each after its source
            arity[first.relation] = arity[first.source]
        return arity


class _Union:
    """Names for the heads of a program that is added to another one.

    Attributes
    ----------
    names
        The new name of each head that gets one.
    """

    def __init__(self, present: Rules, added: Rules, prefix: str) -> None:
        self.names: dict[str, str] = {}
        self._added, self._prefix = added, prefix
        declared = (declaration.relation for declaration in (*present.declarations, *added.declarations))
        self._taken = {*present.heads, *present.inputs, *added.heads, *added.inputs, *declared}
        self._present = {*present.heads, *present.inputs}
        self._defined = {_definition(present, name, {}): name for name in present.heads}
        self._is_settled: dict[str, bool] = {}
        self._reads = added.read_by_head
        for name in added.heads:
            self._settle(name)

    def _settle(self, name: str) -> bool:
        """Choose the name of a head after those that it reads.

        Return whether its definition is complete: nothing in it reads the head by way of others.
        """
        if name in self._is_settled:
            return self._is_settled[name]
        self._is_settled[name] = False
        heads = [read for read in self._reads[name] if read != name and read in self._reads]
        settled = [self._settle(read) for read in heads]
        is_settled = all(settled)
        if name not in self._added.outputs:
            shared = self._defined.get(_definition(self._added, name, self.names)) if is_settled else None
            if shared is not None:
                self.names[name] = shared
            elif name in self._present:
                self.names[name] = self._free_name(name)
        self._is_settled[name] = is_settled
        return is_settled

    def _free_name(self, name: str) -> str:
        stem = name.rstrip("0123456789") if "#" in name else f"{self._prefix}.{name}#"
        free = next(candidate for number in count(1) if (candidate := f"{stem}{number}") not in self._taken)
        self._taken.add(free)
        return free


def _definition(rules: Rules, name: str, names: Mapping[str, str]) -> Hashable:
    """Return the rules of a head without its name, over relations with their new names."""
    parts = (
        tuple(rule for rule in rules.rules if rule.head.relation == name),
        tuple(helper for helper in rules.helpers if helper.relation == name),
    )
    definition: Hashable = _renamed(parts, {**names, name: ""})
    return definition


def _renamed(piece: Any, names: Mapping[str, str]) -> Any:
    """Return a part of a program with other names of relations."""
    if isinstance(piece, tuple):
        return tuple(_renamed(item, names) for item in piece)
    if not is_dataclass(piece) or isinstance(piece, (Variable, Constant, Span, TypedFunction)):
        return piece
    changed: dict[str, Any] = {}
    for declared in fields(piece):
        value = getattr(piece, declared.name)
        if declared.name in ("relation", "source"):
            changed[declared.name] = names.get(value, value)
        elif declared.name == "outputs":
            changed[declared.name] = tuple(names.get(name, name) for name in value)
        elif isinstance(value, tuple) or is_dataclass(value):
            changed[declared.name] = _renamed(value, names)
    return replace(piece, **changed)  # type: ignore[type-var]


def _is_left(term: Expression, rule: Rule) -> bool:
    """Return whether nothing else in a rule depends on a term of one of its atoms."""
    if not isinstance(term, Variable):
        return False
    return term.is_wildcard or (not rule.aggregates and rule.occurrences[term] == 1)


def _left(parts: tuple[_T, ...], unread: Collection[int]) -> tuple[_T, ...]:
    return tuple(part for index, part in enumerate(parts) if index not in unread)


def _cut_body(body: _Body, unread: Mapping[str, Collection[int]]) -> _Body:
    """Return a rule or aggregate without the unread columns of the relations that it reads."""

    def cut(atom: Atom) -> Atom:
        return replace(atom, terms=_cut_all(_left(atom.terms, unread.get(atom.relation, ())), unread))

    compared = (
        replace(comparison, left=_cut(comparison.left, unread), right=_cut(comparison.right, unread))
        for comparison in body.comparisons
    )
    return replace(
        body, atoms=tuple(map(cut, body.atoms)), negated=tuple(map(cut, body.negated)), comparisons=tuple(compared)
    )


def _cut_all(parts: Iterable[Expression], unread: Mapping[str, Collection[int]]) -> tuple[Expression, ...]:
    return tuple(_cut(part, unread) for part in parts)


def _cut(part: Expression, unread: Mapping[str, Collection[int]]) -> Expression:
    if isinstance(part, Aggregate):
        value = None if part.value is None else _cut(part.value, unread)
        return replace(_cut_body(part, unread), value=value)
    return replace(part, arguments=_cut_all(part.arguments, unread)) if isinstance(part, Call) else part
