"""Variable names that are valid Datalog identifiers."""

from __future__ import annotations

import re

from gpu_wcoj.query.ir import AGGREGATES, FUNCTIONS, Variable

_RESERVED = {*AGGREGATES, *FUNCTIONS, "not", "true", "false", "null"}


class RuleVariables:
    """The variables of a rule, by the object that each stands for.

    Examples
    --------
    >>> names = RuleVariables()
    >>> new = names.variable
    >>> print(new("vertex 1", "a"), new("vertex 2", "a"), new("vertex 1", "a"), new("vertex 3", "1 x"))
    a a_2 a x_1_x
    """

    def __init__(self) -> None:
        self._variables: dict[object, Variable] = {}
        self._used: set[str] = set()

    def variable(self, what: object, name_hint: str) -> Variable:
        """Return the variable for `what`, named `name_hint` if that is valid and unused."""
        if what not in self._variables:
            name = re.sub(r"\W", "_", name_hint)
            if name in _RESERVED or not name or not name[0].isalpha():
                name = f"x_{name}"
            candidate, suffix = name, 1
            while candidate in self._used:
                suffix += 1
                candidate = f"{name}_{suffix}"
            self._used.add(candidate)
            self._variables[what] = Variable(candidate)
        return self._variables[what]
