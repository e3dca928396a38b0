"""The Z-set: always consolidated, in through every door, out as it came."""

from __future__ import annotations

import datetime as dt
import pickle
import subprocess
import sys
from collections import Counter
from decimal import Decimal
from itertools import pairwise

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_wcoj.column import Column
from gpu_wcoj.dictionary import Dictionary
from gpu_wcoj.errors import (
    ArityError,
    ColumnError,
    SchemaError,
    TypeMismatchError,
    UnsupportedTypeError,
    WeightError,
    WeightOverflowError,
)
from gpu_wcoj.schema import DataType
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


# in


def test_rows_and_pairs_may_be_mixed():
    assert ZSet.from_rows([(1, 2), ((1, 2), 3), [5, 6], ([7, 8], -1)]).to_dict() == {(1, 2): 4, (5, 6): 1, (7, 8): -1}


def test_rows_from_a_generator_and_with_names():
    zset = ZSet.from_rows(((i, i) for i in range(3)), names=(name for name in ["src", "dst"]))
    assert zset.names == ("src", "dst")
    assert len(zset) == 3


def test_one_row():
    assert ZSet.from_rows([(1,)]).rows() == [((1,), 1)]
    assert ZSet.from_rows([((1,), 0)]).rows() == []
    assert ZSet.from_rows([((None, 1), 2), ((None, 1), -2), ((None, 2), 1), ((3, 2), 1)]).to_dict() == {
        (None, 2): 1,
        (3, 2): 1,
    }


def test_rows_without_columns_are_one_row():
    assert ZSet.from_rows([(), (), ((), -1)]).rows() == [((), 1)]
    assert ZSet.from_rows([(), ((), -1)]).rows() == []
    with pytest.raises(WeightOverflowError, match=r"row \(\): its weight 9223372036854775808"):
        ZSet.from_rows([((), 2**63 - 1), ()])
    assert ZSet.from_rows([((), 7)]).to_arrow().to_pydict() == {"weight": [7]}


def test_empty_zsets():
    assert ZSet.from_rows([]).names == ()
    assert ZSet.from_rows([], names=["a", "b"]).names == ("a", "b")
    zset = ZSet.empty(["a", "b", "c"], ["int8", "string", DataType("binary")])
    assert zset.to_arrow().schema.types == [pa.int8(), pa.string(), pa.binary(), pa.int64()]
    assert zset.rows() == []
    assert zset.to_dict() == {}
    assert len(zset.to_pandas()) == len(zset.to_polars()) == 0
    with pytest.raises(TypeMismatchError, match="type 'text' is not supported"):
        ZSet.empty(["a"], ["text"])


@pytest.mark.parametrize(
    "weight", [1.0, True, None, "1", 2**63, -(2**63) - 1, np.float64(1), np.timedelta64(1, "s"), np.bool_(1)]
)
def test_weights_are_integers(weight):
    with pytest.raises(WeightError, match=r"must be integers .* and one is .*\(row 1\)"):
        ZSet.from_rows([((1,), 1), ((2,), weight)])
    with pytest.raises(WeightError, match=r"\(row 0\)"):
        ZSet.from_dict({(1,): weight})


def test_numpy_integers_are_weights():
    assert ZSet.from_rows([((1,), np.int8(-3)), ((2,), np.uint64(2**63 - 1))]).to_dict() == {(1,): -3, (2,): 2**63 - 1}


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (pa.array([1.0, 2.0]), "a column of type 'double'"),
        (pa.array([True, False]), "a column of type 'bool'"),
        (pa.array(["1", "2"]), "a column of type 'string'"),
        (pa.array([1, None]), r"null \(row 1\)"),
    ],
)
def test_weight_columns_are_integers_without_nulls(weights, message):
    with pytest.raises(WeightError, match=message):
        ZSet.from_arrow({"a": [1, 2], "w": weights}, weight="w")


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.array([1.0]), "an array of type 'float64'"),
        (np.array([True]), "an array of type 'bool'"),
        (np.array([2**63], np.uint64), "9223372036854775808"),
    ],
)
def test_weight_arrays_are_integers(weights, message):
    with pytest.raises(WeightError, match=message):
        ZSet.from_numpy(np.array([[1]]), weights)


def test_weights_of_columns_are_integers():
    with pytest.raises(WeightError, match="an array of type 'float64'"):
        ZSet.from_columns(["a"], [Column.of_integers(np.array([1]))], np.array([1.5]))


def test_weight_arrays_fit_the_rows():
    assert ZSet.from_numpy(np.array([1, 2]), iter([3, 4])).to_dict() == {(1,): 3, (2,): 4}
    with pytest.raises(SchemaError, match=r"have the shape \(1, 1\)"):
        ZSet.from_numpy(np.array([[1]]), np.array([[1]]))
    with pytest.raises(ArityError, match="column 'c0' has 2 values, and there are 1 weights"):
        ZSet.from_numpy(np.array([[1], [2]]), [1])


