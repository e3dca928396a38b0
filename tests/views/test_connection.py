"""Views that share their state: every tick of all of them against DuckDB and against views of their own."""

from __future__ import annotations

import json
import random
from collections import Counter
from queue import Queue, SimpleQueue

import duckdb
import numpy as np
import pytest

import gpu_wcoj as gw
from gpu_wcoj.errors import (
    ArityError,
    CheckpointError,
    GpuWcojError,
    RowBudgetError,
    UnknownRelationError,
    UsageError,
)

SQL = {
    "hops": "select e.src a, f.dst b from edges e join edges f on e.dst = f.src",
    "totals": "select src, count(*) n, sum(w) s from edges group by src",
    "ends": "select distinct dst from edges where w > 2",
    "lonely": "select src, w from edges e where not exists (select 1 from edges f where f.src = e.dst)",
    "named": "select n.name, e.dst from edges e left join nodes n on n.id = e.src",
    "both": "select src from edges union all select dst from edges where w is null",
    "largest": "select dst, max(w) m from edges where src is not null group by dst",
    "rings": "select e.src, count(*) n from edges e, edges f, edges g"
    " where e.dst = f.src and f.dst = g.src and g.dst = e.src group by e.src",
}
DATALOG = {
    "tri": "tri(a, b, c) :- edge(a, b), edge(b, c), edge(c, a).",
    "reach": "reach(a, b) :- edge(a, b). reach(a, c) :- reach(a, b), edge(b, c).",
    "open": "hop(a, c) :- edge(a, b), edge(b, c). open(a, c) :- hop(a, c), !edge(a, c). .output open",
    "wide": "hop(a, c) :- edge(a, b), edge(b, c), a != c. wide(a, count()) :- hop(a, _). .output wide",
    "start": "start(b) :- edge(1, b). start(b) :- seed(b). seed(3). .output start",
    "degree": "degree(a, n) :- edge(a, _), n = count : { edge(a, _) }.",
}


def drawn_rows(chance, n):
    return [
        (chance.choice([None, 1, 2, 3, 4]), chance.choice([None, 1, 2, 3, 4]), chance.choice([None, 1, 2, 3]))
        for _ in range(n)
    ]


def columns(rows, names, weights=None):
    table = {name: [row[i] for row in rows] for i, name in enumerate(names)}
    return table if weights is None else {**table, "weight": weights}


class Bags:
    """The tables in DuckDB, one row for each that is there."""

    def __init__(self):
        self.connection = duckdb.connect()
        self.connection.execute("create table edges (src bigint, dst bigint, w bigint)")
        self.connection.execute("create table nodes (id bigint, name varchar)")
        self.there = []

    def change(self, inserted, deleted):
        for row in deleted:
            self.there.remove(row)
        self.there += inserted
        self.connection.execute("delete from edges")
        if self.there:
            self.connection.executemany("insert into edges values (?, ?, ?)", self.there)

    def answer(self, text):
        return Counter(self.connection.execute(text).fetchall())


