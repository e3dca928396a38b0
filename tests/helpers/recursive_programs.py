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

RANKED = {
    "linear": "p(x, y) :- e(x, y). p(x, z) :- p(x, y), e(y, z).",
    "linear, other way": "p(x, y) :- e(x, y). p(x, z) :- e(x, y), p(y, z).",
    "non-linear": "p(x, y) :- e(x, y). p(x, z) :- p(x, y), p(y, z).",
    "three atoms": "p(x, y) :- e(x, y). p(x, w) :- p(x, y), p(y, z), p(z, w). p(x, z) :- p(x, y), p(y, z), f(x, z).",
    "from marked": "r(x) :- s(x). r(y) :- r(x), e(x, y).",
    "same generation": "g(x, y) :- e(z, x), e(z, y), x != y. g(x, y) :- e(a, x), g(a, b), e(b, y).",
    "mutual": "odd(x, y) :- e(x, y). odd(x, z) :- even(x, y), e(y, z). even(x, z) :- odd(x, y), e(y, z).",
    "points to": """
        v(x, y) :- s2(x, y). v(x, y) :- e(x, z), v(z, y).
        v(x, y) :- f(x, p), v(p, q), v(q, y), s(x). v(q, y) :- h(p, x), v(p, q), v(x, y).
        .decl e(a: int64, b: int64)
    """,
    "read by others": """
        p(x, y) :- e(x, y). p(x, z) :- p(x, y), e(y, z).
        c(x) :- p(x, x). d(x, y) :- p(x, y), p(y, x), x < y. t(x, y, z) :- p(x, y), f(y, z).
        .output p
        .output c
        .output d
        .output t
    """,
    "loop over a loop": """
        p(x, y) :- e(x, y). p(x, z) :- p(x, y), e(y, z).
        q(x, y) :- p(x, y), f(x, y). q(x, z) :- q(x, y), p(y, z), s(z).
        .output p
        .output q
    """,
    "constants and comparisons": """
        p(0, y) :- e(0, y). p(x, x) :- s(x). p(x, z) :- p(x, y), e(y, z), x <= z. p(x, 3) :- p(x, 2), f(x, x), x != 5.
    """,
    "renamed inside": """
        q(y, x) :- p(x, y). q(x, y) :- f(x, y), p(y, x). p(x, y) :- e(x, y). p(x, z) :- q(y, x), e(y, z).
    """,
    "only a copy": "p(y, x) :- q(x, y). q(x, y) :- e(x, y). q(x, z) :- p(y, x), e(y, z).",
    "unary and apart": "r(x) :- s(x). r(y) :- r(x), e(x, y), s(z), r(z), z != x.",
    "negation": """
        p(x, y) :- e(x, y), !f(x, y). p(x, z) :- p(x, y), e(y, z), !s(y), !f(y, 3). o(x) :- s(x), !p(0, x).
        .output p
        .output o
    """,
    "calculation": "d(y, 0) :- s(y). d(y, n) :- d(x, m), e(x, y), n = m + 1, n < 6. d(y, n) :- d(y, m), n = m / 2.",
    "calculation behind": """
        p(x, n) :- e(x, y), n = x * 10 + y. p(x, n) :- p(y, m), e(x, y), f(x, w), n = m % 7 + w, !s(n).
    """,
    "shortest paths": """
        d(y, min(0)) :- s(y). d(y, min(n)) :- d(x, m), w(x, y, c), n = m + c.
    """,
    "least labels": "l(x, min(x)) :- e(x, _). l(y, min(n)) :- l(x, n), e(x, y). l(y, min(n)) :- l(x, n), e(y, x).",
    "greatest values, first column": "m(max(n), y) :- f(y, n). m(max(n), y) :- m(n, x), e(x, y), !s(y).",
    "all pairs": """
        d(x, y, min(c)) :- w(x, y, c). d(x, z, min(n)) :- d(x, y, a), d(y, z, b), n = a + b.
        far(x, y) :- d(x, y, n), n > 6. near(x, c) :- e(x, _), c = count : { d(x, y, n), n < 4 }.
        .output d
        .output far
        .output near
    """,
    "one value": "m(min(x)) :- s(x). m(min(n)) :- m(x), f(y, _), n = x / 2 + y.",
    "two of them": """
        d(y, min(0)) :- s(y). d(y, min(n)) :- r(x, m), w(x, y, c), n = m + c. r(y, min(n)) :- d(y, n), n < 12.
        r(y, min(n)) :- d(x, m), f(x, y), n = m + 2. b(y) :- r(y, n), n < 3. d(y, min(1)) :- b(x), e(x, y).
    """,
    "three columns": "a(x, y, x) :- e(x, y). a(x, z, w) :- a(x, y, w), a(y, z, _), f(w, _).",
}
"""Loops of which rows have ranks, and what reads them."""

