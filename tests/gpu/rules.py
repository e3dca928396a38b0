"""Program texts without lark: a reader by hand for machines that have a GPU and nothing to install from.

It reads correct texts into the same `Rules` as `gpu_wcoj.query.datalog.parse`, which ``test_rules.py`` checks for every
text that the tests use. What a mistake is answered with is lark's to decide, so a test that makes one is skipped here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any, NamedTuple, NoReturn

import pytest

from gpu_wcoj.data.schema import declared_type
from gpu_wcoj.query.check import check
from gpu_wcoj.query.datalog import RESERVED, float_constant
from gpu_wcoj.query.ir import (
    AGGREGATES,
    ARGUMENT_COUNTS,
    COMPARISONS,
    CONSTRAINTS,
    ESCAPES,
    FUNCTIONS,
    NULL,
    Aggregate,
    Atom,
    Call,
    Comparison,
    Constant,
    Declaration,
    Directive,
    Expression,
    Rule,
    Rules,
    Span,
    Variable,
)

_SKIP = re.compile(r"(?:/\*.*?\*/|//[^\n]*|[\s\ufeff]+)*", re.DOTALL)
_TOKEN = re.compile(
    r"""(?P<directive>\.(?:decl|input|output)(?!\w))
      | (?P<safe>[^\W\d]\w*\?)
      | (?P<bool>(?:true|false)(?!\w))
      | (?P<null>null(?!\w))
      | (?P<name>[^\W\d]\w*)
      | (?P<decimal>[0-9]+(?:\.[0-9]+)?m(?!\w))
      | (?P<float>[0-9]+(?:\.[0-9]+(?:[eE][+-]?[0-9]+)?|[eE][+-]?[0-9]+))
      | (?P<integer>[0-9]+)
      | (?P<string>"(?:[^"\\\n]|\\[^\n])*")
      | (?P<bracket>\[[^\]\n]*\])
      | (?P<sign>:-|!=|<=|>=|[-=<>(),:.!{}+*/%])""",
    re.DOTALL | re.VERBOSE,
)
NAME_LENGTH = 255
NOT_A_NAME = (*AGGREGATES, *RESERVED, "not", "true", "false", "null", "_")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))")
_UNESCAPED = {spelled[1]: char for char, spelled in ESCAPES.items()}


class Token(NamedTuple):
    """A piece of the text: its kind, the text itself, and where it begins."""

    kind: str
    text: str
    at: int

    @property
    def end(self) -> int:
        return self.at + len(self.text)


def parse(text: str, *, source: str = "<text>") -> Rules:
    """The program that `text` spells, checked; see `gpu_wcoj.query.datalog.parse`."""
    return _Reader(text, source).rules()


class _Reader:
    """One text, read from left to right."""

    def __init__(self, text: str, source: str) -> None:
        self.text = text
        self.source = source
        self.at = self.end = 0

    def next(self, ahead: int = 0, operator: bool = False) -> Token:
        """The next token, or one further ahead; a percent sign is a comment but for an operator."""
        at = self.at
        for _ in range(ahead + 1):
            at = _SKIP.match(self.text, at).end()  # type: ignore[union-attr]  # it matches nothing, too
            while self.text[at : at + 1] == "%" and not operator:
                line_end = self.text.find("\n", at)
                at = _SKIP.match(self.text, len(self.text) if line_end < 0 else line_end).end()  # type: ignore[union-attr]
            match = _TOKEN.match(self.text, at)
            if match is None:
                return Token("end" if at == len(self.text) else "other", self.text[at : at + 1], at)
            found, at = Token(str(match.lastgroup), match[0], at), match.end()
        return found

    def step(self, token: Token) -> Token:
        self.at = self.end = token.end
        return token

    def rules(self) -> Rules:
        rules: list[Rule] = []
        declarations: list[Declaration] = []
        named: dict[str, dict[str, Directive]] = {".input": {}, ".output": {}}
        while (token := self.next()).kind != "end":
            if token.kind != "directive":
                rules.append(self.rule())
            elif self.step(token).text == ".decl":
                declarations.append(self.declaration(token))
            else:
                self.directive(token, named[token.text])
        if not rules:
            _mistake(self.text, 0)
        lines = [*named[".input"].values(), *(one for one in named[".output"].values() if one.parameters)]
        found = Rules(tuple(rules), tuple(declarations), tuple(named[".output"]), self.text, directives=tuple(lines))
        check(found, source=self.source)
        return found

    def directive(self, begin: Token, known: dict[str, Directive]) -> None:
        names = [self.relation()]
        while self.sign(","):
            names.append(self.relation())
        given: list[tuple[str, str]] = []
        if self.sign("("):
            while not self.sign(")"):
                if given:
                    self.need(",")
                name = self.name()
                if name in dict(given):
                    _mistake(self.text, begin.at)
                self.need("=")
                value = self.step(self.next())
                given.append((name, self.string(value) if value.kind == "string" else value.text))
        for name in names:
            if given and name in known and known[name].parameters not in ((), tuple(given)):
                _mistake(self.text, begin.at)
            if name not in known or given:
                known[name] = Directive(begin.text[1:], name, tuple(given), self.span(begin))

    def rule(self) -> Rule:
        begin = self.next()
        head = Atom(self.relation(), self.terms(of_head=True), self.span(begin))
        atoms, comparisons, negated = self.body() if self.sign(":-") else ((), (), ())
        self.need(".")
        return _numbered(Rule(head, atoms, comparisons, negated))

    def body(self) -> tuple[tuple[Atom, ...], tuple[Comparison, ...], tuple[Atom, ...]]:
        atoms: list[Atom] = []
        comparisons: list[Comparison] = []
        negated: list[Atom] = []
        while True:
            here, after = self.next(), self.next(1)
            if here.text == "!" or (here.kind, here.text) == ("name", "not"):
                self.step(here)
                in_parentheses = self.sign("(")
                if self.next().text in CONSTRAINTS and self.next(1).text == "(":
                    comparisons.append(self.constraint(self.next(), False))
                else:
                    negated.append(self.atom())
                if in_parentheses:
                    self.need(")")
            elif here.text in CONSTRAINTS and after.text == "(" and self.behind(after).text in (",", ".", ")", "}"):
                comparisons.append(self.constraint(here, True))
            elif here.kind == "name" and after.text == "(" and self.is_atom(here):
                atoms.append(self.atom())
            else:
                left = self.sum()
                operator = self.step(self.next())
                if operator.text not in COMPARISONS:
                    _mistake(self.text, operator.at)
                comparisons.append(Comparison(operator.text, left, self.sum(), self.span(here)))
            if not self.sign(","):
                return tuple(atoms), tuple(comparisons), tuple(negated)

    def constraint(self, begin: Token, holds: bool) -> Comparison:
        """A function that stands by itself: it holds or, negated, does not."""
        return Comparison("=", self.operand(), Constant(holds), self.span(begin))

    def is_atom(self, name: Token) -> bool:
        """Whether a name and a parenthesis begin an atom: of functions, some may be relations, too."""
        if name.text in (*RESERVED, *AGGREGATES):
            return False
        return name.text not in FUNCTIONS or self.behind(self.next(1)).text in (",", ".", ")", "}")

    def behind(self, opened: Token) -> Token:
        """What follows the parenthesis that closes this one."""
        here, self.at = self.at, opened.end
        depth = 1
        while depth and (token := self.next(operator=True)).kind not in ("end", "other"):
            depth += (token.text == "(") - (token.text == ")") if token.kind == "sign" else 0
            self.at = token.end
        found, self.at = self.next(operator=True), here
        return found

    def atom(self) -> Atom:
        begin = self.next()
        return Atom(self.relation(), self.terms(), self.span(begin))

    def terms(self, of_head: bool = False) -> tuple[Expression, ...]:
        """What stands in parentheses, and in those of a head perhaps an aggregate of the body."""
        self.need("(")
        found: list[Expression] = []
        while not self.sign(")"):
            if found:
                self.need(",")
            found.append(self.applied() if of_head and self.is_applied() else self.sum())
        return tuple(found)

    def is_applied(self) -> bool:
        """Whether an aggregate of a head's body comes next: behind its parentheses there is no body of its own."""
        name, sign = self.next(), self.next(1)
        if name.text not in AGGREGATES or sign.text != "(":
            return False
        return self.behind(sign).text in (",", ")")

    def applied(self) -> Call:
        op = self.step(self.next()).text
        arguments = self.terms()
        wildcards = [one for one in arguments if isinstance(one, Variable) and one.name == "_"]
        if (
            len(arguments) > 1
            or (op == "count" and len(wildcards) < len(arguments))
            or (op != "count" and not arguments)
        ):
            _mistake(self.text, self.at)
        return Call(op, () if op == "count" else arguments)

    def sum(self) -> Expression:
        return self.chain(self.product, "+-")

    def product(self) -> Expression:
        return self.chain(self.signed, "*/%")

    def chain(self, operand: Callable[[], Expression], operators: str) -> Expression:
        left = operand()
        while (token := self.next(operator=True)).kind == "sign" and token.text in operators:
            self.step(token)
            left = Call(token.text, (left, operand()))
        return left

    def signed(self) -> Expression:
        if not self.sign("-"):
            return self.operand()
        number = self.next()
        if number.kind in ("integer", "float", "decimal"):
            return self.number(self.step(number), "-")
        return Call("-", (self.signed(),))

    def operand(self) -> Expression:
        token = self.step(self.next())
        after = self.next()
        match token.kind:
            case "sign" if token.text == "(":
                inner = self.sum()
                self.need(")")
                return inner
            case "name" if token.text in FUNCTIONS and after.text == "(":
                arguments = self.terms()
                least, most = ARGUMENT_COUNTS.get(token.text, (1, 1))
                if not least <= len(arguments) <= most:
                    _mistake(self.text, token.at)
                return Call(token.text, arguments)
            case "name" if token.text in AGGREGATES and (after.text in ("(", ":") or after.kind in _VALUES):
                return self.aggregate(token.text)
            case "name" if len(token.text) <= NAME_LENGTH:
                return Variable(token.text)
            case "safe" if token.text[:-1] not in ("true", "false", "null", "_") and len(token.text) <= NAME_LENGTH + 1:
                return Variable(token.text)
            case "bool":
                return Constant(token.text == "true")
            case "null":
                return NULL
            case "float" | "integer" | "decimal":
                return self.number(token)
            case "string":
                return Constant(self.string(token))
        return _mistake(self.text, token.at)

    def number(self, token: Token, sign: str = "") -> Constant:
        if token.kind == "decimal":
            return Constant(Decimal(sign + token.text[:-1]))
        return (
            float_constant(sign + token.text)
            if token.kind == "float"
            else Constant(self.whole(sign + token.text, token))
        )

    def aggregate(self, op: str) -> Aggregate:
        value = None if self.next().text == ":" else self.sum()
        if (value is None) != (op == "count"):
            _mistake(self.text, self.at)
        self.need(":")
        if not self.sign("{"):
            return Aggregate(op, value, (self.atom(),))
        atoms, comparisons, negated = self.body()
        self.need("}")
        return Aggregate(op, value, atoms, comparisons, negated)

    def whole(self, digits: str, token: Token) -> int:
        number = int(digits)
        return number if -(2**63) <= number < 2**63 else _mistake(self.text, token.at)

    def string(self, token: Token) -> str:
        def read(match: re.Match[str]) -> str:
            if match[3]:
                return _UNESCAPED[match[3]] if match[3] in _UNESCAPED else _mistake(self.text, token.at)
            point = int(match[1] or match[2], 16)
            return chr(point) if point < 0x110000 and not 0xD800 <= point < 0xE000 else _mistake(self.text, token.at)

        if any(0xD800 <= ord(char) < 0xE000 for char in token.text):
            _mistake(self.text, token.at)
        return _ESCAPE.sub(read, token.text[1:-1])

    def declaration(self, begin: Token) -> Declaration:
        relation = self.relation()
        self.need("(")
        names: list[str] = []
        types: list[str | None] = []
        while not self.sign(")"):
            if names:
                self.need(",")
            names.append(self.string(self.step(self.next())) if self.next().kind == "string" else self.name())
            types.append(self.type() if self.sign(":") else None)
        return Declaration(relation, tuple(names), tuple(types), self.span(begin))

    def type(self) -> str:
        name = self.take("name").text
        if self.next().kind == "bracket":
            name += self.take("bracket").text
        elif self.sign("("):
            first = self.take("integer").text
            self.need(",")
            sign = "-" if self.sign("-") else ""
            name += f"({first}, {sign}{self.take('integer').text})"
            self.need(")")
        return declared_type(name)

    def span(self, begin: Token) -> Span:
        """Where the piece from `begin` to the last token stands."""
        line_start = self.text.rfind("\n", 0, begin.at) + 1
        line = self.text.count("\n", 0, begin.at) + 1
        return Span(line, begin.at - line_start + 1, self.end - begin.at)

    def relation(self) -> str:
        if self.next().text in NOT_A_NAME:
            _mistake(self.text, self.next().at)
        return self.name()

    def name(self) -> str:
        token = self.take("name")
        if token.text == "_" or len(token.text) > NAME_LENGTH:
            _mistake(self.text, token.at)
        return token.text

    def take(self, kind: str) -> Token:
        token = self.next()
        if token.kind != kind:
            _mistake(self.text, token.at)
        return self.step(token)

    def sign(self, text: str) -> bool:
        """Step over this sign if it comes next."""
        token = self.next()
        if (token.kind, token.text) != ("sign", text):
            return False
        self.step(token)
        return True

    def need(self, text: str) -> None:
        if not self.sign(text):
            _mistake(self.text, self.next().at)


