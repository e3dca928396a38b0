"""The algebra of Z-sets against sums in plain Python, and the weights that no int64 holds."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_wcoj.data.column import Column, Dictionary
from gpu_wcoj.data.schema import DataType
from gpu_wcoj.errors import (
    ArityError,
    ColumnError,
    SchemaError,
    TypeMismatchError,
    UsageError,
    WeightOverflowError,
)
from gpu_wcoj.zset import zset as algebra
from gpu_wcoj.zset.zset import ZSet

HIGHEST, LOWEST = 2**63 - 1, -(2**63)
WEIGHTS = st.integers(-3, 3) | st.sampled_from([HIGHEST, LOWEST, 2**62, -(2**62), LOWEST + 1])
ROWS = st.dictionaries(st.tuples(st.integers(0, 3), st.text("ab", max_size=1)), WEIGHTS, max_size=8)


def zset(weights: dict) -> ZSet:
    return ZSet.from_dict(weights) if weights else ZSet.empty(["c0", "c1"], ["int64", "string"])


def fits(weights) -> bool:
    return all(LOWEST <= weight <= HIGHEST for weight in weights.values())


def without_zero(weights) -> dict:
    return {row: weight for row, weight in weights.items() if weight}


def check(make, expected) -> None:
    """Check that `make` returns `expected`, or fails if a weight leaves int64."""
    if fits(expected):
        assert make().to_dict() == without_zero(expected)
    else:
        with pytest.raises(WeightOverflowError, match="is outside int64"):
            make()


def summed(*parts, signs=(1, 1)) -> Counter:
    total: Counter = Counter()
    for part, sign in zip(parts, signs, strict=True):
        for row, weight in part.items():
            total[row] += sign * weight
    return total


@given(ROWS, ROWS)
def test_plus_and_minus_are_exact_or_refused(left, right):
    check(lambda: zset(left) + zset(right), summed(left, right))
    check(lambda: zset(left).plus(zset(right)), summed(left, right))
    check(lambda: zset(left) - zset(right), summed(left, right, signs=(1, -1)))
    check(lambda: zset(left).minus(zset(right)), summed(left, right, signs=(1, -1)))


@given(ROWS, st.integers(-3, 3) | st.sampled_from([HIGHEST, LOWEST, 2**63, 2**64, -(2**70)]))
def test_scale_and_negate_are_exact_or_refused(weights, factor):
    check(lambda: zset(weights) * factor, {row: weight * factor for row, weight in weights.items()})
    check(lambda: factor * zset(weights), {row: weight * factor for row, weight in weights.items()})
    check(lambda: -zset(weights), {row: -weight for row, weight in weights.items()})
    check(lambda: zset(weights).negate(), {row: -weight for row, weight in weights.items()})
    check(lambda: algebra.negate(zset(weights)), {row: -weight for row, weight in weights.items()})


@given(ROWS)
def test_distinct_and_filter(weights):
    rows = without_zero(weights)
    assert zset(weights).distinct().to_dict() == {row: 1 for row, weight in rows.items() if weight > 0}
    expected = {row: weight for row, weight in rows.items() if row[0] > 1 and row[1] == "a"}
    assert zset(weights).filter(lambda number, text: (number > 1) & (text == "a")).to_dict() == expected
    mask = np.array([row[0] > 1 and row[1] == "a" for row, _ in zset(weights)], bool)
    assert zset(weights).filter(mask).to_dict() == expected


@given(st.dictionaries(st.tuples(st.integers(0, 3), st.text("ab", max_size=1)), st.integers(-3, 3), max_size=8))
def test_map_adds_what_becomes_equal(weights):
    expected: Counter = Counter()
    for row, weight in weights.items():
        expected[(row[1],)] += weight
    assert zset(weights).map(["c1"]).to_dict() == without_zero(expected)
    assert zset(weights).map([-1]).to_dict() == without_zero(expected)
    if without_zero(weights):
        assert zset(weights).map(lambda row: (row[1],)).to_dict() == without_zero(expected)


@given(st.lists(ROWS.map(lambda rows: {row: min(max(weight, -9), 9) for row, weight in rows.items()}), max_size=4))
def test_inserting_and_taking_back_leaves_nothing(changes):
    total = ZSet.from_rows([])
    for change in changes:
        total = total + zset(change)
    for change in reversed(changes):
        total = total - zset(change)
    assert len(total) == 0
    assert total == ZSet.from_rows([])


def test_errors_of_zsets_speak_of_no_relation_and_of_no_tick():
    with pytest.raises(WeightOverflowError) as caught:
        -ZSet.from_rows([((1,), LOWEST)])
    assert str(caught.value) == (
        "Z-set, row (1,): its weight 9223372036854775808 is outside int64, -2^63 to 2^63-1.\n  Scale weights down."
    )
    assert caught.value.relation is None
    with pytest.raises(ColumnError, match="^the Z-set has no column 'x'"):
        ZSet.from_rows([(1,)]).map(["x"])


def test_lowest_weights_of_minus():
    assert (ZSet.from_rows([((1,), -1)]) - ZSet.from_rows([((1,), LOWEST)])).to_dict() == {(1,): HIGHEST}
    with pytest.raises(WeightOverflowError, match="row \\(2,\\): its weight 9223372036854775808"):
        ZSet.from_rows([(1,)]) - ZSet.from_rows([((2,), LOWEST)])
    with pytest.raises(WeightOverflowError, match="row \\(2,\\): its weight 9223372036854775808"):
        -ZSet.from_rows([(1,), ((2,), LOWEST)])
    nulls = ZSet.from_rows([((None, 1), LOWEST), ((3, 2), 1)])
    assert (nulls - nulls).to_dict() == {}


def test_factors_at_the_edge_of_int64():
    minus_one = ZSet.from_rows([((1,), -1)])
    assert (minus_one * 2**63).to_dict() == {(1,): LOWEST}
    assert (-minus_one * LOWEST).to_dict() == {(1,): LOWEST}
    assert (minus_one * HIGHEST).to_dict() == {(1,): -HIGHEST}
    assert len(ZSet.empty(["a"]) * 2**99) == 0


def test_results_are_consolidated_and_keep_names():
    left = ZSet.from_rows([(3, "z"), (1, "y")], names=["n", "s"])
    right = ZSet.from_rows([(2, "a"), (1, "y")], names=["x", "y"])
    total = left + right
    assert total.names == ("n", "s")
    assert [row for row, _ in total] == [(1, "y"), (2, "a"), (3, "z")]
    assert (left - right).rows() == [((2, "a"), -1), ((3, "z"), 1)]


def test_dictionaries_of_the_operands_do_not_grow():
    left, right = ZSet.from_rows([("a",)]), ZSet.from_rows([("b",), (None,)])
    total = left + right
    assert total.to_dict() == {("a",): 1, ("b",): 1, (None,): 1}
    assert (len(left.columns[0].dictionary), len(right.columns[0].dictionary)) == (1, 1)
    same = total + total
    assert same.columns[0].dictionary is total.columns[0].dictionary


def test_types_widen_and_others_are_refused():
    narrow = ZSet.from_arrow({"a": pa.array([1, 2], pa.int8())})
    wide = ZSet.from_arrow({"a": pa.array([2, 300], pa.int64())})
    assert (narrow + wide).to_dict() == {(1,): 1, (2,): 2, (300,): 1}
    assert (narrow + wide).columns[0].type.name == "int64"
    seconds = ZSet.from_arrow({"a": pa.array([1], pa.timestamp("s"))})
    millis = ZSet.from_arrow({"a": pa.array([1000], pa.timestamp("ms"))})
    assert len(seconds - millis) == 0
    with pytest.raises(TypeMismatchError, match="column 'a': types 'int8' and 'timestamp\\[s\\]' do not join"):
        narrow + seconds
    with pytest.raises(ArityError, match=r"the wrong number of columns: got 2 \(c0, c1\), expected 1 \(a\)"):
        narrow + ZSet.from_rows([(1, 2)])


def test_a_zset_without_anything_is_neutral():
    some = ZSet.from_rows([(1, "a")], names=["n", "s"])
    assert ZSet.from_rows([]) + some == some
    assert (ZSet.from_rows([]) + some).names == ("n", "s")
    assert some + ZSet.from_rows([]) == some
    assert ZSet.from_rows([]) - some == -some
    assert sum([some, some], start=ZSet.from_rows([])) == some * 2
    nullary = ZSet.from_rows([()])
    assert (nullary + nullary).rows() == [((), 2)]
    with pytest.raises(ArityError, match="the wrong number of columns: got 2 .*, expected 0"):
        nullary + some


def test_other_operands_are_pythons_to_refuse():
    some = ZSet.from_rows([(1,)])
    for operation in (lambda: some + 1, lambda: some - {(1,): 1}, lambda: some * 1.5, lambda: some * some):
        with pytest.raises(TypeError, match="unsupported operand|can't multiply"):
            operation()
    assert some != {(1,): 1}
    with pytest.raises(UsageError, match="factor has the wrong type: got float \\(1.5\\)"):
        some.scale(1.5)
    with pytest.raises(UsageError, match="factor has the wrong type: got bool"):
        some * True
    assert (some * np.int8(2)).rows() == [((1,), 2)]


# equality


def test_equality_looks_at_rows_and_weights_alone():
    some = ZSet.from_rows([("a", 1), ("b", 2)])
    assert some == ZSet.from_rows([("b", 2), ("a", 1)], names=["x", "y"])
    assert some != ZSet.from_rows([("b", 2), (("a", 1), 2)])
    assert some != ZSet.from_rows([("b", 2), ("c", 1)])
    assert some != ZSet.from_rows([("b", 2)])
    assert some != ZSet.from_rows([("b",), ("a",)])
    assert ZSet.from_rows([(1,)]) != ZSet.from_rows([(True,)])
    assert ZSet.from_rows([(0, 1)]) != ZSet.from_rows([(None, 1), ((None, 2), 1), ((3, 1), 1)]).filter(
        [True, False, False]
    )
    assert ZSet.from_rows([(None, 1), (5, 1)]) == ZSet.from_rows([(5, 1), (None, 1)])
    assert ZSet.from_rows([(float("nan"),)]) == ZSet.from_rows([(float("nan"),)])
    assert ZSet.from_arrow({"a": pa.array([1], pa.int8())}) == ZSet.from_rows([(1,)])
    for kind in (pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())):
        assert ZSet.from_arrow({"a": pa.array(["x", "y"]).cast(pa.large_string()).cast(kind)}) == ZSet.from_rows(
            [("y",), ("x",)]
        )


def test_equality_of_decimals_whose_common_type_is_too_long():
    integers = ZSet.from_arrow({"a": pa.array([Decimal(1)], pa.decimal128(18, 0))})
    fraction = ZSet.from_arrow({"a": pa.array([Decimal(1)], pa.decimal128(18, 17))})
    assert integers == fraction
    assert integers != fraction * 2


@given(ROWS, ROWS)
def test_equality_agrees_with_dicts(left, right):
    assert (zset(left) == zset(right)) == (without_zero(left) == without_zero(right))


# filter and map


def test_nulls_in_a_filter_are_false():
    some = ZSet.from_rows([(1, "a"), (None, "b"), (5, None)])
    assert some.filter(lambda n, s: n > 0).to_dict() == {(1, "a"): 1, (5, None): 1}
    assert some.filter(lambda n, s: s < "b").to_dict() == {(1, "a"): 1}
    assert some.filter(lambda n, s: np.ma.getmaskarray(n)).to_dict() == {(None, "b"): 1}


@pytest.mark.parametrize("mask", [[True], [[True, False]], [1, 0], True, "ab", lambda n: n, lambda n: True])
def test_filters_are_masks(mask):
    with pytest.raises(
        UsageError, match=r"the filter has the wrong shape or type: .* expected a boolean mask of shape \(2,\)"
    ):
        ZSet.from_rows([(1,), (2,)]).filter(mask)


def test_map_reorders_renames_and_repeats():
    some = ZSet.from_rows([(1, "a")], names=["n", "s"])
    assert some.map(["s", "n"]).rows() == [(("a", 1), 1)]
    assert some.map(["s", "n"]).names == ("s", "n")
    assert some.map([0, 0], names=["x", "y"]).rows() == [((1, 1), 1)]
    assert some.map([]).rows() == [((), 1)]
    assert some.map(lambda row: (row[0] + 1,), names=["x"]).names == ("x",)


def test_map_refuses_what_it_cannot_do():
    some = ZSet.from_rows([(1, "a")], names=["n", "s"])
    with pytest.raises(ColumnError, match="no column 'x'"):
        some.map(["x"])
    with pytest.raises(ColumnError, match="no column '2'"):
        some.map([2])
    with pytest.raises(UsageError, match=r"Write \['n'\]"):
        some.map("n")
    with pytest.raises(ArityError, match="names have the wrong length: got 1, expected 2"):
        some.map([0, 1], names=["x"])
    with pytest.raises(SchemaError, match="column 'n' is given twice"):
        some.map([0, 0])
    with pytest.raises(
        TypeMismatchError, match=r"for the row \(1, 'a'\) has the wrong type: got int \(1\), expected a tuple"
    ):
        some.map(lambda row: row[0])
    many = ZSet.from_rows([((1, 1), HIGHEST), ((1, 2), 1)])
    with pytest.raises(WeightOverflowError, match=r"row \(1,\): its weight 9223372036854775808"):
        many.map([0])


def test_the_operands_of_every_operation_stay_as_they_are():
    some = ZSet.from_rows([((1, "a"), 2), ((None, "b"), -1)])
    before = some.rows()
    for result in (
        some + some,
        some - some,
        -some,
        some * 3,
        some.distinct(),
        some.map([1]),
        some.filter([True, False]),
    ):
        assert result != some
    assert some.rows() == before


def test_consolidate_reads_any_int64_memory():
    codes = np.arange(10, dtype=np.int64)[::-2]
    frozen = np.array([1, 1, 2], np.int64)
    frozen.flags.writeable = False
    columns, weights = algebra.consolidate([Column.of_integers(codes)], np.ones(5, np.int64))
    assert columns[0].codes.tolist() == [1, 3, 5, 7, 9]
    columns, weights = algebra.consolidate([Column.of_integers(frozen)], frozen)
    assert (columns[0].codes.tolist(), weights.tolist()) == ([1, 2], [2, 2])


def test_nulls_of_text_columns_survive_a_change_of_dictionary():
    empty = Dictionary("string")
    column = Column(DataType("string"), np.zeros(1, np.int64), np.array([False]), empty)
    nulls = ZSet.from_columns(["c0"], [column])
    assert (nulls + ZSet.from_rows([("a",)])).to_dict() == {(None,): 1, ("a",): 1}
    assert nulls.encoded_for(Dictionary("string"), Dictionary("binary"))[0].codes.tolist() == [0]
