"""Syntax tree of a query: terms, clauses, rules and elements of ``:find``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpu_wcoj.data.schema import DataType
from gpu_wcoj.errors import EdnSyntaxError, TypeMismatchError, UnsupportedError, pointed
from gpu_wcoj.query.ir import Span


@dataclass(frozen=True)
class Text:
    """The text that contains a part of a query, for messages."""

    text: str
    source: str

    def error(self, what: str, span: Span, missing: str = "") -> EdnSyntaxError:
        """Return a syntax error that points at `span`; `missing` is a relation that is not there."""
        error = EdnSyntaxError(what, self.text, span.line, span.column, span.width, self.source)
        error.relation = missing
        return error

    def unsupported(self, what: str, span: Span) -> UnsupportedError:
        """Return an error about an unsupported feature that points at `span`."""
        return UnsupportedError(self.pointed(what, span))

    def pointed(self, what: str, span: Span) -> str:
        """Return a message with the line and column of `span`."""
        return pointed(what, self.text, span.line, span.column, span.width, self.source)


@dataclass(frozen=True)
class Var:
    """A variable such as ``?x``; `scope` separates local variables of the same name."""

    name: str
    scope: int = 0
    span: Span = field(default=Span(), compare=False)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Const:
    """A constant and its type."""

    value: int | float | bool | str
    type: str
    span: Span = field(default=Span(), compare=False)

    def __str__(self) -> str:
        return f'"{self.value}"' if self.type == "string" else str(self.value)


@dataclass(frozen=True)
class Blank:
    """The blank ``_``."""

    span: Span = field(default=Span(), compare=False)

    def __str__(self) -> str:
        return "_"


@dataclass(frozen=True)
class Lookup:
    """A lookup ref ``[:attribute value]``: the entity that has this value."""

    attribute: str
    value: Var | Const
    span: Span = field(default=Span(), compare=False)

    def __str__(self) -> str:
        return f"[{self.attribute} {self.value}]"


Term = Var | Const | Blank | Lookup


@dataclass(frozen=True)
class Pattern:
    """``[source? term ...]``; without a source, the scope's source is read.

    Attributes
    ----------
    is_lookup
        True for a lookup ref, whose attribute must be unique.
    caller
        The function that reads one value by the pattern, so that its attribute cannot be reversed.
    """

    source: str | None
    terms: tuple[Term, ...]
    span: Span = field(default=Span(), compare=False)
    is_lookup: bool = False
    caller: str = ""


@dataclass(frozen=True)
class FunctionCall:
    """``(name term ...)``: a rule, or a relation by its name."""

    source: str | None
    name: str
    terms: tuple[Term, ...]
    span: Span = field(default=Span(), compare=False)


@dataclass(frozen=True)
class Predicate:
    """``[(op term ...)]``."""

    op: str
    terms: tuple[Var | Const, ...]
    span: Span = field(default=Span(), compare=False)


@dataclass(frozen=True)
class Function:
    """``[(op term ...) ?result]``."""

    op: str
    terms: tuple[Var | Const, ...]
    result: Var | Const
    span: Span = field(default=Span(), compare=False)


@dataclass(frozen=True)
class Rows:
    """Rows of an argument or of ``ground``; `types` are the types of the columns."""

    relation: str
    terms: tuple[Var | Const | Blank, ...]
    types: tuple[str | None, ...]
    span: Span = field(default=Span(), compare=False)


@dataclass(frozen=True)
class Not:
    """``(not clause ...)``, or ``(not-join [?x ...] clause ...)`` with `variables`."""

    source: str | None
    variables: tuple[Var, ...] | None
    clauses: tuple[Clause, ...]
    span: Span = field(default=Span(), compare=False)


@dataclass(frozen=True)
class Or:
    """``(or clause ...)``, or ``(or-join [[?r ...] ?x ...] clause ...)`` with `variables`."""

    source: str | None
    variables: tuple[Var, ...] | None
    required: tuple[Var, ...]
    branches: tuple[tuple[Clause, ...], ...]
    span: Span = field(default=Span(), compare=False)


Clause = Pattern | FunctionCall | Predicate | Function | Rows | Not | Or


@dataclass(frozen=True)
class Branch:
    """One branch (definition) of a rule."""

    head: tuple[Var, ...]
    clauses: tuple[Clause, ...]
    text: Text
    span: Span


@dataclass(frozen=True)
class RuleSet:
    """A rule: its branches, and per argument whether the caller must bind it."""

    name: str
    branches: tuple[Branch, ...]
    required: tuple[bool, ...]


@dataclass(frozen=True)
class PulledAttribute:
    """An attribute of a pattern of ``pull``.

    Attributes
    ----------
    name
        The attribute, or ``:db/id``.
    is_reverse
        Whether the entities are read that refer to this one by the attribute.
    key
        The key of its value in the result.
    pattern
        The pattern of the entities that it refers to; None for their ids.
    depth
        The number of times that the whole pattern is applied to them instead, as in ``{:friend 3}``; None for ``...``,
        to the end.
    limit
        The number of values of many that are read; None for all of them.
    default
        The value where there is none; None to leave the key out.
    """

    name: str
    is_reverse: bool
    key: Any
    pattern: PullPattern | None = None
    depth: int | None = 0
    limit: int | None = None
    default: Any = None


@dataclass(frozen=True)
class PullPattern:
    """A pattern of ``pull``.

    Attributes
    ----------
    attributes
        The attributes that it names.
    is_all
        Whether it has ``*``, for the id and all attributes.
    """

    attributes: tuple[PulledAttribute, ...]
    is_all: bool


@dataclass(frozen=True)
class FindSpec:
    """An element of ``:find``: a variable, an aggregate of it, or a pattern of ``pull``.

    Attributes
    ----------
    pull
        The pattern.
    source
        The database that is pulled from.
    """

    variable: Var
    op: str | None
    span: Span = field(default=Span(), compare=False)
    pull: PullPattern | None = None
    source: str = "$"

    def __str__(self) -> str:
        if self.pull is not None:
            return f"(pull {self.variable} ...)"
        return f"({self.op} {self.variable})" if self.op else str(self.variable)


def variables_of(clause: Clause) -> Iterator[Var]:
    """Yield the variables by which a clause joins with others, with repetitions."""
    if isinstance(clause, (Not, Or)):
        if clause.variables is not None:
            yield from clause.variables
            return
        inner = (
            clause.clauses if isinstance(clause, Not) else [clause_ for branch in clause.branches for clause_ in branch]
        )
        for inner_clause in inner:
            yield from variables_of(inner_clause)
        return
    for term in clause.terms:
        if isinstance(term, Lookup):
            term = term.value
        if isinstance(term, Var):
            yield term
    if isinstance(clause, Function) and isinstance(clause.result, Var):
        yield clause.result


# Predicates, functions and aggregates that queries can call.


COMPARISONS = {"=": "=", "==": "==", "!=": "!=", "not=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
"""Predicates that compare adjacent arguments, and the engine's comparison for each."""
TESTS = {"zero?": "=", "pos?": ">", "neg?": "<"}
"""Predicates that compare one number with 0."""
PARITY = {"even?": "=", "odd?": "!="}
"""Predicates that compare the remainder of a division by 2 with 0."""
TEXT_TESTS = ("clojure.string/includes?", "clojure.string/starts-with?")
"""Predicates of a string and a part of it."""
PREDICATES = (*COMPARISONS, *TESTS, *PARITY, *TEXT_TESTS, "missing?")