_VALUES = ("name", "safe", "integer", "float", "decimal", "string", "bool", "null")


def _numbered(rule: Rule) -> Rule:
    """The rule with its wildcards numbered: head, atoms, comparisons, negated atoms, and so within aggregates."""
    count = iter(range(1, 1 << 30))

    def term(one: Expression) -> Expression:
        if isinstance(one, Variable):
            return Variable(f"_#{next(count)}") if one.name == "_" else one
        if isinstance(one, Call):
            return replace(one, arguments=tuple(map(term, one.arguments)))
        if isinstance(one, Aggregate):
            value = None if one.value is None else term(one.value)
            return replace(one, value=value, **body(one))
        return one

    def atoms(given: tuple[Atom, ...]) -> tuple[Atom, ...]:
        return tuple(replace(atom, terms=tuple(map(term, atom.terms))) for atom in given)

    def body(of: Rule | Aggregate) -> dict[str, Any]:
        return {
            "atoms": atoms(of.atoms),
            "comparisons": tuple(replace(one, left=term(one.left), right=term(one.right)) for one in of.comparisons),
            "negated": atoms(of.negated),
        }

    (head,) = atoms((rule.head,))
    return replace(rule, head=head, **body(rule))


def _mistake(text: str, at: int) -> NoReturn:
    pytest.skip(f"lark, which words mistakes in programs, is not installed: {text[at : at + 20]!r}")