@pytest.mark.drawn("seed")
@pytest.mark.parametrize("seed", range(3))
def test_views_in_sql_that_come_and_go(seed, tmp_path):
    chance = random.Random(seed)
    print(f"seed {seed}")
    bags, nodes = Bags(), [(1, "a"), (2, None), (2, "b"), (None, "c")]
    bags.connection.executemany("insert into nodes values (?, ?)", nodes)
    bags.change(drawn_rows(chance, 6), [])
    types = {"edges": {"src": "int64", "dst": "int64", "w": "int64"}, "nodes": {"id": "int64", "name": "string"}}
    connection = gw.connect(
        {"edges": columns(bags.there, types["edges"]), "nodes": columns(nodes, types["nodes"])}, schema=types
    )
    sums, n_restored = {}, 0
    for tick in range(18):
        absent = [name for name in SQL if name not in connection.views]
        if absent and (tick == 0 or chance.random() < 0.5):
            name = chance.choice(absent)
            view = connection.view(SQL[name], name=name)
            sums[name] = follow(view)
        elif len(connection.views) > 1 and chance.random() < 0.25:
            name = chance.choice([*connection.views])
            del sums[name]
            if chance.random() < 0.5:
                connection.drop(name)
            else:
                connection.views[name].close()
        if chance.random() < 0.1:
            connection.checkpoint(tmp_path / str(tick))
            connection = gw.Connection.restore(tmp_path / str(tick))
            sums = {name: follow(view) for name, view in connection.views.items()}
            n_restored += 1
        inserted = drawn_rows(chance, chance.randint(0, 4))
        deleted = chance.sample(bags.there, min(len(bags.there), chance.randint(0, 4)))
        bags.change(inserted, deleted)
        weights = [1] * len(inserted) + [-1] * len(deleted)
        connection.apply(edges=columns(inserted + deleted, types["edges"], weights))
        for name in connection.views:
            expected = bags.answer(SQL[name])
            assert Counter(connection.snapshot(name).rows()) == expected, (tick, name)
            assert Counter(sums[name]) == expected, (tick, name)
            assert connection.count(name) == expected.total()


def follow(view):
    """A sum of all that a subscriber of a view gets."""
    total, n_changes = Counter(), 0

    def add(change):
        nonlocal n_changes
        assert len(change) > 0 or n_changes == 0  # the first is the answer so far
        n_changes += 1
        for row, weight in change.rows():
            total[row] += weight
            if not total[row]:
                del total[row]

    view.subscribe(add, snapshot=True)
    return total


@pytest.mark.parametrize("seed", range(4))
def test_views_in_datalog_give_what_views_of_their_own_give(seed):
    chance = random.Random(seed)
    print(f"seed {seed}")
    there = {(chance.randrange(5), chance.randrange(5)) for _ in range(6)}
    connection = gw.connect(edge=sorted(there))
    alone = {}
    for tick in range(16):
        absent = [name for name in DATALOG if name not in connection.views]
        if absent and (tick == 0 or chance.random() < 0.7):
            name = chance.choice(absent)
            connection.view(DATALOG[name])
            alone[name] = gw.view(DATALOG[name], edge=sorted(there))
        elif len(alone) > 1 and chance.random() < 0.3:
            name = chance.choice([*alone])
            connection.views[name].close()
            del alone[name]
        drawn = {(chance.randrange(5), chance.randrange(5)) for _ in range(chance.randint(0, 5))}
        change = [(row, -1 if row in there else 1) for row in sorted(drawn)]
        there ^= drawn
        changes = connection.apply(edge=change)
        assert changes.keys() == alone.keys()
        for name, view in alone.items():
            assert changes[name].rows() == view.apply(edge=change).rows(), (tick, name)
            assert connection.snapshot(name).rows() == view.snapshot().rows(), (tick, name)


def test_views_read_views():
    connection = gw.connect(orders={"cust": ["a", "b", "a"], "amount": [5, 7, 9]})
    totals = connection.view("create view totals as select cust, sum(amount) total from orders group by cust")
    large = connection.view("select cust from totals where total > 10", name="large")
    changes = connection.apply(orders={"cust": ["b"], "amount": [4]})
    assert changes["totals"].rows() == [(("b", 7), -1), (("b", 11), 1)]
    assert changes["large"].rows() == [(("b",), 1)]
    with pytest.raises(UsageError, match="dropping 'totals' is not possible: another view reads it"):
        totals.close()
    assert not totals.is_closed
    large.close()
    totals.close()
    assert connection.views == {}
    assert large.is_closed


