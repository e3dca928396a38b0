"""Loops over texts, floats and mixed columns, compared with the judge after every tick."""

from __future__ import annotations

import random

import pytest

import gpu_wcoj as gw
from tests.helpers.comparison import Judges, agree
from tests.reference.changes import minus

WORDS = ("a", "b", "", "größe", "ab", "B")
NUMBERS = (0, 1, 2, -3, 7)
FLOATS = (0.5, -1.25, 2.0, 3.75)

PROGRAMS = {
    "closure of texts": (
        "p(x, y) :- e(x, y). p(x, z) :- p(x, y), p(y, z).",
        {"e": (WORDS, WORDS)},
    ),
    "words put together": (
        "w(x) :- s(x). w(z) :- w(x), s(y), strlen(x) < 3, strlen(y) > 0, z = cat(x, y).",
        {"s": (WORDS,)},
    ),
    "parts of words": (
        "w(x) :- s(x). w(z) :- w(x), strlen(x) > 1, z = substr(x, 1, strlen(x) - 1). n(w, n) :- w(w), n = strlen(w).",
        {"s": (WORDS,)},
    ),
    "words as keys": (
        "r(w, 0) :- s(w). r(v, m) :- r(w, n), e(w, v), n < 3, m = n + 1. t(sum(n), w) :- r(w, n).",
        {"s": (WORDS,), "e": (WORDS, WORDS)},
    ),
    "a constant among words": (
        'r("a"). r(y) :- r(x), e(x, y), y != "B". n(x) :- e(x, _), !r(x).',
        {"e": (WORDS, WORDS)},
    ),
    "labels by number, names by text": (
        "c(x, min(n)) :- id(x, n). c(y, min(n)) :- c(x, n), e(x, y).",
        {"id": (WORDS, NUMBERS), "e": (WORDS, WORDS)},
    ),
    "means": (
        "p(x, y) :- e(x, y). p(x, z) :- p(x, y), e(y, z). m(x, mean(y)) :- p(x, y). a(m) :- m = mean y : { e(_, y) }.",
        {"e": (NUMBERS, NUMBERS)},
    ),
    "least floats": (
        "d(x, min(v)) :- f(x, v). d(y, min(v)) :- d(x, v), e(x, y). g(max(v)) :- f(_, v). s(x, sum(v)) :- f(x, v).",
        {"f": (NUMBERS, FLOATS), "e": (NUMBERS, NUMBERS)},
    ),
    "arithmetic of both signs": (
        "a(x, y, x / y, x % y) :- e(x, y), y != 0. b(x * y - x + y, -x) :- e(x, y). c(z) :- b(x, y), z = (x + y) * 2.",
        {"e": (NUMBERS, NUMBERS)},
    ),
    "calculated and looked up": (
        "h(x, y) :- e(x, y), e(y + 1, x - 1). g(z) :- e(x, y), z = x + y, e(z, _), !e(_, z). k(x) :- e(x, x * x).",
        {"e": ((0, 1, 2, 3, 4), (0, 1, 2, 3, 4))},
    ),
    "aggregates of aggregates": (
        "n(x, n) :- e(x, _), n = count : { e(x, y), y != x }. q(k) :- k = sum z : { n(_, n), z = n * n }, k > 1.",
        {"e": (NUMBERS, NUMBERS)},
    ),
    "who has most": (
        "n(x, count()) :- e(x, y). b(x) :- n(x, m), m = max n : { n(_, n) }. c(c + 1) :- c = count : { e(_, _) }.",
        {"e": (NUMBERS, NUMBERS)},
    ),
    "an aggregate of an expression": (
        "s(x, sum(y * y - 1)) :- e(x, y). t(t) :- t = sum x + y : { e(x, y), x < y }.",
        {"e": (NUMBERS, NUMBERS)},
    ),
}


@pytest.mark.drawn("name", share=2)
@pytest.mark.parametrize("name", PROGRAMS)
def test_against_the_judge(name, backend):
    text, inputs = PROGRAMS[name]
    for seed in range(4):
        chance = random.Random(f"{name} {seed}")
        program = gw.Program(text, backend=backend.name)
        judges = Judges(text)
        state: dict[str, set[tuple[object, ...]]] = {relation: set() for relation in inputs}
        for tick_index in range(7):
            tick = {}
            for one, columns in inputs.items():
                rows = [(tuple(map(chance.choice, columns)), 1) for _ in range(chance.randint(1, 5))]
                gone = chance.sample(sorted(state[one]), len(state[one]) // 2) if tick_index else []
                rows += [(row, -1) for row in gone]
                state[one] = (state[one] | {row for row, _ in rows}) - set(gone)
                tick[one] = ("rows", rows)
            before = judges.heads if tick_index else {output: {} for output in judges.heads}
            judges.step(tick)
            changes = program.step({relation: rows for relation, (_, rows) in tick.items()})
            agree(program, judges, f"seed {seed}, tick {tick_index}")
            for output in program.outputs:
                assert changes[output].to_dict() == minus(judges.heads[output], before[output])
