"""The border: every type goes in and comes out as it was; what has no place is refused by name and value."""

from __future__ import annotations

import datetime as dt
import decimal
import re
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from gpu_wcoj.arrow import (
    as_table,
    decode,
    encode,
    encode_numpy,
    to_numpy,
    to_pyarrow,
    to_python,
    to_text,
    type_of,
)
from gpu_wcoj.data.column import Column, Dictionary, float_codes, floats_of, without_zero_signs
from gpu_wcoj.data.schema import DataType, casts_to_views
from gpu_wcoj.errors import TypeMismatchError, UnsupportedTypeError

INTEGERS = [getattr(pa, f"{sign}int{bits}")() for sign in ("", "u") for bits in (8, 16, 32, 64)]
TIMESTAMPS = [pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in (None, "UTC", "Europe/Rome")]
DECIMALS = [pa.decimal32(9, 2), pa.decimal64(18, 4), pa.decimal128(18, 0), pa.decimal128(5, -2), pa.decimal256(18, 18)]
WIDE_DECIMALS = [pa.decimal128(38, 2), pa.decimal256(76, 0)]
HAS_VIEWS = casts_to_views(pa.__version__)
"""Whether results have views of text; they are large strings otherwise."""
TEXTS = [pa.string(), pa.large_string(), *[pa.string_view()] * HAS_VIEWS]
BYTES = [pa.binary(), pa.large_binary(), *[pa.binary_view()] * HAS_VIEWS]
PLAIN = [
    *(*INTEGERS, pa.bool_(), pa.float32(), pa.float64(), pa.date32(), pa.date64(), *TIMESTAMPS),
    *(*DECIMALS, *WIDE_DECIMALS, *TEXTS, *BYTES),
]
INDICES = [pa.int8(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16()]


def values_of(kind: pa.DataType) -> st.SearchStrategy[object]:
    """Values of a type as what builds them: integers of the storage, or Python values."""
    if kind in TEXTS:
        return st.text(max_size=3)
    if kind in BYTES:
        return st.binary(max_size=3)
    if pa.types.is_boolean(kind):
        return st.booleans()
    if pa.types.is_floating(kind):
        return st.floats(width=kind.bit_width)
    low, high = DataType(str(kind)).code_range
    if kind == pa.date64():
        return st.integers(low // 86_400_000 + 1, high // 86_400_000 - 1)
    return st.integers(low, high) | st.sampled_from([low, high, 0])


def built(values: list[object], kind: pa.DataType) -> pa.Array:
    if kind == pa.date64():
        return pa.array([None if v is None else v * 86_400_000 for v in values], pa.int64()).view(kind)
    if pa.types.is_temporal(kind):
        return pa.array(values, pa.int32() if kind.bit_width == 32 else pa.int64()).view(kind)
    if pa.types.is_decimal(kind):
        with decimal.localcontext(prec=100):
            return pa.array([None if v is None else Decimal(v).scaleb(-kind.scale) for v in values], kind)
    return pa.array(values, kind)


@st.composite
def arrays(draw, kinds=tuple(PLAIN)):
    kind = draw(st.sampled_from(kinds))
    values = draw(st.lists(values_of(kind) | st.none(), max_size=12))
    array = built(values, kind)
    start = draw(st.integers(0, len(array)))
    return array[start:]


@st.composite
def categories(draw):
    values = draw(arrays())
    index = draw(st.sampled_from(INDICES))
    places = st.none() | st.integers(0, len(values) - 1) if len(values) else st.none()
    indices = pa.array(draw(st.lists(places, max_size=12)), index)
    return pa.DictionaryArray.from_arrays(indices, values)[draw(st.integers(0, len(indices))) :]


def same(left: pa.Array, right: pa.Array) -> bool:
    """Whether type and values agree, where every NaN is one value and zero has no sign."""
    if left.type != right.type or len(left) != len(right):
        return False
    if pa.types.is_dictionary(left.type):
        plain = left.type.value_type
        views = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
        target = views.get(plain, plain)
        return same(
            *(
                pa.DictionaryArray.from_arrays(side.indices, side.dictionary.cast(target)).dictionary_decode()
                for side in (left, right)
            )
        )
    if pa.types.is_floating(left.type):
        return repr(left.to_pylist()) == repr(right.to_pylist())
    return left.equals(right)


@given(arrays() | categories())
def test_what_goes_in_comes_out_as_the_same_type(array):
    # Before views were safe, PyArrow took a null of the dictionary for a value.
    assume(HAS_VIEWS or not pa.types.is_dictionary(array.type) or not array.dictionary.null_count)
    column = encode(array)
    assert column.codes.dtype == np.int64
    assert column.type.name == str(array.type)
    assert (
        np.ones(len(array), bool) if column.valid is None else column.valid
    ).tolist() == array.is_valid().to_pylist()
    if column.valid is not None:
        assert not column.codes[~column.valid].any()
    out = decode(column)
    out.validate(full=True)
    assert same(out, array)


@given(arrays(), st.integers(0, 12))
def test_chunks_are_one_column(array, cut):
    chunks = pa.chunked_array([array[:cut], array[cut:]], array.type)
    assert same(decode(encode(chunks)), array)
    assert same(decode(encode(pa.chunked_array([array]))), array)


@pytest.mark.parametrize("kind", PLAIN, ids=str)
def test_empty_and_all_null_columns_of_every_type(kind):
    for array in (pa.array([], kind), pa.nulls(3, kind), pa.chunked_array([], kind)):
        out = decode(encode(array))
        assert out.type == kind
        assert out.to_pylist() == array.to_pylist()
        assert len(to_numpy(encode(array))) == len(array)
        assert to_python(encode(array)) == array.to_pylist()


@pytest.mark.parametrize("kind", PLAIN, ids=str)
def test_type_names_go_both_ways(kind):
    assert to_pyarrow(type_of(kind)) == kind
    category = pa.dictionary(pa.int16(), kind)
    assert to_pyarrow(type_of(category)) == category
    assert type_of(category).family == type_of(kind).family


def test_integers_are_not_copied():
    array = pa.array(np.arange(2_000_000))
    codes = encode(array).codes
    assert codes.__array_interface__["data"][0] == array.buffers()[1].address
    _, columns = as_table(pa.record_batch({"a": array, "b": array}))
    assert all(np.shares_memory(column.codes, codes) for column in columns)


def test_numpy_arrays_are_copied():
    mutable = np.arange(4)
    _, columns = as_table({"a": mutable})
    mutable[:] = 7
    assert columns[0].codes.tolist() == [0, 1, 2, 3]
    wide = np.zeros((2, 2), np.int64)
    column = as_table(wide)[1][0]
    wide[:] = 5
    assert column.codes.tolist() == [0, 0]


@given(st.lists(st.floats(), min_size=2, max_size=2) | st.lists(st.floats(width=32), min_size=2, max_size=2))
@example([float("nan"), float("inf")])
@example([-0.0, 0.0])
@example([5e-324, -5e-324])
def test_float_codes_order_as_floats_do(pair):
    for kind in (np.float64, np.float32):
        with np.errstate(over="ignore"):
            a, b = np.array(pair, kind)
        left, right = float_codes(np.array([a, b])).tolist()
        if np.isnan(a) or np.isnan(b):
            assert (left < right, left == right) == (not np.isnan(a), np.isnan(a) and np.isnan(b))
        else:
            assert (left < right, left == right) == (
                (a, not np.signbit(a)) < (b, not np.signbit(b)), (a == b) and np.signbit(a) == np.signbit(b)
            )  # fmt: skip
            left, right = without_zero_signs(np.array([left, right])).tolist()
            assert (left < right, left == right) == (a < b, a == b)
        again = floats_of(np.array([left]), np.dtype(kind).itemsize)
        assert again.dtype == kind
        assert again[0] == a or np.isnan(a)


def test_every_nan_is_one_value():
    bits = np.array([0x7FF8000000000000, 0xFFF8000000000001, 0x7FF0000000000001], np.uint64)
    assert len(set(float_codes(bits.view(np.float64)).tolist())) == 1


# dictionaries


def test_columns_of_a_table_share_their_dictionary():
    _, (a, b) = as_table({"a": ["x", "y"], "b": ["y", "z"]})
    assert a.dictionary is b.dictionary
    assert b.codes.tolist() == [1, 2]


def test_given_dictionaries_are_used_also_when_empty():
    string, binary = Dictionary("string"), Dictionary("binary")
    _, (a, b) = as_table({"a": ["x"], "b": [b"x"]}, string=string, binary=binary)
    assert (a.dictionary, b.dictionary) == (string, binary)
    encode(pa.chunked_array([["p"], ["q"]]), string=string)
    assert [string.find(text) for text in "xpq"] == [0, 1, 2]


def test_only_the_categories_in_use_get_codes():
    string = Dictionary("string")
    values = pa.array([f"v{i}" for i in range(10_000)])
    column = encode(pa.DictionaryArray.from_arrays(pa.array([9_999, 5, 9_999]), values), string=string)
    assert len(string) == 2
    assert to_python(column) == ["v9999", "v5", "v9999"]


def test_a_null_among_the_categories_is_a_null():
    column = encode(pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 0]), pa.array([None, "x"])))
    assert column.valid.tolist() == [False, True, False, False]


