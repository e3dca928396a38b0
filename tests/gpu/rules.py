"""Program texts without lark: a reader by hand for machines that have a GPU and nothing to install from.

It reads correct texts into the same `Rules` as `gpu_wcoj.query.datalog.parse`, which ``test_rules.py`` checks for every
text that the tests use. What a mistake is answered with is lark's to decide, so a test that makes one is skipped here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple, NoReturn

import pytest

from gpu_wcoj.query.checks import check, check_inputs
from gpu_wcoj.query.declared import declared_type
from gpu_wcoj.query.terms import (
    COMPARISONS,
    ESCAPES,
    Atom,
    Comparison,
    Constant,
    Declaration,
    Rule,
    Rules,
    Span,
    Term,
    Variable,
)

_TOKEN = re.compile(
    r"""(?P<skip>/\*.*?\*/|(?:%|//)[^\n]*|[\s\ufeff]+)
      | (?P<directive>\.(?:decl|input|output)(?!\w))
      | (?P<bool>(?:true|false)(?!\w))
      | (?P<name>[^\W\d]\w*)
      | (?P<float>-?[0-9]+(?:\.[0-9]+(?:[eE][+-]?[0-9]+)?|[eE][+-]?[0-9]+))
      | (?P<integer>-?[0-9]+)
      | (?P<string>"(?:[^"\\\n]|\\[^\n])*")
      | (?P<bracket>\[[^\]\n]*\])
      | (?P<sign>:-|!=|<=|>=|[=<>(),:.])""",
    re.DOTALL | re.VERBOSE,
)
NAME_LENGTH = 255
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))")
_UNESCAPED = {spelled[1]: char for char, spelled in ESCAPES.items()}


class Token(NamedTuple):
    """A piece of the text: its kind, the text itself, and where it begins."""

    kind: str
    text: str
    at: int


def parse(text: str, *, source: str = "<text>") -> Rules:
    """The program that `text` spells, checked; see `gpu_wcoj.query.datalog.parse`."""
    return _Reader(text, source).rules()


def tokens(text: str) -> Iterator[Token]:
    """The tokens of a text, blanks and comments left out."""
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            _mistake(text, at)
        if match.lastgroup != "skip":
            yield Token(str(match.lastgroup), match[0], at)
        at = match.end()


class _Reader:
    """One text, read from left to right."""

    def __init__(self, text: str, source: str) -> None:
        self.text = text
        self.source = source
        self.tokens = [*tokens(text), Token("end", "", len(text))]
        self.at = 0
        self.n_wildcards = 0

    def rules(self) -> Rules:
        rules: list[Rule] = []
        declarations: list[Declaration] = []
        named: dict[str, list[str]] = {".input": [], ".output": []}
        while self.tokens[self.at].kind != "end":
            if self.tokens[self.at].kind != "directive":
                rules.append(self.rule())
            elif (word := self.take("directive").text) == ".decl":
                declarations.append(self.declaration())
            else:
                named[word] += [self.name()]
                while self.sign(","):
                    named[word] += [self.name()]
        if not rules:
            _mistake(self.text, 0)
        found = Rules(tuple(rules), tuple(declarations), tuple(dict.fromkeys(named[".output"])), self.text)
        check(found, source=self.source)
        check_inputs(found, named[".input"])
        return found

    def rule(self) -> Rule:
        self.n_wildcards = 0
        head = self.atom()
        self.need(":-")
        atoms: list[Atom] = []
        comparisons: list[Comparison] = []
        while True:
            here, after = (self.tokens + self.tokens[-1:])[self.at : self.at + 2]
            if here.kind == "name" and (after.kind, after.text) == ("sign", "("):
                atoms.append(self.atom())
            else:
                comparisons.append(self.comparison())
            if not self.sign(","):
                break
        self.need(".")
        return Rule(head, tuple(atoms), tuple(comparisons))

    def atom(self) -> Atom:
        begin = self.tokens[self.at]
        name = self.name()
        if name == "not":
            _mistake(self.text, begin.at)
        self.need("(")
        terms: list[Term] = []
        if not self.sign(")"):
            terms.append(self.term())
            while self.sign(","):
                terms.append(self.term())
            self.need(")")
        return Atom(name, tuple(terms), self.span(begin))

    def comparison(self) -> Comparison:
        begin = self.tokens[self.at]
        left = self.term()
        operator = self.take("sign")
        if operator.text not in COMPARISONS:
            _mistake(self.text, operator.at)
        return Comparison(operator.text, left, self.term(), self.span(begin))

    def term(self) -> Term:
        token = self.tokens[self.at]
        self.at += 1
        match token.kind:
            case "name" if token.text == "_":
                self.n_wildcards += 1
                return Variable(f"_#{self.n_wildcards}")
            case "name":
                self.at -= 1
                return Variable(self.name())
            case "bool":
                return Constant(token.text == "true")
            case "float":
                return Constant(float(token.text))
            case "integer" if -(2**63) <= int(token.text) < 2**63:
                return Constant(int(token.text))
            case "string":
                return Constant(self.string(token))
        return _mistake(self.text, token.at)

    def string(self, token: Token) -> str:
        def read(match: re.Match[str]) -> str:
            if match[3]:
                return _UNESCAPED[match[3]] if match[3] in _UNESCAPED else _mistake(self.text, token.at)
            point = int(match[1] or match[2], 16)
            return chr(point) if point < 0x110000 and not 0xD800 <= point < 0xE000 else _mistake(self.text, token.at)

        if any(0xD800 <= ord(char) < 0xE000 for char in token.text):
            _mistake(self.text, token.at)
        return _ESCAPE.sub(read, token.text[1:-1])

    def declaration(self) -> Declaration:
        begin = self.tokens[self.at - 1]
        relation = self.name()
        self.need("(")
        names: list[str] = []
        types: list[str | None] = []
        if not self.sign(")"):
            while True:
                names.append(self.name())
                types.append(self.type() if self.sign(":") else None)
                if not self.sign(","):
                    break
            self.need(")")
        return Declaration(relation, tuple(names), tuple(types), self.span(begin))

    def type(self) -> str:
        name = self.take("name").text
        if self.tokens[self.at].kind == "bracket":
            name += self.take("bracket").text
        elif self.sign("("):
            first = self.take("integer").text
            self.need(",")
            name += f"({first}, {self.take('integer').text})"
            self.need(")")
        return declared_type(name)

    def span(self, begin: Token) -> Span:
        """Where the piece from `begin` to the token before the current one stands."""
        last = self.tokens[self.at - 1]
        line_start = self.text.rfind("\n", 0, begin.at) + 1
        line = self.text.count("\n", 0, begin.at) + 1
        return Span(line, begin.at - line_start + 1, last.at + len(last.text) - begin.at)

    def name(self) -> str:
        token = self.take("name")
        if token.text == "_" or len(token.text) > NAME_LENGTH:
            _mistake(self.text, token.at)
        return token.text

    def take(self, kind: str) -> Token:
        token = self.tokens[self.at]
        if token.kind != kind:
            _mistake(self.text, token.at)
        self.at += 1
        return token

    def sign(self, text: str) -> bool:
        """Step over this sign if it comes next."""
        token = self.tokens[self.at]
        if (token.kind, token.text) != ("sign", text):
            return False
        self.at += 1
        return True

    def need(self, text: str) -> None:
        if not self.sign(text):
            _mistake(self.text, self.tokens[self.at].at)


def _mistake(text: str, at: int) -> NoReturn:
    pytest.skip(f"lark, which words mistakes in programs, is not installed: {text[at : at + 20]!r}")