def test_helpers_that_views_define_alike_are_stored_once():
    connection = gw.connect(edge=[(1, 2), (2, 3)])
    first = connection.view("hop(a, c) :- edge(a, b), edge(b, c). far(a, d) :- hop(a, c), hop(c, d). .output far")
    second = connection.view("hop(a, c) :- edge(a, b), edge(b, c). back(c, a) :- hop(a, c). .output back")
    assert sum(name == "hop" for name in connection.program.heads) == 1
    third = connection.view("hop(a, c) :- edge(b, a), edge(b, c). side(a, c) :- hop(a, c), a != c. .output side")
    assert {"hop", "side.hop#1"} <= {*connection.program.heads}
    changes = connection.apply(edge=[(2, 4), (4, 5), (5, 6)])
    assert changes["far"].rows() == [((1, 6), 1)]
    assert changes["back"].rows() == [((4, 1), 1), ((5, 2), 1), ((6, 4), 1)]
    assert changes["side"].rows() == [((3, 4), 1), ((4, 3), 1)]
    first.close()
    third.close()
    assert second.snapshot().rows() == [(3, 1), (4, 1), (5, 2), (6, 4)]
    assert connection.program.heads == ("hop", "back")


def test_ten_views_that_share_a_relation_take_the_memory_of_the_largest():
    graph = np.random.default_rng(1).integers(0, 2000, (20_000, 2))
    edges = {"src": graph[:, 0], "dst": graph[:, 1]}
    texts = [
        "h0(a, b, c) :- edges(a, b), edges(b, c), edges(c, a).",
        "h1(a, b, c) :- edges(a, b), edges(b, c).",
        "h2(a, b) :- edges(a, b), edges(b, a).",
        "h3(a, b, c) :- edges(a, b), edges(b, c), !edges(a, c).",
        "h4(a, b, c, d) :- edges(a, b), edges(b, c), edges(c, d), edges(d, a).",
        "h5(a, b, c, d) :- edges(a, b), edges(b, c), edges(a, d), edges(d, c), edges(a, c).",
        "h6(a, b, c) :- edges(a, b), edges(b, c), edges(a, c).",
        "h7(b, c) :- edges(7, b), edges(b, c).",
        "h8(a) :- edges(a, a).",
        "h9(a, b, c, d) :- edges(a, b), edges(b, c), edges(c, a), edges(c, d).",
    ]
    largest = max(gw.view(text, edges=edges).program.nbytes for text in texts)
    connection = gw.connect(edges=edges)
    for text in texts:
        connection.view(text)
    assert connection.program.nbytes <= 1.3 * largest
    assert len(connection.apply(edges=[(5000, 5001), (5001, 5000)])) == 10


