"""Texts of programs, one per shape of join that must hold. Relations hold small integers."""

from __future__ import annotations

BOTH_WAYS = "s(x, y) :- e(x, y). s(x, y) :- e(y, x)."

GRAPHS = {
    "triangle": "h(a, b, c) :- e(a, b), e(b, c), e(a, c).",
    "triangle of three relations": "h(a, b, c) :- r(a, b), s(b, c), t(a, c).",
    "3-cycle": "h(a, b, c) :- e(a, b), e(b, c), e(c, a).",
    "4-cycle": "h(a, b, c, d) :- e(a, b), e(b, c), e(c, d), e(d, a).",
    "4-cycle once": f"{BOTH_WAYS} h(a, b, c, d) :- s(a, b), s(b, c), s(c, d), s(d, a), a < b, a < c, a < d, b < d.",
    "closed 4-walk of two relations": "h(a, b, c, d) :- r(a, b), s(b, c), r(c, d), s(d, a).",
    "diamond": "h(a, b, c, d) :- e(a, b), e(a, c), e(b, c), e(a, d), e(b, d).",
    "diamond once": f"{BOTH_WAYS} h(a, b, c, d) :- e(a, b), s(a, c), s(b, c), s(a, d), s(b, d), c < d.",
    "kite": "h(a, b, c, d) :- e(a, b), e(b, c), e(a, c), e(c, d).",
    "house": "h(a, b, c, d, f) :- e(a, b), e(b, c), e(c, d), e(d, a), e(a, f), e(b, f).",
    "bowtie": "h(a, b, c, d, f) :- e(a, b), e(b, c), e(a, c), e(a, d), e(d, f), e(a, f).",
    "4-clique": "h(a, b, c, d) :- e(a, b), e(a, c), e(a, d), e(b, c), e(b, d), e(c, d).",
    "5-clique": (
        "h(a, b, c, d, f) :- e(a, b), e(a, c), e(a, d), e(a, f), e(b, c), e(b, d), e(b, f), e(c, d), e(c, f), e(d, f)."
    ),
    "2-path": "h(a, b, c) :- e(a, b), e(b, c).",
    "3-path": "h(a, b, c, d) :- e(a, b), e(b, c), e(c, d).",
    "3-path of three relations": "h(a, b, c, d) :- r(a, b), s(b, c), t(c, d).",
    "4-path, ends": "h(a, f) :- e(a, b), e(b, c), e(c, d), e(d, f).",
    "star of 2": "h(a, b, c) :- e(a, b), e(a, c).",
    "star of 3": "h(a, b, c, d) :- e(a, b), e(a, c), e(a, d).",
    "star into the middle": "h(a, b, c) :- r(a, c), s(b, c).",
    "star of three relations": "h(a, b, c, d) :- r(a, b), s(a, c), t(a, d).",
    "loop": "h(a) :- e(a, a).",
    "loop and edge": "h(a, b) :- e(a, a), e(a, b).",
    "edge between loops": "h(a, b) :- e(a, a), e(a, b), e(b, b).",
    "both ways": "h(a, b) :- e(a, b), e(b, a).",
}

ARITIES = {
    "copy": "h(a) :- v(a).",
    "unary": "h(a) :- v(a), w(a).",
    "unary and binary": "h(a, b) :- v(a), e(a, b), v(b).",
    "last variable alone": "h(a, c) :- v(a), s(a, c), u(c).",
    "a bound pair takes part early": "h(a, c, d) :- v(a), s(a, c), r(c, d).",
    "ternary": "h(a, b, c, d) :- t(a, b, c), t(b, c, d).",
    "ternary, middle": "h(a, b, c, d, f) :- t(a, b, c), t(d, b, f).",
    "ternary triangle": "h(a, b, c) :- t(a, b, c), t(b, c, a), t(c, a, b).",
    "quaternary": "h(a, b, c, d) :- q(a, b, c, d), q(b, c, d, a).",
    "1 to 4": "h(a, b, c, d) :- u(a), e(a, b), t(a, b, c), q(a, b, c, d).",
    "loomis-whitney": "h(a, b, c, d) :- p(a, b, c), q(a, b, d), r(a, c, d), s(b, c, d).",
    "all variables shared": "h(a, b) :- r(a, b), s(a, b).",
    "all variables shared, swapped": "h(a, b) :- r(a, b), s(b, a).",
    "the same atom twice": "h(a, b) :- e(a, b), e(a, b).",
    "no variable shared": "h(a, b) :- v(a), w(b).",
    "no variable shared, one relation": "h(a, b) :- v(a), v(b).",
    "no variable shared, pairs": "h(a, b, c, d) :- r(a, b), s(c, d).",
    "two components": "h(a, b, c, d) :- r(a, b), r(b, a), s(c, d), w(d).",
}

