"""A program of a single tick gives the answers, the types and the errors of a first tick of any program."""

from __future__ import annotations

import random
import re

import pytest

import gpu_wcoj as gw
from gpu_wcoj.query.datalog import parse
from tests.helpers.join_comparison import VALUES, random_text, table
from tests.helpers.join_patterns import PATTERNS

BAGS = pytest.mark.parametrize("bag", [False, True], ids=["set", "bag"])
SEEDS = 6

OPS = ("count()", "sum({})", "min({})", "max({})", "mean({})")
AGGREGATES = {
    "one key": "h(a, OP b) :- t(a, b, _).",
    "two keys": "h(a, c, OP b) :- t(a, b, c).",
    "no key": "h(OP b) :- t(_, b, _).",
    "of a join": "h(a, OP c) :- e(a, b), f(b, c).",
    "of a join that projects": "h(a, OP d) :- e(a, b), f(b, c), t(b, d, _).",
    "where": "h(a, OP c) :- e(a, b), f(b, c), c > 1, a != b.",
    "without some": "h(a, OP b) :- e(a, b), f(b, c), !e(c, a).",
    "of an aggregate": "g(a, sum(b)) :- t(a, b, _). h(b, OP a) :- g(a, b).",
    "beside an aggregate": "g(a, OP b) :- t(a, b, _). h(a, b, c) :- g(a, b), e(b, c). i(a) :- h(a, _, _), !f(a, _).",
    "of a constant": "h(a, OP b) :- t(a, b, 2). i(a, OP b) :- t(a, b, a).",
}


def arities(text):
    rules = parse(text)
    return {name: rules.arity[name] for name in rules.inputs}


def outcome(answer):
    """The tables of an answer, or the error instead."""
    try:
        answers = answer()
    except gw.GpuWcojError as error:
        return type(error), str(error)
    return {name: (zset.to_arrow(), zset.weights.tolist()) for name, zset in answers.items()}


def check(text, changes, bag, threads=1, **options):
    """Compare a single tick with the first tick of a program; return the answers."""
    usual = gw.Program(text, bag=bag, inputs=list(changes), threads=threads, **options)
    single = gw.Program(text, bag=bag, inputs=list(changes), threads=threads, single_tick=True, **options)
    expected, found = outcome(lambda: usual.step(changes)), outcome(lambda: single.answer(changes))
    assert found == expected, text
    return expected


def some_rows(chance, arity, n_values, n_rows, weights=(1,)):
    return [(tuple(chance.choices(VALUES[:n_values], k=arity)), chance.choice(weights)) for _ in range(n_rows)]


def some_changes(chance, inputs):
    """Rows that repeat; in some tables, rows of other weights, and cancelled ones."""
    weights = chance.choice(((1,), (1,), (1, 1, 3), (1, -1), (-2, 0, 1, 2)))
    n_values, n_rows = chance.choice((2, 4, 6)), chance.choice((0, 3, 12, 40))
    made = {}
    for name, arity in inputs.items():
        rows = some_rows(chance, arity, n_values, n_rows, weights)
        way = chance.choice(("list", "table", "zset"))
        made[name] = rows if way == "list" else table(rows, arity)
        if way == "zset":
            made[name] = gw.ZSet.from_arrow(made[name], weight="weight")
    return made


@BAGS
@pytest.mark.parametrize("name", PATTERNS)
def test_patterns(name, bag):
    for seed in range(SEEDS):
        chance = random.Random(seed)
        check(PATTERNS[name], some_changes(chance, arities(PATTERNS[name])), bag)


@BAGS
def test_programs_that_chance_writes(bag):
    for seed in range(150):
        chance = random.Random(seed)
        text = random_text(chance)
        check(text, some_changes(chance, arities(text)), bag, strategy=chance.choice(("auto", "wcoj", "binary")))


def aggregating(name, op):
    """A text of `AGGREGATES` with one of `OPS`."""
    return re.sub(r"OP (\w)", lambda match: op.format(match[1]), AGGREGATES[name])


@BAGS
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("name", AGGREGATES)
def test_aggregates(name, op, bag):
    text = aggregating(name, op)
    for seed in range(SEEDS):
        chance = random.Random(seed)
        check(text, some_changes(chance, arities(text)), bag)
