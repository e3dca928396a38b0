"""Changes in the formats of other systems, applied to views, programs and matchers."""

import logging
from datetime import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import gpu_wcoj as gw
from gpu_wcoj.errors import ArityError, ColumnError, SchemaError, TypeMismatchError

START = {"src": [1, 1, 2], "dst": [2, 3, 3]}
NEW = [(1, 3, -1), (2, 3, -1), (2, 4, 1), (5, 6, 1)]  # (2, 3) becomes (2, 4)
COUNTS = [((1, 2), -1), ((1, 1), 1), ((5, 1), 1)]
AT = datetime(2026, 1, 1)


def coded(column, *codes, **beside):
    return {"src": [s for s, _, _ in NEW], "dst": [d for _, d, _ in NEW], column: list(codes), **beside}


def event(op, before, after):
    row = [None if edge is None else dict(zip(("src", "dst"), edge, strict=True)) for edge in (before, after)]
    return {"before": row[0], "after": row[1], "source": {"table": "edges"}, "op": op, "ts_ms": 17}


EVENTS = [event("d", (1, 3), None), event("u", (2, 3), (2, 4)), event("c", None, (5, 6))]
FEEDS = {
    "delta_cdf": coded(
        "_change_type", "delete", "update_preimage", "update_postimage", "insert",
        _commit_version=[2, 1, 1, 2], _commit_timestamp=[AT] * 4,
    ),
    "iceberg": coded(
        "_change_type", "DELETE", "UPDATE_BEFORE", "UPDATE_AFTER", "INSERT",
        _change_ordinal=[0, 0, 1, 1], _commit_snapshot_id=[7] * 4,
    ),
    "a change type alone": coded("_change_type", "DELETE", "update_preimage", "update_postimage", "INSERT"),
    "flink": coded("row_kind", "-D", "-U", "+U", "+I"),
    "risingwave": coded("changelog_op", 2, 4, 3, 1, _changelog_row_id=[1, 2, 3, 4]),
    "sign": coded("sign", -1, -1, 1, 1),
    "op": coded("op", "d", "-U", "+u", "insert"),
    "debezium": EVENTS,
    "payloads": [{"payload": one} for one in EVENTS],
    "keys and values": [{"key": 7, "value": one} for one in EVENTS],
}  # fmt: skip


def view():
    return gw.view("SELECT src, count(*) AS n FROM e GROUP BY src", e=START)


@pytest.mark.parametrize("name", FEEDS)
def test_views_programs_and_matchers_take_feeds(name, caplog):
    feed = FEEDS[name]
    table = pa.table(feed) if isinstance(feed, dict) else pa.Table.from_pylist(feed)
    for form in (feed, table, table.to_batches()[0], pl.DataFrame(table), pl.LazyFrame(pl.DataFrame(table)),
                 pa.RecordBatchReader.from_batches(table.schema, table.to_batches())):  # fmt: skip
        assert sorted(view().apply(e=form).rows()) == sorted([((1, 1), 1), ((1, 2), -1), ((5, 1), 1)])
    hops = gw.view("hop(a, c) :- e(a, b), e(b, c).", e=START)
    assert hops.apply(e=table).rows() == [((1, 3), -1), ((1, 4), 1)]
    matcher = gw.Matcher("(a)-[e]->(b)", edges=START, columns=["a.id", "b.id"])
    assert sorted(matcher.apply(edges=table).rows()) == sorted([((s, d), w) for s, d, w in NEW])
    with caplog.at_level(logging.INFO, "gpu_wcoj"):
        view().apply(e=table)
    assert "relation 'e': the changes are taken as '" in caplog.text


def test_a_program_without_names_counts_the_columns():
    program = gw.Program("n(a, b) :- e(a, b).")
    assert program.step({"e": pl.DataFrame({"src": [1], "dst": [2], "op": ["c"]})})["n"].rows() == [((1, 2), 1)]
    assert program.step({"e": pl.DataFrame(FEEDS["sign"])})["n"].rows() == [((2, 4), 1), ((5, 6), 1)]


IMAGES = pa.struct([("a", pa.int64())])
IN_ORDER = {
    "an event creates what the next one deletes": (
        [], pa.table({"before": pa.array([None, {"a": 1}], IMAGES), "after": pa.array([{"a": 1}, None], IMAGES),
                      "op": ["c", "d"]}), []),
    "events change a row and change it back": (
        [1], pa.table({"before": pa.array([{"a": 1}, {"a": 2}], IMAGES),
                       "after": pa.array([{"a": 2}, {"a": 1}], IMAGES),
                       "op": ["u", "u"]}), [1]),
    "the later commit stands first": (
        [], pa.table({"a": [1, 1], "_change_type": ["delete", "insert"], "_commit_version": [2, 1]}), []),
    "an update leaves the row as it was": (
        [1], pa.table({"a": [1, 1], "_change_type": ["update_postimage", "update_preimage"],
                       "_commit_version": [3, 3]}), [1]),
    "ordinals order changes": (
        [1], pa.table({"a": [1, 1], "_change_type": ["INSERT", "DELETE"], "_change_ordinal": [1, 0],
                       "_commit_snapshot_id": [7, 7]}), [1]),
}  # fmt: skip


