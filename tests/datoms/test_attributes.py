"""Attributes in queries: read in reverse, in every clause; and those that neither the schema nor a datom has."""

from __future__ import annotations

import warnings

import pytest

from gpu_wcoj.datoms import Database
from gpu_wcoj.errors import (
    EdnSyntaxError,
    TypeMismatchError,
    UnknownAttributeError,
    UnknownAttributeWarning,
    UnsupportedError,
)

SCHEMA = {
    ":boss": {"valueType": "ref"},
    ":team/lead": {"valueType": "ref", "cardinality": "many"},
    ":name": {"valueType": "string", "unique": "identity"},
    ":note": {},
}
PEOPLE = """[{:db/id 1 :name "Ann" :age 30 :boss 3} {:db/id 2 :name "Bob" :age 40 :boss 3}
             {:db/id 3 :name "Cid" :age 50} {:db/id 4 :age 60 :team/lead [1 3]}]"""
REVERSED = [
    ("[:find ?e ?x :where [?e :_boss ?x]]", "[:find ?e ?x :where [?x :boss ?e]]", {(3, 1), (3, 2)}),
    ("[:find ?x :where [3 :_boss ?x]]", "[:find ?x :where [?x :boss 3]]", {(1,), (2,)}),
    ("[:find ?e :where [?e :_boss 2]]", "[:find ?e :where [2 :boss ?e]]", {(3,)}),
    ("[:find ?e :where [?e :_boss _]]", "[:find ?e :where [_ :boss ?e]]", {(3,)}),
    ("[:find ?e :where [?e :_boss]]", "[:find ?e :where [_ :boss ?e]]", {(3,)}),
    ("[:find ?x :where [1 :team/_lead ?x]]", "[:find ?x :where [?x :team/lead 1]]", {(4,)}),
    ('[:find ?x :where [[:name "Cid"] :_boss ?x]]', '[:find ?x :where [?x :boss [:name "Cid"]]]', {(1,), (2,)}),
    ('[:find ?e :where [?e :_boss [:name "Bob"]]]', '[:find ?e :where [[:name "Bob"] :boss ?e]]', {(3,)}),
    ("[:find ?e :where [?e :age _] [(missing? $ ?e :_boss)]]",
     "[:find ?e :where [?e :age _] (not [_ :boss ?e])]", {(1,), (2,), (4,)}),
    ("[:find ?e :where [?e :age _] (not [?e :_boss _])]",
     "[:find ?e :where [?e :age _] (not [_ :boss ?e])]", {(1,), (2,), (4,)}),
    ("[:find ?e :where [?e :age _] (not-join [?e] [?e :_boss ?x] [?x :age 40])]",
     "[:find ?e :where [?e :age _] (not-join [?e] [?x :boss ?e] [?x :age 40])]", {(1,), (2,), (4,)}),
    ("[:find ?x :where (or [3 :_boss ?x] [1 :team/_lead ?x])]",
     "[:find ?x :where (or [?x :boss 3] [?x :team/lead 1])]", {(1,), (2,), (4,)}),
    ("[:find ?e :where (or-join [?e] [?e :_boss ?x] (and [?e :team/_lead ?x] [?x :age 60]))]",
     "[:find ?e :where (or-join [?e] [?x :boss ?e] (and [?x :team/lead ?e] [?x :age 60]))]", {(1,), (3,)}),
    ("{:find [?x] :rules [[(of ?e ?x) [?e :_boss ?x]] [(of ?e ?x) [?e :team/_lead ?y] (of ?y ?x)]] :where [(of 3 ?x)]}",
     "[:find ?x :where [?x :boss 3]]", {(1,), (2,)}),
    ("[:find (count ?x) :where [3 :_boss ?x]]", "[:find (count ?x) :where [?x :boss 3]]", {(2,)}),
]  # fmt: skip


@pytest.fixture
def db() -> Database:
    db = Database(SCHEMA)
    db.transact(PEOPLE)
    return db


@pytest.mark.parametrize(("query", "forward", "expected"), REVERSED)
def test_a_reversed_attribute_is_the_forward_one_the_other_way_round(db, query, forward, expected):
    assert set(db.query(query)) == set(db.query(forward)) == expected
    live, other = db.subscribe(query), db.subscribe(forward)
    for forms in ("[[:db/retract 1 :boss 3] [:db/add 4 :boss 1]]", "[[:db/retractEntity 2]]"):
        db.transact(forms)
        assert set(live.answer()) == set(other.answer())
    assert [one.to_dict() for one in live.changes()] == [one.to_dict() for one in other.changes()]


def test_an_attribute_that_comes_in_as_an_argument_or_as_data(db):
    assert set(db.query("[:find ?x :in $ ?a :where [3 ?a ?x]]", ":_boss")) == {(1,), (2,)}
    assert set(db.query({":find": ["?x"], ":where": [[3, ":_boss", "?x"]]})) == {(1,), (2,)}


