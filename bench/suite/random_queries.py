"""Conjunctive queries that chance writes: cyclic and not, with constants, predicates and negation."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from bench.suite.hypergraph import is_acyclic

RANDOM = "random"
"""What the queries that chance writes are called: their family, their data, and all of them to the command."""
NAME = re.compile(r"[a-z]\w*")
"""A variable, in terms and expressions."""
N_VARIABLES = 8
"""The most that atoms bind."""
RELATIONS = (("r1", "s1"), ("r2", "s2", "t2"), ("r3", "s3"), ("r4",))
"""Per arity."""
VALUES = (0, 1, 2, 3, -4, 5, 7, 11)
"""What constants are taken from."""


@dataclass(frozen=True)
class Atom:
    """A relation with its terms: variables, ``_`` or integers."""

    relation: str
    terms: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.relation}({', '.join(self.terms)})"


@dataclass(frozen=True)
class Query:
    """A head and its body.

    Attributes
    ----------
    predicates
        (left, operator, right), both sides expressions; ``z = ...``, where no atom binds ``z``, gives it a value.
    is_textual
        Whether all values are text: of an integer, the text is `shown`.
    seed
        What it was written from.
    """

    head: tuple[str, ...]
    atoms: tuple[Atom, ...]
    negated: tuple[Atom, ...] = ()
    predicates: tuple[tuple[str, str, str], ...] = ()
    is_textual: bool = False
    seed: int = 0

    @property
    def text(self) -> str:
        """The rule, its literals in an order by chance."""
        body = [str(atom) for atom in self.atoms]
        body += [f"!{atom}" for atom in self.negated] + [" ".join(predicate) for predicate in self.predicates]
        random.Random(self.seed).shuffle(body)
        rule = f"h({', '.join(self.head)}) :- {', '.join(body)}."
        return re.sub(r"(?<!\w)-?\d+", lambda found: f'"{shown(int(found[0]))}"', rule) if self.is_textual else rule

    @property
    def inputs(self) -> dict[str, int]:
        """Per relation how many columns it has."""
        return {atom.relation: len(atom.terms) for atom in (*self.atoms, *self.negated)}

    @property
    def variables(self) -> tuple[str, ...]:
        """Those that atoms bind, in the order in which they first stand."""
        return tuple(dict.fromkeys(term for atom in self.atoms for term in atom.terms if NAME.fullmatch(term)))

    @property
    def is_cyclic(self) -> bool:
        """Whether its positive atoms have no join forest."""
        return not is_acyclic([[term for term in atom.terms if NAME.fullmatch(term)] for atom in self.atoms])

    @property
    def cover(self) -> int:
        """A number of atoms that hold all variables: no more rows come out than one relation has, to this power."""
        left, number = set(self.variables), 0
        while left:
            left -= max((set(atom.terms) for atom in self.atoms), key=lambda terms: len(terms & left))
            number += 1
        return number


def shown(value: int) -> str:
    """The text that stands for an integer; their order is another one."""
    return ("b", "", "größe", "a", "B", "ab", "0", "Z")[value % 8]


def random_query(seed: int) -> Query:
    """The query that belongs to a seed: 2 to 7 atoms of 1 to 4 columns, most of them connected."""
    chance = random.Random(seed)
    skeleton = list(_skeleton(chance, chance.randint(2, 7)))
    atoms = [_atom(chance, terms) for terms in skeleton]
    query = Query((), tuple(atoms), is_textual=chance.random() < 0.1, seed=seed)
    query = replace(query, predicates=tuple(_predicates(chance, query)))
    bound = [*query.variables, *(left for left, *_ in query.predicates if left.startswith("z"))]
    if bound and chance.random() < 0.3:
        negated = [_negated(chance, bound) for _ in range(chance.choice((1, 1, 2)))]
        query = replace(query, negated=tuple(negated))
    return replace(query, head=_head(chance, bound, query.is_textual))


def _skeleton(chance: random.Random, n: int) -> Iterator[list[str]]:
    """Per atom its variables."""
    names = [f"v{i}" for i in range(N_VARIABLES)]
    shape = chance.choice(("path", "star", "cycle", "cycle", "clique", "clique", "any", "any", "any", "any"))
    pairs: list[tuple[int, int]] = []
    if shape == "path":
        pairs = [(i, i + 1) for i in range(n)]
    elif shape == "star":
        pairs = [(0, i + 1) for i in range(n)]
    elif shape == "cycle":
        pairs = [(i, (i + 1) % n) for i in range(n)]
    elif shape == "clique":
        size = 3 if n < 6 else 4
        pairs = [(i, j) for j in range(size) for i in range(j)]
        pairs += [(chance.randrange(size), size) for _ in range(n - len(pairs))]
    for pair in pairs:
        terms = [names[i] for i in pair]
        if chance.random() < 0.5:
            terms.reverse()
        if chance.random() < 0.15:
            terms.insert(chance.randrange(3), chance.choice((*names[: max(pair) + 1], "_")))
        yield terms
    if not pairs:
        yield from _connected(chance, n, names)


def _connected(chance: random.Random, n: int, names: Sequence[str]) -> Iterator[list[str]]:
    """Atoms that each hold a variable of an earlier one, a few of them none."""
    closing, again = chance.choice((0.1, 0.4, 0.7, 0.95)), chance.choice((0.0, 0.0, 0.1))
    apart = chance.choice((0.0, 0.0, 0.0, 0.0, 0.3))
    known: list[str] = []
    for _ in range(n):
        arity = chance.choices((1, 2, 3, 4), (15, 50, 23, 12))[0]
        before = list(known)
        linked = chance.randrange(arity) if before and chance.random() >= apart else None
        terms: list[str] = []
        for place in range(arity):
            fresh = [name for name in names if name not in known]
            usual = [name for name in before if name not in terms]
            if chance.random() < again and terms:
                term = chance.choice(terms)
            elif usual and (place == linked or not fresh or chance.random() < closing):
                term = chance.choice(usual)
            elif fresh:
                term = fresh[0]
                known.append(term)
            else:
                term = chance.choice(known)
            terms.append(term)
        yield terms


def _atom(chance: random.Random, terms: Sequence[str]) -> Atom:
    """Over one of the relations of that arity; now and then with a constant or ``_``."""
    found = list(terms)
    for place in range(len(found)):
        if chance.random() < 0.04:
            found[place] = chance.choice(("_", *map(str, VALUES[:3])))
    return Atom(chance.choice(RELATIONS[len(found) - 1]), tuple(found))


def _predicates(chance: random.Random, query: Query) -> Iterator[tuple[str, str, str]]:
    names = list(query.variables)
    if not names or chance.random() < 0.4:
        return
    if chance.random() < 0.2:
        value = chance.choice((*names, "3")) if query.is_textual else _calculated(chance, names)
        yield "z", "=", value
        names.append("z")
    for _ in range(chance.choice((0, 1, 1, 1, 2, 3))):
        left = chance.choice(names)
        others = [name for name in names if name != left or chance.random() < 0.1]
        right = chance.choice((*others, *others, str(chance.choice(VALUES[:5]))))
        if not query.is_textual and chance.random() < 0.3:
            right = _calculated(chance, names)
        op = chance.choice(("<", "<=", "<=", "<=", ">", ">=", ">=", "!=", "!=", "!=", "!=", "="))
        yield (left, op, right) if chance.random() < 0.7 and left != "z" else (f"{right}", _MIRRORED[op], left)


_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "!=": "!=", "=": "="}


def _calculated(chance: random.Random, names: Sequence[str]) -> str:
    one, other = chance.choice(names), chance.choice((*names, "1", "2", "3"))
    kinds = (f"{one} + {other}", f"{one} - {other}", f"{one} * {other}", f"{one} / 2", f"{one} % 3", f"{one} + 1")
    return chance.choice(kinds)


def _negated(chance: random.Random, bound: Sequence[str]) -> Atom:
    arity = chance.choice((1, 1, 2, 2, 3))
    terms = chance.choices([*bound, *bound, *bound, *bound, "_", str(VALUES[1])], k=arity)
    return Atom(chance.choice(RELATIONS[arity - 1]), tuple(terms))


def _head(chance: random.Random, bound: Sequence[str], is_textual: bool) -> tuple[str, ...]:
    """All variables, or some, or a constant, or something calculated."""
    if not bound:
        return ("5",)
    if chance.random() < 0.45:
        return tuple(bound)
    terms = chance.sample(bound, chance.randint(1, len(bound)))
    if chance.random() < 0.1:
        terms.append(chance.choice(("5", *bound)))
    elif chance.random() < 0.1 and not is_textual:
        terms.append(_calculated(chance, bound))
    return tuple(terms)
