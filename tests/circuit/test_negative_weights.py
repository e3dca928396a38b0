"""Bags some of whose weights are below 0: what negated atoms see of them, after every tick."""

from __future__ import annotations

import random

import pytest

import gpu_wcoj as gw
from gpu_wcoj.planner.draft import STRATEGIES, Strategy
from tests.reference.fixpoint import fixpoint
from tests.reference.written import written

TEXTS = (
    "h(x) :- v(x), !e(x, _).",
    "h(x, y) :- v(x), v(y), !e(x, _), !e(_, y).",
    "h(x) :- v(x), !e(_, _).",
    "h(x) :- v(x), !e(x, 1).",
    "h(x) :- v(x), !e(x, x).",
    "h(y) :- v(y). h(y) :- h(x), e(x, y), !e(y, _).",
    "h(x) :- v(x), !w(x, _). w(x, y) :- e(x, y), v(y).",
)


def test_what_is_left_open_adds_up():
    program = gw.Program(TEXTS[0], bag=True)
    assert program.step({"v": [(1,)], "e": [((1, 2), 1), ((1, 3), -1)]})["h"].to_dict() == {(1,): 1}
    assert program.step({"e": [((1, 3), 1)]})["h"].to_dict() == {(1,): -1}


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("text", TEXTS)
def test_negation(text: str, strategy: Strategy):
    for seed in range(8):
        chance = random.Random(f"{text} {seed}")
        program = gw.Program(text, bag=True, strategy=strategy)
        state: dict[str, dict[tuple[int, ...], int]] = {"v": {}, "e": {}}
        for _ in range(5):
            changes = {
                name: [
                    (tuple(chance.randrange(3) for _ in range(arity)), chance.choice((-2, -1, 1, 1, 2)))
                    for _ in range(chance.randrange(4))
                ]
                for name, arity in (("v", 1), ("e", 2))
            }
            for name, rows in changes.items():
                for row, weight in rows:
                    state[name][row] = state[name].get(row, 0) + weight
            program.step({name: rows for name, rows in changes.items() if rows})
            given = {name: {row: weight for row, weight in rows.items() if weight} for name, rows in state.items()}
            expected = fixpoint(written(text), given, bag=True)
            assert {name: program.relation(name).to_dict() for name in program.heads} == expected, given
