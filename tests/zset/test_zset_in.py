"""Input of Z-sets: rows, pairs, columns, arrays and tables; invalid names and weights."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from gpu_wcoj.data.column import Column
from gpu_wcoj.data.schema import DataType
from gpu_wcoj.errors import (
    ArityError,
    ColumnError,
    SchemaError,
    TypeMismatchError,
    UnsupportedTypeError,
    WeightError,
    WeightOverflowError,
)
from gpu_wcoj.zset.zset import ZSet


def test_rows_and_pairs_may_be_mixed():
    assert ZSet.from_rows([(1, 2), ((1, 2), 3), [5, 6], [[7, 8], -1]]).to_dict() == {(1, 2): 4, (5, 6): 1, (7, 8): -1}
    with pytest.raises(TypeMismatchError, match=r"row 0, \(\[7, 8\], -1\), may be a list and an integer"):
        ZSet.from_rows([([7, 8], -1)])
    assert ZSet.from_rows([(([7, 8], -1), 1)]).rows() == [(([7, 8], -1), 1)]


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
    with pytest.raises(WeightError, match=r"got .*\(row 1\), expected integers"):
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
    with pytest.raises(SchemaError, match=r"have the wrong shape: got \(1, 1\)"):
        ZSet.from_numpy(np.array([[1]]), np.array([[1]]))
    with pytest.raises(
        ArityError, match="column 'c0' has the wrong number of values: got 2, expected 1, the number of weights"
    ):
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
    with pytest.raises(SchemaError, match="column 'a' is given twice"):
        ZSet.from_rows([(1, 2)], names=["a", "a"])
    with pytest.raises(SchemaError, match="column 'x' is given twice"):
        ZSet.from_arrow(pa.table([[1], [2]], names=["x", "x"]))
    with pytest.raises(ArityError, match=r"the wrong number of names: got 1 \(a\), expected 2"):
        ZSet.from_rows([(1, 2)], names=["a"])
    for names in ("ab", [1, 2]):
        with pytest.raises(SchemaError, match="expected a list of texts"):
            ZSet.from_rows([(1, 2)], names=names)


def test_rows_are_checked():
    with pytest.raises(ArityError, match=r"row 1, has another length than row 0: got 1 value, \(1,\), expected 2"):
        ZSet.from_rows([(1, 2), (1,)])
    with pytest.raises(ArityError, match=r"row 0 is not a row with a weight: got \(\(1, 2\), 1, 5\), expected a pair"):
        ZSet.from_rows([((1, 2), 1, 5)])
    with pytest.raises(TypeMismatchError, match=r"Pass its edges: graph\.edges"):
        ZSet.from_rows(nx.path_graph(3))
    assert ZSet.from_rows(nx.path_graph(3).edges).rows() == [((0, 1), 1), ((1, 2), 1)]
    for row in (1, "ab", {"a": 1}, None):
        with pytest.raises(TypeMismatchError, match="expected a tuple of values"):
            ZSet.from_rows([row])
    with pytest.raises(TypeMismatchError, match="column 1 mixes types: 2 .* and 'x'"):
        ZSet.from_rows([(1, 2), (1, "x")])
    with pytest.raises(TypeMismatchError, match="the value 18446744073709551616"):
        ZSet.from_rows([(2**64,)])
    with pytest.raises(UnsupportedTypeError, match=r"the value \{2\} \(row 0\) is of type 'builtins.set'"):
        ZSet.from_rows([(1, {2})])
    with pytest.raises(SchemaError, match="the key of from_dict has the wrong type"):
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
