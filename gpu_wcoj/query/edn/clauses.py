"""What a query says, once read: terms, clauses, rules and what is found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from gpu_wcoj.errors import EdnSyntaxError, UnsupportedError, pointed
from gpu_wcoj.query.terms import Span


@dataclass(frozen=True)
class Text:
    """The text that a piece of a query stands in, for messages."""

    text: str
    source: str

    def error(self, what: str, span: Span) -> EdnSyntaxError:
        """A mistake, shown in its place."""
        return EdnSyntaxError(what, self.text, span.line, span.column, span.width, self.source)

    def unsupported(self, what: str, span: Span) -> UnsupportedError:
        """Something that is not supported, shown in its place."""
        return UnsupportedError(self.pointed(what, span))

    def pointed(self, what: str, span: Span) -> str:
        """A message with the place that it is about."""
        return pointed(what, self.text, span.line, span.column, span.width, self.source)


@dataclass(frozen=True)
class Var:
    """A variable, as ``?x``. Those of a scope of their own have a `scope` that tells them from others of their name."""

    name: str
    scope: int = 0
    span: Span = field(default=Span(), compare=False)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Const:
    """A value and its type."""

    value: int | float | bool | str
    type: str
    span: Span = field(default=Span(), compare=False)

    def __str__(self) -> str:
        return f'"{self.value}"' if self.type == "string" else str(self.value)


@dataclass(frozen=True)
class Blank:
    """``_``."""

    span: Span = field(default=Span(), compare=False)

    def __str__(self) -> str:
        return "_"


@dataclass(frozen=True)
class Lookup:
    """``[:attribute value]`` in the place of an entity: the one that has this value."""

    attribute: str
    value: Var | Const
    span: Span = field(default=Span(), compare=False)

    def __str__(self) -> str:
        return f"[{self.attribute} {self.value}]"


Term = Var | Const | Blank | Lookup


@dataclass(frozen=True)
class Pattern:
    """``[source? term ...]``; without a source, of the one that the scope has.

    Attributes
    ----------
    is_lookup
        Whether it stands for a lookup ref, whose attribute must be unique.
    caller
        The function that reads one value by the pattern, so that its attribute cannot be reversed.
    """

    source: str | None
    terms: tuple[Term, ...]
    span: Span = field(default=Span(), compare=False)
    is_lookup: bool = False
    caller: str = ""


@dataclass(frozen=True)
class Call:
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
    """Rows that are given: of an argument, or of ``ground``; `types` are those of the columns."""

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
    """``(or clause ...)``, or ``(or-join [[?required ...] ?x ...] clause ...)`` with `variables`."""

    source: str | None
    variables: tuple[Var, ...] | None
    required: tuple[Var, ...]
    branches: tuple[tuple[Clause, ...], ...]
    span: Span = field(default=Span(), compare=False)


Clause = Pattern | Call | Predicate | Function | Rows | Not | Or


@dataclass(frozen=True)
class Branch:
    """One of the ways to satisfy a rule."""

    head: tuple[Var, ...]
    clauses: tuple[Clause, ...]
    text: Text
    span: Span


@dataclass(frozen=True)
class RuleSet:
    """A rule: its branches, and which of its places must be bound by the caller."""

    name: str
    branches: tuple[Branch, ...]
    required: tuple[bool, ...]


@dataclass(frozen=True)
class Found:
    """One element of ``:find``: a variable, or an aggregate of it."""

    variable: Var
    op: str | None
    span: Span = field(default=Span(), compare=False)

    def __str__(self) -> str:
        return f"({self.op} {self.variable})" if self.op else str(self.variable)


def variables_of(clause: Clause) -> Iterator[Var]:
    """The variables by which a clause joins with others, as often as they stand in it."""
    if isinstance(clause, (Not, Or)):
        if clause.variables is not None:
            yield from clause.variables
            return
        inner = clause.clauses if isinstance(clause, Not) else [one for branch in clause.branches for one in branch]
        for one in inner:
            yield from variables_of(one)
        return
    for term in clause.terms:
        if isinstance(term, Lookup):
            term = term.value
        if isinstance(term, Var):
            yield term
    if isinstance(clause, Function) and isinstance(clause.result, Var):
        yield clause.result