IDLE = {
    "a comparison of constants": "w(x) :- r(x, _). w(x) :- w(x), 0 != 0.",
    "by way of another head": "w(x) :- r(x, _). w(x) :- v(x), 1 > 2. v(x) :- w(x), r(x, _).",
    "with a calculation": "w(x) :- r(x, _). w(x + 1) :- w(x), 0 != 0.",
    "with an aggregate": "w(x) :- r(x, _). w(x) :- w(x), 0 != 0, n = count : { r(x, y) }, n > 0.",
    "a null that may turn up": "w(x) :- r(x, _). w(z) :- w(x), r(x, z), r(z, null).",
    "a renaming": "w(x) :- s(x). w(x) :- v(x), 0 != 0. v(x) :- w(x).",
    "read by others": "w(x) :- r(x, _). w(x) :- w(x), 0 != 0. v(x, y) :- w(x), r(x, y). u(x) :- v(x, _), !r(_, x).",
    "no other rule": "w(x) :- w(x), 0 != 0. v(x) :- s(x), !w(x).",
    "also least values": "w(x, min(y)) :- r(x, y). w(x, min(y)) :- w(x, y), 0 != 0. v(x) :- w(x, _).",
}
"""Loops whose recursive rules never hold, or not yet."""

COMPARED = "o(0, 0). o(r + 1, n) :- o(r, _), r < 3, n = count : { p(x, y), x <= r }."

AGGREGATING = {
    "compared": COMPARED,
    "sum": "o(0). o(r + 1) :- o(r), r < 3, n = sum y : { p(x, y), x <= r }, n >= 0.",
    "negated": "o(0). o(r + 1) :- o(r), r < 3, n = count : { p(x, _), !q(r, x) }, n < 3.",
    "in a head of its own": "o(0, 0). k(r) :- o(r, _). o(r + 1, n) :- o(r, _), r < 3, c(r, n)."
    " c(r, n) :- k(r), n = count : { p(x, y), x <= r }.",
    "equal": "o(0). o(r + 1) :- o(r), r < 3, n = count : { p(r, _) }, n >= 0.",
    "the key is an aggregate": "o(0). o(n) :- o(r), n = count : { p(x, y), x <= r }.",
    "two": "o(x) :- s(x)."
    " o(y) :- o(x), p(x, y), n = count : { q(a, _), a <= x }, m = max b : { q(_, b), b < y }, m < n.",
    "nested": "o(x) :- s(x). o(y) :- o(x), p(x, y), 0 < count : { q(a, b), b <= count : { p(c, _), c <= x }, a > x }.",
    "calculated": "o(0). o((r + n) % 7) :- o(r), n = sum (x * r) : { p(x, y), y != r }.",
    "of two loops": "a(x) :- s(x). a(y) :- a(x), p(x, y), 1 <= count : { q(z, _), z < x }."
    " b(x) :- a(x), q(x, _). b(y) :- b(x), a(y), n = count : { a(z), z < y, z > x }, n < 2.",
    "beside a least value": "d(x, min(0)) :- s(x)."
    " d(y, min(v + n)) :- d(x, v), p(x, y), n = count : { q(z, _), z < y }.",
    "a comparison with each": "o(r) :- s(r). o(y) :- o(x), p(x, y), 1 <= count : { q(a, b), a < x, b > y }.",
    "facts alone": "p(1, 2). p(2, 3). o(1). o(y) :- o(x), p(x, y), 1 >= count : { p(a, _), a < x }.",
}
"""Aggregates in recursive rules at keys that only the recursion derives."""
