"""Texts of programs with loops, one per shape that must hold. Relations hold small integers."""

from __future__ import annotations

CLOSURES = {
    "closure, one step on": "p(x, y) :- e(x, y). p(x, z) :- p(x, y), e(y, z).",
    "closure, one step before": "p(x, y) :- e(x, y). p(x, z) :- e(x, y), p(y, z).",
    "closure, both": "p(x, y) :- e(x, y). p(x, z) :- p(x, y), p(y, z).",
    "closure, three at once": (
        "p(x, y) :- e(x, y). p(x, z) :- p(x, u), p(u, v), p(v, z). p(x, z) :- e(x, y), e(y, z)."
    ),
    "odd walks, three at once": "p(x, y) :- e(x, y). p(x, w) :- p(x, y), p(y, z), p(z, w).",
    "odd walks, one among edges": "p(x, y) :- e(x, y). p(x, w) :- e(x, y), p(y, z), e(z, w).",
    "closure of a triangle's shape": (
        "p(x, y) :- e(x, y). p(a, c) :- p(a, b), p(b, c), e(a, c). p(a, b) :- p(b, a), p(a, a)."
    ),
    "reach from here": "r(x) :- s(x). r(y) :- r(x), e(x, y).",
    "reach from a constant": "r(0). r(y) :- r(x), e(x, y).",
}

SETS = {
    "same generation": "g(x, y) :- e(p, x), e(p, y). g(x, y) :- e(p, x), g(p, q), e(q, y).",
    "even and odd": "even(x) :- s(x). odd(y) :- even(x), e(x, y). even(y) :- odd(x), e(x, y).",
    "three heads in a ring": (
        "a(x, y) :- e(x, y). b(x, z) :- a(x, y), f(y, z). c(x, z) :- b(x, y), a(y, z). a(x, z) :- c(x, y), b(y, z)."
    ),
    "points-to": (
        "v(y, x) :- new(y, x). v(y, x) :- assign(y, z), v(z, x). v(y, w) :- load(y, x), v(x, z), h(z, w)."
        " h(y, w) :- store(x, z), v(x, y), v(z, w)."
    ),
    "GALEN's rules": (
        "p(x, z) :- p0(x, z). q(x, r, z) :- q0(x, r, z). p(x, z) :- p(x, y), p(y, z)."
        " q(x, r, z) :- p(x, y), q(y, r, z). p(x, z) :- p(y, w), u(w, r, z), q(x, r, y)."
        " p(x, z) :- c(y, w, z), p(x, w), p(x, y). q(x, o, z) :- q(x, r, z), s(r, o)."
        " q(x, n, o) :- q(x, y, z), r(y, u, n), q(z, u, o)."
    ),
    "a head of itself alone": "p(x) :- p(x), s(x). q(x) :- s(x), !p(x).",
    "constants and wildcards in a loop": (
        "p(x, 0) :- e(x, _). p(y, 1) :- p(x, 0), e(x, y). p(z, 0) :- p(x, 1), e(_, z), e(z, x)."
    ),
    "a variable twice in a loop": (
        "p(x, y) :- e(x, y). p(x, x) :- p(x, y), p(y, x). p(y, z) :- p(x, x), e(x, y), p(y, z)."
    ),
    "comparisons in a loop": "p(x, y) :- e(x, y). p(x, z) :- p(x, y), p(y, z), x < z, y != 1.",
    "arithmetic in a loop": "n(x) :- s(x). n(y) :- n(x), x < 9, y = x + 3. n(z) :- n(x), z = x / 2, e(z, _).",
    "two loops on one input": (
        "p(x, y) :- e(x, y). p(x, z) :- p(x, y), e(y, z). q(x, y) :- e(y, x). q(x, z) :- q(x, y), q(y, z)."
    ),
    "a loop on a loop": (
        "p(x, y) :- e(x, y). p(x, z) :- p(x, y), e(y, z). r(x) :- s(x). r(y) :- r(x), p(x, y), f(x, y)."
    ),
    "an input that is a head": ".input e\ne(x, y) :- e(y, x).\ne(x, z) :- e(x, y), e(y, z).",
    "facts": "e(0, 1). e(1, 2). p(x, y) :- e(x, y). p(x, y) :- f(x, y). p(x, z) :- p(x, y), p(y, z).",
    "loop without an outside in its steps": (
        "p(x, y) :- e(x, y). p(y, x) :- p(x, y). q(x, y, z) :- p(x, y), p(y, z), p(x, z)."
    ),
    "wide heads": (
        "w(a, b, c, a) :- t(a, b, c). w(b, c, d, a) :- w(a, b, c, d), e(a, d)."
        " w(a, a, b, c) :- w(a, b, c, _), t(c, b, a)."
    ),
    "rows that begin with one variable or the other": (
        "a(x, y) :- e(x, y). b(d, c) :- a(x, y), f(d, y), g(c, y), d <= c. a(x, y) :- b(x, y)."
        " b(y, x) :- b(y, 1), a(_, x). g(x, x) :- s(x). g(x, y) :- e(x, y)."
    ),
    "a loop that steps to two sides": (
        "a(x, y) :- e(x, y). b(d, c) :- a(x, y), f(d, y), h(c, y), d != c. a(x, y) :- b(x, y)."
    ),
    "cartesian step": "p(x, y) :- e(x, y). p(x, y) :- p(x, _), s(y), p(_, y).",
}

