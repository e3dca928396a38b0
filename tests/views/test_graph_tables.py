"""Tables of many kinds in, matches out in many forms."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

import gpu_wcoj as gw
from gpu_wcoj.errors import TypeMismatchError, UsageError

PEOPLE = {"id": ["a", "b", "c"], "name": ["Ann", "Bo", "Cy"], "tags": [["x"], [], None]}
CALLS = {"src": ["a", "b", "c"], "dst": ["b", "c", "a"], "kind": ["p", "q", None], "x": [1.5, 2.0, None]}


def frames():
    pandas, polars, duckdb = (pytest.importorskip(name) for name in ("pandas", "polars", "duckdb"))
    return {
        "dict": lambda data: data,
        "arrow": pa.table,
        "pandas": lambda data: pandas.DataFrame(data),
        "polars": polars.DataFrame,
        "duckdb": lambda data: duckdb.from_arrow(pa.table(data)),
        "chunks": lambda data: pa.concat_tables([pa.table(data).slice(0, 1), pa.table(data).slice(1)]),
    }


@pytest.mark.parametrize("kind", ["dict", "arrow", "pandas", "polars", "duckdb", "chunks"])
def test_frames_with_texts(kind: str):
    make = frames()[kind]
    found = gw.find("(a)-[e]->(b)", vertices=make(PEOPLE), edges=make(CALLS), where="e.kind LIKE 'p%' OR e.x IS NULL")
    by_id = {row["a"]["id"]: row for row in found.to_arrow().to_pylist()}
    assert by_id["a"]["a"] == {"id": "a", "name": "Ann", "tags": ["x"]}
    assert by_id["a"]["e"] == {"src": "a", "dst": "b", "kind": "p", "x": 1.5}
    assert by_id["c"]["e"] == {"src": "c", "dst": "a", "kind": None, "x": None}
    assert by_id["c"]["a"]["tags"] is None
    assert found.to_polars().shape == found.to_pandas().shape == (2, 3)
    assert pa.table(found).num_rows == 2
    matcher = gw.Matcher("(a)-[e]->(b)", vertices=make(PEOPLE), edges=make(CALLS))
    gone = {**{name: values[:1] for name, values in PEOPLE.items()}, "weight": [-1]}
    assert [weight for _, weight in matcher.apply(vertices=make(gone)).rows()] == [-1, -1]
    gone = {**{name: values[1:2] for name, values in CALLS.items()}, "weight": [-1]}
    assert [weight for _, weight in matcher.apply(edges=make(gone)).rows()] == [-1]


def test_pandas_rounds_no_integer_of_a_match_with_nulls():
    big = 2**53 + 1
    vertices = {"id": [1, 2], "account": [big, None], "is_open": [None, True]}
    edges = {"src": [1, 2], "dst": [2, 1], "amount": [big, None]}
    found = gw.find("(a)-[e]->(b)", vertices=vertices, edges=edges)
    frame = found.to_pandas()
    assert [[row[name] for name in found.to_arrow().column_names] for _, row in frame.iterrows()] == [
        list(row) for row in found
    ]
    assert type(frame["a"][0]["account"]) is int


def test_arrays_z_sets_and_graphs():
    lines = np.array([(1, 2), (2, 1)], dtype=[("src", "i8"), ("dst", "i8")])
    assert gw.find("(a)<-[]->(b)", edges=lines, columns=["a.id"]).rows(weights=True) == [((1,), 1), ((2,), 1)]
    zset = gw.ZSet.from_dict({(1, 2): 2, (2, 1): 1}, ["src", "dst"])
    assert gw.find("(a)<-[]->(b)", edges=zset, columns=["a.id"]).rows(weights=True) == [((1,), 2), ((2,), 2)]
    graph = SimpleNamespace(vertices={"id": [1, 2], "n": [5, 6]}, edges={"src": [1], "dst": [2]})
    assert gw.find("(a)-[]->(b)", graph, columns=["b.n"]).rows(weights=True) == [((6,), 1)]


def test_types_go_out_as_they_came_in():
    nodes = pa.table({"id": pa.array([1, 2], pa.int32()), "label": pa.array(["x", "y"]).dictionary_encode()})
    lines = pa.table({"src": pa.array([1], pa.int16()), "dst": pa.array([2], pa.int64())})
    found = gw.find(
        "(a)-[e]->(b)", vertices=nodes, edges=lines, columns=["a", "e", "b.id", "b.label", "e.src"]
    ).to_arrow()
    assert found.schema.field("a").type == pa.struct(list(nodes.schema))
    assert found.schema.field("e").type == pa.struct(list(lines.schema))
    assert found.schema.field("b.id").type == pa.int32()
    assert found.schema.field("b.label").type == nodes.schema.field("label").type
    assert found.schema.field("e.src").type == pa.int16()
    nothing = gw.find("(a)-[e*1..2]->(b)", vertices=nodes, edges=lines.slice(0, 0)).to_arrow()
    assert nothing.schema.field("_e2").type == pa.struct(list(lines.schema))
    assert [nothing.schema.field(name).type for name in ("_hop", "_pattern")] == [pa.int64(), pa.string()]


def test_ids_that_are_categories():
    ids = pa.array(["x", "y"]).dictionary_encode()
    edges = pa.table({"src": ids, "dst": ids.take(pa.array([1, 0]))})
    found = gw.find("(a)-[e]->(b)", vertices=pa.table({"id": ids, "n": [1, 2]}), edges=edges, columns=["a.n", "b", "e"])
    assert sorted(row["a.n"] for row in found.to_arrow().to_pylist()) == [1, 2]
    assert {row["b"]["id"]: row["b"]["n"] for row in found.to_arrow().to_pylist()} == {"x": 1, "y": 2}


def test_other_names_of_columns():
    found = gw.find(
        "(a)-[e]->(b)", vertices={"account": [1, 2], "x": [7, 8]}, edges={"from": [1], "to": [2]},
        id="account", src="from", dst="to", where="b.x = 8 AND e.from = 1",
    )  # fmt: skip
    assert found.to_arrow().to_pylist() == [
        {"a": {"account": 1, "x": 7}, "e": {"from": 1, "to": 2}, "b": {"account": 2, "x": 8}}
    ]


def test_vertices_of_an_edge_table_have_an_id():
    found = gw.find("(a)-[]->(b)", edges={"from": ["x"], "to": ["y"]}, src="from", dst="to")
    assert found.to_arrow().to_pylist() == [{"a": {"id": "x"}, "b": {"id": "y"}}]


def test_matches_as_a_z_set_and_as_text():
    found = gw.find("(a)-[]->()", edges={"src": [1, 1], "dst": [2, 3]}, columns=["a.id"])
    assert found.to_zset().to_dict() == {(1,): 2}
    structs = gw.find("(a)", edges={"src": [1], "dst": [2]}).to_zset()
    assert structs.rows() == [(({"id": 1},), 1), (({"id": 2},), 1)]
    assert repr(found).splitlines()[0] == "2 rows, 1 column"
    many = gw.find("(a)-[]->(b)", edges={"src": list(range(30)), "dst": list(range(30))})
    assert repr(many).count("…") == 2
    assert len(repr(many).splitlines()) == 17
    assert "<p>30 rows, 2 columns</p>" in many._repr_html_()
    with pytest.raises(UsageError, match=r"needs a session"):
        found.to_spark()
    matcher = gw.Matcher("(a)-[]->()", edges={"src": [1, 1], "dst": [2, 3]}, columns=["a.id"])
    changed = matcher.apply(edges={"src": [1], "dst": [2], "weight": [-1]})
    assert repr(changed).splitlines()[0] == "MatchChange: 1 row, 1 column"
    assert changed.to_zset().to_dict() == {(1,): -1}
    assert list(changed) == [((1,), -1)]


LINES = {"src": [1], "dst": [2], "n": [3]}


KINDS = {
    "i": pa.array([1, 2]), "small": pa.array([1, 2], pa.int8()), "f": pa.array([1.5, 2.5]), "s": pa.array(["x", "y"]),
    "d": pa.array([dt.date(2024, 1, 1)] * 2), "t": pa.array([dt.datetime(2024, 1, 1, 12, 30)] * 2),
    "m": pa.array([Decimal("1.25")] * 2, pa.decimal128(9, 2)), "b": pa.array([True, False]), "by": pa.array([b"x"] * 2),
    "z": pa.array([dt.datetime(2024, 1, 1)] * 2, pa.timestamp("us", "UTC")),
    "l": pa.array([[1], [2]]), "n": pa.array([1, 2], pa.duration("s")),
}  # fmt: skip


@pytest.mark.parametrize("first", KINDS)
@pytest.mark.parametrize("other", KINDS)
def test_a_change_is_of_the_types_that_were_there(first, other):
    """As in programs: what is of another family is refused, and nothing is changed, whether it could be cast or not."""
    edges = pa.table({"src": [1, 2], "dst": [3, 4], "v": KINDS[first]})
    matcher = gw.Matcher("(a)-[e]->(b)", edges=edges, columns=["a.id", "e.v"])
    given = pa.table({"src": [7, 8], "dst": [9, 9], "v": KINDS[other]})
    if first == other or {first, other} == {"i", "small"}:
        assert matcher.apply(edges=given).to_arrow().column(1).to_pylist() == KINDS[other].to_pylist()
        assert matcher.matches().to_arrow().column(1).type == KINDS[first].type
        return
    with pytest.raises(TypeMismatchError, match=r"(?s)the edges, column 'v', have the wrong type.*Cast the column"):
        matcher.apply(edges=given)
    assert len(matcher.matches()) == 2
    assert matcher.apply(edges=given.set_column(2, "v", pa.nulls(2))).to_arrow().column(1).to_pylist() == [None, None]


def test_a_value_that_a_narrower_type_does_not_hold_is_refused():
    matcher = gw.Matcher("(a)-[e]->(b)", edges=pa.table({"src": [1], "dst": [2], "v": KINDS["m"][:1]}), columns=["e.v"])
    for value in (Decimal("2.505"), Decimal("12345678901.5")):
        with pytest.raises(
            TypeMismatchError, match=r"(?s)do not fit type 'decimal128\(9, 2\)' of earlier rows.*Nothing was changed"
        ):
            matcher.apply(edges={"src": [1], "dst": [2], "v": [value]})
    assert matcher.matches().rows(weights=True) == [((Decimal("1.25"),), 1)]


def test_graphs_and_tables_are_given_once():
    graph = SimpleNamespace(vertices={"id": [1]}, edges=LINES)
    with pytest.raises(UsageError, match="a graph and vertices= or edges= cannot be combined"):
        gw.find("(a)", graph, edges=LINES)
    with pytest.raises(UsageError, match="the graph has the wrong type: got int"):
        gw.find("(a)", 5)
