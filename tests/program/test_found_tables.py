"""Tables of the caller that a query reads by name, and tables that are passed and not read."""

from __future__ import annotations

import traceback
import warnings

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import gpu_wcoj as gw
from gpu_wcoj.errors import EdnSyntaxError, GpuWcojError, UnknownRelationError, UnreadRelationWarning, UsageError

orders = pl.DataFrame({"who": ["x"], "n": [1]})
numbers = [(1,), (2,)]


def test_a_local_frame_comes_before_a_global_one():
    assert gw.query("SELECT n FROM orders").rows() == [(1,)]

    def inner():
        orders = pd.DataFrame({"who": ["y"], "n": [2]})
        assert len(orders)
        return gw.query("SELECT n FROM orders").rows(), gw.query("h(n) :- orders(_, n).").rows()

    assert inner() == ([(2,)], [(2,)])
    frame = orders.with_columns(n=5)
    assert [gw.query("SELECT n FROM frame").rows() for _ in frame] == [[(5,)]] * 2
    assert sum(len(gw.query("SELECT n FROM frame")) for _ in frame) == 2
    assert gw.query("SELECT n FROM orders", orders={"n": [3]}).rows() == [(3,)]


def test_frames_of_every_library(caplog):
    caplog.set_level("INFO", "gpu_wcoj")
    table = pa.table({"a": [1]})
    lazy = pl.LazyFrame({"a": [1]})
    reader = pa.table({"a": [1]}).to_reader()
    zset = gw.ZSet.from_rows([((1,), 2)], ["a"])
    result = gw.query("SELECT a FROM lazy")
    text = 'SELECT z.a FROM "table" t, reader r, result s, zset z WHERE t.a = z.a AND r.a = z.a AND s.a = z.a'
    assert gw.query(text).rows() == [(1,), (1,)]
    assert [len(table), len(zset), len(result), type(lazy), type(reader)]
    said = [record.getMessage() for record in caplog.records if "of the caller" in record.getMessage()]
    assert said[0].startswith("relation 'lazy' is a local variable of the caller: a polars.LazyFrame (")
    assert "test_found_tables.py, line " in said[0]
    assert len(said) == 5


def test_views_find_them_too():
    edge = pd.DataFrame({"src": [1, 2], "dst": [2, 3]})
    view = gw.view("path(a, c) :- edge(a, b), edge(b, c).")
    assert view.snapshot().rows() == [(1, 3)]
    assert view.apply(edge=edge.assign(src=[3, 3], dst=[4, 5])).rows() == [((2, 4), 1), ((2, 5), 1)]
    assert gw.view("SELECT src FROM edge", outputs=["answer"]).snapshot()["answer"].rows() == [(1,), (2,)]


def test_what_is_no_frame_is_not_found():
    edge, series = [(1, 2)], pl.Series([1])
    for text in ("h(a) :- edge(a, _).", "h(a) :- numbers(a).", "SELECT * FROM series", "SELECT * FROM edge"):
        with pytest.raises(UnknownRelationError, match="unknown relation"):
            gw.query(text)
    assert len(edge) == len(series)


def test_scanning_can_be_forbidden():
    for entry in (gw.query, gw.view):
        with pytest.raises(UnknownRelationError, match="unknown relation 'orders'"):
            entry("SELECT n FROM orders", scan=False)
        with pytest.raises(UsageError, match="scan=1 is not allowed: expected True or False"):
            entry("SELECT n FROM orders", orders=orders, scan=1)
        with pytest.raises(UnknownRelationError, match="'scan' is an option: pass the relations as a mapping"):
            entry("SELECT n FROM scan", scan=orders)


def test_a_declared_relation_may_be_empty_in_a_view_and_is_found_in_a_query():
    text = ".decl orders(who: string, n: int64) h(n) :- orders(_, n)."
    assert gw.view(text).count() == 0
    assert gw.query(text).rows() == [(1,)]