class TestSubscribers:
    TEXT = "hop(a, c) :- edge(a, b), edge(b, c)."

    def test_every_change_is_passed_on_once_and_in_order(self):
        view, called, queue, simple = gw.view(self.TEXT, edge=[(1, 2)]), [], Queue(), SimpleQueue()
        for subscriber in (called.append, queue, simple):
            view.subscribe(subscriber)
        changes = [view.apply(edge=rows) for rows in ([(2, 3)], [(9, 9)], [((2, 3), -1)])]
        view.apply(edge=[(7, 8)])  # the answer stays as it was
        assert [change.rows() for change in called] == [change.rows() for change in changes]
        assert [queue.get_nowait().rows() for _ in range(queue.qsize())] == [change.rows() for change in changes]
        assert simple.qsize() == 3

    def test_it_ends_by_close_by_a_context_and_with_the_view(self):
        view, got = gw.view(self.TEXT, edge=[(1, 2)]), []
        with view.subscribe(got.append) as first:
            view.apply(edge=[(2, 3)])
        first.close()
        second = view.subscribe(got.append)
        view.apply(edge=[(2, 4)])
        second.close()
        view.apply(edge=[(2, 5)])
        view.subscribe(got.append)
        view.close()
        view.close()
        assert [change.rows() for change in got] == [[((1, 3), 1)], [((1, 4), 1)]]
        with pytest.raises(UsageError, match="the view 'hop' is closed"):
            view.apply(edge=[(2, 6)])
        assert repr(view) == "View, closed"

    def test_an_error_of_a_subscriber_leaves_the_tick_and_the_others(self):
        view, got = gw.view(self.TEXT, edge=[(1, 2)]), []

        def fail(change):
            raise KeyError("mine")

        view.subscribe(fail)
        view.subscribe(got.append)
        with pytest.raises(KeyError, match="mine") as caught:
            view.apply(edge=[(2, 3)])
        assert caught.value.__notes__ == ["A subscriber of the view raised this; the tick was applied."]
        assert len(got) == 1
        assert view.count() == 1

    def test_it_may_read_the_view_and_not_change_it(self):
        view, got = gw.view(self.TEXT, edge=[(1, 2)]), []
        listener = view.subscribe(lambda change: got.append(view.count()))
        view.apply(edge=[(2, 3)])
        listener.close()
        assert got == [1]
        view.subscribe(lambda change: view.apply(edge=[(5, 6)]))
        with pytest.raises(UsageError, match="the connection is in the middle of taking a tick"):
            view.apply(edge=[(2, 4)])
        assert view.count() == 2

    def test_all_views_of_a_connection_pass_on_a_tick_of_one(self):
        connection, got = gw.connect(edge=[(1, 2)]), []
        hop = connection.view(self.TEXT)
        ends = connection.view("out(a) :- edge(a, _). into(b) :- edge(_, b).", outputs=["out", "into"])
        ends.subscribe(got.append)
        assert hop.apply(edge=[(2, 3)]).rows() == [((1, 3), 1)]
        (change,) = got
        assert {name: rows.rows() for name, rows in change.items()} == {"out": [((2,), 1)], "into": [((3,), 1)]}

    def test_of_a_motif(self):
        view, got = gw.view("(a)-[]->(b); (b)-[]->(a)", edges={"src": [1], "dst": [2]}, columns=["a.id"]), []
        view.subscribe(got.append, snapshot=True)
        view.apply(edges={"src": [2], "dst": [1]})
        view.apply(edges={"src": [5], "dst": [6]})
        assert [change.rows() for change in got] == [[], [((1,), 1), ((2,), 1)]]
        with view:
            assert view.count() == 2
        assert view.is_closed

    def test_what_cannot_take_changes(self):
        with pytest.raises(UsageError, match=r"the subscriber has the wrong type: got list .*expected a function"):
            gw.view(self.TEXT, edge=[(1, 2)]).subscribe([])


