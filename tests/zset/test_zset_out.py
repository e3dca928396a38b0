"""Output of Z-sets: tables of other libraries, arrays, columns of a program, pickles."""

from __future__ import annotations

import datetime as dt
import pickle
from decimal import Decimal

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

from gpu_wcoj.data.column import Column, Dictionary
from gpu_wcoj.data.schema import casts_to_views
from gpu_wcoj.zset.zset import ZSet


def test_every_library_reads_a_zset():
    zset = ZSet.from_rows([(1, "a"), ((2, None), -3)], names=["id", "name"])
    expected = [(1, "a", 1), (2, None, -3)]
    assert pl.DataFrame(zset).rows() == expected
    assert duckdb.connect().from_arrow(pa.table(zset)).fetchall() == expected
    if hasattr(pd.DataFrame, "from_arrow"):  # from pandas 3 on
        assert list(pd.DataFrame.from_arrow(zset)["weight"]) == [1, -3]
    assert zset.to_polars().rows() == expected
    requested = pa.schema([("id", pa.int64()), ("name", pa.large_string()), ("weight", pa.int64())])
    reader = pa.RecordBatchReader.from_stream(zset, schema=requested)
    assert reader.schema.field("name").type in (
        pa.large_string(),
        *[pa.string()] * (not casts_to_views(pa.__version__)),
    )


def test_integers_with_nulls_stay_exact_in_pandas():
    zset = ZSet.from_arrow(
        {"a": [2**53 + 1, None], "b": pa.array([1, None], pa.uint8()), "c": [True, None], "d": [1, 2]}
    )
    frame = zset.to_pandas()
    assert [str(kind) for kind in frame.dtypes] == ["Int64", "UInt8", "boolean", "int64", "int64"]
    assert frame["a"].dropna().tolist() == [2**53 + 1]
    assert ZSet.from_arrow(frame, weight="weight") == zset


def test_decimals_of_every_width_reach_polars():
    for kind in (pa.decimal32(5, 2), pa.decimal64(9, 2), pa.decimal128(18, 2), pa.decimal256(18, 2)):
        zset = ZSet.from_arrow({"a": pa.array([Decimal("1.25")], kind)})
        assert zset.to_polars()["a"].to_list() == [Decimal("1.25")]


def test_numpy_out():
    arrays = ZSet.from_rows([(1, "a"), (2, None)], names=["n", "s"]).to_numpy()
    assert arrays["n"].tolist() == [1, 2]
    assert arrays["s"].tolist() == ["a", None]
    assert arrays["weight"].tolist() == [1, 1]


def test_a_zset_without_a_weight_name_leaves_weights_out():
    zset = ZSet.from_columns(["a"], [Column.of_integers(np.array([2, 1]))], weight_name=None)
    assert zset.to_arrow().to_pydict() == {"a": [1, 2]}
    assert list(zset.to_numpy()) == ["a"]
    assert "weight" not in repr(zset)
    assert zset.rows() == [((1,), 1), ((2,), 1)]


def test_encoded_for_a_program():
    string, binary = Dictionary("string"), Dictionary("binary")
    string.encode(pa.array(["zzz"]))
    zset = ZSet.from_rows([("a", b"x", 1), ("b", None, 1), (None, b"x", 2)])
    a, b, c = zset.encoded_for(string, binary)
    assert (a.dictionary, b.dictionary, c.dictionary) == (string, binary, None)
    assert c is zset.columns[2]
    assert sorted(text for text in map(string.find, ["a", "b"]) if text is not None) == [1, 2]
    again = ZSet.from_columns(zset.names, [a, b, c], zset.weights)
    assert again == zset
    assert again.encoded_for(string, binary)[0] is again.columns[0]


def test_a_zset_survives_pickling():
    zset = ZSet.from_rows([("a", 1, None), ("b", 2, dt.date(2020, 1, 1))])
    assert pickle.loads(pickle.dumps(zset)) == zset