def test_indices_widen_where_too_many_values_are_in_use():
    column = encode(pa.DictionaryArray.from_arrays(pa.array(range(100), pa.int8()), pa.array(range(100))))
    for n, width in ((128, pa.int8()), (129, pa.int16()), (200, pa.int16()), (1000, pa.int16())):
        joined = Column(column.type, np.arange(n), None, None)
        assert decode(joined).type == pa.dictionary(width, pa.int64())
        assert to_python(joined) == list(range(n))
    assert decode(column).type == pa.dictionary(pa.int8(), pa.int64())


def test_damaged_categories_are_refused():
    damaged = pa.DictionaryArray.from_arrays(pa.array([0, 5]), pa.array(["x"]), safe=False)
    with pytest.raises(UnsupportedTypeError, match="an index is outside the dictionary"):
        encode(damaged)


# what is refused


@pytest.mark.parametrize(
    "kind",
    [
        *(pa.float16(), pa.list_(pa.float16()), pa.struct({"a": pa.int64(), "b": pa.bool8()})),
        pa.sparse_union([pa.field("a", pa.int64())]),
        pa.dictionary(pa.int8(), pa.string(), ordered=True),
    ],
    ids=str,
)
def test_types_without_a_place_are_refused_by_name(kind):
    with pytest.raises(UnsupportedTypeError, match=re.escape(f"type '{kind}' is not supported")):
        type_of(kind)
    if not pa.types.is_dictionary(kind):
        with pytest.raises(UnsupportedTypeError, match="the data, column 'a'"):
            as_table(pa.table({"a": pa.nulls(1, kind)}))


