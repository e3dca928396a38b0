"""How subscriptions live: all or nothing, inputs, several databases, what is kept, and the end."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest

from gpu_wcoj.datoms import Database
from gpu_wcoj.errors import (
    AggregateOverflowError,
    EdnSyntaxError,
    TransactionError,
    TypeMismatchError,
    UsageError,
)
from gpu_wcoj.zset.zset import ZSet

MANY = {"valueType": "ref", "cardinality": "many"}
SCHEMA = {":to": MANY, ":name": {"valueType": "string"}, ":n": {"valueType": "long"}, ":c": {"valueType": "keyword"}}
NAMES = "[:find ?e ?name :where [?e :name ?name]]"
TRIANGLES = "[:find ?a ?b ?c :where [?a :to ?b] [?a :to ?c] [?b :to ?c]]"
SUM = "[:find (sum ?n) . :with ?e :where [?e :n ?n]]"


@pytest.fixture
def db() -> Database:
    return Database(SCHEMA)


def weights(changes):
    return [change.to_dict() for change in changes]


# the first change, what is read, the end


def test_the_first_change_is_the_present_answer(db):
    db.transact([{":db/id": 1, ":name": "Ann"}, {":db/id": 2, ":name": "Bob"}])
    live = db.subscribe(NAMES)
    db.transact([[":db/retract", 1, ":name"]])
    db.transact([])
    db.transact([[":db/add", 1, ":n", 5]])
    assert weights(live.changes()) == [{(1, "Ann"): 1, (2, "Bob"): 1}, {(1, "Ann"): -1}, {}, {}]
    assert live.changes() == []
    db.load(entity=[7], attribute=":name", value=["Cid"])
    assert weights(live.changes()) == [{(7, "Cid"): 1}]


def test_a_refused_transaction_is_none_for_subscriptions(db):
    live = db.subscribe(NAMES)
    live.changes()
    with pytest.raises(TransactionError):
        db.transact([[":db/add", 1, ":name", "Ann"], [":db/add", 1, ":name", 5]])
    assert live.changes() == []
    assert live.answer() == []


def test_a_closed_subscription_follows_no_longer(db):
    with db.subscribe(NAMES) as live:
        other = db.subscribe(NAMES)
        assert live.program is other.program
        db.transact([[":db/add", 1, ":name", "Ann"]])
    db.transact([[":db/add", 1, ":name", "Bea"]])
    assert weights(live.changes()) == [{}, {(1, "Ann"): 1}]
    assert "closed" in repr(live)
    live.close()
    for use in (live.answer, live.relation, lambda: live.program):
        with pytest.raises(UsageError, match="the subscription is closed"):
            use()
    assert len(other.changes()) == 3
    other.close()
    assert "0 subscriptions" in repr(db)


def test_changes_that_one_subscriber_has_read_are_there_for_others(db):
    first = db.subscribe(NAMES)
    db.transact([[":db/add", 1, ":name", "Ann"]])
    second = db.subscribe(NAMES)
    assert first.program is second.program
    assert weights(first.changes()) == [{}, {(1, "Ann"): 1}]
    assert weights(second.changes()) == [{(1, "Ann"): 1}]
    assert db.subscribe(NAMES, keep=["find"]).program is not first.program


def test_inputs_that_are_equal_and_of_two_types_are_two_questions(db):
    query = "[:find ?e ?x :in $ ?x :where [?e :name _]]"
    db.transact([[":db/add", 1, ":name", "Ann"]])
    assert [db.subscribe(query, x).answer() for x in (1, True, 1.0)] == [[(1, 1)], [(1, True)], [(1, 1.0)]]
    assert db.subscribe(query, 1).program is db.subscribe(query, 1).program


# all or nothing


def test_a_transaction_that_one_subscription_cannot_take_is_undone_in_all(db):
    names, total, count = db.subscribe(NAMES), db.subscribe(SUM), db.subscribe("[:find (count ?e) . :where [?e :n]]")
    db.transact([{":db/id": 1, ":n": 2**62, ":name": "Ann"}])
    for live in (names, total, count):
        live.changes()
    before = [live.program.last_tick.tick for live in (names, total, count)]
    for late in (db.subscribe("[:find ?n :where [?e :n ?n]]"), None):
        with pytest.raises(AggregateOverflowError, match="outside int64"):
            db.transact([{":db/id": 2, ":n": 2**62, ":name": "Bob", ":new/text": "x"}, [":db/add", 1, ":name", "Anna"]])
        with pytest.raises(AggregateOverflowError):
            db.load(entity=[2, 3], attribute=":n", value=[2**62, 2**62])
        assert (len(db), db.transactions, db.attributes) == (2, 1, Database(SCHEMA).attributes)
        assert [live.changes() for live in (names, total, count)] == [[], [], []]
        assert [live.program.last_tick.tick for live in (names, total, count)] == before
        if late is not None:
            assert weights(late.changes()) == [{(2**62,): 1}]
    assert (names.answer(), total.answer(), count.answer()) == ([(1, "Ann")], 2**62, 1)
    db.transact([{":db/id": 2, ":n": 5, ":name": "Bob"}])
    assert [live.changes()[0].to_dict() for live in (names, total, count)] == [
        {(2, "Bob"): 1},
        {(2**62,): -1, (2**62 + 5,): 1},
        {(1,): -1, (2,): 1},
    ]


def test_an_interrupt_at_any_subscription_leaves_all_as_they_were(db, monkeypatch):
    from gpu_wcoj.datoms.subscription import Follower

    lives = [
        db.subscribe(query) for query in (NAMES, "[:find ?name :where [_ :name ?name]]", "[:find ?e :where [?e :name]]")
    ]
    db.transact([[":db/add", 1, ":name", "Ann"]])
    take = Follower.process
    for chosen in range(4):
        for live in lives:
            live.changes()

        def taken(self, source, delta, chosen=chosen):
            if chosen < 3 and self is list(db.following)[chosen]:
                take(self, source, delta)
                raise KeyboardInterrupt
            return take(self, source, delta)

        with monkeypatch.context() as patched:
            patched.setattr(Follower, "process", taken)
            if chosen == 3:
                patched.setattr(type(db.store), "apply", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                db.transact([[":db/add", 2, ":name", "Ben"], [":db/add", 1, ":name", "Zoe"]])
        assert [live.changes() for live in lives] == [[], [], []]
        assert [set(live.answer()) for live in lives] == [{(1, "Ann")}, {("Ann",)}, {(1,)}]
    db.transact([[":db/add", 1, ":name", "Zoe"]])
    assert weights(lives[0].changes()) == [{(1, "Ann"): -1, (1, "Zoe"): 1}]


def test_a_query_that_cannot_be_read_subscribes_nobody(db):
    with pytest.raises(EdnSyntaxError, match="line 1"):
        db.subscribe("[:find ?e :where [?x :name]]")
    with pytest.raises(EdnSyntaxError):
        db.query("[:find ?e")
    assert "0 subscriptions" in repr(db)


# attributes that come later


def test_an_attribute_that_nobody_had_at_the_start():
    db = Database()
    live = db.subscribe('[:find ?e :where [?e :color "red"] (not [?e :broken true])]')
    every = db.subscribe("[:find ?e ?v :where [?e ?a ?v] [?e :age ?v]]")
    db.transact([[":db/add", 1, ":color", "red"], [":db/add", 2, ":color", "red"]])
    db.transact([[":db/add", 2, ":broken", True]])
    db.transact([[":db/add", 2, ":age", 7]])
    db.transact([[":db/add", 2, ":broken", False]])
    assert weights(live.changes()) == [{}, {(1,): 1, (2,): 1}, {(2,): -1}, {}, {(2,): 1}]
    assert weights(every.changes()) == [{}, {}, {}, {(2, 7): 1}, {}]


def test_an_attribute_of_another_type_than_the_query_takes_it_for():
    db = Database()
    live = db.subscribe("[:find ?e ?n :where [?e :n ?n] [(< ?n 10)]]")
    with pytest.raises(TypeMismatchError, match="line 1") as raised:
        db.transact([[":db/add", 1, ":n", "text"]])
    assert "the subscription to '[:find ?e ?n" in raised.value.__notes__[0]
    assert (len(db), db.attributes) == (0, {})
    db.transact([[":db/add", 1, ":n", 5]])
    assert weights(live.changes()) == [{}, {(1, 5): 1}]


def test_a_schema_that_grows_is_known_to_subscriptions():
    db = Database()
    live = db.subscribe("[:find ?e ?n :where [?e :n ?n]]")
    db.define({":n": {"valueType": "long"}})
    assert weights(live.changes()) == [{}]
    db.transact([[":db/add", 1, ":n", 5]])
    assert weights(live.changes()) == [{(1, 5): 1}]


# only what is needed


EAV, VEA = "[0, 1, 2]", "[2, 0, 1]"
AEV, AVE = "[0, 2 | 1 = {}]", "[2, 0 | 1 = {}]"
"""Orders of entity, attribute and value; of one attribute, orders of the other two."""
ORDERS = {
    "[:find ?e ?n :where [?e :n ?n]]": {AEV.format(":n"): 50},
    "[:find ?b :where [7 :to ?b]]": {"[2 | 0 = 7, 1 = :to]": 1},
    "[:find ?e ?a :where [?e ?a 7]]": {"[0, 1 | 2 = 7]": 2},
    "[:find ?a ?c :where [?a :to ?b] [?b :to ?c]]": {AEV.format(":to"): 50, AVE.format(":to"): 50},
    "[:find ?a ?n :where [?a :to ?b] [?b :n ?n]]": {AVE.format(":to"): 50, AEV.format(":n"): 50},
    "[:find ?x ?a :where [?e :n ?n] [?x ?a ?n]]": {AEV.format(":n"): 50, VEA: 100},
    TRIANGLES: {AEV.format(":to"): 50, AVE.format(":to"): 50},
}


@pytest.mark.parametrize("query", ORDERS)
def test_only_the_orders_that_a_query_needs_are_there(db, query):
    """And of them only the datoms whose attributes the query reads; EAV may tell which datoms there are."""
    db.load(entity=list(range(50)), attribute=":to", value=list(range(1, 51)))
    db.load(entity=list(range(50)), attribute=":n", value=list(range(50)))
    program = db.subscribe(query).program
    orders = {}
    for name, batches in program.state_rows.items():
        relation, _, order = name.partition("[")
        if relation == "datoms_long":
            for code in range(len(program.dictionaries[0])):
                order = order.replace(f"1 = {code}]", f"1 = {program.dictionaries[0].value_of(code)}]")
            orders[f"[{order}"] = sum(batches)
    assert orders.pop(EAV, 0) in (0, 50, 100)
    assert orders == ORDERS[query]


def test_a_transaction_of_other_attributes_is_no_tick(db):
    live, other = db.subscribe(NAMES), db.subscribe("[:find ?e :where [?e :n 5]]")
    for number in range(5):
        db.transact([[":db/add", number, ":n", 5]])
    assert (live.program.last_tick.tick, other.program.last_tick.tick) == (0, 5)
    assert [len(change) for change in live.changes()] == [0] * 6
    assert [len(change) for change in other.changes()] == [0, 1, 1, 1, 1, 1]


# inputs


def test_inputs_of_every_kind(db):
    db.transact(
        [
            {":db/id": 1, ":name": "Ann", ":n": 5, ":c": ":red", ":to": [2, 3]},
            {":db/id": 2, ":name": "Bob", ":n": 6, ":c": ":blue"},
            {":db/id": 3, ":name": "Cid", ":n": 7, ":c": ":red"},
        ]
    )
    asked = {
        "a value": ("[:find [?name ...] :in $ ?n :where [?e :n ?n] [?e :name ?name]]", (6,), ["Bob"]),
        "a collection": (
            "[:find [?name ...] :in $ [?n ...] :where [?e :n ?n] [?e :name ?name]]",
            ([5, 7],),
            ["Ann", "Cid"],
        ),
        "a tuple": ("[:find [?e ...] :in $ [?n ?name] :where [?e :n ?n] [?e :name ?name]]", ((5, "Ann"),), [1]),
        "a relation": (
            "[:find [?e ...] :in $ [[?n ?name]] :where [?e :n ?n] [?e :name ?name]]",
            ([(5, "Ann"), (6, "Ann"), (7, "Cid")],),
            [1, 3],
        ),
        "rules": (
            "[:find [?n ...] :in $ % :where (near 1 ?x) [?x :n ?n]]",
            ("[[(near ?a ?b) [?a :to ?b]]]",),
            [6, 7],
        ),
        "two inputs": ("[:find [?e ...] :in $ ?low ?high :where [?e :n ?n] [(<= ?low ?n ?high)]]", (6, 7), [2, 3]),
    }
    for query, inputs, expected in asked.values():
        live = db.subscribe(query, *inputs)
        assert sorted(live.answer()) == sorted(db.query(query, *inputs)) == expected
    db.transact([[":db/retractEntity", 1], [":db/retractEntity", 2], [":db/retractEntity", 3]])
    assert live.answer() == []


def test_tables_are_sources(db):
    db.transact([{":db/id": 1, ":name": "Ann", ":n": 5}, {":db/id": 2, ":name": "Bob", ":n": 6}])
    query = (
        "[:find ?name ?points :in $ $given ?least :where [?e :name ?name] [$given ?e ?points] [(<= ?least ?points)]]"
    )
    tables = [
        np.array([[1, 10], [2, 20], [2, 2]]),
        pa.table({"e": [1, 2, 2], "points": [10, 20, 2]}),
        ZSet.from_rows([(1, 10), (2, 20), (2, 2)]),
    ]
    for table in tables:
        assert sorted(db.query(query, table, 10)) == [("Ann", 10), ("Bob", 20)]
        live = db.subscribe(query, table, 10)
        db.transact([[":db/add", 2, ":name", "Ben"]])
        db.transact([[":db/add", 2, ":name", "Bob"]])
        assert weights(live.changes())[1] == {("Bob", 20): -1, ("Ben", 20): 1}
    with pytest.raises(EdnSyntaxError, match="its argument is a source; name the source"):
        db.query("[:find ?e :in $ [[?e]] :where [?e :name]]", tables[0])


def test_answers_in_every_shape(db):
    db.transact([{":db/id": 1, ":name": "Ann", ":n": 5}, {":db/id": 2, ":n": 6}])
    where = ":where [?e :name ?name] [?e :n ?n]]"
    assert db.query(f"[:find ?name ?n {where}") == [("Ann", 5)]
    assert db.query(f"[:find [?name ...] {where}") == ["Ann"]
    assert db.query(f"[:find [?name ?n] {where}") == ("Ann", 5)
    assert db.query(f"[:find ?n . {where}") == 5
    assert db.query(f"[:find ?name ?n :keys name n {where}") == [{":name": "Ann", ":n": 5}]
    assert db.query(f"[:find ?name ?n :strs name n {where}") == [{"name": "Ann", "n": 5}]
    live = {shape: db.subscribe(f"[:find {shape} {where}") for shape in ("[?name ...]", "[?name ?n]", "?n .")}
    db.transact([[":db/retractEntity", 1]])
    assert [one.answer() for one in live.values()] == [[], None, None]


def test_values_of_every_type(db):
    noon = dt.datetime(2026, 2, 3, 12, tzinfo=dt.UTC)
    db.transact([{":db/id": 1, ":c": ":red", ":d": 1.5, ":b": True, ":at": noon, ":to": [9]}])
    db.transact('[{:db/id 2 :at #inst "2026-02-03T12:00:00Z" :d 2.5 :b false}]')
    query = "[:find ?c ?d ?b ?at ?x :where [?e :c ?c] [?e :d ?d] [?e :b ?b] [?e :at ?at] [?e :to ?x]]"
    assert db.query(query) == [(":red", 1.5, True, noon, 9)]
    assert db.query("[:find [?e ...] :where [?e :c :red] [?e :b true] [?e :d 1.5]]") == [1]
    assert db.query('[:find [?e ...] :where [?e :at #inst "2026-02-03T12:00:00Z"]]') == [1, 2]
    assert db.query("[:find [?e ...] :where [?e :d ?d] [(> ?d 2.0)]]") == [2]


# several databases


def test_a_query_over_two_databases_follows_both():
    people, places = Database(), Database()
    query = """[:find ?name ?land :in $ $places
                :where [?e :city ?c] [?e :name ?name] [$places ?p :city ?c] [$places ?p :land ?land]]"""
    people.transact([{":db/id": 1, ":name": "Ann", ":city": "Riga"}])
    live = people.subscribe(query, places)
    places.transact([{":db/id": 1, ":city": "Riga", ":land": "Latvia"}])
    people.transact([{":db/id": 2, ":name": "Bob", ":city": "Riga"}])
    places.transact([[":db/add", 1, ":land", "LV"]])
    assert weights(live.changes()) == [
        {},
        {("Ann", "Latvia"): 1},
        {("Bob", "Latvia"): 1},
        {("Ann", "Latvia"): -1, ("Bob", "Latvia"): -1, ("Ann", "LV"): 1, ("Bob", "LV"): 1},
    ]
    assert sorted(people.query(query, places)) == [("Ann", "LV"), ("Bob", "LV")]
    live.close()
    places.transact([[":db/retractEntity", 1]])
    assert live.changes() == []
    assert "0 subscriptions" in repr(places)
