"""Tables in: what other libraries, NumPy and plain Python hand over, and what of it is refused."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from gpu_wcoj.arrow import as_table, encode_numpy, encode_values, to_python
from gpu_wcoj.data.schema import INT64, DataType
from gpu_wcoj.errors import SchemaError, TypeMismatchError, UnsupportedTypeError

# tables of other libraries


def frames() -> dict[str, object]:
    table = pa.table({"a": [1, 2], "b": ["x", None]})
    return {
        "table": table,
        "batch": table.to_batches()[0],
        "reader": table.to_reader(),
        "polars": pl.DataFrame(table),
        "pandas": table.to_pandas(),
        "duckdb": duckdb.connect().sql("select * from (values (1::bigint, 'x'), (2, null)) t(a, b)"),
        "struct": pa.array([{"a": 1, "b": "x"}, {"a": 2, "b": None}]),
        "dict": {"a": [1, 2], "b": pa.array(["x", None])},
        "series": {"a": pl.Series([1, 2]), "b": pd.Series(["x", None])},
        "lists": {"a": np.array([1, 2]), "b": iter(["x", None])},
    }


def test_every_table_is_read():
    for name, frame in frames().items():
        names, columns = as_table(frame)
        assert names == ("a", "b"), name
        assert [to_python(column) for column in columns] == [[1, 2], ["x", None]], name


def test_the_labels_of_pandas_are_left_out_unless_they_carry_values():
    frame = pd.DataFrame({"a": [1, 2, 3], "b": [4, 5, 6]})
    for same_rows in (frame[frame.a != 2], frame.sort_values("b", ascending=False), frame[1:]):
        assert as_table(same_rows)[0] == ("a", "b")
        assert as_table(pa.Table.from_pandas(same_rows))[0] == ("a", "b")
    for labels in (["x", "y", "z"], [1.5, 2.5, 3.5]):
        with pytest.raises(SchemaError, match="has an index .* without a name"):
            as_table(frame.set_index(pd.Index(labels)))
    with pytest.raises(SchemaError, match=r"an index \(int64, int64\) without a name"):
        as_table(frame.set_index(pd.MultiIndex.from_tuples([(1, 2), (1, 3), (2, 1)])))
    names, columns = as_table(frame.set_index(pd.Index(["x", "y", "z"], name="key")))
    assert names == ("a", "b", "key")
    names, columns = as_table(frame.set_index("a"))
    assert (names, columns[1].codes.tolist()) == (("b", "a"), [1, 2, 3])
    assert as_table(frame.rename_axis("row"))[0] == ("a", "b", "row")


def test_a_column_that_only_looks_like_an_index_stays():
    table = pa.table({"__index_level_0__": [1]})
    assert as_table(table)[0] == ("__index_level_0__",)
    for metadata in (
        b"",
        b"{",
        b"[]",
        b"{}",
        b"5",
        b"\xff",
        b'{"index_columns": 5}',
        b'{"index_columns": [5, null, {}]}',
    ):
        assert as_table(table.replace_schema_metadata({b"pandas": metadata}))[0] == ("__index_level_0__",)


def test_one_array_is_one_column():
    for array in (
        pa.array([1, 2]),
        pa.chunked_array([[1], [2]]),
        pl.Series([1, 2]),
        pd.Series([1, 2]),
        np.array([1, 2]),
    ):
        names, (column,) = as_table(array)
        assert (names, column.codes.tolist()) == (("c0",), [1, 2])


# NumPy


NUMPY = [
    (np.array([1, 2], ">i8"), "int64", [1, 2]),
    (np.array([1, 2], np.uint8), "uint8", [1, 2]),
    (np.array([True, False]), "bool", [True, False]),
    (np.array([1.5, np.nan], np.float32), "float", None),
    (np.array(["x", "yé"]), "string", ["x", "yé"]),
    (np.array([b"x", b"y\0z"]), "binary", [b"x", b"y\0z"]),
    (np.array(["x\0y"]), "string", ["x\0y"]),
    (np.array(["x", None], object), "string", ["x", None]),
    (np.array(["2020-01-01", "NaT"], "M8[D]"), "date32[day]", [dt.date(2020, 1, 1), None]),
    (np.array([5, 6], "M8[us]"), "timestamp[us]", None),
    (np.ma.masked_array([1, 2], [True, False]), "int64", [None, 2]),
    (np.ma.masked_array(["x", "y"], [True, False], object), "string", [None, "y"]),
    (np.arange(10)[::2], "int64", [0, 2, 4, 6, 8]),
]
if hasattr(np.dtypes, "StringDType"):  # from NumPy 2 on
    NUMPY.append((np.array(["x", "y"], np.dtypes.StringDType()), "string", ["x", "y"]))


@pytest.mark.parametrize(("array", "kind", "expected"), NUMPY, ids=lambda value: getattr(value, "dtype", None))
def test_numpy_arrays_of_every_kind(array, kind, expected):
    column = encode_numpy(array)
    assert column.type.name == kind
    if expected is not None:
        assert to_python(column) == expected


def test_structured_and_plain_arrays():
    names, columns = as_table(np.array([(1, 2.5)], [("src", "i4"), ("w", "f8")]))
    assert names == ("src", "w")
    assert [column.type.name for column in columns] == ["int32", "double"]
    names, columns = as_table(np.array([[1, 2], [3, 4], [5, 6]]))
    assert names == ("c0", "c1")
    assert columns[1].codes.tolist() == [2, 4, 6]


# Python values


def test_python_values_keep_their_type():
    zone = dt.UTC
    rows = [
        (1, 1.5, "x", b"x", True, dt.date(2020, 1, 1), dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 1, tzinfo=zone)),
        (None,) * 8,
    ]
    names, columns = as_table(rows)
    assert names == tuple(f"c{i}" for i in range(8))
    assert [column.type.name for column in columns] == [
        *("int64", "double", "string", "binary", "bool", "date32[day]", "timestamp[us]", "timestamp[us, tz=UTC]")
    ]
    assert list(zip(*map(to_python, columns), strict=True)) == rows
    assert to_python(encode_values([Decimal("1.50"), Decimal(3)])) == [Decimal("1.50"), Decimal("3.00")]


def test_numpy_scalars_count_as_python_values():
    column = encode_values([np.int32(1), 2, np.int64(3)])
    assert (column.type.name, column.codes.tolist()) == ("int64", [1, 2, 3])
    assert encode_values([np.float32(1.5), 2.5]).type.name == "double"
    assert to_python(encode_values([np.datetime64("2020-01-01"), None])) == [dt.date(2020, 1, 1), None]


@pytest.mark.parametrize("integers", [[-1, 2**63], [1, -(2**63) - 1], [None, 10**30]])
def test_integers_outside_int64_are_refused_by_value(integers):
    with pytest.raises(TypeMismatchError, match=rf"the value {integers[1]} \(row 1\) is outside int64"):
        as_table([(value,) for value in integers])
    with pytest.raises(TypeMismatchError, match=rf"the value {integers[1]} \(row 1\) is outside int64"):
        as_table({"a": integers})


@pytest.mark.parametrize(
    "value", [(1,), {1}, 1j, object(), pd.Timestamp("2020"), pd.NaT, pd.Timedelta(1), np.float16(1)]
)
def test_python_values_without_a_place_are_refused(value):
    with pytest.raises(UnsupportedTypeError, match=r"\(row 0\) is of type"):
        encode_values([value])


def test_numbers_without_fixed_digits_are_refused():
    for text in ("NaN", "Infinity"):
        with pytest.raises(UnsupportedTypeError, match="is not a number of fixed digits"):
            encode_values([Decimal(1), Decimal(text)])
    assert to_python(encode_values([Decimal("1E+30")])) == [Decimal(10**30)]
    with pytest.raises(UnsupportedTypeError, match="column: "):
        encode_values([Decimal("1E+300")])


def test_text_that_is_not_unicode_is_refused():
    with pytest.raises(UnsupportedTypeError, match=r"the text '\\ud800' is not valid Unicode"):
        encode_values(["\ud800"])


def test_rows_with_weights_get_a_weight_column():
    names, columns = as_table([(1, 2), ((2, 3), -1)])
    assert names == ("c0", "c1", "weight")
    assert columns[2].codes.tolist() == [1, -1]


def test_tables_without_rows_or_types_tell_nothing_to_those_who_know_the_types():
    for empty in (pl.DataFrame({"a": [], "b": []}), pd.DataFrame(columns=["a", "b"]), {"a": [], "b": [1][:0]}):
        assert as_table(empty)[0] == ("a", "b")
        assert as_table(empty, null_types=[None, None]) == ((), [])
        names, columns = as_table(empty, null_types=[DataType("string"), INT64])
        assert (names, [column.type.name for column in columns]) == (("a", "b"), ["string", "int64"])
    typed = pl.DataFrame({"a": []}, schema={"a": pl.String})
    assert [column.type.family for column in as_table(typed, null_types=[None])[1]] == ["string"]


def test_no_rows_are_a_table_of_the_width_that_is_known():
    assert as_table([]) == ((), [])
    names, columns = as_table([], types=[DataType("string"), None])
    assert names == ("c0", "c1")
    assert [column.type.name for column in columns] == ["string", "int64"]
