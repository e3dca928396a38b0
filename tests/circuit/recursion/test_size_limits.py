"""Recursions that end at a number of rows: their rows are those of the iterations from scratch, after every tick."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

import gpu_wcoj as gw
from gpu_wcoj.errors import DatalogSyntaxError, SchemaError
from gpu_wcoj.query.datalog import parse
from gpu_wcoj.spark.cluster.layout import reason_against

Rows = set[tuple[int, ...]]
State = dict[str, Rows]


def linear(p: Rows, _q: Rows, now: State) -> tuple[Rows, Rows]:
    return now["s"] | {(y,) for (x,) in p for left, y in now["e"] if x == left}, set()


def through_another(p: Rows, q: Rows, now: State) -> tuple[Rows, Rows]:
    step = {(y,) for (x,) in q for left, y in now["e"] if x == left}
    return now["s"] | step, {(x + 1,) for (x,) in p if x % 3}


def of_itself(p: Rows, _q: Rows, now: State) -> tuple[Rows, Rows]:
    return now["e"] | {(a, c) for a, b in p for left, c in p if b == left}, set()


def endless(p: Rows, _q: Rows, now: State) -> tuple[Rows, Rows]:
    return now["s"] | {(x + step,) for (x,) in p for step in (1, 10)}, set()


def guarded(p: Rows, _q: Rows, now: State) -> tuple[Rows, Rows]:
    n_from = {x: len({y for left, y in now["e"] if left == x}) for x, _ in now["e"]}
    step = {(y,) for (x,) in p for left, y in now["e"] if x == left and (y,) not in now["s"] and n_from[x] > 1}
    return now["s"] | step, set()


PROGRAMS: dict[str, Callable[[Rows, Rows, State], tuple[Rows, Rows]]] = {
    "p(x) :- s(x). p(y) :- p(x), e(x, y).": linear,
    "p(x) :- s(x). q(x + 1) :- p(x), x % 3 != 0. p(y) :- q(x), e(x, y).": through_another,
    "p(x, y) :- e(x, y). p(x, z) :- p(x, y), p(y, z).": of_itself,
    "p(x) :- s(x). p(x + 1) :- p(x). p(x + 10) :- p(x).": endless,
    "p(x) :- s(x). p(y) :- p(x), e(x, y), !s(y), n = count : { e(x, _) }, n > 1.": guarded,
}


def iterated(derive: Callable[[Rows, Rows, State], tuple[Rows, Rows]], now: State, n_rows: int) -> Rows:
    """Return the rows of p after the first iteration in which it has that many, or nothing is new."""
    p: Rows = set()
    q: Rows = set()
    while True:
        more_p, more_q = derive(p, q, now)
        if more_p | p == p and more_q | q == q:
            return p
        p, q = p | more_p, q | more_q
        if len(p) >= n_rows:
            return p


@pytest.mark.parametrize("rules", PROGRAMS)
@pytest.mark.parametrize("bag", [False, True])
def test_rows_are_those_of_the_iterations_after_every_tick(rules: str, bag: bool):
    seed = f"limits {rules} {bag}"
    print(f"seed {seed!r}")
    chance = random.Random(seed)
    for n_rows in (1, 4, 12, 40):
        read = "p(x, _)" if "p(x, y)" in rules else "p(x)"
        program = gw.Program(f".limitsize p(n={n_rows})\n{rules}\nh(x) :- {read}, x > 2.\n.output h", bag=bag)
        now: State = {"s": set(), "e": set()}
        for _ in range(8):
            changes: dict[str, list[tuple[tuple[int, ...], int]]] = {"s": [], "e": []}
            for name, width, count in (("s", 1, 1), ("e", 2, 5)):
                for _ in range(chance.randint(0, count)):
                    row = tuple(chance.randrange(9) for _ in range(width))
                    changes[name].append((row, -1 if row in now[name] else 1))
                    now[name] ^= {row}
            program.step({name: rows for name, rows in changes.items() if name in program.inputs})
            expected = iterated(PROGRAMS[rules], now, n_rows)
            assert {row for row, _ in program.relation("p").rows()} == expected
            assert {row for row, _ in program.relation("h").rows()} == {row[:1] for row in expected if row[0] > 2}


def test_a_limit_is_part_of_a_checkpoint(tmp_path: Path):
    text = ".limitsize p(n=3) p(x) :- s(x). p(x + 1) :- p(x). .output p"
    program = gw.Program(text)
    program.step({"s": [(1,)]})
    program.checkpoint(tmp_path / "state")
    restored = gw.Program.restore(tmp_path / "state")
    restored.step({"s": [((1,), -1), (5,)]})
    assert sorted(row for row, _ in restored.relation("p").rows()) == [(5,), (6,), (7,)]


def test_a_limit_stays_when_views_come_and_go():
    connection = gw.connect(s={"x": [1]})
    connection.view(".limitsize p(n=3) p(x) :- s(x). p(x + 1) :- p(x). .output p")
    connection.view("copy(x) :- s(x).")
    connection.drop("copy")
    changes = connection.apply(s=[((1,), -1), (4,)])
    assert sorted(changes["p"].rows()) == [((1,), -1), ((2,), -1), ((3,), -1), ((4,), 1), ((5,), 1), ((6,), 1)]


def test_explain_says_that_a_recursion_ends():
    explained = gw.Program(".limitsize p(n=3) p(x) :- s(x). p(x + 1) :- p(x).").explain()
    assert "the recursion ends when 'p' has 3 rows" in str(explained)


@pytest.mark.parametrize("parameters", ["", "(n=0)", "(n=-1)", "(n=few)", "(m=3)", "(n=3, m=3)"])
def test_a_limit_is_one_number_above_zero(parameters: str):
    with pytest.raises((SchemaError, DatalogSyntaxError), match="line 1, column"):
        gw.Program(f".limitsize p{parameters} p(x) :- s(x). p(x + 1) :- p(x).")


def test_a_limit_cannot_be_spread_over_cells():
    rules = parse(".limitsize p(n=3) p(x) :- s(x). p(x + 1) :- p(x).")
    assert reason_against(rules) == "'.limitsize p(n=3)' counts rows that many cells have"
