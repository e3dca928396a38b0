"""Recursive heads whose recursive rules never hold, or not yet; in bags they are sets too."""

from __future__ import annotations

import pytest

import gpu_wcoj as gw
from tests.helpers.recursive_programs import IDLE as TEXTS


def test_a_null_that_turns_up():
    text = "w(x) :- r(x, y). w(z) :- w(x), t(x, z, null). v(x) :- w(x), r(x, _). .output w .output v"
    program = gw.Program(text, bag=True)
    changes = program.step({"r": [(1, 2), (1, 3), (2, 2)], "t": [(1, 5, 8)]})
    assert changes["w"].to_dict() == {(1,): 1, (2,): 1}
    assert changes["v"].to_dict() == {(1,): 2, (2,): 1}
    changes = program.step({"t": [(2, 7, None)]})
    assert changes["w"].to_dict() == {(7,): 1}
    assert changes["v"].to_dict() == {}
    assert program.relation("w").to_dict() == {(1,): 1, (2,): 1, (7,): 1}
    assert program.relation("v").to_dict() == {(1,): 2, (2,): 1}


@pytest.mark.parametrize(
    "condition", ["FALSE", "w.x = NULL", "w.x > 5 AND w.x < 3", "w.x = 1 AND w.x = 2", "w.x IN (NULL)"]
)
def test_in_sql(condition: str):
    text = f"WITH RECURSIVE w(x) AS (SELECT a FROM r UNION SELECT w.x FROM w WHERE {condition}) SELECT x FROM w"
    view = gw.view(text, r={"a": [1, 1, 2]})
    assert view.snapshot().rows() == [(1,), (2,)]
    assert view.apply(r={"a": [1], "weight": [-1]}).to_dict() == {}
    assert view.apply(r={"a": [1], "weight": [-1]}).to_dict() == {(1,): -1}


@pytest.mark.parametrize("bag", [False, True], ids=["set", "bag"])
def test_it_is_a_loop_in_bags_alone(bag: bool):
    for text in (TEXTS["a comparison of constants"], TEXTS["a null that may turn up"], TEXTS["a renaming"]):
        assert bool(gw.Program(text, bag=bag)._planned().loops) == bag
