"""Pairs of int64, against a set of tuples."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_wcoj.datoms import store as module
from gpu_wcoj.datoms.store import Pairs

NUMBERS = st.sampled_from([-(2**63), -1, 0, 1, 2, 3, 2**63 - 1])
STEPS = st.lists(st.tuples(NUMBERS, NUMBERS, st.booleans()), max_size=60)


@pytest.mark.parametrize("least", [0, 3, 4096])
@given(steps=STEPS, cut=st.integers(1, 20))
def test_pairs_are_a_set(least, steps, cut):
    before, module._MIN_CHANGES = module._MIN_CHANGES, least
    try:
        pairs, expected = Pairs(), set()
        for number, (left, right, present) in enumerate(steps):
            pairs.put(left, right, present)
            (expected.add if present else expected.discard)((left, right))
            assert pairs.has(left, right) == present
            assert sorted(pairs.rights(left)) == sorted(other for one, other in expected if one == left)
            assert len(pairs) == len(expected)
            if number % cut == 0:
                columns = pairs.columns()
                assert list(zip(*(column.tolist() for column in columns), strict=True)) == sorted(expected)
    finally:
        module._MIN_CHANGES = before


def test_merged_leaves_the_pairs_as_they_are():
    pairs = Pairs()
    pairs.put(1, 1, True)
    pairs.columns()
    merged = pairs.merge(np.array([1, 2]), np.array([1, 5]), np.array([-1, 1]))
    assert [column.tolist() for column in merged] == [[2], [5]]
    assert pairs.rights(1) == [1]
    assert pairs.rights(2) == []


def test_changes_are_merged_once_there_are_many(monkeypatch):
    monkeypatch.setattr(module, "_MIN_CHANGES", 10)
    pairs = Pairs()
    for number in range(1000):
        pairs.put(number, 0, True)
    assert pairs.nbytes >= 16 * 800
    assert len(pairs) == 1000
