"""Syntax tree of a query: terms, clauses, rules and elements of ``:find``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from gpu_wcoj.errors import EdnSyntaxError, UnsupportedError, pointed
from gpu_wcoj.query.ir import Span


@dataclass(frozen=True)
class Text:
    """The text that contains a part of a query, for messages."""

    text: str
    source: str

    def error(self, what: str, span: Span) -> EdnSyntaxError:
        """Return a syntax error that points at `span`."""
        return EdnSyntaxError(what, self.text, span.line, span.column, span.width, self.source)

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
class FindSpec:
    """An element of ``:find``: a variable, or an aggregate of it."""

    variable: Var
    op: str | None
    span: Span = field(default=Span(), compare=False)

    def __str__(self) -> str:
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