@pytest.mark.parametrize("bag", [False, True], ids=["set", "bag"])
@pytest.mark.parametrize("name", IN_ORDER)
def test_operations_on_one_row_are_applied_in_order(name, bag):
    start, feed, expected = IN_ORDER[name]
    program = gw.Program("h(a) :- t(a).", schema={"t": {"a": "int64"}}, bag=bag)
    program.step({"t": [(a,) for a in start]})
    assert program.step({"t": feed})["h"].rows() == []
    assert program.relation("t").rows() == [((a,), 1) for a in expected]


def test_lines_of_json_with_events(tmp_path):
    lines = tmp_path / "events.jsonl"
    pl.DataFrame({"payload": EVENTS}).write_ndjson(lines)
    assert len(view().apply(e=lines)) == 3


def test_columns_of_the_data_are_never_those_of_a_format():
    sets = gw.view("SELECT op, count(*) AS n FROM e GROUP BY op", e={"src": [1], "op": ["c"]})
    assert sets.apply(e={"src": [2], "op": ["d"]}).rows() == [(("d", 1), 1)]
    assert sets.apply(e={"src": [2], "op": ["d"], "sign": [-1]}).rows() == [(("d", 1), -1)]
    assert len(gw.view("SELECT before, op FROM e", e={"before": [1], "after": [2], "op": ["c"]}).snapshot()) == 1
    envelopes = gw.view("SELECT op FROM e", schema={"e": {"before": "int64", "after": "int64", "op": "string"}})
    assert envelopes.apply(e={"before": [1], "after": [2], "op": ["c"]}).rows() == [(("c",), 1)]
    weights = gw.view("SELECT weight FROM e", e={"src": [1], "weight": [5]})
    assert weights.apply(e={"src": [1], "weight": [5], "sign": [-1]}).rows() == [((5,), -1)]


def test_types_and_nulls_go_through():
    view = gw.view(
        "SELECT * FROM e",
        e=pl.DataFrame({"a": ["x"], "d": [Decimal("1.50")], "f": [None]}, schema_overrides={"f": pl.Float32}),
    )
    rows = pa.table({"a": [None], "d": pa.array([Decimal("2.25")], pa.decimal128(38, 2)),
                     "f": pa.array([1.5], pa.float32()),
                     "_change_type": pa.array(["insert"]).dictionary_encode()})  # fmt: skip
    assert view.apply(e=rows).rows() == [((None, Decimal("2.25"), 1.5), 1)]
    frame = pd.DataFrame({"a": ["x"], "d": [Decimal("1.50")], "f": [np.nan], "op": ["d"]})
    assert view.apply(e=pa.table(frame).set_column(2, "f", pa.array([None], pa.float32()))).rows() == [
        (("x", Decimal("1.50"), None), -1)
    ]


@pytest.mark.parametrize(
    ("rows", "error", "match"),
    [
        (coded("op", "c", "c", "u", "c"), TypeMismatchError, r"row 2, column 'op' is not a code.*'u'(?s:.)*old row"),
        (coded("op", "c", None, "d", "c"), TypeMismatchError, r"row 1, column 'op' is not a code of 'op': got None"),
        (coded("sign", 1, 2, 1, 1), TypeMismatchError, r"row 1, column 'sign' is not a code of 'sign': got 2"),
        (coded("sign", "a", "b", "c", "d"), TypeMismatchError, "has the wrong type: got 'string', expected integers"),
        ([event("u", None, (1, 2)), event("d", (1, 2), None)], SchemaError, "row 0: 'before' is null in an event"),
        ([event("t", (1, 2), (1, 2))], TypeMismatchError, "column 'op' is not an operation of Debezium: got 't'"),
        (coded("kind", 1, 1, 1, 1), SchemaError, "An extra column is allowed if it is called 'weight'"),
        (coded("op", *"cccc", sign=[1] * 4), ArityError, "has 2 columns, and the rows have 4"),
        ({"src": [1], "dts": [2], "op": ["c"]}, ColumnError, "no column 'dts'"),
        ([{"before": None, "after": {"src": 1, "dts": 2}, "op": "c"}], ColumnError, "no column 'dts'"),
    ],
)  # fmt: skip
def test_mistakes_leave_the_state(rows, error, match):
    kept = view()
    with pytest.raises(error, match=match):
        kept.apply(e=rows)
    assert kept.snapshot().rows() == [(1, 2), (2, 1)]
