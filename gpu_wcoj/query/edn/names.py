"""Names of variables and helpers in the rules that a query becomes."""

from __future__ import annotations

import re
from collections.abc import Mapping

from gpu_wcoj.query.edn.clauses import Blank, Const, Var
from gpu_wcoj.query.terms import Constant, Variable


class Names:
    """Gives each variable of a query one name, and helpers new ones."""

    def __init__(self) -> None:
        self.variables: dict[Var, Variable] = {}
        self.taken: set[str] = {"true", "false", "null", "not"}
        self.n_blanks = 0
        self.n_helpers: dict[str, int] = {}
        self.helpers: set[str] = set()

    def term(self, term: Var | Const) -> Variable | Constant:
        """What stands for a term."""
        if isinstance(term, Const):
            return Constant(term.value)
        if term not in self.variables:
            name = spelled(term.name)
            number = 1
            while name in self.taken:
                number += 1
                name = f"{spelled(term.name)}_{number}"
            self.taken.add(name)
            self.variables[term] = Variable(name)
        return self.variables[term]

    def any(self, term: Var | Const | Blank) -> Variable | Constant:
        """As `term`; each ``_`` is a variable of its own."""
        return self.blank() if isinstance(term, Blank) else self.term(term)

    def blank(self) -> Variable:
        """A new ``_``."""
        self.n_blanks += 1
        return Variable(f"_#{self.n_blanks}")

    def helper(self, kind: str) -> str:
        """A new name of a relation that no text can spell."""
        self.n_helpers[kind] = self.n_helpers.get(kind, 0) + 1
        name = f"{kind}#{self.n_helpers[kind]}"
        self.helpers.add(name)
        return name


def spelled(name: str) -> str:
    """A variable's name as Datalog can spell it.

    Examples
    --------
    >>> spelled("?first-name"), spelled("?1st"), spelled("?x?")
    ('first_name', 'v1st', 'x_')
    """
    found = re.sub(r"\W", "_", name.removeprefix("?"))
    return found if re.match(r"[A-Za-z]", found) else f"v{found}"


def distinct(names: Mapping[int, str]) -> tuple[str, ...]:
    """Names of columns, each once: those that are there twice get numbers.

    Examples
    --------
    >>> distinct({0: "x", 1: "x", 2: "y"})
    ('x', 'x_2', 'y')
    """
    found: list[str] = []
    for name in names.values():
        number, one = 1, name
        while one in found:
            number += 1
            one = f"{name}_{number}"
        found.append(one)
    return tuple(found)