def test_values_without_a_place_are_refused_by_value():
    assert encode(pa.array([2**63 - 1, None], pa.uint64())).codes.tolist() == [2**63 - 1, 0]
    with decimal.localcontext(prec=100):
        for value in (10**38, -(10**40)):
            with pytest.raises(UnsupportedTypeError, match=rf"{value} \(row 0\) of type .* has more than 38 digits"):
                encode(pa.array([Decimal(value), Decimal(1)], pa.decimal256(60, 0)))
    too_long = pa.array([12345], pa.int32()).view(pa.decimal32(4, 0))
    with pytest.raises(UnsupportedTypeError, match="than its type"):
        encode(too_long)
    with pytest.raises(UnsupportedTypeError, match="is not a whole day"):
        encode(pa.array([1], pa.int64()).view(pa.date64()))


def test_a_column_of_nulls_alone_needs_a_type():
    with pytest.raises(UnsupportedTypeError, match="column 'a' holds nothing but nulls"):
        as_table({"a": [None, None]})
    _, (column,) = as_table({"a": [None, None]}, types=[DataType("string")])
    assert decode(column).equals(pa.nulls(2, pa.string()))
    _, (column,) = as_table({"a": []})
    assert column.type.name == "int64"


# types asked for


def test_columns_become_the_type_that_is_asked_for():
    _, columns = as_table({"a": [1, 2], "b": ["x", "y"]}, types=[DataType("int8"), DataType("large_string")])
    assert [column.type.name for column in columns] == ["int8", "large_string"]
    with pytest.raises(TypeMismatchError, match=r"column 'a': the value 300 .* is not a value of type 'int8'"):
        as_table({"a": [1, 300]}, types=[DataType("int8")])
    with pytest.raises(TypeMismatchError, match="has the wrong type: got 'int64', expected 'double'"):
        as_table({"a": [1]}, types=[DataType("double")])