def test_a_subscription_from_before_there_is_a_reference():
    db = Database()
    live = db.subscribe("[:find ?e ?x :where [?e :_boss ?x]]")
    db.define({":boss": {"valueType": "ref"}})
    db.transact("[{:db/id 1 :boss 3}]")
    assert live.answer() == [(3, 1)]


def test_an_attribute_that_is_declared_with_an_underscore_is_itself():
    db = Database({":_boss": {"valueType": "long"}})
    db.transact([[":db/add", 1, ":_boss", 5]])
    assert db.query("[:find ?e ?v :where [?e :_boss ?v]]") == [(1, 5)]


@pytest.mark.parametrize(
    ("query", "error", "match"),
    [
        ("[:find ?x :where [?e :age 50] [(get-else $ ?e :_boss 0) ?x]]", UnsupportedError,
         r"'get-else' reads one value(?s:.*)write \[\?x :boss \?e\](?s:.*)line 1, column 47"),
        ("[:find ?e ?x :where [?e :_age ?x]]", TypeMismatchError,
         r"which needs an attribute of type ref, but ':age' is of type long(?s:.*)line 1, column 25"),
        ("[:find ?e :where [?e :age _] [(missing? $ ?e :_name)]]", TypeMismatchError, "':name' is of type string"),
        (
            "[:find ?x :where [[:_boss 1] :age ?x]]",
            EdnSyntaxError,
            "got ':_boss', which is reversed; write a clause instead",
        ),
    ],
)  # fmt: skip
def test_what_has_no_other_direction_is_refused(db, query, error, match):
    with pytest.raises(error, match=match):
        db.query(query)


@pytest.mark.parametrize(
    ("query", "attribute", "close"),
    [
        ("[:find ?e :where [?e :agee _]]", ":agee", " Did you mean ':age'?"),
        ("[:find ?e :where [?e :_bos _]]", ":bos", " Did you mean ':boss'?"),
        ("[:find ?e :where [?e :age _] [(missing? $ ?e :bosss)]]", ":bosss", " Did you mean ':boss'?"),
        ("[:find ?e :where [?e :age _] (not [?e :zzz 1])]", ":zzz", ""),
        ('[:find ?v :where [?e :age _] [(get-else $ ?e :nam "-") ?v]]', ":nam", " Did you mean ':name'?"),
        ("[:find ?v :where [[:nmae 1] :age ?v]]", ":nmae", " Did you mean ':name'?"),
        ("{:find [?e] :rules [[(old ?e) [?e :aeg ?v] [(> ?v 5)]]] :where [(old ?e)]}", ":aeg", " Did you mean ':age'?"),
    ],
)
def test_an_attribute_that_nothing_has_gives_a_warning(db, query, attribute, close):
    for ask in (db.query, db.subscribe):
        with pytest.warns(UnknownAttributeWarning) as caught:
            ask(query)
        (one,) = caught
        said = str(one.message)
        assert said.startswith(f"attribute '{attribute}' occurs neither in a datom nor in the schema (line 1, column ")
        assert said.endswith(f"Declare it with Database.define if it gets values later.{close}")
        assert one.filename == __file__
    strict = Database({**SCHEMA, ":age": {}}, strict=True)
    with pytest.raises(
        UnknownAttributeError, match=f"attribute '{attribute}' is not in the schema, which is strict"
    ) as raised:
        strict.query(query)
    assert raised.value.attribute == attribute
    assert str(raised.value).endswith(f"Database.define adds to it.{close}")
    assert strict.following == {}


def test_what_the_schema_or_a_datom_has_or_had_gives_none(db):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert db.query("[:find ?e :where [?e :note _]]") == []
        assert db.query("[:find ?e :where [_ :_team/lead ?e]]".replace("_team/lead", "team/lead")) != []
        db.transact("[[:db/add 1 :mood :glad]]")
        db.transact("[[:db/retract 1 :mood :glad]]")
        assert db.query("[:find ?e :where [?e :mood _]]") == []
        assert Database().query("[:find ?e :where [?e :anything _]]") == []
        live = db.subscribe("[:find ?e ?a :where [?e ?a 30]]")
        db.transact("[[:db/add 1 :height 30]]")
        assert set(live.answer()) == {(1, ":age"), (1, ":height")}


def test_each_database_of_a_query_knows_its_own(db):
    other = Database({":age": {"valueType": "long"}})
    query = "[:find ?e :in $ $two :where [?e :age _] [$two ?e :boss _]]"
    with pytest.warns(UnknownAttributeWarning, match="':boss'"):
        assert db.query(query, other) == []
    other.define({":boss": {"valueType": "ref"}})
    assert db.query(query, other) == []
