"""The Z-set: always consolidated, its weights exact, frozen, and what is in it."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_wcoj.errors import TypeMismatchError, WeightOverflowError
from gpu_wcoj.zset.zset import ZSet

EXTREMES = [-(2**63), -(2**63) + 1, -1, 0, 1, 2**63 - 1]
CELLS = [st.integers(-2, 2) | st.sampled_from(EXTREMES), st.text("ab", max_size=2), st.none() | st.integers(0, 2)]
COLUMNS = [
    *CELLS,
    st.booleans(),
    st.none() | st.binary(max_size=1),
    st.floats(),
    st.dates(),
    st.datetimes(),
    st.none() | st.decimals(-9, 9, places=2),
]


@st.composite
def weighted_rows(draw, weights=(-2, -1, 0, 1, 2)):
    """Pairs (row, weight); the first row has no null, so that every column has a type."""
    chosen = draw(st.lists(st.sampled_from(COLUMNS), min_size=1, max_size=3))
    full = draw(st.tuples(*(cell.filter(lambda value: value is not None) for cell in chosen)))
    rows = draw(st.lists(st.tuples(*chosen), max_size=30))
    return [(row, draw(st.sampled_from(weights))) for row in [full, *rows]]


def hashable(row):
    """The row with every NaN as one value."""
    return tuple("NaN" if value != value else value for value in row)


def summed(pairs):
    total = Counter()
    for row, weight in pairs:
        total[hashable(row)] += weight
    return {row: weight for row, weight in total.items() if weight}


@given(weighted_rows() | weighted_rows([-(2**63), -(2**62), 1, 2**62, 2**63 - 1]))
def test_rows_are_consolidated(pairs):
    expected = summed(pairs)
    if any(not -(2**63) <= weight < 2**63 for weight in expected.values()):
        with pytest.raises(WeightOverflowError, match="is outside int64"):
            ZSet.from_rows(pairs)
        return
    zset = ZSet.from_rows(pairs)
    assert {hashable(row): weight for row, weight in zset.rows()} == expected
    assert len(zset) == len(expected)
    assert zset.weights.dtype == np.int64
    assert zset.weights.all()
    keys = [
        [(column.valid is None or column.valid[row], column.codes[row]) for column in zset.columns]
        for row in range(len(zset))
    ]
    assert keys == sorted(keys)
    assert all(left != right for left, right in pairwise(keys))


@pytest.mark.parametrize("size", [0, 1, 2, 31, 32, 33, 1023, 1024, 1025])
def test_sizes_around_powers_of_two(size):
    random = np.random.default_rng(size)
    rows = random.integers(0, 40, (size, 2))
    weights = random.integers(-2, 3, size)
    zset = ZSet.from_numpy(rows, weights)
    assert zset.to_dict() == summed(zip(map(tuple, rows.tolist()), weights.tolist(), strict=True))
    ones = ZSet.from_numpy(rows)
    assert ones.to_dict() == dict(Counter(map(tuple, rows.tolist())))


@given(weighted_rows())
def test_what_goes_out_comes_in_again(pairs):
    zset = ZSet.from_rows(pairs)
    table = zset.to_arrow()
    for out in (table, table.combine_chunks().to_batches()[:1] or table, zset, table.to_reader()):
        again = ZSet.from_arrow(out[0] if isinstance(out, list) else out, weight="weight")
        assert again == zset
        assert [column.type for column in again.columns] == [column.type for column in zset.columns]
        assert again.names == zset.names


@given(
    st.dictionaries(
        st.tuples(st.integers(), st.text(max_size=2), st.floats()).filter(lambda row: row[2] == row[2]),
        st.integers(-3, 3),
    )
)
def test_dicts_go_both_ways(weights):
    if any(not -(2**63) <= row[0] < 2**63 for row in weights):
        with pytest.raises(TypeMismatchError, match="is outside int64"):
            ZSet.from_dict(weights)
        return
    assert ZSet.from_dict(weights).to_dict() == {row: weight for row, weight in weights.items() if weight}


def test_the_order_is_by_code_with_nulls_first():
    zset = ZSet.from_rows([("b", 2), ("a", None), ("b", None), ("b", -1)])
    assert [row for row, _ in zset] == [("b", None), ("b", -1), ("b", 2), ("a", None)]


def test_importing_a_zset_loads_no_pyarrow():
    code = (
        "import sys; from gpu_wcoj.zset.zset import ZSet; z = ZSet.from_rows([(1, 2), ((2, 3), -1)]);"
        "repr(z + z), z.rows(), z == z.distinct(), -z, z.map(['c1']);"
        "print(sorted({'pyarrow', 'pandas', 'polars'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_weights_are_exact_or_refused():
    highest, lowest = 2**63 - 1, -(2**63)
    with pytest.raises(WeightOverflowError, match=r"row \(1, 'x'\): its weight 9223372036854775808 is outside"):
        ZSet.from_rows([((0, "x"), 5), ((1, "x"), highest), ((1, "x"), 1)])
    with pytest.raises(WeightOverflowError, match="its weight -9223372036854775809"):
        ZSet.from_rows([((1,), lowest), ((1,), -1), ((2,), highest)])
    assert ZSet.from_rows([((1,), highest), ((1,), 1), ((1,), -1)]).to_dict() == {(1,): highest}
    assert ZSet.from_rows([((1,), lowest), ((1,), highest)]).to_dict() == {(1,): -1}


@pytest.mark.parametrize("factor", [1, -1])
def test_a_sum_that_wraps_to_zero_is_refused(factor):
    with pytest.raises(WeightOverflowError, match=f"its weight {factor * 2**64}"):
        ZSet.from_rows([((1,), factor * 2**62)] * 4)


def test_a_zset_is_frozen_and_not_hashable():
    zset = ZSet.from_rows([(1,)])
    with pytest.raises(AttributeError, match="cannot assign"):
        zset.weights = np.array([2])
    with pytest.raises(TypeError, match="unhashable"):
        hash(zset)


def test_rows_and_pairs_are_in_it():
    rows = {(1, "a", 2.5): 2, (1, None, 2.5): -1, (None, "b", 0.0): 1, (2**63 - 1, "a", 2.5): 1}
    zset = ZSet.from_dict(rows)
    for row, weight in rows.items():
        assert row in zset
        assert (row, weight) in zset
        assert (row, weight + 1) not in zset
    assert all(pair in zset for pair in zset)
    absent = [
        (0, "b", 0.0),
        (1, "a", 2.0),
        (1, "a"),
        (2**63, "a", 2.5),
        ("1", "a", 2.5),
        (),
        1,
        "a",
        [1, "a", 2.5],
        None,
    ]
    assert not any(row in zset for row in absent)
    assert (1,) not in ZSet.empty(["a"])
    assert (1,) not in ZSet.empty()
    nothing = ZSet.from_rows([(), ()])
    assert () in nothing
    assert ((), 2) in nothing
    assert ((), 1) not in nothing
    assert ((1, 2), 1) in ZSet.from_rows([(1, 2)])