class TestCheckpoints:
    def test_a_view_goes_on_where_it_was(self, tmp_path):
        text = "select Cust, count(*) n from Orders group by Cust"
        view = gw.view(text, Orders={"Cust": ["a", "b", None, "a"]})
        view.checkpoint(tmp_path)
        view.apply(orders={"cust": ["b"]})
        view.checkpoint(tmp_path)
        again = gw.View.restore(tmp_path)
        assert sorted(again.snapshot().rows(), key=str) == sorted(view.snapshot().rows(), key=str)
        change = {"cust": ["a", None], "weight": [-1, -1]}
        assert again.apply(ORDERS=change).rows() == view.apply(ORDERS=change).rows()
        assert again.progress["tick"] == view.progress["tick"] == 2
        again.checkpoint(tmp_path)
        assert gw.View.restore(tmp_path, threads=1).count() == again.count()

    def test_columns_that_the_program_does_without(self, tmp_path):
        rows = {"cust": ["a", "b"], "unread": [{"x": [1]}, {"x": []}]}
        view = gw.view("select cust from orders", orders=rows)
        view.checkpoint(tmp_path)
        again = gw.View.restore(tmp_path)
        assert again.apply(orders=rows).rows() == view.apply(orders=rows).rows() == [(("a",), 1), (("b",), 1)]

    def test_several_outputs_and_several_views(self, tmp_path):
        ends = gw.view("out(a) :- e(a, _). into(b) :- e(_, b).", e=[(1, 2)], outputs=["out", "into"])
        ends.checkpoint(tmp_path / "ends")
        assert gw.MultiView.restore(tmp_path / "ends").count() == {"out": 1, "into": 1}
        with pytest.raises(CheckpointError, match="holds 'MultiView out': expected one View"):
            gw.View.restore(tmp_path / "ends")
        ends.connection.view("n(count()) :- e(_, _).").checkpoint(tmp_path / "both")
        with pytest.raises(CheckpointError, match=r"holds 'MultiView out', 'View n': expected one View"):
            gw.View.restore(tmp_path / "both")
        assert [*gw.Connection.restore(tmp_path / "both").views] == ["out", "n"]

    def test_what_no_view_stored(self, tmp_path):
        program = gw.Program("h(a) :- e(a).", inputs=["e"])
        program.checkpoint(tmp_path / "program")
        with pytest.raises(CheckpointError, match="was not stored by a view"):
            gw.View.restore(tmp_path / "program")
        with pytest.raises(CheckpointError, match="holds no checkpoint"):
            gw.Connection.restore(tmp_path / "nothing")
        with pytest.raises(CheckpointError, match="was not stored by a view of a motif"):
            gw.MotifView.restore(tmp_path / "program")

    @pytest.mark.parametrize("with_vertices", [False, True])
    def test_a_motif_goes_on_where_it_was(self, tmp_path, with_vertices):
        edges = {"src": [1, 2, 2, 3], "dst": [2, 3, 3, 1], "n": [5, 6, 6, None], "note": ["x", "y", "y", "z"]}
        tables = {"edges": edges}
        if with_vertices:
            tables["vertices"] = {"id": [1, 2, 3], "kind": ["a", "b", None]}
        options = {"where": "e.n > 4 and f.n is not null", "columns": ["e", "b.id"], "ids": {"a": [1, 2]}}
        view = gw.view("(a)-[e]->(b); (b)-[f]->(c)", **tables, **options)
        view.checkpoint(tmp_path)
        change = {"edges": {"src": [2, 1], "dst": [3, 2], "n": [6, 7], "note": ["y", "w"], "weight": [-1, 1]}}
        view.apply(change)
        view.checkpoint(tmp_path)
        again = gw.MotifView.restore(tmp_path)
        assert Counter(map(str, again.snapshot().rows())) == Counter(map(str, view.snapshot().rows()))
        change = {"edges": {"src": [2, 3], "dst": [3, 3], "n": [6, 9], "note": ["y", None], "weight": [-1, 1]}}
        changes = [Counter({str(row): weight for row, weight in one.apply(change).rows()}) for one in (view, again)]
        assert changes[0] == changes[1]
        again.checkpoint(tmp_path)
        assert gw.MotifView.restore(tmp_path).count() == view.count()


class TestProgress:
    def test_it_is_plain_numbers(self):
        view = gw.view("hop(a, c) :- edge(a, b), edge(b, c).", edge=[(1, 2)], backend="cpu")
        view.apply(edge=[(2, 3), (1, 2), (3, 4)])
        progress = json.loads(json.dumps(view.progress))
        assert progress.pop("seconds") > 0
        assert progress.pop("state_bytes") > 0
        assert progress.pop("values") > 0
        assert progress.pop("kernels") in ("numba", "numpy")
        assert progress.pop("merged_rows") >= 0  # ticks that are walked merge later
        assert progress == {
            "tick": 1, "rows": {"edge": 3}, "ignored": {"edge": 1}, "backend": "cpu",
            "changes": {"hop": {"inserted": 2, "deleted": 0, "net": 2}},
        }  # fmt: skip

    def test_of_large_ticks_and_of_bags(self):
        view = gw.view("select a from r", r={"a": [1, 1]})
        view.apply(r={"a": list(range(2000))})
        assert view.progress["rows"] == {"r": 2000}
        assert view.progress["changes"] == {"answer": {"net": 2000}}
        assert view.connection.progress == view.progress


