"""Changes of every format become rows with weights; what is wrong with them is raised."""

from __future__ import annotations

import logging
import random
import re
from dataclasses import replace
from decimal import Decimal

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'gpu_wcoj[spark]'")

import gpu_wcoj as gw
import gpu_wcoj.spark as gws
from gpu_wcoj.errors import ColumnError, SchemaError, TypeMismatchError, UsageError
from tests.spark.cdc_formats import CASES, EDGE, EVENTS, EXPECTED

PROGRAM = "path(a, b, c) :- edge(a, b), edge(b, c)."


def normalised(spark, case, **arguments):
    frame = spark.createDataFrame(case.rows, case.schema)
    return gws.normalise(frame, case.changes, **{"order_by": "place", **case.arguments, **arguments})


def failure(frame) -> str:
    with pytest.raises(Exception, match="USER_RAISED_EXCEPTION") as error:
        frame.toArrow()
    return str(error.value)


@pytest.mark.drawn("name", share=5)
@pytest.mark.parametrize("name", CASES)
def test_rows_get_their_weights_and_the_engine_answers_as_if_fed_directly(spark, name):
    """Rows that arrive shuffled are put back in order; without an order, the net weights decide."""
    case = CASES[name]
    rows = list(case.rows)
    random.Random(7).shuffle(rows)
    frame = normalised(spark, replace(case, rows=rows))
    assert [(field.name, field.dataType.simpleString()) for field in frame.schema][:3] == [
        ("src", "int"),
        ("dst", "int"),
        ("weight", "bigint"),
    ]
    assert frame.columns[3:] == ["_order_1"]
    table = frame.toArrow()
    found = sorted(table.to_pylist(), key=lambda row: (row["_order_1"], row["weight"]))
    assert [((row["src"], row["dst"]), row["weight"]) for row in found] == case.expected
    for given, expected in (
        (table, case.expected),
        (table.drop_columns("_order_1"), gw.ZSet.from_rows(case.expected)),
    ):
        program, direct = gw.Program(PROGRAM), gw.Program(PROGRAM)
        for before in ([(1, 3), (3, 9)], [(2, 3), (4, 5)]):
            program.load({"edge": before})
            direct.load({"edge": before})
        paths = program.step({"edge": gws.as_change(given)})["path"]
        assert paths.to_dict() == direct.step({"edge": expected})["path"].to_dict()
        assert program.relation("edge").to_dict() == direct.relation("edge").to_dict()


def test_the_order_decides_where_net_weights_do_not(spark):
    frame = spark.createDataFrame(
        [(1, 1, 3), (1, 1, 1), (1, -1, 2), (2, 1, 1), (2, 1, 2), (2, -1, 3)], "a int, weight int, at int"
    )
    expected = {True: {(1,): 1}, False: {(1,): 1, (2,): 1}}
    for ordered in (True, False):
        rows = gws.normalise(frame, "weight", columns=["a"], order_by="at" if ordered else ()).toArrow()
        program = gw.Program("seen(a) :- item(a).")
        assert program.step({"item": gws.as_change(rows)})["seen"].to_dict() == expected[ordered]


def test_of_equals_in_order_the_row_that_goes_goes_first(spark):
    rows = [(1, "update_postimage", 5), (1, "update_preimage", 5)]
    frame = spark.createDataFrame(rows, "a int, _change_type string, _commit_version bigint")
    program = gw.Program("seen(a) :- item(a).")
    program.load({"item": [(1,)]})
    program.step({"item": gws.as_change(gws.normalise(frame, "delta_cdf", order_by="_commit_version").toArrow())})
    assert program.relation("seen").to_dict() == {(1,): 1}


