"""Programs in the common form of all query languages: rules and declarations."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property
from typing import TypeVar

from gpu_wcoj.query.ir import (
    NULL,
    Aggregate,
    Atom,
    Call,
    Comparison,
    Constant,
    Expression,
    Span,
    Variable,
    aggregates_of,
)

_T = TypeVar("_T")
_Body = TypeVar("_Body", "Rule", Aggregate)

DEMAND = "demand#"
"""Prefix of the names of inputs that hold keys of aggregates, see `Rules.demands`."""


@dataclass(frozen=True)
class Computed:
    """``variable = call`` of a rule in core form: the arguments are variables and constants.

    A call that takes nulls may have calls as arguments, and its variable may be null.
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

    @property
    def variables(self) -> tuple[Variable, ...]:
        """The distinct variables of the atoms of the body, by first occurrence."""
        return tuple(dict.fromkeys(variable for atom in self.atoms for variable in atom.variables))

    @property
    def aggregates(self) -> tuple[Aggregate, ...]:
        """The aggregates of the rule in order, without those nested in other aggregates."""
        return tuple(aggregates_of((*self.head.terms, *_parts(self))))

    @cached_property
    def says_null(self) -> bool:
        """Return whether null occurs in the head, an atom or a comparison."""
        parts = (*self.head.terms, *_parts(self))
        return any(isinstance(part, Constant) and part == NULL for part in parts)

    @property
    def read(self) -> tuple[Atom, ...]:
        """All atoms of the body, negated ones and those of aggregates included."""
        return tuple(_read(self, self.aggregates))


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
    """

    relation: str
    columns: tuple[str, ...]
    types: tuple[str | None, ...]
    span: Span = field(default=Span(), compare=False)
    is_binding: bool = field(default=True, compare=False)

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
    """``.input relation(name=value, ...)`` or ``.output ...``: a file of a relation.

    Attributes
    ----------
    kind
        ``input`` or ``output``.
    parameters
        Names and values, in order. In the text, values other than names and numbers are quoted.
    """

    kind: str
    relation: str
    parameters: tuple[tuple[str, str], ...] = ()
    span: Span = field(default=Span(), compare=False)

    def __str__(self) -> str:
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
    """

    relation: str
    source: str
    keys: int
    op: str

    def __str__(self) -> str:
        by = f"its first {self.keys} columns" if self.keys > 1 else "its first column" if self.keys else "nothing"
        return f"{self.relation}: {self.op} of {self.source} by {by}"


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
        All ``.input`` lines, then the ``.output`` lines that have parameters, one for each relation.
    groupings, extremes, facts
        The helpers of a program in core form.

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

    def __str__(self) -> str:
        inputs = [directive for directive in self.directives if directive.kind == "input"]
        written = {directive.relation: directive for directive in self.directives if directive.kind == "output"}
        outputs = [written.get(name, Directive("output", name)) for name in self.outputs]
        facts = [Rule(Atom(fact.relation, tuple(map(Constant, row))), ()) for fact in self.facts for row in fact.rows]
        core = (*self.groupings, *self.extremes)
        return "\n".join(map(str, (*self.declarations, *inputs, *facts, *self.rules, *core, *outputs)))

    @cached_property
    def heads(self) -> tuple[str, ...]:
        """The relations that rules define, by first occurrence."""
        grouped = (grouping.relation for grouping in self.groupings)
        return tuple(dict.fromkeys([*(rule.head.relation for rule in self.rules), *grouped]))

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
        """Return the columns of a relation that are ``_`` in every atom.

        Examples
        --------
        >>> a, b = Variable("a"), Variable("_#1")
        >>> Rules((Rule(Atom("h", (a,)), (Atom("r", (a, b)),)),)).unread("r")
        frozenset({1})
        """
        atoms = [atom for rule in self.rules for atom in rule.read if atom.relation == relation]
        columns = range(self.arity.get(relation, 0))
        return frozenset(column for column in columns if all(_is_wildcard(atom.terms[column]) for atom in atoms))

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

    @cached_property
    def demands(self) -> dict[str, str]:
        """The inputs that hold the rows of heads: ``{"keys#1": "demand#1"}``.

        They are the keys for which a recursion needs an aggregate; see `gpu_wcoj.query.core`. Each tick fills them.
        """
        used = dict.fromkeys(atom.relation for rule in self.rules for atom in rule.atoms)
        return {f"keys#{name.removeprefix(DEMAND)}": name for name in used if name.startswith(DEMAND)}

    @property
    def arity(self) -> dict[str, int]:
        """Number of columns of each relation that is declared or used by rules."""
        atoms = (atom for rule in self.rules for atom in (rule.head, *rule.read))
        arity = {declaration.relation: len(declaration.columns) for declaration in self.declarations}
        arity |= {atom.relation: len(atom.terms) for atom in atoms}
        return arity | {grouping.relation: grouping.keys + 1 for grouping in self.groupings}


def _is_wildcard(term: Expression) -> bool:
    return isinstance(term, Variable) and term.is_wildcard


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
