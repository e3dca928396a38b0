"""Types: which of them join, into what they widen, and what their codes reach."""

from __future__ import annotations

import numpy as np
import pytest

from gpu_wcoj.data.column import Column
from gpu_wcoj.data.schema import DataType
from gpu_wcoj.errors import TypeMismatchError

CATEGORY = "dictionary<values={}, indices=int8, ordered=0>"
COMMON = [
    ("int8", "int64", "int64"),
    ("uint8", "uint32", "uint32"),
    ("int32", "uint16", "int32"),
    ("int8", "uint8", "int16"),
    ("int8", "uint64", "int64"),
    ("timestamp[s]", "timestamp[ns]", "timestamp[ns]"),
    ("timestamp[s, tz=UTC]", "timestamp[us, tz=Europe/Rome]", "timestamp[us, tz=Europe/Rome]"),
    ("date32[day]", "date64[ms]", "date64[ms]"),
    ("date32[day]", "timestamp[s]", "timestamp[s]"),
    ("date64[ms]", "timestamp[us]", "timestamp[us]"),
    ("date64[ms]", "timestamp[s]", "timestamp[ms]"),
    ("decimal128(5, 2)", "decimal64(6, 0)", "decimal128(8, 2)"),
    ("string", "string_view", "large_string"),
    ("binary", "large_binary", "large_binary"),
    (CATEGORY.format("string"), "string", "string"),
    (CATEGORY.format("int8"), "int32", "int32"),
    (CATEGORY.format("timestamp[s]"), "timestamp[ms]", "timestamp[ms]"),
    (CATEGORY.format("string"), "dictionary<values=string, indices=int32, ordered=0>", "string"),
]


@pytest.mark.parametrize(("left", "right", "common"), COMMON)
def test_common_types(left, right, common):
    assert DataType(left).common(DataType(right)).name == common
    assert DataType(right).common(DataType(left)).name == common
    assert DataType(left).common(DataType(left)).name == left


@pytest.mark.parametrize(("left", "right", "common"), COMMON)
def test_codes_of_both_become_codes_of_the_common_type(left, right, common):
    for source in (left, right):
        factor = DataType(source).factor_to(DataType(common))
        assert Column(DataType(source), np.array([0, 5])).as_type(DataType(common)).codes.tolist() == [0, 5 * factor]


def test_types_of_different_families_do_not_join():
    for left, right in (
        ("int64", "double"),
        ("float", "double"),
        ("bool", "int8"),
        ("string", "binary"),
        ("date32[day]", "timestamp[s, tz=UTC]"),
        ("timestamp[s]", "timestamp[s, tz=UTC]"),
    ):
        with pytest.raises(TypeMismatchError, match="do not join"):
            DataType(left).common(DataType(right))
    with pytest.raises(TypeMismatchError, match="has too many digits: got 39, expected at most 38"):
        DataType("decimal128(37, 0)").common(DataType("decimal128(5, 2)"))
    with pytest.raises(TypeMismatchError, match="type 'half' is not supported"):
        DataType("half").common(DataType("int8"))


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("int8", -128, 127),
        ("uint64", 0, 2**63 - 1),
        ("bool", 0, 1),
        ("date32[day]", -(2**31), 2**31 - 1),
        ("decimal64(3, 1)", -999, 999),
        ("decimal256(76, 0)", 1 - 10**18, 10**18 - 1),
        ("timestamp[ns]", -(2**63), 2**63 - 1),
        (CATEGORY.format("int16"), -(2**15), 2**15 - 1),
    ],
)
def test_code_ranges(name, low, high):
    assert DataType(name).code_range == (low, high)


def test_a_mask_without_nulls_is_no_mask():
    column = Column(DataType("int64"), np.array([1, 0, 3]), np.array([True, False, True]))
    assert column.gather(slice(0, 1)).valid is None
    assert column.gather(np.array([1])).valid.tolist() == [False]
    assert column.gather(np.array([True, False, True])).valid is None