def test_a_column_called_weight_is_data_unless_it_is_named():
    frame = pl.DataFrame({"src": [1, 2], "weight": [5, 6]})
    zset = ZSet.from_arrow(frame)
    assert zset.to_dict() == {(1, 5): 1, (2, 6): 1}
    assert zset.to_arrow().column_names == ["src", "weight", "_weight"]
    assert ZSet.from_arrow(frame, weight="weight").to_dict() == {(1,): 5, (2,): 6}
    both = ZSet.from_rows([(1, 2)], names=["weight", "_weight"])
    assert both.to_arrow().column_names == ["weight", "_weight", "__weight"]
    assert "__weight" in repr(both)


def test_a_weight_column_that_is_not_there():
    with pytest.raises(ColumnError, match="no column 'wieght'.\n.*Did you mean 'weight'"):
        ZSet.from_arrow({"a": [1], "weight": [1]}, weight="wieght")


def test_names_differ_and_fit():
    with pytest.raises(SchemaError, match="two columns are named 'a'"):
        ZSet.from_rows([(1, 2)], names=["a", "a"])
    with pytest.raises(SchemaError, match="two columns are named 'x'"):
        ZSet.from_arrow(pa.table([[1], [2]], names=["x", "x"]))
    with pytest.raises(ArityError, match=r"there are 1 names \(a\) for 2 columns"):
        ZSet.from_rows([(1, 2)], names=["a"])
    for names in ("ab", [1, 2]):
        with pytest.raises(SchemaError, match="are a list of texts"):
            ZSet.from_rows([(1, 2)], names=names)


def test_rows_are_checked():
    with pytest.raises(ArityError, match=r"row 1 is \(1,\), 1 values; row 0 has 2"):
        ZSet.from_rows([(1, 2), (1,)])
    with pytest.raises(ArityError, match=r"row 0 is \(\(1, 2\), 1, 5\); a row with a weight is a pair"):
        ZSet.from_rows([((1, 2), 1, 5)])
    for row in (1, "ab", {"a": 1}, None):
        with pytest.raises(TypeMismatchError, match="a row is a tuple of values"):
            ZSet.from_rows([row])
    with pytest.raises(TypeMismatchError, match="column 1 mixes types: 2 .* and 'x'"):
        ZSet.from_rows([(1, 2), (1, "x")])
    with pytest.raises(TypeMismatchError, match="the value 9223372036854775808"):
        ZSet.from_rows([(2**63,)])
    with pytest.raises(UnsupportedTypeError, match=r"the value \[2\] \(row 0\) is of type 'builtins.list'"):
        ZSet.from_rows([(1, [2])])
    with pytest.raises(SchemaError, match="the key 'a' is not a tuple"):
        ZSet.from_dict({"a": [1]})


def test_a_zset_does_not_change_with_what_it_was_made_of():
    mutable = np.array([[1, 2], [3, 4]])
    weights = np.array([1, 1])
    frame = pd.DataFrame({"a": [1, 2], "b": [3, 4]})
    arrow = pa.table({"a": mutable[:, 0].copy()})
    zsets = [
        ZSet.from_numpy(mutable, weights),
        ZSet.from_arrow({"a": mutable[:, 0]}),
        ZSet.from_arrow(frame),
        ZSet.from_arrow(frame.iloc[:1]),
        ZSet.from_arrow(frame, weight="b"),
        ZSet.from_arrow(arrow),
    ]
    before = [zset.rows() for zset in zsets]
    mutable[:], weights[:] = 9, 9
    for column in frame:
        frame[column].to_numpy().flags.writeable = True
        frame.loc[:, column] = 9
    assert [zset.rows() for zset in zsets] == before


# overflow


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


# out


def test_every_library_reads_a_zset():
    zset = ZSet.from_rows([(1, "a"), ((2, None), -3)], names=["id", "name"])
    expected = [(1, "a", 1), (2, None, -3)]
    assert pl.DataFrame(zset).rows() == expected
    assert duckdb.connect().from_arrow(pa.table(zset)).fetchall() == expected
    assert list(pd.DataFrame.from_arrow(zset)["weight"]) == [1, -3]
    assert zset.to_polars().rows() == expected
    requested = pa.schema([("id", pa.int64()), ("name", pa.large_string()), ("weight", pa.int64())])
    reader = pa.RecordBatchReader.from_stream(zset, schema=requested)
    assert reader.schema.field("name").type == pa.large_string()


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
    assert not any(one in zset for one in absent)
    assert (1,) not in ZSet.empty(["a"])
    assert (1,) not in ZSet.empty()
    nothing = ZSet.from_rows([(), ()])
    assert () in nothing
    assert ((), 2) in nothing
    assert ((), 1) not in nothing
    assert ((1, 2), 1) in ZSet.from_rows([(1, 2)])
