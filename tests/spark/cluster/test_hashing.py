"""The hash in NumPy is Spark's, and rows go to the same cells by parcels and by expressions."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from decimal import Decimal
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'gpu_wcoj[spark]'")

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as sf
from pyspark.sql.types import DateType, LongType, StructField, StructType, TimestampNTZType

from gpu_wcoj import Program
from gpu_wcoj.errors import UnsupportedTypeError
from gpu_wcoj.query.datalog import parse
from gpu_wcoj.spark.cluster.exchange import Columns, route_rows, routers_of, select_sources, unite
from gpu_wcoj.spark.cluster.hashing import canonical, xxhash64
from gpu_wcoj.spark.cluster.layout import choose
from gpu_wcoj.spark.cluster.parcels import BODY, CELL, IS_WEIGHTED, MASK, NOTE, REL, STAGE, Dispatch
from gpu_wcoj.spark.cluster.plan import cell_plan

EPOCH = dt.datetime(1970, 1, 1)


def columns_of(rnd: random.Random, n: int) -> dict[str, tuple[str, list[Any]]]:
    """Columns of every type that cells take, with nulls, zeros of both signs and NaN."""

    def some(draw: Any) -> list[Any]:
        return [None if rnd.random() < 0.1 else draw() for _ in range(n)]

    doubles = [0.0, -0.0, float("nan"), float("inf"), -1.5]
    texts = ["a", "ä", "漢字", "𝄞", " "]
    return {
        "flag": ("boolean", some(lambda: rnd.random() < 0.5)),
        "tiny": ("tinyint", some(lambda: rnd.randrange(-128, 128))),
        "short": ("smallint", some(lambda: rnd.randrange(-(1 << 15), 1 << 15))),
        "int": ("int", some(lambda: rnd.randrange(-(1 << 31), 1 << 31))),
        "long": ("bigint", some(lambda: rnd.choice([0, -1, rnd.randrange(-(1 << 63), 1 << 63)]))),
        "float": ("float", some(lambda: rnd.choice([*doubles, float(np.float32(rnd.gauss(0, 1)))]))),
        "double": ("double", some(lambda: rnd.choice([*doubles, rnd.gauss(0, 1e10)]))),
        "price": ("decimal(9,2)", some(lambda: Decimal(rnd.randrange(-(10**9) + 1, 10**9)).scaleb(-2))),
        "exact": ("decimal(38,10)", some(lambda: Decimal(rnd.randrange(-(10**35), 10**35)).scaleb(-10))),
        "day": ("date", some(lambda: dt.date(1900, 1, 1) + dt.timedelta(rnd.randrange(90_000)))),
        "time": ("timestamp", some(lambda: EPOCH + dt.timedelta(microseconds=rnd.randrange(-(10**15), 10**15)))),
        "local": ("timestamp_ntz", some(lambda: EPOCH + dt.timedelta(microseconds=rnd.randrange(10**15)))),
        "text": ("string", some(lambda: "".join(rnd.choices(texts, k=rnd.randrange(40))))),
        "bytes": ("binary", some(lambda: rnd.randbytes(rnd.randrange(100)))),
    }


@pytest.mark.parametrize(("left", "right"), [(DateType(), TimestampNTZType()), (DateType(), DateType())])
def test_columns_whose_equal_values_hash_differently_do_not_join_on_cells(left: Any, right: Any) -> None:
    text = "h(x) :- a(x, y), b(x, y)."
    plan = cell_plan(parse(text), ("h",), False, choose(parse(text), "hypercube", 4))
    schemas = {
        name: StructType([StructField("x", kind), StructField("y", LongType())])
        for name, kind in (("a", left), ("b", right))
    }
    program = Program(text, backend="cpu")
    if left == right:
        assert len(Columns.from_frames(plan, schemas, program).fields) == 2
    else:
        with pytest.raises(UnsupportedTypeError, match="that joins one of type .* on cells"):
            Columns.from_frames(plan, schemas, program)


def test_hashes_of_all_types(spark: Any) -> None:
    seed = random.randrange(1 << 30)
    print("seed", seed)
    rnd = random.Random(seed)
    columns = columns_of(rnd, 300)
    schema = ", ".join(f"{name} {kind}" for name, (kind, _) in columns.items())
    frame = spark.createDataFrame(list(zip(*(values for _, values in columns.values()), strict=True)), schema)
    several = [[name] for name in columns] + [rnd.sample(list(columns), 3) for _ in range(4)]
    salts = [rnd.randrange(1 << 21) for _ in several]
    expected = [
        sf.xxhash64(*(canonical(sf.col(name), frame.schema[name].dataType) for name in names), sf.lit(salt)).alias(
            f"_{i}"
        )
        for i, (names, salt) in enumerate(zip(several, salts, strict=True))
    ]
    rows = frame.select("*", *expected).toArrow().combine_chunks()
    arrays = {name: pa.concat_arrays(rows[name].chunks) for name in rows.column_names}
    for i, (names, salt) in enumerate(zip(several, salts, strict=True)):
        for part in (slice(0, None), slice(7, None)):  # the latter with an offset in the arrays
            found = xxhash64([arrays[name][part] for name in names], salt)
            assert (found == arrays[f"_{i}"].to_numpy()[part]).all(), names


def test_equal_values_of_several_types_have_equal_hashes() -> None:
    kinds = [pa.int8(), pa.int16(), pa.int32(), pa.int64()]
    assert len({int(xxhash64([pa.array([7], kind)], 3)[0]) for kind in kinds}) == 1
    kinds = [pa.decimal128(9, 2), pa.decimal128(38, 20), pa.float64()]
    assert len({int(xxhash64([pa.array([1.25]).cast(kind)], 3)[0]) for kind in kinds}) == 1
    assert len({int(xxhash64([pa.array(["ab"], kind)], 3)[0]) for kind in (pa.string(), pa.large_string())}) == 1
    with pytest.raises(UnsupportedTypeError, match="on cells"):
        xxhash64([pa.array([[1]])], 0)


TEXT = """
t(a, b, c) :- e(a, b), e(b, c), e(a, c).
far(a) :- e(a, b), f(b, s), e(b, c), t(a, b, c).
"""


@pytest.mark.parametrize(("layout", "cells"), [("hypercube", 5), ("hypercube", 8), ("replicated", 3)])
def test_parcels_and_expressions_meet_the_same_cells(spark: Any, layout: Any, cells: int) -> None:
    seed = random.randrange(1 << 30)
    print("seed", seed)
    rnd = random.Random(seed)
    rules = parse(TEXT)
    heavy = {0: {"b": [3, 4]}} if layout == "hypercube" else None
    plan = cell_plan(rules, ("t", "far"), False, choose(rules, layout, cells, heavy=heavy))
    edges = [(rnd.randrange(40), rnd.choice([None, *range(40)]), rnd.choice([1, 1, -1, 2])) for _ in range(400)]
    names = [(rnd.randrange(40), rnd.choice([None, "", "x", "ü"])) for _ in range(50)]
    frames = {
        "e": spark.createDataFrame(edges, "a int, b int, weight bigint"),
        "f": spark.createDataFrame(names, "b int, s string"),
    }
    schemas = {name: frame.schema for name, frame in frames.items()}
    program = Program(TEXT, backend="cpu")
    columns = Columns.from_frames(plan, schemas, Program(TEXT, backend="cpu"))
    sources = select_sources(plan, columns, {n: [frame] for n, frame in frames.items()}, program, digests=True)
    by_expressions: Counter[Any] = Counter()
    for row in route_rows(unite(sources, columns), plan, columns).collect():
        values = tuple(row[slot] for slot in columns.slots[row["rel"]].values())
        by_expressions[row["stage"], row["cell"], row["rel"], row["mask"], values, row["weight"]] += 1
    routers = routers_of(plan, columns)
    united = unite(sources, columns)
    for given in (sources, [(None, united)]):
        by_parcels: Counter[Any] = Counter()
        notes = []
        for relation, frame in given:
            dispatch = Dispatch(routers, relation, columns.slots, 0, "query")
            for parcels in dispatch(iter(frame.toArrow().to_batches())):
                assert parcels.num_rows
                for parcel in parcels.to_pylist():
                    if parcel[NOTE] is not None:
                        notes.append(parcel[NOTE])
                        continue
                    rows = routers[parcel[REL]].opened(parcel[IS_WEIGHTED], pa.py_buffer(parcel[BODY]))
                    for values in zip(*(column.to_pylist() for column in rows.columns), strict=True):
                        values = values if parcel[IS_WEIGHTED] else (*values, 1)
                        key = parcel[STAGE], parcel[CELL], parcel[REL], parcel[MASK], values[:-1], values[-1]
                        by_parcels[key] += 1
        assert by_parcels == by_expressions
        assert sum(int(note.split('"rows": ')[1].split(",")[0]) for note in notes) == len(edges) + len(names)
    assert layout == "replicated" or {key[3] for key in by_expressions} > {1}, "some rows have several roles in a cell"