TERMS = {
    "constant first": "h(x) :- e(0, x).",
    "constant last": "h(x) :- e(x, 1).",
    "constants only": "h(x, y) :- e(0, 1), e(x, y).",
    "constants beside a join": "h(x, y) :- t(0, x, y), e(x, y), e(y, 2).",
    "constant that is never there": "h(x) :- e(x, -77).",
    "constant in the head": "h(x, 7) :- e(x, _).",
    "variable twice": "h(x, y) :- t(x, x, y).",
    "variable thrice": "h(x) :- t(x, x, x).",
    "variable twice beside a join": "h(x, y) :- t(x, y, x), e(x, y).",
    "variable twice in the head": "h(x, y, x) :- e(x, y).",
    "wildcard": "h(x) :- e(x, _).",
    "wildcard first": "h(x) :- e(_, x).",
    "wildcards on both sides": "h(x) :- e(x, _), e(_, x).",
    "wildcard inside": "h(x, z) :- t(x, _, z).",
    "wildcard validates": "h(x, y) :- e(x, y), t(x, _, y).",
    "wildcards only": "h(x) :- v(x), e(_, _).",
    "less": "h(x, y) :- e(x, y), x < y.",
    "less or equal": "h(x, y) :- v(x), w(y), x <= y.",
    "greater": "h(x, y, z) :- e(x, y), e(y, z), x > z.",
    "greater or equal": "h(x, y, z) :- e(x, y), e(x, z), y >= z.",
    "not equal": "h(x, y, z) :- e(x, y), e(y, z), x != z.",
    "equal": "h(x, y, u, v) :- e(x, y), e(u, v), y = u.",
    "equal to itself": "h(x, y) :- e(x, y), x = x.",
    "less than itself": "h(x, y) :- e(x, y), x < x.",
    "less than itself, bound late": "h(x, y) :- v(x), w(y), y < y.",
    "not less than itself, bound late": "h(x, y) :- v(x), w(y), x >= x, y <= y.",
    "compared with constants": "h(x, y) :- e(x, y), x > 0, y <= 3, 2 != x.",
    "equal to a constant": "h(x, y) :- e(x, y), y = 2.",
    "equality binds a constant": "h(x, y) :- v(x), y = 5.",
    "equality binds a variable": "h(x, y, z) :- z = y, y = x, v(x).",
    "constants that are equal": "h(x) :- v(x), 1 = 1.",
    "constants that differ": "h(x) :- v(x), 1 > 2.",
    "ordered triangle": f"{BOTH_WAYS} h(a, b, c) :- s(a, b), s(b, c), s(a, c), a < b, b < c.",
}

