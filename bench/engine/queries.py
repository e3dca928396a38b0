"""The four patterns, each counted once per occurrence, and what they count to on the standard graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

E = "e(a, b) :- edge(a, b), a < b."
S = "s(a, b) :- edge(a, b).\ns(b, a) :- edge(a, b)."


@dataclass(frozen=True)
class Query:
    """One pattern.

    Attributes
    ----------
    name
        Also the name of its head.
    derived
        The rules that make ``e``, the edges as (smaller, larger), and ``s``, the edges both ways, from the stream.
    atoms
        Relation and variables of each atom of the body.
    comparisons
        As (left, right): left < right.
    known
        On the standard graph: rows of the whole answer under 0, and rows that the first n insertions add under n.
    """

    name: str
    derived: tuple[str, ...]
    atoms: tuple[tuple[str, str], ...]
    comparisons: tuple[tuple[str, str], ...] = ()
    known: Mapping[int, int] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def text(self) -> str:
        """The program."""
        body = [f"{relation}({', '.join(variables)})" for relation, variables in self.atoms]
        body += [f"{left} < {right}" for left, right in self.comparisons]
        head = f"{self.name}({', '.join(self.variables)})"
        return "\n".join((*self.derived, f"{head} :- {', '.join(body)}.", f".output {self.name}"))

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables, in the order in which they first stand."""
        return tuple(dict.fromkeys("".join(variables for _, variables in self.atoms)))


TRIANGLE = Query(
    "triangle",
    (E,),
    (("e", "ab"), ("e", "bc"), ("e", "ac")),
    known={0: 38_474_415, 1_000: 49_008, 100_000: 5_201_657, 191_815: 10_436_443},
)
CLIQUE = Query(
    "clique4",
    (E,),
    (("e", "ab"), ("e", "ac"), ("e", "ad"), ("e", "bc"), ("e", "bd"), ("e", "cd")),
    known={0: 898_792_862, 1_000: 1_630_345, 100_000: 194_486_374},
)
DIAMOND = Query(
    "diamond",
    (E, S),
    (("e", "ab"), ("s", "ac"), ("s", "bc"), ("s", "ad"), ("s", "bd")),
    (("c", "d"),),
    known={0: 17_033_468_332, 1_000: 29_112_886},
)
CYCLE = Query(
    "cycle4",
    (S,),
    (("s", "ab"), ("s", "bc"), ("s", "cd"), ("s", "da")),
    (("a", "b"), ("a", "c"), ("a", "d"), ("b", "d")),
    known={0: 18_436_914_570, 1_000: 28_557_307},
)