@pytest.mark.parametrize("text", ["h(a) :- r(a).", "SELECT a FROM r"])
def test_tables_that_are_not_read_are_ignored(text):
    rows = {"a": [1]}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert gw.query(text, r=rows, other=[(1, 2)], more=iter([(1,)])).rows() == [(1,)]
        assert gw.view(text, r=rows, other=[(1, 2)]).count() == 1
    with pytest.warns(UnreadRelationWarning, match="relation 'orders' is passed.*Did you mean 'order'"):
        gw.query(text.replace(" r", ' "order"') if "SELECT" in text else "h(a) :- order(a).", order=rows, orders=rows)
    if text.startswith("h"):
        with pytest.raises(UnknownRelationError, match=r"unknown relation 'rows'"):
            gw.view(f".decl r(a: int64) {text}", rows=[(1,)])
    with pytest.raises(UnknownRelationError, match="unknown relation 'other'"):
        gw.view(text, r=rows).apply(other=[(1,)])


def test_queries_in_edn_find_them():
    edges = pd.DataFrame({"src": [1, 2], "dst": [2, 3]})
    hops = "[:find ?a ?c :where (edges ?a ?b) (edges ?b ?c)]"
    assert gw.query(hops).rows() == gw.view(hops).snapshot().rows() == [(1, 3)]
    assert gw.query("[:find ?a ?c :in $edges :where [$edges ?a ?c]]").rows() == [(1, 2), (2, 3)]
    with pytest.raises(EdnSyntaxError, match="unknown rule 'edges': expected one of none"):
        gw.query(hops, scan=False)
    with pytest.raises(EdnSyntaxError, match="unknown rule 'nodes': expected one of 'edges'. Did you mean"):
        gw.query("[:find ?a :where (edges ?a ?b) (nodes ?b)]")
    assert len(edges)


def test_motifs_find_vertices_and_edges(caplog):
    caplog.set_level("INFO", "gpu_wcoj")
    motif = "(a)-[]->(b); (b)-[]->(c)"
    edges = pl.DataFrame({"src": [1, 2, 3], "dst": [2, 3, 4]})
    ends = ["a.id", "c.id"]
    assert gw.find(motif, columns=ends).rows() == [(1, 3), (2, 4)]

    def with_vertices():
        vertices, edges = pd.DataFrame({"id": [1, 2, 3]}), pd.DataFrame({"src": [1, 2, 3], "dst": [2, 3, 4]})
        found = gw.find(motif, columns=ends).rows(), gw.view(motif, columns=ends).snapshot().rows()
        return *found, gw.find(motif, edges=edges, columns=ends).rows(), len(vertices)

    assert with_vertices() == ([(1, 3)], [(1, 3)], [(1, 3), (2, 4)], 3)
    said = [record.getMessage() for record in caplog.records]
    assert any(text.startswith("relation 'vertices' is a local variable of the caller: a pandas.") for text in said)
    for entry in (gw.find, gw.view):
        with pytest.raises(UsageError, match="edges"):
            entry(motif, columns=ends, scan=False)
        with pytest.raises(UsageError, match="scan=1 is not allowed: expected True or False"):
            entry(motif, columns=ends, scan=1)
    assert len(edges)


def test_a_table_of_a_near_name_is_named():
    order = orders.with_columns(n=2)
    for text in ("SELECT n FROM orderz", "h(n) :- orderz(_, n).", "[:find ?n :where (orderz _ ?n)]"):
        said = "\n  Or did you mean the variable 'orders?', which holds a table"
        with pytest.raises(GpuWcojError, match=said) as near:
            gw.query(text)
        assert "Or did you mean the variable" in "".join(traceback.format_exception(near.value))
        with pytest.raises(GpuWcojError) as caught:
            gw.query(text, scan=False)
        assert "variable" not in str(caught.value).replace("has no variable", "")
    assert len(order)