RULES = {
    "union": "h(x, y) :- r(x, y). h(x, y) :- s(x, y).",
    "union of a relation and its mirror": BOTH_WAYS,
    "union of different bodies": "h(x) :- v(x). h(x) :- e(x, _). h(x) :- e(x, y), e(y, x).",
    "union of one body twice": "h(x) :- v(x). h(x) :- v(x).",
    "union with constants": "h(x, 0) :- v(x). h(0, x) :- v(x).",
    "projection of a join": "h(a, c) :- e(a, b), e(b, c).",
    "projection of a triangle": "h(a) :- e(a, b), e(b, c), e(c, a).",
    "projection to nothing joined": "h(a) :- e(a, _), w(_).",
    "projection, swapped": "h(c, b) :- t(a, b, c).",
    "heads of heads": "p(a, c) :- e(a, b), e(b, c). q(a, d) :- p(a, c), p(c, d). h(a) :- q(a, a).",
    "head joined with its input": "p(a, c) :- e(a, b), e(b, c). h(a, c) :- p(a, c), e(a, c).",
    "head read twice": "p(a) :- e(a, _). h(a, b) :- p(a), e(a, b), p(b).",
    "rules in reverse order": "h(a, b) :- p(a, b), p(b, a). p(a, b) :- e(a, b). p(a, b) :- f(a, b).",
    "a head and its part both asked for": "p(a, b) :- e(a, b), v(b). h(a) :- p(a, _). .output p .output h",
    "two heads": "g(a, b, c) :- e(a, b), e(b, c). h(a, b, c) :- e(a, b), e(c, b).",
}

PATTERNS = {**GRAPHS, **ARITIES, **TERMS, **RULES}

STARS = {
    "star of paths": "h(a, b, c, x, y) :- r(a, b), s(b, x), r(a, c), t(c, y), u(x), u(y).",
    "snowflake": "h(k, a, b, x, y) :- f(k, a, b), d(a, x), e(b, y), g(x, u), g(y, v), u < v.",
    "what is kept of a snowflake": "h(k, x) :- f(k, a, b), d(a, x), e(b, y), g(x, u), g(y, v).",
    "branches that one condition joins": "h(a, x, y) :- r(a, x), s(a, y), t(x, z), t(y, w), z < w, x != y.",
    "branches that share what is bound last": "h(a, x, y, z) :- r(a, x), s(a, y), t(x, z), t(y, z), u(z).",
}
"""Joins of which branches are bound apart and joined back."""

COUNTED = {
    "counted 0": "h(a, b, c) :- r(a, b), s(b, c), a != c.",
    "counted 1": "h(a) :- r(a, b), s(b, c), t(c, d), a != c, a != d, b != d.",
    "counted 2": "h(b) :- r(b, a), s(b, c), v(d), a != c, d != a, d != c.",
    "counted 3": "h(a, b, c) :- r(a, b), s(b, c), !r(a, c).",
    "counted 4": "h(a) :- r(a, b), s(b, c), !t(c, a), a != c.",
    "counted 5": "h(b) :- r(a, b), s(b, c), t(a, c), !r(c, b).",
    "counted 6": "h(a) :- r(a, b), s(b, c), t(c, d), !q(a, c, d).",
    "counted 7": "h(a) :- r(a, b), s(b, c), t(c, d), !r(a, c), !s(b, d).",
    "counted 8": "h(x) :- r(x, a), s(a, b), t(b, c), r(c, d).",
    "counted 9": "h(x) :- v(x), r(a, b), s(b, c), t(c, b).",
    "counted 10": "h(a) :- r(a, b), s(b, c), t(c, d), r(d, a).",
}
"""Joins whose rows are counted without a look at each: ranges, exclusions, negated atoms, prefixes alike."""

DIFFERENCES = {
    "kept rows": "h(a, b, c) :- e(a, b), e(b, c). g(a, c) :- h(a, b, c), !e(a, c).",
    "derivations": "h(a, c) :- e(a, b), f(b, c). g(a) :- h(a, c), h(c, a).",
    "two rules": "h(a, b) :- e(a, b), u(b). h(b, a) :- f(a, b), u(a). g(a) :- h(a, _).",
    "not kept": "h(a, c) :- e(a, b), e(b, c).",
    "negated": "h(a, c) :- e(a, b), e(b, c), !f(a, c).",
    "calculated": "h(a, c + 1) :- e(a, b), f(b, c), a != c + 2. g(x) :- h(x, y), y = x * 2.",
    "grouped": "g(a, count()) :- e(a, b), f(b, c).",
    "recursive": "r(a, b) :- e(a, b), u(a). r(a, c) :- r(a, b), f(b, c). h(a) :- r(a, b), e(b, c), u(c).",
}
"""Heads whose changes may be the difference of all rows."""
