"""Columns in Arrow's layout on a device: what PyArrow's buffers say, whatever their offset, bits and nulls."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_wcoj.arrow import decode, encode
from gpu_wcoj.arrow.read import Buffers, buffers_of, fixed_width, n_bytes, packed, text, unpacked, values_in_use
from gpu_wcoj.arrow.types import type_of
from gpu_wcoj.backend import Backend, select_backend
from gpu_wcoj.data.column import Dictionary
from gpu_wcoj.errors import UnsupportedTypeError
from gpu_wcoj.zset.zset import moved
from tests.shim import available, shim_backend


@pytest.fixture(params=["cpu", "shim"], scope="module")
def place(request) -> Backend:
    if request.param == "cpu":
        return select_backend("cpu")
    if reason := available():
        pytest.skip(reason)
    return shim_backend(seed=1)


def on_device(array: pa.Array, place: Backend) -> Buffers:
    """An Arrow array's buffers, copied as they are; truth values become bytes, as cuDF has them."""
    mask, data = array.buffers()
    if pa.types.is_boolean(array.type):
        bits = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")
        values = bits[: array.offset + len(array)]
    else:
        values = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    bits = None if mask is None else place.asarray(np.frombuffer(mask, np.uint8).copy())
    return Buffers(len(array), array.offset, place.asarray(values.copy()), bits, array.null_count)


VALUES = {
    pa.int8(): [1, -128, 127], pa.int16(): [300, -2], pa.int32(): [2**31 - 1, -5], pa.int64(): [-(2**63), 2**63 - 1],
    pa.uint8(): [255, 0], pa.uint16(): [65535], pa.uint32(): [2**32 - 1], pa.uint64(): [2**63 - 1, 0],
    pa.float32(): [0.5, -0.0, float("inf"), -1.5], pa.float64(): [0.1, -1e300, 5e-324, float("-inf")],
    pa.bool_(): [True, False], pa.date32(): [dt.date(1969, 1, 1), dt.date(2026, 2, 3)],
    pa.timestamp("s"): [dt.datetime(1960, 1, 1)], pa.timestamp("ns"): [dt.datetime(2026, 5, 6, 7, 8, 9)],
    pa.timestamp("us", "UTC"): [dt.datetime(2026, 1, 1, tzinfo=dt.UTC)],
    pa.decimal32(9, 2): [Decimal("-1234567.89"), Decimal("0.01")], pa.decimal64(18, 0): [Decimal(10**18 - 1)],
    pa.decimal128(18, 3): [Decimal("-999999999999999.999"), Decimal(0)], pa.decimal128(38, 0): [Decimal(-5)],
    pa.decimal256(40, 1): [Decimal("-0.5"), Decimal("7.5")],
}  # fmt: skip


@pytest.mark.drawn("kind", "nulls", "begin", "size", each=True)
@pytest.mark.parametrize("kind", VALUES, ids=str)
@pytest.mark.parametrize("nulls", [False, True], ids=["full", "nulls"])
@pytest.mark.parametrize(("begin", "size"), [(0, 40), (1, 8), (7, 20), (8, 9), (13, 0), (0, 0)])
def test_every_type_at_every_offset(place, kind, nulls, begin, size):
    values = (VALUES[kind] * 40)[:40]
    if nulls:
        values = [None if row % 3 == 1 else value for row, value in enumerate(values)]
    array = pa.array(values, kind).slice(begin, size)
    expected = encode(array)
    found = fixed_width(type_of(kind), on_device(array, place), place, "the column")
    assert found.type == expected.type
    assert found.codes.dtype == np.int64
    assert found.codes.tolist() == expected.codes.tolist()
    assert (found.valid is None) == (expected.valid is None)
    if expected.valid is not None:
        assert found.valid.tolist() == expected.valid.tolist()
    again = fixed_width(type_of(kind), buffers_of(moved(expected, place), place), place, "the column")
    assert decode(again).equals(decode(expected))
    assert len(buffers_of(found, place).data) == n_bytes(type_of(kind), size)