class TestRefused:
    def test_names_that_are_there_already(self):
        connection = gw.connect(orders={"cust": ["a"]})
        connection.view("select cust from orders")
        with pytest.raises(GpuWcojError, match=r"'answer', and so is a table; write CREATE VIEW name"):
            connection.view("select cust from orders")
        assert connection.view("select cust from orders", name="second").count() == 1
        connection.drop("second")
        with pytest.raises(UsageError, match=r"'answer' is the name of another relation or view.*\n.*name='\.\.\.'"):
            connection.view("answer(c) :- orders(c).")
        with pytest.raises(UsageError, match="'orders' is the name of another relation"):
            connection.view("select cust from orders", name="orders")
        with pytest.raises(UsageError, match="the relation 'orders' is given twice"):
            connection.view("select cust from orders", name="second", orders={"cust": ["b"]})
        assert [*connection.views] == ["answer"]

    def test_counted_rows_of_a_connection_of_sets(self):
        connection = gw.connect(orders=[("a",), ("a",)])
        connection.view("cust(c) :- orders(c).")
        with pytest.raises(UsageError, match=r"(?s)keeps sets cannot be combined.*connect\(bag=True\)"):
            connection.view("select * from orders")
        weighted = gw.connect(orders=[("a",), ("a",)], bag=True)
        assert weighted.view("cust(c) :- orders(c).").snapshot().rows(weights=True) == [(("a",), 2)]

    def test_mistakes_of_a_second_view_leave_the_first(self):
        connection = gw.connect(edge=[(1, 2), (2, 3)])
        hop = connection.view("hop(a, c) :- edge(a, b), edge(b, c).")
        for text, error in [
            ("far(a, c) :- edge(a, b), edgee(b, c).", UnknownRelationError),
            ("far(a, c) :- edge(a, b, c).", ArityError),
            ("far(a, c) :- edge(a, b), hop(b, c, a).", ArityError),
            ("far(a, ", GpuWcojError),
            ('far(a) :- edge(a, b), b = "x".', GpuWcojError),
        ]:
            with pytest.raises(error):
                connection.view(text)
        assert connection.apply(edge=[(3, 4)])["hop"].rows() == [((2, 4), 1)]
        assert hop.count() == 2

    def test_a_tick_that_one_view_cannot_take_is_taken_by_none(self):
        connection = gw.connect(edge=[(1, 2), (2, 3)], limit=3)
        connection.view("hop(a, c) :- edge(a, b), edge(b, c).")
        connection.view("pairs(a, b) :- edge(a, _), edge(b, _), a < b.")
        with pytest.raises(RowBudgetError, match="'pairs'"):
            connection.apply(edge=[(10, 11), (20, 21)])
        assert connection.count("edge") == 2
        assert connection.apply(edge=[(3, 4)])["pairs"].rows() == [((1, 3), 1), ((2, 3), 1)]

    def test_a_connection_without_views_and_a_closed_one(self):
        connection = gw.connect(edge=[(1, 2)])
        with pytest.raises(UsageError, match="the connection has no view"):
            connection.apply(edge=[(2, 3)])
        with connection:
            view = connection.view("h(a) :- edge(a, _).")
            assert "h" in repr(connection)
        assert view.is_closed
        for call in (lambda: connection.apply(edge=[(2, 3)]), lambda: connection.view("h(a) :- edge(a, _).")):
            with pytest.raises(UsageError, match="the connection is closed"):
                call()

    def test_marks_of_a_program_before_a_view_was_added(self):
        view = gw.view("h(a) :- edge(a, _).", edge=[(1, 2)])
        mark = view.program.mark()
        view.connection.view("k(b) :- edge(_, b).")
        with pytest.raises(UsageError, match="the mark is of another program"):
            view.program.return_to(mark)


def test_a_second_view_on_the_state_of_the_first_takes_every_tick():
    first = gw.view("hop(a, c) :- edge(a, b), edge(b, c).", edge={"src": [1, 2], "dst": [2, 3]})
    second = first.connection.view("into(b, count()) :- edge(_, b).")
    assert first.apply(edge={"dst": [4], "src": [3]}).rows() == [((2, 4), 1)]
    assert second.snapshot().rows() == [(2, 1), (3, 1), (4, 1)]
    assert "into" in first.explain()


