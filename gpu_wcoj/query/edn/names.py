"""Names of variables and helpers in the rules that a query becomes."""

from __future__ import annotations

import re
from collections.abc import Mapping

from gpu_wcoj.query.edn.ast import Blank, Const, Var
from gpu_wcoj.query.ir import Constant, Variable


class Names:
    """Allocator of names of variables and helper relations."""

    def __init__(self) -> None:
        self.variables: dict[Var, Variable] = {}
        self.used: set[str] = {"true", "false", "null", "not"}
        self.n_blanks = 0
        self.n_helpers: dict[str, int] = {}
        self.helpers: set[str] = set()

    def term(self, term: Var | Const) -> Variable | Constant:
        """Return the engine's variable or constant for a term."""
        if isinstance(term, Const):
            return Constant(term.value)
        if term not in self.variables:
            name = datalog_name(term.name)
            suffix = 1
            while name in self.used:
                suffix += 1
                name = f"{datalog_name(term.name)}_{suffix}"
            self.used.add(name)
            self.variables[term] = Variable(name)
        return self.variables[term]

    def term_or_blank(self, term: Var | Const | Blank) -> Variable | Constant:
        """Return the engine's term; each ``_`` becomes a new variable."""
        return self.blank() if isinstance(term, Blank) else self.term(term)

    def blank(self) -> Variable:
        """Return a new blank variable."""
        self.n_blanks += 1
        return Variable(f"_#{self.n_blanks}")

    def helper(self, kind: str) -> str:
        """Return a new relation name that cannot be written in a text."""
        self.n_helpers[kind] = self.n_helpers.get(kind, 0) + 1
        name = f"{kind}#{self.n_helpers[kind]}"
        self.helpers.add(name)
        return name


def datalog_name(name: str) -> str:
    """Return a variable's name as a valid Datalog identifier.

    Examples
    --------
    >>> datalog_name("?first-name"), datalog_name("?1st"), datalog_name("?x?")
    ('first_name', 'v1st', 'x_')
    """
    cleaned = re.sub(r"\W", "_", name.removeprefix("?"))
    return cleaned if re.match(r"[A-Za-z]", cleaned) else f"v{cleaned}"


def unique_names(names: Mapping[int, str]) -> tuple[str, ...]:
    """Return column names without duplicates: repeated names get a numeric suffix.

    Examples
    --------
    >>> unique_names({0: "x", 1: "x", 2: "y"})
    ('x', 'x_2', 'y')
    """
    names_: list[str] = []
    for name in names.values():
        suffix, candidate = 1, name
        while candidate in names_:
            suffix += 1
            candidate = f"{name}_{suffix}"
        names_.append(candidate)
    return tuple(names_)