@pytest.mark.parametrize(
    ("schema", "chosen", "because"),
    [
        ("src int, dst int", "append", "no column says"),
        ("a int, weight bigint", "weight", "by the column 'weight'"),
        ("a int, sign int", "sign", "by the column 'sign'"),
        ("a int, op string", "op", "by the column 'op'"),
        ("a int, row_kind string", "flink", "by the column 'row_kind'"),
        ("a int, changelog_op smallint", "risingwave", "by the column 'changelog_op'"),
        ("a int, _change_type string, _commit_version bigint", "delta_cdf", "'_change_type' and '_commit_version'"),
        ("a int, _change_type string, _change_ordinal int", "iceberg", "'_change_type' and '_change_ordinal'"),
        (f"op string, before {EDGE}, after {EDGE}, ts_ms bigint", "debezium", "'before', 'after' and 'op'"),
        (f"payload struct<op: string, before: {EDGE}, after: {EDGE}>", "debezium", "of the column 'payload'"),
    ],
)
def test_auto_goes_by_the_columns_and_says_so(spark, caplog, schema, chosen, because):
    frame = spark.createDataFrame([], schema)
    found = gws.detect(frame)
    assert (found.format, because in str(found)) == (chosen, True)
    with caplog.at_level(logging.INFO, "gpu_wcoj.spark"):
        assert gws.normalise(frame).columns[-1] == "weight"
    assert f"The changes are taken as '{chosen}'" in caplog.text


def test_auto_gives_the_same_rows_as_the_format_named(spark):
    frame = spark.createDataFrame([(1, 2, "+I"), (1, 2, "-D")], "a int, b int, row_kind string")
    assert gws.normalise(frame).collect() == gws.normalise(frame, "flink").collect()


def test_columns_that_fit_two_formats_have_to_be_told(spark):
    frame = spark.createDataFrame([], "a int, op string, weight int")
    with pytest.raises(
        SchemaError, match=r"fit more than one format of changes: 'weight' .*'op' .*\n  Pass the format"
    ):
        gws.normalise(frame)
    assert gws.normalise(frame, "op", columns={"a": "a", "w": "weight"}).columns == ["a", "w", "weight"]


def test_a_change_type_alone_tells_neither_of_two(spark):
    with pytest.raises(SchemaError, match="the other columns do not decide"):
        gws.normalise(spark.createDataFrame([], "a int, _change_type string"))


def test_weights_go_through_up_to_the_ends_of_int64(spark):
    frame = spark.createDataFrame([(1, 2**63 - 1), (2, -(2**63)), (3, 0)], "a int, weight bigint")
    assert [tuple(row) for row in gws.normalise(frame).collect()] == [(1, 2**63 - 1), (2, -(2**63)), (3, 0)]


def test_nulls_among_the_data_go_through(spark):
    frame = spark.createDataFrame([(None, "x"), (1, None)], "a int, b string")
    assert [tuple(row) for row in gws.normalise(frame).collect()] == [(None, "x", 1), (1, None, 1)]


def test_columns_are_chosen_put_in_order_and_renamed(spark):
    frame = spark.createDataFrame([(1, "x", 5, 2)], "`a.b` int, n string, weight int, `t``t` int")
    assert gws.normalise(frame, columns=["t`t", "a.b"]).collect()[0].asDict() == {"t`t": 2, "a.b": 1, "weight": 5}
    assert gws.normalise(frame, columns={"src": "a.b"}).collect()[0].asDict() == {"src": 1, "weight": 5}


BAD_ROWS = [
    ("weight", "a int, weight int", (1, None), {}, "the column 'weight' of weights is null"),
    ("sign", "a int, sign int", (1, 2), {}, "'sign' holds '2', expected a code of 'sign': allowed are 1, -1"),
    ("sign", "a int, sign int", (1, None), {}, "'sign' holds null"),
    ("op", "a int, op string", (1, "u"), {}, "'op' holds 'u', .*an update needs the old row too"),
    ("op", "a int, op string", (1, None), {}, "'op' holds null"),
    ("op", "a int, op string", (1, "insert "), {}, "'op' holds 'insert '"),
    ("op", "a int, op string", (1, "insert"), {"codes": {"new": 1}}, "'op' holds 'insert', .*allowed are new"),
    ("delta_cdf", "a int, _change_type string", (1, "INSERT"), {}, "'_change_type' holds 'INSERT'"),
    ("iceberg", "a int, _change_type string", (1, "insert"), {}, "'_change_type' holds 'insert'"),
    ("flink", "a int, row_kind string", (1, "+D"), {}, r"'row_kind' holds '\+D'"),
    ("risingwave", "a int, changelog_op int", (1, 5), {}, "'changelog_op' holds '5', .*allowed are 1, 3, 2, 4"),
    ("append", "a int, b int", (None, 2), {"key": ["a"]}, "the key column 'a' is null"),
    ("append", "a int, at bigint", (1, None), {"order_by": "at"}, "the order column 'at' is null"),
]


