"""Datalog as the tests write it: what a text says, read by a reader of its own that knows nothing of the engine's.

Terms are values of Python: a `Name` is a variable, a `Call` is calculated, anything else is a constant.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

AGGREGATES = ("count", "sum", "min", "max", "mean")


@dataclass(frozen=True)
class Name:
    """A variable; a wildcard is one whose name starts with ``_`` and that stands nowhere else."""

    name: str


@dataclass(frozen=True)
class Call:
    """``op(arguments)``: arithmetic or a text function."""

    op: str
    arguments: tuple[Term, ...]


@dataclass(frozen=True)
class Aggregate:
    """``op value : { body }``, a term; as a term of a head, ``op(value)``, it has no body of its own."""

    op: str
    value: Term | None
    body: tuple[Literal, ...] = ()


Term = Name | Call | Aggregate | int | float | bool | str


@dataclass(frozen=True)
class Atom:
    """``relation(terms)`` or ``!relation(terms)``."""

    relation: str
    terms: tuple[Term, ...]
    positive: bool = True


@dataclass(frozen=True)
class Test:
    """``left op right``, which binds a variable where `op` is ``=``."""

    __test__ = False  # for pytest, which takes names such as this one for tests
    op: str
    left: Term
    right: Term


Literal = Atom | Test


@dataclass(frozen=True)
class Rule:
    """``head :- body.``; a fact has no body."""

    head: Atom
    body: tuple[Literal, ...] = ()

    @property
    def aggregates(self) -> bool:
        """Whether the head aggregates."""
        return any(isinstance(term, Aggregate) for term in self.head.terms)


@dataclass(frozen=True)
class Written:
    """The rules of a text, and the outputs and the inputs that it names."""

    rules: tuple[Rule, ...]
    outputs: tuple[str, ...] = ()
    named: tuple[str, ...] = ()

    @property
    def heads(self) -> tuple[str, ...]:
        """What rules define."""
        return tuple(dict.fromkeys(rule.head.relation for rule in self.rules))

    @property
    def inputs(self) -> tuple[str, ...]:
        """What is read and no rule defines, and what is named as an input."""
        used = dict.fromkeys(atom.relation for rule in self.rules for atom in atoms(rule.body))
        return tuple(name for name in used if name not in self.heads or name in self.named)

    @property
    def arities(self) -> dict[str, int]:
        """The number of columns of each relation."""
        every = (atom for rule in self.rules for atom in (rule.head, *atoms(rule.body)))
        return {atom.relation: len(atom.terms) for atom in every}


def atoms(body: Iterable[Literal]) -> Iterator[Atom]:
    """The atoms of a body and of the aggregates in it."""
    for literal in body:
        if isinstance(literal, Atom):
            yield literal
        for inner in aggregates(literal):
            yield from atoms(inner.body)


def parts(literal: Literal) -> tuple[Term, ...]:
    """The terms of a literal."""
    return literal.terms if isinstance(literal, Atom) else (literal.left, literal.right)


def remembered(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Remember what a function returns of a part of a program, which never changes, by the part's identity."""
    known: dict[int, tuple[object, Any]] = {}

    @functools.wraps(function)
    def remembering(part: object) -> Any:
        if id(part) not in known:
            if len(known) == 10_000:
                known.clear()
            known[id(part)] = part, function(part)  # with the part, so that no other one gets its identity
        return known[id(part)][1]

    return remembering


@remembered
def aggregates(literal: Literal) -> tuple[Aggregate, ...]:
    """The aggregates that stand in a literal, at any depth of its terms."""
    return tuple(part for term in parts(literal) for part in every_part(term) if isinstance(part, Aggregate))


@remembered
def names_inside(aggregate: Aggregate) -> set[Name]:
    """Every variable of what an aggregate runs over."""
    return names_in(aggregate.body) | (set() if aggregate.value is None else names(aggregate.value))


def every_part(term: Term) -> Iterator[Term]:
    """A term and what it is calculated from; what an aggregate runs over is left out."""
    yield term
    if isinstance(term, Call):
        for argument in term.arguments:
            yield from every_part(argument)


def names(term: Term) -> set[Name]:
    """The variables of a term outside its aggregates."""
    return {part for part in every_part(term) if isinstance(part, Name)}


def names_in(body: Iterable[Literal]) -> set[Name]:
    """Every variable of a body, aggregates and all."""
    found: set[Name] = set()
    for literal in body:
        for term in parts(literal):
            found |= names(term)
        for inner in aggregates(literal):
            found |= names_inside(inner)
    return found


TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*|/\*.*?\*/|(?<![^\n])%[^\n]*)
      | (?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)
      | (?P<text>"(?:[^"\\]|\\.)*")
      | (?P<directive>\.(?:decl|input|output)\b[^\n]*)
      | (?P<name>[^\W\d]\w*)
      | (?P<sign>:-|!=|<=|>=|[-+*/%=<>(){}.,:!])""",
    re.VERBOSE | re.DOTALL,
)


def written(text: str) -> Written:
    """What `text` says."""
    return _Reader(text).program()


@dataclass
class _Reader:
    text: str
    tokens: list[tuple[str, str]] = field(default_factory=list)
    place: int = 0
    wildcards: int = 0

    def __post_init__(self) -> None:
        place = 0
        while place < len(self.text):
            match = TOKEN.match(self.text, place)
            assert match is not None, f"what is this? {self.text[place : place + 20]!r}"
            if match.lastgroup != "space":
                self.tokens.append((match.lastgroup or "", match[0]))
            place = match.end()

    @property
    def next(self) -> str:
        return self.tokens[self.place][1] if self.place < len(self.tokens) else ""

    def take(self, *allowed: str) -> str:
        token = self.next
        assert not allowed or token in allowed, f"{token!r} instead of {allowed} in {self.text!r}"
        self.place += 1
        return token

    def program(self) -> Written:
        rules, outputs, inputs = [], [], []
        while self.next:
            if self.tokens[self.place][0] == "directive":
                kind, *names = re.findall(r"\.?\w+", self.take())
                outputs += names if kind == ".output" else []
                inputs += names if kind == ".input" else []
                continue
            head, body = self.atom(), ()
            if self.take(":-", ".") == ":-":
                body = self.body(".")
            rules.append(Rule(head, body))
        return Written(tuple(rules), tuple(outputs), tuple(inputs))

    def body(self, end: str) -> tuple[Literal, ...]:
        literals = [self.literal()]
        while self.take(",", end) == ",":
            literals.append(self.literal())
        return tuple(literals)

    def literal(self) -> Literal:
        if self.next == "!":
            self.take()
            atom = self.atom()
            return Atom(atom.relation, atom.terms, False)
        following = self.tokens[self.place + 1][1]
        if self.tokens[self.place][0] == "name" and following == "(" and self.next not in ("cat", "substr", "strlen"):
            return self.atom()
        left = self.sum()
        op = self.take("=", "!=", "<", "<=", ">", ">=")
        return Test(op, left, self.sum())

    def atom(self) -> Atom:
        relation = self.take()
        self.take("(")
        terms = [self.sum()]
        while self.take(",", ")") == ",":
            terms.append(self.sum())
        return Atom(relation, tuple(terms))

    def sum(self) -> Term:
        left = self.product()
        while self.next in ("+", "-"):
            left = Call(self.take(), (left, self.product()))
        return left

    def product(self) -> Term:
        left = self.factor()
        while self.next in ("*", "/", "%"):
            left = Call(self.take(), (left, self.factor()))
        return left

    def factor(self) -> Term:
        kind = self.tokens[self.place][0]
        token = self.take()
        if token == "(":
            inner = self.sum()
            self.take(")")
            return inner
        if token == "-":
            inner = self.factor()
            return -inner if type(inner) in (int, float) else Call("-", (inner,))
        if kind == "number":
            return int(token) if token.isdigit() else float(token)
        if kind == "text":
            return ast.literal_eval(token)
        if token in ("true", "false"):
            return token == "true"
        if token in AGGREGATES and self.next not in (",", ")", "=", "."):
            return self.aggregate(token)
        if self.next == "(":
            return self.call(token)
        if token == "_":
            self.wildcards += 1
            return Name(f"_{self.wildcards}")
        return Name(token)

    def aggregate(self, op: str) -> Term:
        if self.next == "(":
            self.take("(")
            value = None if self.next == ")" else self.sum()
            self.take(")")
            if self.next != ":":
                return Aggregate(op, value)
        else:
            value = None if self.next == ":" else self.sum()
        self.take(":")
        self.take("{")
        return Aggregate(op, value, self.body("}"))

    def call(self, op: str) -> Term:
        self.take("(")
        arguments = [self.sum()]
        while self.take(",", ")") == ",":
            arguments.append(self.sum())
        return Call(op, tuple(arguments))
