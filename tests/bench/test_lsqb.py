"""LSQB's benchmark: what it says of ticks beside counts of the same state."""

from __future__ import annotations

import pytest

from bench.lsqb.reached import TIMES, Reached


def test_ticks_that_reach_it_are_counted():
    found = Reached.of([1.0] * 6, [1.0, 5.0, 4.9, 6.0, 7.0, 8.0])
    assert (found.ticks, found.enough, found.first, found.lasting) == (6, 4, 2, 4)
    assert (found.least, found.median, found.most) == (1.0, 5.5, 8.0)
    assert str(found) == (
        "4 of 6 ticks (67 %) at 5 times or more, the first is tick 2, all from tick 4 on; 1.0 to 8.0, median 5.5"
    )


@pytest.mark.parametrize(("last", "lasting"), [(TIMES, 1), (1.0, None)])
def test_the_last_tick_decides_whether_it_lasts(last, lasting):
    found = Reached.of([0.5, 0.5, 1.0], [TIMES, TIMES, last])
    assert (found.first, found.lasting) == (1, lasting)


def test_none_reaches_it():
    found = Reached.of([2.0, 2.0], [1.0, 3.0])
    assert (found.enough, found.first, found.lasting) == (0, None, None)
    assert str(found) == "0 of 2 ticks (0 %) at 5 times or more; 0.5 to 1.5, median 1.0"