ARITHMETIC = {"+": "+", "-": "-", "*": "*", "/": "/", "quot": "/", "rem": "%"}
"""Functions of numbers, and the engine's name for each."""
TEXT_FUNCTIONS = {"count": "strlen", "clojure.string/lower-case": "lower", "clojure.string/upper-case": "upper"}
"""Functions of a string, and the engine's name for each."""
FUNCTIONS = (*ARITHMETIC, "mod", "inc", "dec", "str", *TEXT_FUNCTIONS, "identity", "ground", "get-else")
ARGUMENTS = {
    "quot": (2, 2), "rem": (2, 2), "mod": (2, 2), "inc": (1, 1), "dec": (1, 1), "identity": (1, 1),
    **dict.fromkeys(TEXT_FUNCTIONS, (1, 1)), **dict.fromkeys(TEXT_TESTS, (2, 2)),
    "ground": (1, 1), "get-else": (4, 4), "missing?": (3, 3), "+": (1, None), "*": (1, None), "-": (1, None),
    "/": (2, None), "str": (1, None),
    **dict.fromkeys(COMPARISONS, (2, None)), "!=": (2, 2), **dict.fromkeys((*TESTS, *PARITY), (1, 1)),
}  # fmt: skip
"""Minimum and maximum number of arguments; None for no maximum."""