def test_int64_is_not_copied(place):
    data = place.asarray(np.arange(10).view(np.uint8))
    found = fixed_width(type_of(pa.int64()), Buffers(4, 2, data, None, 0), place, "the column")
    assert found.codes.tolist() == [2, 3, 4, 5]
    if place.device is not None:
        assert found.stored.data.ptr == data.data.ptr + 16


def test_what_stands_below_a_null_is_not_looked_at(place):
    values = np.array([2**64 - 1, 5], np.uint64).view(np.uint8)
    mask = place.asarray(np.array([0b10], np.uint8))
    found = fixed_width(type_of(pa.uint64()), Buffers(2, 0, place.asarray(values), mask, 1), place, "the column")
    assert (found.codes.tolist(), found.valid.tolist()) == ([0, 5], [False, True])


@pytest.mark.parametrize(
    ("array", "said"),
    [
        (pa.array([1, 2**63], pa.uint64()), r"column 'a': a value is above 2\^63-1.* \(row 1\)"),
        (pa.array([Decimal(10**18)], pa.decimal128(38, 0)), r"more than 18 digits.* \(row 0\)"),
        (pa.array([Decimal(0), Decimal(-(10**30))], pa.decimal128(38, 0)), r"more than 18 digits.* \(row 1\)"),
    ],
)
def test_values_without_a_place(place, array, said):
    with pytest.raises(UnsupportedTypeError, match=said):
        fixed_width(type_of(array.type), on_device(array, place), place, "column 'a'")


@given(st.lists(st.booleans(), max_size=70), st.integers(0, 20))
def test_masks_there_and_back(values, offset):
    mask = packed(np.array([False] * offset + values, bool), np)
    assert len(mask) % 64 == 0
    assert mask.dtype == np.uint8
    assert unpacked(mask, offset, len(values), np).tolist() == values
    if values:
        assert (
            np.packbits([False] * offset + values, bitorder="little").tolist()
            == mask[: (offset + len(values) + 7) // 8].tolist()
        )


@pytest.mark.parametrize("size", [0, 1, 511, 512, 513])
def test_masks_on_a_device(place, size):
    valid = np.arange(size) % 3 > 0
    mask = packed(place.asarray(valid), place.xp)
    assert len(mask) == -(-size // 512) * 64
    assert place.to_host(unpacked(mask, 0, size, place.xp)).tolist() == valid.tolist()


class TestText:
    @pytest.mark.parametrize("nulls", [False, True])
    def test_only_distinct_values_pass_through_the_host(self, place, nulls):
        values = ["b", "a", None if nulls else "c", "b"]
        keys = pa.array(["a", "b", None] if nulls else ["a", "b", "c"])
        dictionary = Dictionary("string")
        dictionary.encode_one("z")
        valid = place.asarray(np.array([True, True, False, True])) if nulls else None
        places = place.asarray(np.array([1, 0, 2, 1], np.int32))
        column = text(type_of(pa.string()), places, keys, valid, dictionary, place)
        assert decode(column).to_pylist() == values
        used, again = values_in_use(column, place)
        assert used.to_pylist() == (["a", "b"] if nulls else ["a", "b", "c"])
        assert place.to_host(again).tolist() == [1, 0, 2, 1]

    @pytest.mark.parametrize("size", [0, 2])
    def test_nothing_and_nothing_but_nulls(self, place, size):
        valid = None if size == 0 else place.asarray(np.zeros(size, bool))
        places = place.asarray(np.zeros(size, np.int32))
        column = text(type_of(pa.string()), places, pa.array([], pa.string()), valid, Dictionary("string"), place)
        assert decode(column).to_pylist() == [None] * size
        used, again = values_in_use(column, place)
        assert (used.to_pylist(), place.to_host(again).tolist()) == ([], [0] * size)
