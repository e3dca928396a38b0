"""Rules with negated atoms and calculations equal brute force after every tick of random scripts."""

from __future__ import annotations

import pytest

import gpu_wcoj as gw

BAGS = pytest.mark.parametrize("bag", [False, True], ids=["set", "bag"])


@pytest.mark.usefixtures("large_ticks")
@BAGS
def test_rows_that_a_negated_relation_gains_and_loses(bag, kind):
    program = gw.Program("h(x, y) :- r(x, y), !n(y), !m(x).", bag=bag, inputs=["r", "n", "m"], backend=kind.backend())
    program.step({"r": [(1, 1), (2, 2), (3, 3)], "n": [(1,)]})
    assert program.step({"n": [((1,), -1), (2,)]})["h"].to_dict() == {(1, 1): 1, (2, 2): -1}
    assert program.step({"n": [((2,), -1), (3,)], "m": [(2,), (3,)]})["h"].to_dict() == {(3, 3): -1}
    counts = program.step_counts({"m": [((2,), -1), (1,)]})["h"]
    assert counts.net == 0
    assert program.relation("h").to_dict() == {(2, 2): 1}


def test_counts_where_a_negated_relation_changes():
    program = gw.Program("h(a, b, c) :- e(a, b), f(b, c), !n(a, b). .output h", threads=1)
    ends = [(0, x) for x in range(2000)]
    program.load({"e": [(x, 0) for x in range(2000)], "f": ends, "n": [(x, 0) for x in range(0, 2000, 2)]})
    assert program.count("h") == 1000 * 2000
    counts = program.step_counts({"e": [(5000, 0)], "n": [(1, 0), ((0, 0), -1)]})["h"]
    assert (counts.inserted, counts.deleted) == (4000, 2000)