CONVERSIONS = [
    ("int64", "uint8", [0, 255], [0, 255], [256, -1]),
    ("int64", "uint64", [0, 2**63 - 1], [0, 2**63 - 1], [-1]),
    ("int8", "int64", [-128], [-128], []),
    ("timestamp[s]", "timestamp[ns]", [-2], [-2_000_000_000], [9_223_372_037, -9_223_372_037]),
    ("timestamp[ns, tz=UTC]", "timestamp[s, tz=UTC]", [-2_000_000_000], [-2], [1]),
    ("date32[day]", "date64[ms]", [-1, 2**31 - 1], [-86_400_000, (2**31 - 1) * 86_400_000], []),
    ("date64[ms]", "date32[day]", [-86_400_000], [-1], [86_400_000 * 2**31]),
    ("decimal128(5, 2)", "decimal64(9, 4)", [-150], [-15000], []),
    ("decimal128(9, 4)", "decimal128(5, 2)", [15000], [150], [15001, 10_000_000]),
    ("decimal128(18, 0)", "decimal128(18, 18)", [0], [0], [1, -1]),
    ("decimal128(38, 30)", "decimal128(5, -2)", [0], [0], [1]),
    ("dictionary<values=int8, indices=int8, ordered=0>", "int16", [5], [5], []),
    ("string", "dictionary<values=string_view, indices=uint32, ordered=0>", [0], [0], []),
]


@pytest.mark.parametrize(("source", "target", "codes", "expected", "refused"), CONVERSIONS)
def test_conversions_are_exact_or_refused(source, target, codes, expected, refused):
    assert Column(DataType(source), np.array(codes)).as_type(DataType(target)).codes.tolist() == expected
    for value in refused:
        with pytest.raises(TypeMismatchError, match=f"the value {value} .* is not a value of type"):
            Column(DataType(source), np.array([*codes, value])).as_type(DataType(target))


@given(arrays())
def test_to_numpy_goes_back_in(array):
    column = encode(array)
    if pa.types.is_timestamp(array.type) and -(2**63) in column.codes:
        with pytest.raises(UnsupportedTypeError, match="which is NaT in"):
            to_numpy(column)
        return
    values = to_numpy(column)
    assert np.ma.isMaskedArray(values) == (array.null_count > 0)
    if values.dtype == object:
        assert values.tolist() == array.to_pylist()
        return
    again = encode_numpy(values)
    assert again.codes.tolist() == column.codes.tolist()
    assert (again.valid is None) == (column.valid is None)
    assert again.valid is None or again.valid.tolist() == column.valid.tolist()
    kind = array.type
    if pa.types.is_timestamp(kind) or kind == pa.date64():  # NumPy knows no zones, and has one type for all times
        kind = pa.timestamp("ms" if kind == pa.date64() else kind.unit)
    assert again.type == type_of(kind)


# times that Python cannot hold


def test_times_beyond_python_are_refused_not_cut():
    for kind, value in (
        ("timestamp[ns]", 1),
        ("timestamp[s]", 10**15),
        ("timestamp[us, tz=UTC]", -(2**62)),
        ("date32[day]", 2**31 - 1),
    ):
        with pytest.raises(UnsupportedTypeError, match="a time that Python's datetime cannot"):
            to_python(Column(DataType(kind), np.array([value])))
    assert to_python(Column(DataType("timestamp[ns]"), np.array([5000]))) == [dt.datetime(1970, 1, 1, 0, 0, 0, 5)]


@given(arrays())
def test_every_value_has_a_text(array):
    texts = to_text(encode(array))
    assert len(texts) == len(array)
    assert all(text == "null" for text, valid in zip(texts, array.is_valid().to_pylist(), strict=True) if not valid)
    if array.type in TEXTS:
        assert [text for text in texts if text != "null"] == [
            text for text in array.to_pylist() if text not in (None, "null")
        ]