@pytest.mark.parametrize(("changes", "schema", "row", "arguments", "message"), BAD_ROWS)
def test_a_wrong_row_ends_the_query_with_column_and_value(spark, changes, schema, row, arguments, message):
    frame = gws.normalise(spark.createDataFrame([row], schema), changes, **arguments)
    # A query that reads the weights only cannot lose the check, whichever column is wrong.
    text = failure(frame.select("weight"))
    assert re.search(message, text), text


@pytest.mark.parametrize(
    ("event", "arguments", "message"),
    [
        (("x", None, (1, 2), 0), {}, "the column 'op' holds 'x'"),
        (("t", None, None, 0), {}, "the column 'op' holds 't', .*after a truncate, start anew"),
        ((None, None, None, 0), {}, "the column 'op' holds null, .*tombstones"),
        (("d", None, None, 0), {}, "the column 'before' is null in an event whose op is 'd'.*REPLICA IDENTITY FULL"),
        (("u", None, (1, 2), 0), {}, "the column 'before' is null in an event whose op is 'u'"),
        (("u", (1, 2), None, 0), {}, "the column 'after' is null in an event whose op is 'u'"),
        (("c", None, None, 0), {}, "the column 'after' is null in an event whose op is 'c'"),
        (("u", (None, 2), (1, 2), 0), {"key": "src"}, "the key column 'src' is null"),
    ],
)
def test_a_wrong_event_ends_the_query(spark, event, arguments, message):
    frame = spark.createDataFrame([*EVENTS, event], f"op string, before {EDGE}, after {EDGE}, place int")
    text = failure(gws.normalise(frame, "debezium", **arguments))
    assert re.search(message, text), text


@pytest.mark.parametrize(
    ("schema", "arguments", "error", "message"),
    [
        ("a int", {"changes": "wieght"}, UsageError, "unknown format of changes 'wieght'.*Did you mean 'weight'"),
        ("a int", {"changes": "weight"}, ColumnError, "no column 'weight'"),
        ("a int, weight double", {"changes": "weight"}, TypeMismatchError, "'weight' has the wrong type: got 'double'"),
        ("a int, weight decimal(9,0)", {"changes": "weight"}, TypeMismatchError, r"got 'decimal\(9,0\)'"),
        ("a int, weight double", {}, TypeMismatchError, "'weight' has the wrong type: got 'double'"),
        ("a int, weight string", {"changes": "weight"}, TypeMismatchError, "'weight' has the wrong type: got 'string'"),
        ("a int, op int", {"changes": "op"}, TypeMismatchError, "'op' has the wrong type: got 'int', expected text"),
        ("a int, changelog_op string", {"changes": "risingwave"}, TypeMismatchError, "expected integers"),
        ("a int, op string", {"changes": "op", "codes": {"x": 2}}, UsageError, "map each code to 1 or -1"),
        ("a int, op string", {"changes": "op", "codes": {}}, UsageError, "map each code to 1 or -1"),
        ("a int, op string", {"changes": "op", "codes": {"x": 1, 2: -1}}, UsageError, "all text or all integers"),
        ("a int, weight int", {"codes": {"x": 1}}, UsageError, "expected changes='op'"),
        ("a int, b int", {"changes": "append", "column": "b"}, UsageError, "changes='append' cannot be combined"),
        ("a int", {"columns": ["b"]}, ColumnError, "the changes' has no column 'b'"),
        ("a int", {"columns": ["a", "a"]}, SchemaError, "names a column twice"),
        ("a int", {"columns": "a"}, UsageError, "columns has the wrong type: got str"),
        ("a int", {"columns": []}, SchemaError, "have no data column"),
        ("weight int", {}, SchemaError, "have no data column"),
        ("a int", {"key": "b"}, ColumnError, "key' has no column 'b'"),
        ("a int", {"order_by": "lsn"}, ColumnError, "order_by' has no column 'lsn'"),
        ("a int, s struct<x: int>", {"order_by": "s.y"}, ColumnError, "'s' has no column 'y'"),
        ("a int, lsn string", {"order_by": "lsn"}, TypeMismatchError, "text is ordered by its letters"),
        ("a int, _order_1 int", {}, SchemaError, "data column '_order_1' has a name that the result"),
        ("op string, before int, after int", {"changes": "debezium"}, TypeMismatchError, "expected structs in before"),
        ("op string, after struct<a: int>", {"changes": "debezium"}, ColumnError, "no column 'before'"),
        ("v int", {"changes": "debezium", "column": "v"}, TypeMismatchError, "got 'int', expected a struct"),
        (
            "op string, before struct<a: int>, after struct<a: bigint>",
            {"changes": "debezium"},
            TypeMismatchError,
            "struct<a:int> and struct<a:bigint>",
        ),
    ],
)  # fmt: skip
def test_what_the_schema_tells_is_raised_at_once(spark, schema, arguments, error, message):
    with pytest.raises(error, match=message):
        gws.normalise(spark.createDataFrame([], schema), **arguments)


