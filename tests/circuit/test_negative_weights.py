"""Bags some of whose weights are below 0: what negated atoms see of them, after every tick."""

from __future__ import annotations

import random
import re

import pytest

import gpu_wcoj as gw
from gpu_wcoj.errors import AggregateOverflowError, NegativeWeightError, TypeMismatchError
from gpu_wcoj.planner.ir import STRATEGIES, Strategy
from tests.helpers.answers import named
from tests.reference.fixpoint import fixpoint
from tests.reference.program_text import written

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


@pytest.mark.drawn("strategy")
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("text", TEXTS)
def test_negation(text: str, strategy: Strategy):
    for seed in range(8):
        chance = random.Random(f"{text} {seed}")
        program = gw.Program(text, bag=True, strategy=strategy, inputs=named(text))
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
            inputs = {name: {row: weight for row, weight in rows.items() if weight} for name, rows in state.items()}
            expected = fixpoint(written(text), inputs, bag=True)
            assert {name: program.relation(name).to_dict() for name in program.heads} == expected, inputs


WEIGHTS = {"names": ["k", "f"]}
REFUSED = [
    ("h(k, min(f)) :- r(k, f).", "min of 'h': the row ('x', 2.5) has the weight -1"),
    ("h(k?, max(f)) :- r(k?, f).", "max of 'h': the row ('x', 2.5) has the weight -1"),
    ("h(k, n) :- r(k, _), n = mean v : { r(k, v) }.", "mean for 'h': the row ('x', 2.5) has the weight -1"),
    ("a(n) :- r(n, _), 1.0 < min v : { r(_, v) }. b(n) :- a(n).", "min for 'a': the row ('x', 2.5) has"),
    ("SELECT k, min(f) AS least FROM r GROUP BY k", "min for 'answer': the row ('x', 2.5) has"),
    ("SELECT k, count(*) AS n FROM r GROUP BY k", "count for 'answer': the row ('x',) has"),
    ("SELECT DISTINCT k FROM r", "distinct rows for 'answer': the row ('x',) has"),
    (
        "CREATE VIEW v AS SELECT DISTINCT k FROM r; CREATE VIEW w AS SELECT k FROM v",
        "distinct rows in the query: the row ('x',)",
    ),
    ("{:find [?k (max ?f)] :where [(r ?k ?f)]}", "max of 'find': the row ('x', 2.5) has"),
]


@pytest.mark.parametrize(("text", "says"), REFUSED)
def test_refusals_show_values_and_what_the_user_has_written(text: str, says: str):
    rows = gw.ZSet.from_rows([(("x", 2.5), -1), ((None, 3.5), 1)], **WEIGHTS)
    with pytest.raises(NegativeWeightError, match=re.escape(says)) as caught:
        gw.query(text, r=rows, bag=True, outputs="w" if "VIEW w" in text else None)
    message = str(caught.value)
    assert "#" not in message
    assert "distinct before" not in message


def test_nulls_and_selected_columns_in_refusals():
    rows = gw.ZSet.from_rows([((None, 7, None, 2.5), -1), (("x", 7, "y", 2.5), 1)])
    with pytest.raises(NegativeWeightError, match=r"min of 'h': the row \(None, 2.5\) has the weight -1"):
        gw.query("h(k?, min(f)) :- r(k?, 7, null, f).", r=rows, bag=True)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("SELECT sum(f) AS s FROM r", "the sum of all rows for 'answer' is"),
        ("SELECT k, sum(f) AS s FROM r GROUP BY k", "the sum of the group ('x',) for 'answer' is"),
        ("h(sum(f)) :- r(_, f).", "the sum of all rows in 'h' is"),
    ],
)
def test_sums_that_leave_int64_are_told_by_what_they_are_for(text: str, says: str):
    with pytest.raises(AggregateOverflowError, match=re.escape(says)):
        gw.view(text, r=gw.ZSet.from_rows([(("x", 2**62), 4)], **WEIGHTS), bag=True)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("h(k) :- r(k, _), k = mean f : { r(_, f) }.", "the mean for 'h' is of type 'double', and joins relation 'r'"),
        ("h(k) :- r(k, _), 1.0 = mean v : { r(v, _) }.", "the mean for 'h' aggregates values of type 'string'"),
    ],
)
def test_types_that_do_not_join_are_told_by_what_they_are_for(text: str, says: str):
    with pytest.raises(TypeMismatchError, match=re.escape(says)):
        gw.query(text, r=[("x", 2.5)])
