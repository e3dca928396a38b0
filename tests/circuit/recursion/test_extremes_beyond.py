"""Least and greatest values in a loop whose calculations leave int64: no row comes of them."""

from __future__ import annotations

import pytest

from gpu_wcoj import Program
from gpu_wcoj.errors import CalculationError

MAX_INT64 = 2**63 - 1
LEAST = "d(y, min(c)) :- s(y, c). d(y, min(c + w)) :- d(x, c), e(x, y, w)."
GREATEST = "d(y, max(c)) :- s(y, c). d(y, max(c - w)) :- d(x, c), e(x, y, w)."
GUARDED = LEAST.replace("e(x, y, w).", "e(x, y, w), c + w < 100.")


def tick(program, **changes):
    return program.step(changes)["d"].rows()


@pytest.mark.parametrize("strategy", ["auto", "wcoj", "binary"])
@pytest.mark.parametrize("bag", [False, True])
@pytest.mark.parametrize("text", [LEAST, GREATEST])
def test_a_cycle_that_leaves_int64_undoes_the_tick(text, bag, strategy):
    edges = [(0, 1, MAX_INT64), (1, 0, 2)]
    program = Program(text, bag=bag, strategy=strategy, backend="cpu", threads=1)
    with pytest.raises(CalculationError, match=r"9223372036854775807 [-+] 2 is outside int64"):
        tick(program, s=[(0, 0)], e=edges)
    far = MAX_INT64 if text is LEAST else -MAX_INT64
    assert tick(program, s=[(0, 0)], e=edges[:1]) == [((0, 0), 1), ((1, far), 1)]
    with pytest.raises(CalculationError, match="is outside int64"):
        tick(program, e=edges[1:])
    assert program.relation("d").rows() == [((0, 0), 1), ((1, far), 1)]


@pytest.mark.parametrize("bag", [False, True])
@pytest.mark.parametrize("text", [LEAST, GUARDED])
def test_a_value_that_a_better_one_replaces_fails_nowhere(text, bag):
    program = Program(text, bag=bag, backend="cpu", threads=1)
    changes = tick(program, s=[(0, 0), (1, MAX_INT64)], e=[(0, 1, 3), (1, 2, 5)])
    assert changes == [((0, 0), 1), ((1, 3), 1), ((2, 8), 1)]
    if text is GUARDED:
        gone = [((2, 8), -1), ((1, 3), -1), ((1, MAX_INT64), 1)]
        with pytest.raises(CalculationError):  # what a comparison asks for has no value: it drops nothing
            tick(program, e=[((0, 1, 3), -1)])
        assert sorted(tick(program, e=[((0, 1, 3), -1), ((1, 2, 5), -1)])) == sorted(gone)
