"""Random programs whose rules ask heads for a part of their rows."""

from __future__ import annotations

import random

SHAPES = {
    "join": "p(a, b, c) :- e(a, b), f(b, c).",
    "hidden": "p(a, c, c) :- e(a, b), f(b, c).",
    "cycle": "p(a, b, c) :- e(a, b), f(b, c), e(c, a).",
    "union": "p(a, b, c) :- e(a, b), f(b, c). p(b, a, 1) :- e(a, b). p(a, a, b) :- f(a, b), s(b).",
    "negated": "p(a, b, c) :- e(a, b), f(b, c), !e(b, a), a != c.",
    "compared": "p(a, b, c) :- e(a, b), f(c, b), a < c, b <= 3.",
    "helpers": "o(a, b) :- e(a, b), f(b, _). o(a, b) :- f(a, b). p(a, b, c) :- o(a, b), o(b, c).",
    "groups": "p(a, b, min(c)) :- e(a, b), f(b, c).",
    "sums": "o(a, b, sum(c)) :- e(a, b), f(b, c). p(a, b, n) :- o(a, b, n).",
    "counts": "p(a, b, count()) :- e(a, b), f(b, c).",
    "braces": "p(a, b, n) :- e(a, b), n = max c : { f(b, c), e(c, _) }.",
    "constants": "p(2, b, 1) :- f(b, _), s(b). p(a, 1, a) :- e(a, _).",
}
LOOPS = {
    "left": "p(a, b, 1) :- o(a, b). o(a, b) :- e(a, b). o(a, c) :- o(a, b), e(b, c).",
    "right": "o(a, b) :- e(a, b). o(a, c) :- e(a, b), o(b, c). p(a, b, b) :- o(a, b), s(b).",
    "alone": "p(a, b, c) :- e(a, b), f(b, c). p(a, c, d) :- e(a, b), p(b, c, d).",
    "square": "p(a, b, c) :- e(a, b), f(b, c). p(a, c, d) :- p(a, b, _), p(b, c, d).",
    "generation": "o(a, a) :- s(a). o(a, d) :- e(a, b), o(b, c), f(c, d). p(a, b, a) :- o(a, b).",
    "mutual": "o(a, b) :- e(a, b). o(a, c) :- e(a, b), r(b, c). r(a, c) :- f(a, b), o(b, c). p(a, b, b) :- r(a, b).",
    "guarded": "p(a, b, c) :- e(a, b), f(b, c). p(a, b, d) :- p(a, b, c), f(c, d), !s(d), a < 3.",
    "walks": "o(a, b) :- e(a, b). o(a, c) :- f(a, b), o(b, c), s(b). p(a, b, c) :- o(a, b), o(b, c).",
    "distance": "o(a, b, min(0)) :- e(a, b), s(a). o(a, c, min(n)) :- o(a, b, m), f(b, c), n = m + 1. "
    "p(a, b, c) :- o(a, b, c).",
}
TARGETS = {
    "two bounds": "p(a, b) :- e(a, b), f(b, _). q(b) :- p(a, b), a < 2. r(b) :- p(a, b), a <= 2, b > 0.",
    "a constant and a bound": "p(a, b) :- e(a, b), f(b, _). q(b) :- p(1, b). r(b) :- p(a, b), a < 3.",
    "two constants": "p(a, b) :- e(a, b), f(b, _). q(b) :- p(1, b). r(b) :- p(2, b).",
    "bounds on both sides": "p(a, b) :- e(a, b), f(b, _). q(b) :- p(a, b), a > 0, a < 3. r(b) :- p(a, b), a >= 1.",
    "an equal variable": "p(a, b) :- e(a, b), f(b, _). q(b, c) :- p(a, b), s(c), a = c, c = 1.",
    "columns exchanged on the way": (
        "r(a, b, c) :- e(a, b), f(b, c). r(a, c, d) :- e(a, b), r(b, d, c). q(b, c) :- r(1, b, c)."
    ),
    "a condition on the way": "r(a, b) :- e(a, b). r(a, c) :- e(a, b), r(b, c), s(c). q(b) :- r(1, b).",
    "the column twice": "r(a, b) :- e(a, b). r(a, b) :- e(a, b), r(b, b). q(b) :- r(1, b).",
    "two steps": (
        "r(a, b) :- e(a, b). r(a, c) :- e(a, b), r(b, c). r(a, c) :- f(a, b), !s(b), r(b, c). q(b) :- r(1, b)."
    ),
    "no first step": "r(a, b) :- e(a, b). r(a, c) :- s(a), r(b, c). q(b) :- r(1, b).",
    "asked at two values": "r(a, b) :- e(a, b). r(a, c) :- e(a, b), r(b, c). q(b) :- r(1, b). t(b) :- r(2, b).",
    "null joins null": "p(k?, v) :- e(k?, w), f(w, v). q(k?, v) :- s(k?), p(k?, v).",
    "null joins null in a head": "p(k?, v) :- e(k?, w), f(k?, v), s(w). q(k, v) :- s(k), p(k, v).",
    "null in the place of the atom": "p(k?, v) :- e(k?, v), f(k?, v). q(k, v) :- s(v), p(k, v).",
    "null beside a variable of one atom": "p(k, v) :- e(k, v), f(v, _). q(k?, v) :- s(k?), p(k?, v).",
    "tests for null": "p(k, v) :- e(k, v), f(v, _). q(v) :- p(k, v), k = null. r(v) :- p(null, v).",
    "the best value": "o(a, b, min(b)) :- e(a, b). o(a, c, min(m)) :- o(a, b, m), f(b, c). q(a) :- o(a, b, m), m = 1.",
    "the best value of a key": (
        "o(a, b, max(b)) :- e(a, b). o(a, c, max(m)) :- o(a, b, m), f(b, c). q(b, m) :- o(1, b, m)."
    ),
    "an aggregated value": "p(a, min(c)) :- e(a, b), f(b, c). q(a) :- s(a), p(a, 1).",
    "a count": "p(a, count()) :- e(a, b), f(b, c). q(a) :- s(a), !p(a, 2).",
    "heads that would restrict each other": "p(y) :- e(y, w), e(w, _). r(y) :- f(y, w), f(w, _). q(y) :- p(y), r(y).",
    "groups that would restrict each other": (
        "g(a, min(c)) :- e(a, b), f(b, c). h(a, max(c)) :- f(a, b), e(b, c). "
        "q(a) :- g(a, _), h(a, _). r(a, b) :- s(a), s(b), g(a, b), !h(b, a)."
    ),
    "groups beside each other": (
        "g(a, min(c)) :- e(a, b), f(b, c). h(a, max(c)) :- f(a, b), e(b, c). q(a) :- g(a, _), h(a, _)."
    ),
    "a head that hands its own columns on": (
        "p(a, b, c) :- e(a, b), f(b, c). p(a, c, d) :- p(b, c, d), e(b, a). q(c) :- p(1, b, c)."
    ),
    "a head that reads itself elsewhere": "p(a, b) :- e(a, b). p(a, b) :- p(b, a), f(a, b). q(a, b) :- s(a), p(a, b).",
    "a loop of two heads": (
        "o(a, b) :- e(a, b). o(a, c) :- r(a, b), e(b, c). r(a, b) :- o(a, b), s(b). q(b) :- o(1, b), r(1, b)."
    ),
    "a negated head in a loop": (
        "p(a) :- e(a, b), f(b, _). r(a) :- s(a). r(b) :- r(a), e(a, b), !p(b). q(a) :- r(a), s(a)."
    ),
    "a head that is negated in part": "p(a, b) :- e(a, c), f(c, b). q(a) :- s(a), !p(a, _).",
    "constants in heads": (
        "p(1, b) :- e(b, c), f(c, _). p(b, 2) :- e(b, c), f(c, b). q(b) :- p(1, b). r(a) :- p(a, 2), s(a)."
    ),
    "a rule that is never true": "p(a, b) :- e(a, b), f(b, a). p(1, 2) :- e(_, _). q(b) :- p(2, b).",
    "facts": "p(1, 2). p(2, 3). p(a, c) :- p(a, b), e(b, c). q(b) :- p(1, b).",
    "head and input": ".input p\np(a, b) :- e(a, c), f(c, b). q(b) :- p(1, b).",
    "both ends": "r(a, b) :- e(a, b). r(a, c) :- r(a, b), e(b, c). q(a, b) :- s(a), s(b), r(a, b).",
    "pairs": "r(a, b) :- e(a, b). r(a, c) :- e(a, b), r(b, c). q(a, b) :- f(a, b), r(a, b).",
    "a chain from a constant": "p(a, c) :- e(a, b), e(b, c). q(c) :- f(1, a), s(a), p(a, c). r(c) :- f(2, a), p(a, c).",
}
"""Programs for which one step of push-down matters each."""
READERS = (
    "q{n}(y, z) :- p({k}, y, z).",
    "q{n}(x) :- p(x, {k}, z), z > 0.",
    "q{n}(x, y, z) :- p(x, y, z), x = {k}.",
    "q{n}(x, y) :- p(x, y, z), x <= {k}.",
    "q{n}(x, z) :- p(x, y, z), x < {k}, z >= 1.",
    "q{n}(x, y, z) :- s(x), p(x, y, z).",
    "q{n}(x, y, z) :- p(x, y, z), e(x, y).",
    "q{n}(x, z) :- p(x, y, z), s(x), t(y).",
    "q{n}(y, z) :- f({k}, x), p(x, y, z).",
    "q{n}(y) :- f({k}, v), e(v, x), p(x, y, _).",
    "q{n}(x, y) :- e(x, y), f(y, z), !p(x, y, z).",
    "q{n}(x) :- s(x), t(y), !p(x, y, x).",
    "q{n}(x) :- s(x), !p(x, {k}, 1).",
    "q{n}(x, y, z) :- p(x, y, z), p(y, x, {k}).",
    "q{n}(x, m) :- s(x), m = max z : {{ p(x, {k}, z) }}.",
    "q{n}(x, count()) :- p(x, y, z), t(x), y = z.",
    "q{n}(z) :- p(x, x, z), s(x).",
    "q{n}(x, z) :- p(x, _, z), t(z).",
    "q{n}({k}, z) :- p(x, y, z), s(x), x = y, y = {k}.",
    "q{n}(x, y, z) :- p(x, y, z).",
)


def asked_text(chance: random.Random, recursive: bool) -> str:
    """A program of a head, which may be recursive, and one or two rules that read it."""
    rules = [chance.choice([*(LOOPS if recursive else SHAPES).values()])]
    n_readers = chance.choice((1, 1, 1, 2))
    weights = [1] * (len(READERS) - 1) + [0.2]
    for number in range(n_readers):
        (reader,) = chance.choices(READERS, weights)
        rules.append(reader.format(n=number, k=chance.choice((0, 1, 1, 2, 3))))
    if chance.random() < 0.3:
        chance.shuffle(rules)
    return " ".join(rules)
