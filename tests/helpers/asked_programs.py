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