def test_two_columns_of_one_name_are_refused(spark):
    frame = spark.createDataFrame([], "a int").selectExpr("a", "a")
    with pytest.raises(SchemaError, match="more than one column named 'a'"):
        gws.normalise(frame)


def test_a_data_column_called_weight_needs_another_name(spark):
    frame = spark.createDataFrame([(1, 7, "d")], "a int, weight int, op string")
    with pytest.raises(SchemaError, match="the data column 'weight' has a name"):
        gws.normalise(frame, "op")
    assert gws.normalise(frame, "op", columns={"a": "a", "w": "weight"}).collect() == [(1, 7, -1)]


def test_debezium_keeps_a_field_called_weight_under_another_name(spark):
    schema = "op string, before struct<a: int, weight: int>, after struct<a: int, weight: int>"
    frame = spark.createDataFrame([("u", (1, 5), (1, 6))], schema)
    found = gws.normalise(frame, columns={"a": "a", "w": "weight"}).collect()
    assert sorted(map(tuple, found)) == [(1, 5, -1), (1, 6, 1)]


def test_decimals_and_times_are_orders_too(spark):
    rows = [(1, Decimal(5), Decimal(1)), (2, Decimal(4), Decimal(2))]
    frame = spark.createDataFrame(rows, "a int, scn decimal(20,0), n decimal(3,0)")
    ordered = gws.normalise(
        frame.selectExpr("a", "scn", "timestamp_seconds(n) at"), columns=["a"], order_by=["scn", "at"]
    )
    assert ordered.columns == ["a", "weight", "_order_1", "_order_2"]
    assert gws.as_change(ordered.toArrow()).to_pydict() == {"a": [2, 1], "weight": [1, 1]}


def test_no_function_of_python_runs_over_rows(spark):
    for case in CASES.values():
        plan = normalised(spark, case)._jdf.queryExecution().executedPlan().toString()
        assert "Python" not in plan
        assert "Arrow" not in plan


def test_a_stream_is_normalised_by_the_same_expressions(spark, tmp_path):
    for name in ("debezium", "delta_cdf"):
        case = CASES[name]
        folder = tmp_path / name
        frame = spark.createDataFrame(case.rows, case.schema)
        frame.coalesce(1).write.parquet(str(folder / "in"))
        stream = spark.readStream.schema(frame.schema).parquet(str(folder / "in"))
        changes = gws.normalise(stream, order_by=case.arguments.get("order_by", "place"))
        assert changes.isStreaming
        query = (
            changes.writeStream.format("parquet")
            .option("path", str(folder / "out"))
            .option("checkpointLocation", str(folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        found = spark.read.parquet(str(folder / "out")).collect()
        assert sorted(((row.src, row.dst), row.weight) for row in found) == sorted(EXPECTED)