AGGREGATES = {"count": "count", "count-distinct": "count", "sum": "sum", "min": "min", "max": "max", "avg": "mean"}
"""Aggregates of ``:find``, and the engine's name for each."""

CLAUSES = ("and", "or", "or-join", "not", "not-join")

CORE = "clojure.core/"


# Sources of a query: databases of datoms, and plain relations.


TYPES = ("long", "ref", "double", "string", "keyword", "boolean", "instant", "uuid", "bytes")
"""The types of attributes. A ref is an entity id, which is a long."""

TEXT = "text"
"""The type of texts of arguments and plain relations: strings or keywords."""

OPAQUE = "?"
"""The type of values that have one unknown type."""

ENGINE = {
    "long": "int64",
    "ref": "int64",
    "double": "double",
    "string": "string",
    "keyword": "string",
    TEXT: "string",
    "boolean": "bool",
    "instant": "timestamp[us, tz=UTC]",
    "uuid": "string",
    "bytes": "binary",
}
"""The engine's column type for each type of value."""

RELATIONS = {kind: f"datoms_{'long' if kind == 'ref' else kind}" for kind in TYPES}
"""The relation ``(e, a, v)`` of the datoms of each type; refs share the longs' relation."""


@dataclass(frozen=True)
class Attribute:
    """An attribute: its type (one of `TYPES`), and whether its values are unique."""

    type: str
    unique: bool = False


@dataclass(frozen=True)
class Datoms:
    """A database of datoms.

    Attributes
    ----------
    attributes
        The typed attributes by their keywords: ``{":g/to": Attribute("ref")}``.
    relations
        Per type of value, the relation ``(e: int64, a: string, v)`` of such datoms.
    untyped
        Attributes of the schema that have no type yet.
    is_strict
        Reject attributes that are in neither; else a query reports them as undeclared.
    """

    attributes: Mapping[str, Attribute]
    relations: Mapping[str, str] = field(default_factory=lambda: RELATIONS)
    untyped: frozenset[str] = frozenset()
    is_strict: bool = False


@dataclass(frozen=True)
class Relation:
    """A plain relation.

    Attributes
    ----------
    name
        The engine's name of the relation.
    columns
        Names of its columns; empty if unknown, and then the queries determine their number.
    types
        Per column Arrow's name of its type, or None if unknown.
    """

    name: str
    columns: tuple[str, ...] = ()
    types: tuple[str | None, ...] = ()


Source = Datoms | Relation


def forward_attribute(name: str) -> str | None:
    """Return the attribute behind a reversed name, or None if the name is not reversed.

    Examples
    --------
    >>> forward_attribute(":person/_boss"), forward_attribute(":_boss"), forward_attribute(":boss")
    (':person/boss', ':boss', None)
    """
    space, slash, local_name = name.rpartition("/") if "/" in name else (":", "", name[1:])
    return f"{space}{slash}{local_name[1:]}" if len(local_name) > 1 and local_name.startswith("_") else None


_FAMILIES = {
    "integer": "long",
    "float64": "double",
    "bool": "boolean",
    "string": TEXT,
    "zoned": "instant",
    "binary": "bytes",
}


def type_of_column(name: str | None) -> str:
    """Return the type of values in a column of a plain relation, from Arrow's type name.

    Examples
    --------
    >>> type_of_column("int32"), type_of_column("large_string"), type_of_column("date32[day]"), type_of_column(None)
    ('long', 'text', 'date', '?')
    """
    if name is None:
        return OPAQUE
    try:
        family = DataType(name).family
    except TypeMismatchError:
        return OPAQUE
    return _FAMILIES.get(family, family)


def source_of(sources: Mapping[str, Source], name: str) -> Source | None:
    """Return the source of a name, which may be written with or without ``$``."""
    return sources.get(name) or sources.get(name.removeprefix("$") if name.startswith("$") else f"${name}")
