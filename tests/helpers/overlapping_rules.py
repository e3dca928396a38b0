"""Programs that chance writes whose rules have much of a body in common, each under names of its own."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

INPUTS = {"u": 1, "e": 2, "f": 2, "t": 3}
NAMES = "abcde"

Literal = tuple[str, tuple[str, ...]]
"""An atom: its relation, ``!`` before it if it is negated; or a comparison: its operator and its sides."""


def overlapping_text(random: random.Random, negation: bool = False, calculation: bool = False) -> str:
    """A program of two to four rules: each lacks an atom of a common body now and then, and has some of its own.

    Parameters
    ----------
    negation, calculation
        Whether rules may negate atoms, and calculate.
    """
    names = NAMES[: random.randint(3, 4)]
    relations = random.sample(["e", "e", "f", "t", "u"], k=random.randint(1, 3))
    common = [_atom(random, relations, names) for _ in range(random.randint(2, 4))]
    said = [_comparison(random, names) for _ in range(random.choice((0, 0, 1)))]
    if negation:
        said.append(_negated(random, names))
    rules = []
    for number in range(random.randint(2, 4)):
        body = [atom for atom in common if random.random() < 0.9] or common[:1]
        body += [_atom(random, list(INPUTS), NAMES) for _ in range(random.choice((0, 0, 1, 2)))]
        if random.random() < 0.2:
            random.shuffle(body)
        bound = sorted({name for _, terms in body for name in terms if name in NAMES}) or ["a"]
        if "a" in bound and not any("a" in terms for _, terms in body):
            body.append(("u", ("a",)))
        own = [one for one in said if set(one[1]) & set(NAMES) <= set(bound) and random.random() < 0.9]
        own += [_comparison(random, bound) for _ in range(random.choice((0, 0, 0, 1)))]
        if negation and random.random() < 0.3:
            own.append(_negated(random, bound))
        called = dict(zip(NAMES, random.sample("pqrst", 5) if random.random() < 0.7 else NAMES, strict=True))
        head = bound if random.random() < 0.7 else random.sample(bound, random.randint(1, len(bound)))
        kept = [called[name] for name in head]
        if calculation and random.random() < 0.5:
            kept.append(f"{called[random.choice(bound)]} {random.choice('+-*')} {called[random.choice(bound)]}")
        rules.append(f"h{number}({', '.join(kept)}) :- {', '.join(_shown(one, called) for one in (*body, *own))}.")
    return " ".join(rules)


def _atom(random: random.Random, relations: Sequence[str], names: str) -> Literal:
    relation = random.choice(relations)
    terms = [random.choice([*names * 5, "_", "1"]) for _ in range(INPUTS[relation])]
    return relation, tuple(terms)


def _negated(random: random.Random, names: Sequence[str]) -> Literal:
    relation, _ = _atom(random, list(INPUTS), "a")
    return f"!{relation}", tuple(random.choice([*names]) for _ in range(INPUTS[relation]))


def _comparison(random: random.Random, names: Sequence[str]) -> Literal:
    return random.choice(("<", "!=", ">=", "=")), (random.choice(names), random.choice([*names, "1"]))


def _shown(one: Literal, called: Mapping[str, str]) -> str:
    relation, terms = one
    terms = tuple(called.get(term, term) for term in terms)
    return f"{relation}({', '.join(terms)})" if relation.strip("!").isalpha() else f" {relation} ".join(terms)