LAYERED = {
    "negation over a loop": "p(x, y) :- e(x, y). p(x, z) :- p(x, y), e(y, z). n(x, y) :- s(x), s(y), !p(x, y).",
    "negation in a loop": "r(x) :- s(x). r(y) :- r(x), e(x, y), !b(y), !f(x, y).",
    "a loop on negation over a loop": (
        "p(x, y) :- e(x, y). p(x, z) :- p(x, y), e(y, z). a(x, y) :- f(x, y), !p(x, y). q(x, y) :- a(x, y)."
        " q(x, z) :- q(x, y), a(y, z)."
    ),
    "sets and their rest": "r(x) :- s(x). r(y) :- r(x), e(x, y). o(x) :- e(x, _), !r(x). o(x) :- e(_, x), !r(x).",
    "counts over a loop": (
        "p(x, y) :- e(x, y). p(x, z) :- p(x, y), e(y, z). n(x, c) :- s(x), c = count : { p(x, _) }."
    ),
    "sums over a loop": (
        "p(x, y) :- e(x, y). p(x, z) :- p(x, y), p(y, z). n(x, sum(y)) :- p(x, y). m(max(y), x) :- p(x, y)."
        " t(t) :- t = count : { p(_, _) }."
    ),
    "a loop over counts": (
        "d(x, c) :- s(x), c = count : { e(x, _) }. r(x) :- d(x, c), c > 1. r(y) :- r(x), e(x, y), d(y, c), c >= 1."
    ),
    "counts in a loop": "r(x) :- s(x). r(y) :- r(x), e(x, y), 1 < count : { f(y, _) }.",
    "count of a component's rest": (
        "r(x) :- s(x). r(y) :- r(x), e(x, y). n(c) :- c = count : { e(x, _), !r(x) }. l(m) :- m = min x : { r(x) }."
    ),
}

EXTREMES = {
    "components by least label": (
        "c(x, min(x)) :- e(x, _). c(x, min(x)) :- e(_, x). c(y, min(l)) :- c(x, l), e(x, y)."
        " c(y, min(l)) :- c(x, l), e(y, x)."
    ),
    "components by greatest label": "c(x, max(x)) :- s(x). c(y, max(l)) :- c(x, l), e(x, y).",
    "sizes of components": (
        "c(x, min(x)) :- s(x). c(y, min(l)) :- c(x, l), e(x, y), s(y). n(l, count()) :- c(x, l)."
        " q(k) :- k = sum z : { n(_, c), z = c * c }."
    ),
    "shortest paths": "d(x, min(0)) :- s(x). d(y, min(d + w)) :- d(x, d), t(x, y, w).",
    "shortest paths, all pairs": "d(x, y, min(w)) :- t(x, y, w). d(x, z, min(a + b)) :- d(x, y, a), d(y, z, b).",
    "steps": (
        "d(x, min(0)) :- s(x). d(y, min(d + 1)) :- d(x, d), e(x, y). far(x) :- d(x, d), d > 2."
        " no(x) :- e(_, x), !d(x, _)."
    ),
    "steps up to three": "d(x, min(0)) :- s(x). d(y, min(d + 1)) :- d(x, d), e(x, y), d < 3.",
    "least value and a set in one loop": (
        "d(x, min(0)) :- s(x). a(y) :- d(x, d), d <= 2, e(x, y). d(y, min(k)) :- a(y), f(y, k)."
    ),
    "the value before the group": "d(min(0), x) :- s(x). d(min(d + w), y) :- d(d, x), t(x, y, w).",
    "two least values": (
        "a(x, min(0)) :- s(x). b(y, min(d + w)) :- a(x, d), t(x, y, w). a(y, min(d)) :- b(x, d), e(x, y)."
    ),
}
"""No value of ``t``'s last column may be below 0."""

ALL = CLOSURES | SETS | LAYERED | EXTREMES
