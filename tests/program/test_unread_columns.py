"""Columns that a query does not read are not looked at, whatever they hold; the ones that it reads are named."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import gpu_wcoj as gw
from gpu_wcoj.errors import ArityError, ColumnError, SchemaError, TypeMismatchError, UnsupportedTypeError

duckdb = pytest.importorskip("duckdb")

ODD: dict[str, Any] = {
    "objects": lambda ks: pd.DataFrame({"k": ks, "odd": pd.Series([object() for _ in ks], dtype=object)}),
    "texts and integers": lambda ks: {"k": ks, "odd": [1 if i % 2 else "a" for i in range(len(ks))]},
    "complex numbers": lambda ks: {"k": ks, "odd": np.zeros(len(ks), complex)},
    "complex numbers of pandas": lambda ks: pd.DataFrame({"k": ks, "odd": np.zeros(len(ks), complex)}),
    "periods": lambda ks: pd.DataFrame({"k": ks, "odd": pd.period_range("2020", periods=len(ks), freq="M")}),
    "wide integers of Polars": lambda ks: pl.DataFrame({"k": ks, "odd": pl.Series([1] * len(ks), dtype=pl.Int128)}),
    "objects of Polars": lambda ks: pl.DataFrame({"k": ks, "odd": pl.Series([object() for _ in ks], dtype=pl.Object)}),
    "half floats": lambda ks: pa.table({"k": ks, "odd": pa.nulls(len(ks), pa.float16())}),
    "no type": lambda ks: pa.table({"k": ks, "odd": pa.nulls(len(ks))}),
    "months": lambda ks: pa.table({"k": ks, "odd": pa.array([(1, 0, 0) for _ in ks], pa.month_day_nano_interval())}),
    "unions": lambda ks: duckdb.from_arrow(pa.table({"k": ks})).select("k, union_value(n := k) as odd"),
    "lists": lambda ks: pa.table({"k": ks, "odd": [[k, None] for k in ks]}),
    "rows": lambda ks: [{"k": k, "odd": {1, 2}} for k in ks],
    "times in a zone": lambda ks: duckdb.from_arrow(pa.table({"k": ks})).select("k, timetz '10:00+01' as odd"),
    "a lazy frame": lambda ks: pl.LazyFrame({"k": ks}).with_columns(
        odd=(pl.col("k").cast(pl.String) + "x").cast(pl.Int64)
    ),
}
"""Tables with a column that the engine has no type for, or that fails when it is computed."""
WITH_TYPES = ("texts and integers", "times in a zone", "a lazy frame")
"""Those whose column has a type, by its first rows or its schema."""


@pytest.mark.parametrize("name", ODD)
def test_a_query_reads_its_columns_only(name):
    for text in ("SELECT k FROM r", "h(k) :- r(k, _).", "h(k) :- r(k, odd)."):
        assert sorted(gw.query(text, r=ODD[name]([3, 1])).rows()) == [(1,), (3,)]
    assert gw.query("SELECT COUNT(*) AS n FROM r, s WHERE s.x = r.k", r=ODD[name]([3, 1]), s={"x": [1, 1]}).rows() == [
        (2,)
    ]
    if name in ("lists", "no type"):
        assert len(gw.query("SELECT odd FROM r", r=ODD[name]([3, 1]))) == 2
        return
    with pytest.raises(
        (UnsupportedTypeError, TypeMismatchError), match=r"relation 'r'.*odd|relation 'r' cannot be read"
    ):
        gw.query("SELECT odd FROM r", r=ODD[name]([3, 1]))
    with pytest.raises(
        (UnsupportedTypeError, TypeMismatchError), match=r"relation 'r'.*odd|relation 'r' cannot be read"
    ):
        gw.query("h(x) :- r(_, x).", r=ODD[name]([3, 1]))


@pytest.mark.parametrize("name", [name for name in ODD if name not in WITH_TYPES])
def test_a_view_over_bags_does_without_them(name):
    seed = 3
    print(f"seed {seed}")
    rng = random.Random(seed)
    view = gw.view(
        "SELECT r.k, COUNT(*) AS n FROM r JOIN s ON s.x = r.k GROUP BY r.k", r=ODD[name]([1]), s={"x": [1, 2]}
    )
    there = Counter([1])
    for _ in range(4):
        inserted = [rng.randint(1, 3) for _ in range(rng.randint(1, 4))]
        view.apply(r=ODD[name](inserted))
        there.update(inserted)
        deleted = rng.choice(sorted(there.elements()))
        view.apply(r={"odd": [object()], "k": [deleted], "weight": [-1]})
        view.apply(r=[(9, object())])
        there.subtract([deleted])
        assert dict(view.snapshot().rows()) == {k: n for k, n in there.items() if n and k < 3}
    assert view.snapshot("r").columns == ["k"]
    view.apply(r=gw.ZSet.from_rows([(1, "any"), (1, "other")], ["k", "odd"]))
    assert dict(view.snapshot().rows())[1] == there[1] + 2
    with pytest.raises(SchemaError, match="relation 'r'"):
        view.apply(r={"odd": [1], "key": [1]})
    with pytest.raises(ArityError, match="relation 'r'"):
        view.apply(r=[(1, 2, 3, 4)])


def test_sets_are_kept_with_all_columns():
    view = gw.view("h(k) :- r(k, _).", r={"k": [1, 1], "tags": [["a"], ["b"]]})
    assert view.apply(r={"tags": [["a"]], "k": [1], "weight": [-1]}).rows() == []
    assert view.apply(r={"tags": [["b"]], "k": [1], "weight": [-1]}).rows() == [((1,), -1)]
    with pytest.raises(UnsupportedTypeError, match=r"relation 'r', column 'odd'.*\n.*A value is|Cast the column"):
        gw.view("h(k) :- r(k, _).", r=ODD["objects"]([1]))


def test_a_lazy_frame_is_collected_once_with_the_columns_that_are_read():
    read: list[list[str]] = []

    def source(frame: pl.DataFrame) -> pl.DataFrame:
        read.append(frame.columns)
        return frame

    frame = pl.LazyFrame({"a": [1, 2], "b": [3, 4], "c": [5, 6]}).map_batches(source, projection_pushdown=True)
    assert gw.query("SELECT a, c FROM r WHERE c > 5", r=frame).rows() == [(2, 6)]
    assert [sorted(columns) for columns in read] == [["a", "c"]]
    assert gw.query("SELECT COUNT(*) FROM r", r=frame).rows() == [(2,)]
    view = gw.view("h(a) :- r(a, b, c), b < c.", r=frame)
    assert view.apply(r=pl.LazyFrame({"c": [9], "b": [8], "a": [7]})).rows() == [((7,), 1)]
    assert gw.find("(x)-[]->(y)", edges=pl.LazyFrame({"src": [1], "dst": [2]}), columns=["y.id"]).rows() == [(2,)]


def test_columns_with_types_of_a_declaration_are_read():
    with pytest.raises(TypeMismatchError, match="relation 'r', column"):
        gw.query(".decl r(k: int64, t: string) h(k) :- r(k, _).", r=pa.table({"k": [1], "t": [5]}))


def test_names_are_checked_all_the_same():
    with pytest.raises(ColumnError, match="relation 'r' has no column 'kk'"):
        gw.query(".decl r(k, odd) h(k) :- r(k, _).", r={"kk": [1], "odd": [object()]})
    with pytest.raises(SchemaError, match="column 'k' has 1 value and column 'odd' has 2"):
        gw.query("SELECT k FROM r", r={"k": [1], "odd": [object(), 1]})
