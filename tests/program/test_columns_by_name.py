"""Columns of tables that have names go to the relation's columns of these names, in every language and container."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import gpu_wcoj as gw
from gpu_wcoj.errors import ArityError, ColumnError, SchemaError

duckdb = pytest.importorskip("duckdb")
RULE = "o(x, y) :- edge(x, y)."
FIRST = {"src": [1], "dst": [2]}
TURNED = {"dst": [4], "src": [3]}


def named_rows(columns):
    row: Any = NamedTuple("Row", [(name, int) for name in columns])
    return [row(*values) for values in zip(*columns.values(), strict=True)]


CONTAINERS = {
    "dict": dict,
    "arrow": pa.table,
    "batch": lambda columns: pa.RecordBatch.from_pydict(columns),
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "duckdb": lambda columns: duckdb.sql(f"select {', '.join(f'{v[0]} as {k}' for k, v in columns.items())}"),
    "structured": lambda columns: np.array([tuple(v[0] for v in columns.values())], [(k, "i8") for k in columns]),
    "named tuples": named_rows,
    "weighted": lambda columns: {"weight": [1], **columns},
    "zset": gw.ZSet.from_arrow,
}
WAYS = {
    "datalog": lambda: gw.view(RULE, edge=FIRST),
    "declared": lambda: gw.view(".decl edge(src: int64, dst: int64)\n" + RULE),
    "schema": lambda: gw.view(RULE, schema={"edge": {"src": "int64", "dst": "int64"}}),
    "sql": lambda: gw.view("select src, dst from edge", edge=FIRST),
    "sql bag": lambda: gw.view("select src, dst from edge", edge=gw.ZSet.from_arrow(FIRST), bag=True),
    "motif": lambda: gw.view("(a)-[edge]->(b)", edges=FIRST, columns=["a.id", "b.id"]),
}


def applied(view, change):
    return view.apply({"edges" if isinstance(view, gw.views.view.MotifView) else "edge": change}).rows()


@pytest.mark.parametrize("way", WAYS)
def test_a_table_in_another_order_is_put_right_in_every_language(way):
    view = WAYS[way]()
    assert applied(view, TURNED) == [((3, 4), 1)]
    for other in ({"dst": [4], "source": [3]}, {"a": [1], "b": [2]}):
        name = next(name for name in other if name not in FIRST)
        with pytest.raises(ColumnError, match=f"has no column '{name}'"):
            applied(view, other)
    with pytest.raises((ArityError, ColumnError), match="columns|no column"):
        applied(view, {"dst": [4]})
    assert applied(view, {**TURNED, "weight": [-1]}) == [((3, 4), -1)]


@pytest.mark.parametrize("container", CONTAINERS)
def test_names_decide_in_every_container(container):
    made = CONTAINERS[container]
    program = gw.Program(RULE)
    assert program.step({"edge": made(FIRST)})["o"].rows() == [((1, 2), 1)]
    assert program.relation("edge").names == ("src", "dst")
    assert program.step({"edge": made(TURNED)})["o"].rows() == [((3, 4), 1)]
    with pytest.raises(
        ColumnError, match=r"no column 'dts'.*\n.*'src', 'dst'. Did you mean 'dst'\?\n.*Rename"
    ) as caught:
        program.step({"edge": made({"dts": [4], "src": [3]})})
    assert isinstance(caught.value, KeyError)
    assert program.count("edge") == 2


@pytest.mark.parametrize(
    "nameless",
    [
        [(5, 6)], [[5, 6]], [((5, 6), 1)], iter([(5, 6)]), np.array([[5, 6]]), gw.ZSet.from_rows([(5, 6)]),
        pd.DataFrame([(5, 6)]), pl.DataFrame([[5], [6]]), pa.table({"_1": [5], "_2": [6]}),
    ],
    ids=["rows", "lists", "weighted", "iterator", "array", "zset", "pandas", "polars", "spark"],
)  # fmt: skip
@pytest.mark.parametrize("way", ["datalog", "declared", "sql"])
def test_rows_without_names_go_by_position(nameless, way):
    if not isinstance(nameless, (list, np.ndarray, gw.ZSet, pd.DataFrame, pl.DataFrame, pa.Table)):
        nameless = [(5, 6)].__iter__()  # an iterator serves once
    assert applied(WAYS[way](), nameless) == [((5, 6), 1)]


@pytest.mark.parametrize("feed", ["step", "load", "step_counts", "step_pieces"])
def test_names_are_those_of_the_first_table_that_has_some(feed):
    program = gw.Program(RULE)

    def take(change):
        getattr(program, feed)({"edge": change}, *([lambda *_: None] if feed == "step_pieces" else []))

    take([(1, 2)])
    take({"src": [3], "dst": [4]})
    take(np.array([[5, 6]]))
    take({"dst": [8], "src": [7]})
    with pytest.raises(ColumnError, match="no column 'a'"):
        take({"a": [1], "b": [2]})
    assert program.relation("edge").names == ("src", "dst")
    assert program.relation("o").rows() == [((1, 2), 1), ((3, 4), 1), ((5, 6), 1), ((7, 8), 1)]


def test_a_table_without_rows_tells_names():
    program = gw.Program(RULE)
    program.step({"edge": pa.table({"src": pa.array([], pa.int64()), "dst": pa.array([], pa.int64())})})
    assert program.step({"edge": TURNED})["o"].rows() == [((3, 4), 1)]
    program.step({"edge": []})
    with pytest.raises(ColumnError, match="no column 'a'"):
        program.step({"edge": {"a": [1], "b": [2]}})


def test_a_failed_tick_teaches_no_names():
    program = gw.Program("o(x, y) :- edge(x, y), node(y).", inputs=["edge", "node"])
    program.step({"node": {"id": [2, 4, 9]}})
    with pytest.raises(ColumnError, match="relation 'node' has no column 'ident'"):
        program.step({"edge": {"a": [1], "b": [2]}, "node": {"ident": [3]}})

    def fail(*_):
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        program.step_pieces({"edge": {"a": [1], "b": [2]}}, fail)
    assert program.step({"edge": FIRST})["o"].rows() == [((1, 2), 1)]
    mark = gw.Program(RULE)
    before = mark.mark()
    mark.step({"edge": {"a": [1], "b": [2]}})
    mark.return_to(before)
    assert mark.step({"edge": FIRST})["o"].rows() == [((1, 2), 1)]


def test_a_checkpoint_keeps_names(tmp_path):
    program = gw.Program(RULE)
    program.step({"edge": [(0, 0)]})
    program.checkpoint(tmp_path)
    program.step({"edge": FIRST})
    program.checkpoint(tmp_path)
    again = gw.Program.restore(tmp_path)
    assert again.step({"edge": TURNED})["o"].rows() == [((3, 4), 1)]
    with pytest.raises(ColumnError, match="no column 'b'"):
        again.step({"edge": {"b": [1], "src": [2]}})


def test_variables_of_rules_name_no_columns():
    program = gw.Program("path(x, y) :- edge(x, y).\npath(x, z) :- path(x, y), edge(y, z).\n.input path")
    program.step({"edge": {"y": [1], "x": [2]}, "path": {"to": [3], "from": [4]}})
    assert program.relation("path").rows() == [((1, 2), 1), ((3, 4), 1)]
    assert program.step({"path": {"from": [6], "to": [5]}})["path"].rows() == [((5, 6), 1)]


def test_two_columns_of_one_name_are_refused_also_in_a_first_table():
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    for program in (gw.Program(RULE), gw.Program(".decl edge(a: int64, b: int64)\n" + RULE)):
        with pytest.raises(SchemaError, match="column 'a' is given twice in relation 'edge'.\n.*Rename"):
            program.step({"edge": twice})


def test_declared_names_that_are_all_others_are_refused_with_what_to_do():
    program = gw.Program(".decl transfer(a: symbol, b: symbol)\npays(a, b) :- transfer(a, b).")
    with pytest.raises(ColumnError, match=r"no column 'payer'.*\n.*'a', 'b'.*\n.*Rename .*rows without names"):
        program.step({"transfer": pd.DataFrame({"payer": ["ann"], "payee": ["bo"]})})
    assert program.step({"transfer": [("ann", "bo")]})["pays"].rows() == [(("ann", "bo"), 1)]


def test_names_that_count_are_names_where_both_sides_have_them():
    program = gw.Program(RULE)
    program.step({"edge": pa.table({"c1": [1], "c0": [2]})})
    assert program.step({"edge": pa.table({"c0": [4], "c1": [3]})})["o"].rows() == [((3, 4), 1)]
    assert program.step({"edge": [(5, 6)]})["o"].rows() == [((5, 6), 1)]
    with pytest.raises(ColumnError, match="no column 'x'"):
        program.step({"edge": {"c0": [1], "x": [2]}})


def test_a_column_of_nulls_has_the_type_of_its_name():
    program = gw.Program(RULE)
    program.step({"edge": pa.table({"n": [1], "t": ["x"]})})
    assert program.step({"edge": {"weight": [1], "t": [None], "n": [2]}})["o"].rows() == [((2, None), 1)]
    circuit = gw.Circuit(backend="cpu")
    circuit.sink("o", circuit.source("edge"))
    circuit.step({"edge": pa.table({"n": [1], "t": ["x"]})})
    assert circuit.step({"edge": {"weight": [1], "t": [None], "n": [2]}})["o"].rows() == [((2, None), 1)]


def test_rows_that_name_their_columns_differently_are_refused():
    for other in (*named_rows({"a": [1], "b": [2]}), (1, 2)):
        with pytest.raises(SchemaError, match="row 1 names its columns .*, and row 0 dst, src"):
            gw.query(RULE, edge=[*named_rows(TURNED), other])


def test_a_source_of_a_circuit_learns_names_and_keeps_rows_in_order():
    circuit = gw.Circuit(backend="cpu")
    circuit.sink("o", circuit.source("edge").integrate())
    circuit.step({"edge": [(0, 1)]})
    circuit.step({"edge": {"src": [3, 1], "dst": [0, 9]}})
    found = circuit.step({"edge": gw.ZSet.from_arrow({"dst": [1, 2], "src": [2, 1]})})["o"]
    assert found.rows() == [((0, 1), 1), ((1, 2), 1), ((1, 9), 1), ((2, 1), 1), ((3, 0), 1)]
    with pytest.raises(ColumnError, match="relation 'edge' has no column 'a'"):
        circuit.step({"edge": {"a": [1], "b": [2]}})
    assert circuit.step({"edge": {"dst": [3], "src": [0]}})["o"].rows()[1] == ((0, 3), 1)


def test_weights_beside_a_column_called_weight():
    table = pa.table({"id": [1, 2, 2], "weight": [3, 3, 3]})
    view = gw.view("select id, weight from t", t=table)
    assert view.apply(t={"weight": [3], "id": [1], "_weight": [-1]}).rows() == [((1, 3), -1)]
    assert view.apply(t=view.snapshot().to_arrow()).rows() == [((2, 3), 2)]
    program = gw.Program(RULE)
    program.step({"edge": {"weight": [7], "id": [1]}})
    assert program.step({"edge": {"id": [1], "weight": [7], "_weight": [-1]}})["o"].rows() == [((7, 1), -1)]
    with pytest.raises(ColumnError, match="no column 'x'"):
        program.step({"edge": {"id": [1], "weight": [7], "x": [2]}})
    assert program.step({"edge": [((5, 6), 1)]})["o"].rows() == [((5, 6), 1)]
    assert program.step({"edge": [(row, -1) for row in named_rows({"id": [6], "weight": [5]})]})["o"].rows() == [
        ((5, 6), -1)
    ]
    circuit = gw.Circuit(backend="cpu")
    circuit.sink("o", circuit.source("edge", {"id": "int64", "weight": "int64"}))
    assert circuit.step({"edge": {"weight": [2], "id": [1]}})["o"].rows() == [((1, 2), 1)]
    assert circuit.step({"edge": {"weight": [2], "_weight": [-1], "id": [1]}})["o"].rows() == [((1, 2), -1)]


def test_sums_of_z_sets_go_by_name_where_both_have_the_same_names():
    left, right = gw.ZSet.from_arrow({"a": [1, 3], "b": [2, 4]}), gw.ZSet.from_arrow({"b": [4, 1], "a": [3, 5]})
    assert (left + right).rows() == [((1, 2), 1), ((3, 4), 2), ((5, 1), 1)]
    assert (left - right).rows() == [((1, 2), 1), ((5, 1), -1)]
    assert (left + gw.ZSet.from_arrow({"x": [4], "y": [3]})).rows()[-1] == ((4, 3), 1)
    circuit = gw.Circuit(backend="cpu")
    one, other = circuit.source("one"), circuit.source("other")
    circuit.sink("sum", one + other)
    circuit.sink("difference", one - other)
    found = circuit.step({"one": left, "other": right})
    assert found["sum"] == left + right
    assert found["difference"] == left - right


def test_rows_without_names_change_the_tables_of_a_motif():
    edges = {"dst": [2], "src": [1], "n": [5]}
    view = gw.view("(a)-[e]->(b)", edges=edges, columns=["a.id", "b.id", "e.n"])
    assert view.apply(edges=[(4, 3, 6), ((2, 1, 5), -1)]).rows() == [((1, 2, 5), -1), ((3, 4, 6), 1)]
    with pytest.raises(ColumnError, match="edges.* has no column 'm'"):
        view.apply(edges={"m": [1], "dst": [2], "src": [3]})