def test_relations_may_come_with_a_later_view():
    connection = gw.connect(orders={"cust": [1, 2]})
    connection.view("select cust from orders", name="all_orders")
    named = connection.view(
        "select name from orders join people on id = cust", name="named", people={"id": [2, 3], "name": ["b", None]}
    )
    assert named.snapshot().rows() == [("b",)]
    assert connection.apply(orders={"cust": [3]})["named"].rows() == [((None,), 1)]
    assert connection.relations == ["orders", "people"]


@pytest.mark.parametrize("bag", [False, True])
def test_views_may_come_back_after_the_last_one_was_dropped(bag):
    connection = gw.connect(edge={"src": [1, 2, 2], "dst": [2, 3, 3]}, bag=bag)
    text = "hop(a, c) :- edge(a, b), edge(b, c)."
    for number, deleted in enumerate([(1, 2), (2, 3), (2, 3)]):
        with connection.view(text) as hops:
            hops.apply(edge=[(deleted, -1)])
            hops.apply(edge={"src": [7 + number], "dst": [1]})
            expected = gw.view(text, edge=connection.program.relation("edge"), bag=bag)
            assert hops.snapshot().rows() == expected.snapshot().rows()
        assert connection.relations == ["edge"]
        assert not connection.views
        with pytest.raises(UsageError, match="the connection has no view"):
            connection.apply(edge=[(5, 6)])
    assert connection.view("in(b) :- edge(_, b).", name="in").count() == (3 if bag else 1)


@pytest.mark.parametrize("table", [[], {}, gw.ZSet.empty()], ids=["list", "dictionary", "Z-set"])
def test_a_table_without_columns_that_the_first_view_does_not_read(table):
    connection = gw.connect(edge=[(1, 2)], label=table)
    with pytest.raises(gw.errors.SchemaError, match="'label' has no columns, and this view does not read it"):
        connection.view("ends(b) :- edge(_, b).")
    assert connection.view("named(a) :- edge(a, _), label(a).").rows() == []
    assert connection.apply(label=[(1,)])["named"].rows() == [((1,), 1)]


@pytest.mark.parametrize("change", ["add a view", "drop a view", "drop the last view"])
def test_nulls_without_a_type_have_none_after_views_have_changed(change: str):
    connection = gw.connect(t={"a": [None, None], "k": [1, 2]}, bag=True)
    first = connection.view("SELECT a, k FROM t", name="first")
    if change != "drop the last view":
        connection.view("SELECT count(*) AS n FROM first WHERE a = 'x'", name="second")
    if change == "drop a view":
        connection.drop("second")
    elif change == "drop the last view":
        first.close()
        first = connection.view("SELECT a, k FROM t WHERE a IS NULL OR a = 'x'", name="first")
    connection.apply(t={"a": ["x"], "k": [1]})
    assert first.snapshot().rows() == [(None, 1), (None, 2), ("x", 1)]


def test_equal_parts_of_a_union_count_twice_beside_other_views():
    connection = gw.connect(t={"a": [1, 1, 2]}, bag=True)
    twice = connection.view("SELECT a FROM t UNION ALL SELECT a FROM t", name="twice")
    again = connection.view("SELECT a, 1 AS n FROM twice UNION ALL SELECT a, 1 FROM twice", name="again")
    total = connection.view("WITH w AS (SELECT a FROM t UNION ALL SELECT a FROM t) SELECT count(*) FROM w", name="n")
    same = connection.view("WITH w AS (SELECT a FROM t UNION ALL SELECT a FROM t) SELECT sum(a) FROM w", name="s")
    connection.apply(t=[((1,), -1), ((3,), 1)])
    assert twice.snapshot().rows() == [(1,), (1,), (2,), (2,), (3,), (3,)]
    assert again.snapshot().rows(weights=True) == [((1, 1), 4), ((2, 1), 4), ((3, 1), 4)]
    assert (total.snapshot().rows(), same.snapshot().rows()) == ([(6,)], [(12,)])
    again.close()
    assert twice.snapshot().rows() == [(1,), (1,), (2,), (2,), (3,), (3,)]
