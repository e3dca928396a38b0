"""Programs whose plans are explained, and rows for them."""

from __future__ import annotations

import numpy as np

PROGRAMS = {
    "triangle": "triangle(a, b, c) :- edge(a, b), edge(b, c), edge(a, c).",
    "4-cycle": "cycle(a, b, c, d) :- edge(a, b), edge(b, c), edge(c, d), edge(d, a).",
    "path": "path(a, c) :- edge(a, b), edge(b, c).",
    "negation": "q(a, c) :- edge(a, b), edge(b, c), !edge(a, c), a < c, node(d), d = a + 1.",
    "closure": "reach(a, b) :- edge(a, b). reach(a, c) :- reach(a, b), edge(b, c).",
    "mutual": "odd(a, b) :- edge(a, b). odd(a, c) :- even(a, b), edge(b, c). even(a, c) :- odd(a, b), edge(b, c).",
    "least": "far(x, min(n)) :- node(x), n = 0. far(y, min(m)) :- far(x, n), edge(x, y), m = n + 1, m < 9.",
    "aggregate": "out(a, count()) :- edge(a, b). many(a) :- out(a, n), n > 2.",
    "selected": "up(b, a) :- edge(a, b), a < b. two(a, c) :- up(a, b), up(b, c), edge(c, 7), edge(x, x), node(a).",
    "variants": "q(a, b, c, d) :- edge(a, b), edge(b, c), edge(c, d), edge(a, d).",
    "odd text": 'q(a, c) :- word(a, b), word(b, c), c != "say \\"<b>&amp; #1;\\" `x` [y] {z} | \\n end é 漢".',
}

OUTPUTS = {"mutual": " .output odd .output even", "closure": "", "aggregate": " .output out .output many"}


def text_of(name: str) -> str:
    return PROGRAMS[name] + OUTPUTS.get(name, "")


def changes_of(name: str, seed: int, n: int, values: int = 12) -> dict[str, list[tuple[tuple, int]]]:
    """Rows of chance, a third of them deletions."""
    random = np.random.default_rng(seed)

    def rows(arity: int) -> list[tuple[tuple, int]]:
        drawn = random.integers(0, values, (n, arity)).tolist()
        signs = np.where(random.random(n) < 1 / 3, -1, 1).tolist()
        return [(tuple(row), sign) for row, sign in zip(drawn, signs, strict=True)]

    if name == "odd text":
        return {"word": [((f"w{a}", f"w{b}"), sign) for (a, b), sign in rows(2)]}
    reads = PROGRAMS[name]
    return {relation: rows(arity) for relation, arity in (("edge", 2), ("node", 1)) if f"{relation}(" in reads}
