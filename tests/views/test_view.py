"""Views of queries: what changes come, what a snapshot is, and what is refused; every tick against recomputation."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from decimal import Decimal

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import gpu_wcoj as gw
from gpu_wcoj.errors import (
    ArityError,
    ColumnError,
    GpuWcojError,
    SchemaError,
    UnknownRelationError,
    UsageError,
)
from tests.helpers.duckdb_judge import connect
from tests.reference.fixpoint import fixpoint
from tests.reference.program_text import written

TRIANGLE = "tri(a, b, c) :- edges(a, b), edges(b, c), edges(c, a)."
SQL_TRIANGLE = (
    "CREATE VIEW tri AS SELECT e.src a, f.src b, g.src c FROM edges e JOIN edges f ON e.dst = f.src"
    " JOIN edges g ON f.dst = g.src AND g.dst = e.src"
)
RING = {"src": [1, 2, 3], "dst": [2, 3, 1]}


def ticks(seed, n=12, values=5, most=6):
    """Changes of edges that insert what is not there and delete what is."""
    chance = random.Random(seed)
    there = set()
    for _ in range(n):
        rows = {(chance.randrange(values), chance.randrange(values)) for _ in range(chance.randint(0, most))}
        change = {row: -1 if row in there else 1 for row in rows}
        there ^= rows
        yield change, set(there)


def table(change):
    src, dst = [row[0] for row in change], [row[1] for row in change]
    return {
        "src": np.array(src, np.int64),
        "dst": np.array(dst, np.int64),
        "weight": np.array([*change.values()], np.int64),
    }


class TestDatalog:
    def test_the_example(self):
        view = gw.view(TRIANGLE, edges=RING)
        assert view.count() == 3
        assert view.snapshot().rows(weights=True) == [((1, 2, 3), 1), ((2, 3, 1), 1), ((3, 1, 2), 1)]
        change = view.apply(edges={"src": [1], "dst": [2], "weight": [-1]})
        assert change.rows() == [((1, 2, 3), -1), ((2, 3, 1), -1), ((3, 1, 2), -1)]
        assert view.snapshot("tri").rows(weights=True) == []
        assert view.snapshot("edges").rows(weights=True) == [((2, 3), 1), ((3, 1), 1)]
        assert view.count("edges") == 2
        assert view.progress["tick"] == 1
        assert repr(view) == "View of Program(tri from edges; set, cpu), after 2 ticks"
        assert view._repr_html_() == f"<code>{view!r}</code>"
        assert "delta path" in view.explain()
        assert view.explain(format="datalog") == TRIANGLE

    @pytest.mark.parametrize("seed", range(3))
    def test_every_tick_is_what_recomputation_says(self, seed):
        text = TRIANGLE + " far(a, c) :- edges(a, b), edges(b, c), !edges(a, c)."
        view = gw.view(text, {"edges": []}, schema={"edges": {"src": "int64", "dst": "int64"}}, outputs=["tri", "far"])
        before = {"tri": {}, "far": {}}
        for change, there in ticks(seed):
            answers = view.apply(edges=table(change))
            after = fixpoint(written(text), {"edges": dict.fromkeys(there, 1)})
            for name in ("tri", "far"):
                expected = Counter(after[name])
                expected.subtract(before[name])
                assert answers[name].to_dict() == {row: weight for row, weight in expected.items() if weight}
                assert view.snapshot()[name].to_zset().to_dict() == dict(after[name])
                assert view.count()[name] == len(after[name])
                before[name] = after[name]
            assert view.snapshot().keys() == {"tri", "far"}

    def test_relations_of_every_kind(self):
        expected = gw.view(TRIANGLE, edges=RING).snapshot().rows()
        frame = pl.DataFrame(RING)
        for edges in (frame, frame.to_arrow(), frame.to_pandas(), [(1, 2), (2, 3), (3, 1)], gw.ZSet.from_arrow(frame)):
            assert gw.view(TRIANGLE, edges=edges).snapshot().rows() == expected

    def test_a_column_of_weights_is_data_at_first_and_weights_later(self):
        rows = {"src": [1], "dst": [2], "weight": [-7]}
        view = gw.view("w(s, w) :- e(s, _, w).", e=rows)
        assert view.snapshot().rows(weights=True) == [((1, -7), 1)]
        with pytest.raises(ArityError, match="relation 'edges' has 2 columns, and the rows have 3"):
            gw.view(TRIANGLE, edges=rows)

    def test_relations_may_be_named_as_options(self):
        view = gw.view("h(x) :- order(x), keep(x).", {"order": [(1,), (2,)], "keep": [(2,)]})
        assert view.snapshot().rows(weights=True) == [((2,), 1)]
        assert view.apply({"keep": [(1,)]}).rows() == [((1,), 1)]

    @pytest.mark.parametrize("name", ["bag", "order", "backend", "keep", "replan"])
    @pytest.mark.parametrize("text", ["SELECT a FROM {}", "h(a) :- {}(a)."])
    def test_a_relation_that_is_taken_for_an_option_is_said_to_be_one(self, text, name):
        text, rows = text.format(name), {"a": [1]}
        said = f"unknown relation '{name}'(.|\n)*'{name}' is an option: pass the relations as a mapping, the second"
        with pytest.raises(UnknownRelationError, match=said):
            gw.view(text, **{name: rows})
        assert gw.view(text, {name: rows}).count() == 1
        assert gw.query(text, {name: rows}).rows(weights=True) == [((1,), 1)]
        if name in ("bag", "backend"):
            with pytest.raises(UnknownRelationError, match=said):
                gw.query(text, **{name: rows})
        with pytest.raises(UnknownRelationError) as caught:
            gw.view("SELECT a FROM bags", bagz=rows)
        assert "option" not in str(caught.value)

    def test_bags_where_they_are_asked_for(self):
        assert gw.view("h(x) :- r(x, _).", r=[(1, 2), (1, 3)], bag=True).snapshot().rows(weights=True) == [((1,), 2)]
        assert gw.view("h(x) :- r(x, _).", r=[(1, 2), (1, 3)]).snapshot().rows(weights=True) == [((1,), 1)]

    def test_columns_do_not_depend_on_the_rows(self):
        view = gw.view("h(x) :- r(x, _).", r=[(1, 2), (2, 3)], bag=True)
        assert view.snapshot().to_arrow().to_pydict() == {"x": [1, 2]}
        assert view.apply(r=[(1, 5)]).to_arrow().column_names == ["x", "weight"]
        assert view.snapshot().to_arrow().to_pydict() == {"x": [1, 1, 2]}

    def test_facts_and_declared_relations_begin_without_rows(self):
        view = gw.view(".decl e(a: int64, b: symbol)\n.input f\nf(1). h(a) :- e(a, _), f(a).")
        assert view.snapshot().rows(weights=True) == []
        assert view.apply(e=[(1, "x")]).rows() == [((1,), 1)]

    def test_a_failed_tick_leaves_the_answer_as_it_was(self):
        view = gw.view(TRIANGLE, edges=RING)
        with pytest.raises(GpuWcojError):
            view.apply(edges={"src": [1, 2], "dst": ["x", "y"]})
        assert view.count() == 3


class TestSql:
    def test_the_example(self):
        view = gw.view(SQL_TRIANGLE, edges=RING)
        assert view.snapshot().rows(weights=True) == [((1, 2, 3), 1), ((2, 3, 1), 1), ((3, 1, 2), 1)]
        assert view.apply(edges={"src": [1], "dst": [2], "weight": [-1]}).to_arrow().to_pydict() == {
            "a": [1, 2, 3], "b": [2, 3, 1], "c": [3, 1, 2], "weight": [-1, -1, -1]
        }  # fmt: skip

    @pytest.mark.parametrize(
        "text",
        [
            SQL_TRIANGLE,
            "SELECT src, COUNT(*) AS n, SUM(dst) AS s FROM edges GROUP BY src HAVING COUNT(*) > 1",
            "SELECT e.src FROM edges e LEFT JOIN edges f ON e.dst = f.src AND f.dst > 2 WHERE f.src IS NULL",
            "SELECT COUNT(*) FROM edges e, edges f WHERE e.dst = f.src",
            """WITH RECURSIVE r AS (SELECT src, dst FROM edges UNION SELECT r.src, e.dst FROM r JOIN edges e
            ON r.dst = e.src) SELECT * FROM r WHERE src < dst""",
        ],
    )
    def test_every_tick_is_what_duckdb_says(self, text):
        empty = pa.table({"src": pa.array([], pa.int64()), "dst": pa.array([], pa.int64())})
        view = gw.view(text, edges=empty)
        select = text.removeprefix("CREATE VIEW tri AS ")
        sum_of_changes = view.snapshot().to_zset()
        for change, there in ticks(text, n=8):
            sum_of_changes = sum_of_changes + view.apply(Edges=table(change))
            edges = pa.table(table(dict.fromkeys(sorted(there), 1))).drop_columns(["weight"])
            with connect() as connection:
                expected = Counter(connection.from_arrow(edges).query("edges", select).fetchall())
            assert Counter(view.snapshot()) == expected
            assert sum_of_changes.to_dict() == expected
            assert view.count("ANSWER" if "CREATE" not in text else "Tri") == sum(expected.values())

    def test_several_views_that_use_one_another(self):
        text = "CREATE VIEW two AS SELECT e.src, f.dst FROM edges e JOIN edges f ON e.dst = f.src;"
        text += "CREATE VIEW four AS SELECT a.src, b.dst FROM two a JOIN two b ON a.dst = b.src"
        with pytest.raises(UsageError, match="the program has several outputs: got 'two', 'four', expected one"):
            gw.view(text, edges=RING)
        assert gw.view(text, edges=RING, outputs="four").count() == 3
        view = gw.view(text, edges=RING, outputs=["two", "four"])
        assert view.snapshot()["four"].rows(weights=True) == [((1, 2), 1), ((2, 3), 1), ((3, 1), 1)]
        assert view.snapshot()["two"].rows(weights=True) == [((1, 3), 1), ((2, 1), 1), ((3, 2), 1)]

    def test_columns_of_dictionaries(self):
        dates = [dt.date(2020, 1, 1), dt.date(2020, 1, 2)]
        amounts = [Decimal("1.25"), Decimal("2.50")]
        names = pl.DataFrame({"a": ["x", "y"]}, schema={"a": pl.Categorical})
        for table, values in (
            (pa.table({"a": pa.array(dates).dictionary_encode()}), dates),
            (pa.table({"a": pa.chunked_array([pa.array(amounts).dictionary_encode()])}), amounts),
            (pa.table({"a": pa.chunked_array([], pa.dictionary(pa.int32(), pa.string()))}), []),
            (names, ["x", "y"]),
        ):
            assert [row for row, _ in gw.query("SELECT a FROM t", t=table).rows(weights=True)] == [
                (value,) for value in values
            ]

    def test_tables_that_begin_without_rows(self):
        view = gw.view("SELECT name FROM people WHERE age > 30", schema={"people": {"name": "string", "age": "int64"}})
        assert view.count() == 0
        assert view.apply(people={"age": [20, 40], "name": ["a", "b"]}).rows() == [(("b",), 1)]

    def test_columns_go_by_name(self):
        view = gw.view("SELECT dst FROM edges WHERE src = 1", edges={"dst": [7], "src": [1]})
        assert view.apply(edges=pl.DataFrame({"src": [1], "dst": [8], "weight": [1]})).rows() == [((8,), 1)]
        with pytest.raises(ColumnError, match="relation 'edges' has no column 'source'"):
            view.apply(edges={"source": [1], "dst": [2]})

    def test_sets_where_they_are_asked_for(self):
        assert gw.view("SELECT src FROM e", e={"src": [1, 1]}, bag=False).snapshot().rows(weights=True) == [((1,), 1)]
        assert gw.query("SELECT src FROM e", e={"src": [1, 1]}).rows(weights=True) == [((1,), 2)]

    def test_what_is_wrong_with_tables(self):
        with pytest.raises(SchemaError, match="column 'a' is given twice in relation 'e'"):
            gw.query("SELECT a FROM e", e=pa.table([[1], [2]], names=["a", "a"]))
        with pytest.raises(SchemaError, match="needs a name for each column(?s:.*)schema={'e': {'src': 'int64'"):
            gw.view("SELECT a FROM e", schema={"e": ["int64"]})
        with pytest.raises(UnknownRelationError, match="Did you mean 'edges'"):
            gw.view("SELECT src FROM edge", edges=RING)
        assert gw.view("SELECT src FROM edges", edges=RING, more=RING).count() == 3

    def test_another_dialect(self):
        view = gw.view("SELECT `src` FROM edges", dialect="spark", edges=RING)
        assert view.count() == 3


class TestEdn:
    @pytest.mark.parametrize("seed", range(2))
    def test_every_tick_is_what_recomputation_says(self, seed):
        text = "[:find ?a (count ?b) :where [$edges ?a ?b] (not [$edges ?b ?a])]"
        view = gw.view(text, schema={"edges": {"src": "int64", "dst": "int64"}})
        total = view.snapshot().to_zset()
        for change, there in ticks(seed):
            total = total + view.apply(edges=table(change))
            expected = Counter(a for a, b in there if (b, a) not in there)
            assert sorted(view.snapshot()) == sorted(expected.items())
            assert total.to_dict() == dict.fromkeys(expected.items(), 1)

    def test_arguments(self):
        text = "[:find ?a ?b :in ?least [?a ...] [[?b ?name]] :where (edges ?a ?b) [(>= ?b ?least)]]"
        view = gw.view(text, edges=RING, arguments=[2, [1, 3], [[1, "x"], [2, "y"]]])
        assert view.snapshot().rows(weights=True) == [((1, 2), 1)]
        assert view.apply(edges=[(3, 2)]).rows() == [((3, 2), 1)]
        assert gw.query(text, edges=RING, arguments=[1, [3], [[1, "x"]]]).rows(weights=True) == [((3, 1), 1)]
        assert gw.query(text, edges=RING, arguments=[1, [], []]).rows(weights=True) == []

    def test_columns_have_the_names_of_the_query(self):
        assert gw.query("[:find ?b ?a :keys to from :where [$edges ?a ?b]]", edges=RING).columns == ["to", "from"]
        assert gw.query("[:find [?a ...] :where [$edges ?a _]]", edges=RING).rows(weights=True) == [
            ((n,), 1) for n in (1, 2, 3)
        ]


class TestMotif:
    def test_the_example(self):
        view = gw.view("(a)-[]->(b); (b)-[]->(c); (c)-[]->(a)", edges=RING, columns=["a.id", "b.id", "c.id"])
        assert sorted(view.snapshot().rows(weights=True)) == [((1, 2, 3), 1), ((2, 3, 1), 1), ((3, 1, 2), 1)]
        change = view.apply(edges={"src": [1], "dst": [2], "weight": [-1]})
        assert sorted(change.rows()) == [((1, 2, 3), -1), ((2, 3, 1), -1), ((3, 1, 2), -1)]
        assert view.count() == 0
        assert view.progress["tick"] == 1
        assert "motif(" in view.explain(format="datalog")

    def test_options_and_tables_in_one_mapping(self):
        people = {"id": [1, 2, 3], "name": ["a", "b", "c"]}
        view = gw.view(
            "(a)-[]->(b)", {"vertices": people, "edges": RING}, where="a.name < b.name", columns=["a.name", "b.name"],
            semantics="nodes-distinct",
        )  # fmt: skip
        assert sorted(row for row, _ in view.snapshot().rows(weights=True)) == [("a", "b"), ("b", "c")]

    def test_what_has_no_meaning_here_is_refused(self):
        for option in ({"bag": True}, {"outputs": ["motif"]}, {"keep": ["motif"]}, {"schema": {"edges": ["int64"]}}):
            with pytest.raises(UsageError, match=f"the option '{next(iter(option))}' for a motif is not supported"):
                gw.view("(a)-[]->(b)", edges=RING, **option)
        with pytest.raises(UsageError, match="gpu_wcoj.find"):
            gw.query("(a)-[]->(b)", edges=RING)

    def test_relations_that_no_rule_reads(self):
        assert gw.view(TRIANGLE, edges=RING, nodes=[(1,)]).count() == 3

    def test_variables_of_the_caller_that_are_not_frames(self):
        edges = RING
        with pytest.raises(UnknownRelationError, match="given or defined are: 'tri'"):
            gw.view(TRIANGLE)
        assert edges

    def test_options_are_those_of_programs(self):
        view = gw.view(TRIANGLE, edges=RING, threads=1, strategy="binary", order={"tri": ["b"]}, keep=["tri"])
        assert view.program.strategy == "binary"
        assert view.program.keep == ("tri",)


def test_a_declared_column_may_be_all_null():
    rows = pa.table({"x": pa.nulls(2)})
    for text, options in (
        (".decl r(x: int8)\nh(x) :- r(x).", {}),
        ("h(x) :- r(x).", {"schema": {"r": ["int8"]}}),
        ("SELECT x FROM r", {"schema": {"r": {"x": "int8"}}}),
    ):
        answer = gw.view(text, {"r": rows}, **options).snapshot()
        assert answer.to_arrow().schema.field("x").type == pa.int8()
        assert set(answer) == {(None,)}
