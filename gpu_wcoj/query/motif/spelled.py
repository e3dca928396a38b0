"""Names of variables that Datalog's text can spell."""

from __future__ import annotations

import re

from gpu_wcoj.query.terms import AGGREGATES, FUNCTIONS, Variable

_RESERVED = {*AGGREGATES, *FUNCTIONS, "not", "true", "false", "null"}


class Names:
    """Variables of one rule, each for one thing.

    Examples
    --------
    >>> names = Names()
    >>> print(names.of("a vertex", "a"), names.of("another", "a"), names.of("a vertex", "a"), names.of("third", "1 x"))
    a a_2 a x_1_x
    """

    def __init__(self) -> None:
        self._of: dict[object, Variable] = {}
        self._taken: set[str] = set()

    def of(self, what: object, wanted: str) -> Variable:
        """The variable for something; called as it is wanted, if that can be spelled and is not taken."""
        if what not in self._of:
            name = re.sub(r"\W", "_", wanted)
            if name in _RESERVED or not name or not name[0].isalpha():
                name = f"x_{name}"
            free, number = name, 1
            while free in self._taken:
                number += 1
                free = f"{name}_{number}"
            self._taken.add(free)
            self._of[what] = Variable(free)
        return self._of[what]
