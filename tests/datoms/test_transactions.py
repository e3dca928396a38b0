"""Transactions: what they change, and what they refuse; nothing of a refused one happens."""

import datetime as dt
from uuid import UUID

import numpy as np
import pytest

from gpu_wcoj.datoms import Database, Keyword
from gpu_wcoj.errors import EdnSyntaxError, TransactionConflictError, TransactionError, TypeMismatchError

SCHEMA = {
    ":name": {"valueType": "string"},
    ":tag": {"valueType": "string", "cardinality": "many"},
    ":friend": {"valueType": "ref", "cardinality": "many"},
    ":boss": {"valueType": "ref"},
    ":part": {"valueType": "ref", "cardinality": "many", "isComponent": True},
    ":email": {"valueType": "string", "unique": "identity"},
    ":seat": {"valueType": "long", "unique": "value"},
    ":age": {"valueType": "long"},
    ":size": {"valueType": "double"},
    ":color": {"valueType": "keyword"},
    ":paid": {"valueType": "boolean"},
    ":since": {"valueType": "instant"},
    ":code": {"valueType": "uuid"},
    ":blob": {"valueType": "bytes"},
}
NOON = dt.datetime(2026, 2, 3, 12, tzinfo=dt.UTC)


@pytest.fixture
def db() -> Database:
    return Database(SCHEMA)


def changed(db, *forms):
    return dict(db.transact(list(forms)).rows())


# what changes


def test_add_to_an_attribute_of_one_value_and_of_many(db):
    assert changed(db, [":db/add", 1, ":name", "Ann"], [":db/add", 1, ":tag", "a"], [":db/add", 1, ":tag", "b"]) == {
        (1, ":name", "Ann"): 1,
        (1, ":tag", "a"): 1,
        (1, ":tag", "b"): 1,
    }
    assert len(db) == 3


def test_an_overwrite_is_minus_the_old_and_plus_the_new(db):
    changed(db, [":db/add", 1, ":name", "Ann"])
    assert changed(db, [":db/add", 1, ":name", "Bob"]) == {(1, ":name", "Ann"): -1, (1, ":name", "Bob"): 1}


def test_a_value_more_of_an_attribute_with_many_overwrites_nothing(db):
    changed(db, [":db/add", 1, ":tag", "a"])
    assert changed(db, [":db/add", 1, ":tag", "b"]) == {(1, ":tag", "b"): 1}


def test_a_duplicate_changes_nothing(db):
    form = {":db/id": 1, ":name": "Ann", ":tag": ["a", "b"]}
    assert len(changed(db, form)) == 3
    assert changed(db, form) == {}
    assert len(changed(db, [":db/add", 2, ":tag", "a"], [":db/add", 2, ":tag", "a"])) == 1


def test_retracting_what_is_there_and_what_is_missing(db):
    changed(db, {":db/id": 1, ":name": "Ann", ":tag": ["a", "b"]})
    assert changed(db, [":db/retract", 1, ":tag", "a"]) == {(1, ":tag", "a"): -1}
    assert changed(db, [":db/retract", 1, ":tag", "a"]) == {}
    assert changed(db, [":db/retract", 1, ":name", "Bob"], [":db/retract", 7, ":name", "Ann"]) == {}
    assert changed(db, [":db/retract", 1, ":nothing", 5], [":db/retract", 1, ":nothing"]) == {}
    assert changed(db, [":db/retract", 1, ":name"]) == {(1, ":name", "Ann"): -1}


def test_a_retraction_and_another_value_in_one_transaction(db):
    changed(db, [":db/add", 1, ":name", "Ann"])
    for old, new in (("Ann", "Bob"), ("Bob", "Cid")):
        expected = {(1, ":name", old): -1, (1, ":name", new): 1}
        assert changed(db, [":db/add", 1, ":name", new], [":db/retract", 1, ":name", old]) == expected


@pytest.mark.parametrize("operation", [":db/retractEntity", ":db.fn/retractEntity", "db/retractEntity"])
def test_retract_entity_takes_its_datoms_and_what_refers_to_it(db, operation):
    changed(db, {":db/id": 1, ":name": "Ann", ":tag": ["a", "b"]}, {":db/id": 2, ":friend": [1, 3], ":boss": 1})
    assert changed(db, [operation, 1]) == {
        (1, ":name", "Ann"): -1,
        (1, ":tag", "a"): -1,
        (1, ":tag", "b"): -1,
        (2, ":friend", 1): -1,
        (2, ":boss", 1): -1,
    }
    assert changed(db, [operation, 1]) == {}


def test_retract_entity_takes_its_components_in_circles_too(db):
    changed(
        db, {":db/id": 1, ":part": [2, 3]}, {":db/id": 2, ":part": [1], ":name": "wheel"}, [":db/add", 3, ":age", 1]
    )
    assert set(changed(db, [":db/retractEntity", 1]).values()) == {-1}
    assert len(db) == 0


def test_what_is_retracted_is_what_stood_before(db):
    changed(db, {":db/id": 1, ":tag": ["a", "b"]})
    assert changed(db, [":db/add", 1, ":tag", "c"], [":db/retract", 1, ":tag"]) == {
        (1, ":tag", "a"): -1,
        (1, ":tag", "b"): -1,
        (1, ":tag", "c"): 1,
    }


def test_nothing_is_a_transaction_too(db):
    report = db.transact([])
    assert (report.rows(), report.tempids, report.transaction, len(report)) == ([], {}, 1, 0)
    assert db.transact("[]").transaction == 2


def test_changes_by_type_are_z_sets(db):
    changes = db.transact([{":db/id": 1, ":name": "Ann", ":age": 39, ":boss": 2}]).changes
    assert {kind: zset.rows() for kind, zset in changes.items()} == {
        "string": [((1, ":name", "Ann"), 1)],
        "long": [((1, ":age", 39), 1)],
        "ref": [((1, ":boss", 2), 1)],
    }


# maps, temporary ids, references


def test_maps_have_lists_sets_and_other_maps_for_values(db):
    form = {":db/id": 5, ":tag": {"a", "b"}, ":friend": [7, {":name": "Bob"}], ":boss": {":db/id": 9, ":name": "Cid"}}
    assert changed(db, form) == {
        (5, ":tag", "a"): 1,
        (5, ":tag", "b"): 1,
        (5, ":friend", 7): 1,
        (5, ":friend", 10): 1,
        (10, ":name", "Bob"): 1,
        (5, ":boss", 9): 1,
        (9, ":name", "Cid"): 1,
    }


def test_an_underscore_turns_a_reference_around(db):
    db.define({":p/boss": {"valueType": "ref"}})
    assert changed(db, {":db/id": 1, ":p/_boss": [2, 3]}) == {(2, ":p/boss", 1): 1, (3, ":p/boss", 1): 1}
    with pytest.raises(TransactionError, match="':p/age' is not of type 'ref'"):
        db.transact([{":db/id": 1, ":p/_age": 2}])


def test_temporary_ids_are_new_entities_in_the_order_in_which_they_stand(db):
    changed(db, [":db/add", 41, ":name", "Ann"])
    report = db.transact(
        [[":db/add", "bob", ":name", "Bob"], {":db/id": -1, ":boss": "bob"}, [":db/add", 1, ":boss", -1]]
    )
    assert report.tempids == {"bob": 42, -1: 43}
    assert dict(report.rows()) == {(42, ":name", "Bob"): 1, (43, ":boss", 42): 1, (1, ":boss", 43): 1}
    assert db.transact([{":name": "Cid"}]).rows() == [((44, ":name", "Cid"), 1)]


def test_ids_of_values_and_of_refused_transactions(db):
    changed(db, [":db/add", 1, ":boss", 900])
    with pytest.raises(TransactionError):
        db.transact([{":name": "Ann"}, [":db/add", 5000, ":age", "old"]])
    assert db.transact([{":db/id": "x", ":name": "Ann"}]).tempids == {"x": 901}


def test_an_identity_finds_its_entity(db):
    changed(db, {":db/id": 1, ":email": "ann@x", ":name": "Ann"})
    report = db.transact([{":db/id": "ann", ":email": "ann@x", ":name": "Anna"}, {":email": "ann@x", ":age": 40}])
    assert report.tempids == {"ann": 1}
    assert dict(report.rows()) == {(1, ":name", "Ann"): -1, (1, ":name", "Anna"): 1, (1, ":age", 40): 1}


def test_two_temporary_ids_with_one_identity_are_one_entity(db):
    report = db.transact([{":db/id": -1, ":email": "a@x", ":name": "A"}, {":db/id": -2, ":email": "a@x", ":age": 7}])
    assert report.tempids == {-1: 1, -2: 1}
    assert dict(report.rows()) == {(1, ":email", "a@x"): 1, (1, ":name", "A"): 1, (1, ":age", 7): 1}


def test_a_lookup_reference_stands_for_the_entity_and_for_a_value(db):
    changed(db, {":db/id": 1, ":email": "ann@x"}, {":db/id": 2, ":email": "bob@x"})
    assert changed(db, [":db/add", [":email", "ann@x"], ":boss", [":email", "bob@x"]]) == {(1, ":boss", 2): 1}
    assert changed(db, {":db/id": [":email", "bob@x"], ":friend": [":email", "ann@x"]}) == {(2, ":friend", 1): 1}
    assert changed(db, {":db/id": 3, ":friend": [[":email", "ann@x"], 2]}) == {
        (3, ":friend", 1): 1,
        (3, ":friend", 2): 1,
    }
    assert len(changed(db, [":db/retractEntity", [":email", "ann@x"]])) == 4


def test_a_unique_value_moves_in_one_transaction(db):
    changed(db, [":db/add", 1, ":seat", 12])
    expected = {(1, ":seat", 12): -1, (2, ":seat", 12): 1}
    assert changed(db, [":db/add", 2, ":seat", 12], [":db/retract", 1, ":seat", 12]) == expected
    assert changed(db, [":db/add", 2, ":seat", 13], [":db/add", 1, ":seat", 12]) == {
        (2, ":seat", 12): -1,
        (2, ":seat", 13): 1,
        (1, ":seat", 12): 1,
    }


# types

VALUES = {
    ":age": [0, -(2**63), 2**63 - 1, np.int32(7)],
    ":size": [1.5, float("inf"), -1e308, np.float64(2.5)],
    ":name": ["", ":colon", "é \x00 \n", np.str_("x")],
    ":color": [":red", ":a/b"],
    ":paid": [True, np.bool_(False)],
    ":since": [NOON, dt.datetime(1, 1, 2, tzinfo=dt.UTC), NOON.astimezone(dt.timezone(dt.timedelta(hours=3)))],
    ":blob": [b"", b"\x00\xff"],
    ":boss": [0, 2**63 - 2],
}


@pytest.mark.parametrize("attribute", VALUES)
def test_values_come_back_as_they_were(db, attribute):
    for value in VALUES[attribute]:
        changes = changed(db, [":db/add", 1, attribute, value])
        (back,) = [row[2] for row, weight in changes.items() if weight > 0]
        assert back == value
        assert type(back) is type(value.item() if isinstance(value, np.generic) else value)


def test_a_uuid_is_its_text_in_answers(db):
    code = UUID("12345678-1234-5678-1234-567812345678")
    assert changed(db, [":db/add", 1, ":code", code]) == {(1, ":code", str(code)): 1}


def test_equal_floats_are_one_value(db):
    changed(db, [":db/add", 1, ":size", 0.0])
    assert changed(db, [":db/add", 1, ":size", -0.0]) == {}
    changed(db, [":db/add", 1, ":size", float("nan")])
    assert changed(db, [":db/add", 1, ":size", float("nan")]) == {}


MISTYPED = [
    (":age", True, "is of type 'long', and the value is True of type 'bool'"),
    (":age", 1.0, "the value is 1.0 of type 'float'.*It takes an integer from -2.63 to 2.63-1; nothing is converted"),
    (":age", 2**63, "the value is 9223372036854775808"),
    (":age", "5", "the value is '5' of type 'str'"),
    (":age", None, "the value is None of type 'NoneType'"),
    (":size", 1, "is of type 'double', and the value is 1 of type 'int'"),
    (":name", b"x", "is of type 'string', and the value is b'x' of type 'bytes'"),
    (":name", Keyword(":red"), "the value is :red of type 'keyword'"),
    (":name", "\ud800", "is not valid Unicode"),
    (":color", "red", "is of type 'keyword', and the value is 'red'"),
    (":color", ":", "is of type 'keyword', and the value is ':'"),
    (":paid", 1, "is of type 'boolean', and the value is 1"),
    (":since", dt.datetime(2026, 1, 1), "It takes a datetime with a time zone"),  # that is the fault
    (":since", dt.date(2026, 1, 1), "is of type 'instant'"),
    (":code", "12345678-1234-5678-1234-567812345678", "It takes a uuid.UUID"),
    (":blob", "x", "is of type 'bytes'"),
    (":boss", 1.0, "is of type 'ref', and the value is 1.0"),
    (":boss", True, "is of type 'ref', and the value is True"),
    (":boss", ":ident", "is of type 'ref', and the value is ':ident'"),
    (":boss", 2**63, "the value is 9223372036854775808"),
]


@pytest.mark.parametrize(("attribute", "value", "message"), MISTYPED)
def test_a_value_of_another_type_is_refused(db, attribute, value, message):
    changed(db, [":db/add", 1, ":tag", "before"])
    with pytest.raises(TypeMismatchError, match=f"(?s)attribute '{attribute}'.*{message}") as raised:
        db.transact([[":db/add", 1, ":tag", "after"], [":db/add", 1, attribute, value]])
    assert isinstance(raised.value, TransactionError)
    assert "(form 2)" in str(raised.value)
    assert "Nothing of the transaction has happened" in str(raised.value)
    assert changed(db, [":db/add", 1, ":tag", "before"]) == {}
    assert db.transactions == 2


def test_an_attribute_of_no_type_has_that_of_its_first_value():
    db = Database()
    with pytest.raises(TypeMismatchError, match="':x' is of type 'long', and the value is 'a'"):
        db.transact([[":db/add", 1, ":x", 5], [":db/add", 2, ":x", "a"]])
    assert db.attributes == {}
    db.transact([[":db/add", 1, ":x", "a"], [":db/add", 1, ":k", Keyword(":a")], [":db/add", 1, ":b", True]])
    assert db.attributes == {":x": "string", ":k": "keyword", ":b": "boolean"}
    with pytest.raises(TypeMismatchError, match="':x' is of type 'string', and the value is 5"):
        db.transact([[":db/add", 2, ":x", 5]])
    with pytest.raises(TypeMismatchError, match="':y' cannot have None of type 'NoneType' for its value"):
        db.transact([[":db/add", 2, ":y", None]])
    assert dict(db.transact([[":db/add", 1, ":x", "b"]]).rows()) == {(1, ":x", "a"): -1, (1, ":x", "b"): 1}


# conflicts

CONFLICTS = {
    "two values": (
        [[":db/add", 1, ":name", "Ann"], [":db/add", 1, ":name", "Bob"]],
        "':name' has one value, and entity 1 is to have two: 'Ann' .form 1. and 'Bob'",
    ),
    "two values of one map and a list": (
        [{":db/id": 1, ":age": 1}, [":db/add", 1, ":age", 2]],
        "':age' has one value, and entity 1 is to have two: 1 .form 1. and 2. .form 2",
    ),
    "added and retracted": (
        [[":db/add", 9, ":name", "Old"], [":db/retract", 9, ":name", "Old"]],
        "'Old' of attribute ':name' of entity 9 is both retracted and added",
    ),
    "added and retracted, of no type yet": (
        [[":db/add", 9, ":new", 5], [":db/retract", 9, ":new", 5]],
        "5 of attribute ':new' of entity 9 is both retracted and added",
    ),
    "retracted and added, of no type yet": (
        [[":db/retract", 9, ":new", 5], [":db/add", 9, ":new", 5]],
        "5 of attribute ':new' of entity 9 is both retracted and added",
    ),
    "added and retracted with its entity": (
        [[":db/retractEntity", 9], [":db/add", 9, ":name", "Old"]],
        "'Old' of attribute ':name' of entity 9 is both retracted and added",
    ),
    "a unique value that another entity has": (
        [[":db/add", 1, ":seat", 3]],
        "the values of attribute ':seat' are unique, and 3 is to be of entity 1, and is of 9",
    ),
    "a unique value of two": (
        [[":db/add", 1, ":seat", 5], [":db/add", 2, ":seat", 5]],
        "unique, and 5 is to be of entity 2, and is of 1",
    ),
    "an identity of an entity that is known": (
        [{":db/id": 1, ":email": "old@x"}],
        "unique, and 'old@x' is to be of entity 1, and is of 9",
    ),
    "a temporary id of two entities": (
        [[":db/add", "t", ":email", "old@x"], [":db/add", "t", ":email", "other@x"]],
        "'t' stands for two entities, 9 and 10",
    ),
}


REF_IDENTITY = {
    ":of": {":db/valueType": ":db.type/ref", ":db/unique": ":db.unique/identity"},
    ":n": {":db/valueType": ":db.type/string", ":db/unique": ":db.unique/identity"},
    ":r": {":db/valueType": ":db.type/ref", ":db/cardinality": ":db.cardinality/many"},
}


@pytest.mark.parametrize("ids", [(-1, -2), ("a", "b")])
def test_a_temporary_id_is_the_value_of_an_identity(ids):
    db = Database(REF_IDENTITY)
    found = db.transact([[":db/add", ids[0], ":of", ids[1]], [":db/add", ids[1], ":n", "x"]])
    one, other = (found.tempids[name] for name in ids)
    assert dict(found.rows()) == {(one, ":of", other): 1, (other, ":n", "x"): 1}


def test_an_identity_that_refers_by_a_lookup_finds_its_entity():
    db = Database(REF_IDENTITY)
    db.transact([{":db/id": 1, ":n": "x"}, {":db/id": 5, ":of": 1}])
    assert db.transact([{":db/id": "t", ":of": [":n", "x"], ":n": "y"}]).rows() == [((5, ":n", "y"), 1)]


def test_an_underscore_turns_a_name_without_a_slash_around():
    db = Database(REF_IDENTITY)
    assert db.transact([{":db/id": 9, ":_r": [1, 2]}]).rows() == [((1, ":r", 9), 1), ((2, ":r", 9), 1)]


@pytest.mark.parametrize("case", CONFLICTS)
def test_a_transaction_that_contradicts_itself_is_refused(db, case):
    forms, message = CONFLICTS[case]
    changed(db, {":db/id": 9, ":name": "Old", ":seat": 3, ":email": "old@x"}, {":db/id": 10, ":email": "other@x"})
    with pytest.raises(TransactionConflictError, match=message):
        db.transact(forms)
    assert len(db) == 4


# forms that are none

UNREADABLE = {
    "no list": (7, "a transaction is a list of forms"),
    "one form": ({":db/id": 1}, "a transaction is a list of forms"),
    "a number": ([5], "5 of type 'int' is no form"),
    "nothing": ([[]], "an empty form is no operation"),
    "an unknown operation": ([[":db/retracts", 1, ":name"]], "no operation. Did you mean ':db/retract'"),
    "too few": (
        [[":db/add", 1, ":name"]],
        "':db/add' with 2 arguments.*\n.*Write .':db/add', entity, attribute, value",
    ),
    "too many": ([[":db/retractEntity", 1, 2]], "with 2 arguments"),
    "no entity": ([[":db/add", 1.5, ":name", "x"]], "1.5 of type 'float' is no entity"),
    "a truth for an entity": ([[":db/add", True, ":name", "x"]], "True of type 'bool' is no entity"),
    "an ident": ([[":db/add", ":ann", ":name", "x"]], "':ann' of type 'str' is no entity"),
    "a large entity": ([[":db/add", 2**63 - 1, ":name", "x"]], "outside -2.63 to 2.63-2"),
    "no attribute": ([[":db/add", 1, 7, "x"]], "7 is no name of an attribute"),
    "an attribute of ours": ([[":db/add", 1, ":db/ident", "x"]], "':db/ident' is no name of an attribute"),
    "a map of nothing": ([{":db/id": 1}], "has no attributes, so it says nothing"),
    "a key that is none": ([{":db/id": 1, 5: 1}], "5 is no name of an attribute"),
    "an attribute twice": ([{":db/id": 1, ":age": 1, "age": 1}], "':age' stands in the map twice"),
    "a list for one value": ([{":db/id": 1, ":name": ["a", "b"]}], "':name' has one value, and the map gives"),
    "an id of nothing": ([[":db/add", 1, ":boss", "nobody"]], "'nobody' is of no entity: nothing is added to it"),
    "an id to retract": ([[":db/retract", -5, ":name", "x"]], "-5 is of no entity"),
    "a reference by what is not unique": ([[":db/add", [":name", "x"], ":age", 1]], "':name' are not unique"),
    "a reference to nobody": ([[":db/add", [":email", "x"], ":age", 1]], "no entity has 'x' of type 'str' of ':email'"),
}


@pytest.mark.parametrize("case", UNREADABLE)
def test_what_is_no_form_is_refused(db, case):
    forms, message = UNREADABLE[case]
    with pytest.raises(TransactionError, match=f"(?s){message}"):
        db.transact(forms)
    assert (len(db), db.transactions) == (0, 0)


def test_maps_cannot_nest_without_end(db):
    form = {":name": "leaf"}
    for _ in range(1000):
        form = {":boss": form}
    with pytest.raises(TransactionError, match="within each other more than 64 times"):
        db.transact([form])


# EDN


def test_a_transaction_in_edn(db):
    report = db.transact(
        """
        [[:db/add 1 :name "Ann"]      ; a comment
         {:db/id "bob", :name "Bob", :tag #{"a" "b"}, :friend [1 {:name "Cid"}], :color :red, :size 1.5, :paid true
          :since #inst "2026-02-03T12:00:00Z", :code #uuid "12345678-1234-5678-1234-567812345678"}
         [:db/add [:email "dee@x"] :age 4]
        ]""".replace("[:db/add [:email", "#_[:db/add [:email")
    )
    assert report.tempids == {"bob": 2}
    rows = dict(report.rows())
    assert rows[2, ":since", NOON] == rows[2, ":color", ":red"] == rows[2, ":friend", 3] == rows[3, ":name", "Cid"] == 1
    assert dict(db.transact("[[:db/retract 2 :tag] [:db/retractEntity 3]]").rows()) == {
        (2, ":tag", "a"): -1,
        (2, ":tag", "b"): -1,
        (2, ":friend", 3): -1,
        (3, ":name", "Cid"): -1,
    }


IN_TEXT = {
    "no list": (
        "{:db/id 1}",
        EdnSyntaxError,
        "a transaction is a vector of forms.* and this is a map .line 1, column 1",
    ),
    "not closed": ('[[:db/add 1 :name "x"]', EdnSyntaxError, "is not closed"),
    "a symbol": ("[[:db/add 1 :name x]]", EdnSyntaxError, "a symbol is no value of a datom .line 1, column 19"),
    "a key that is no keyword": ('[{"name" 1}]', EdnSyntaxError, "expected a keyword for the key of a map"),
    "a keyword for a text": ("[\n[:db/add 1 :name :x]]", TransactionError, "type 'keyword' .line 2, column 1.*~~~"),
    "a text for a keyword": ('[[:db/add 1 :color ":x"]]', TransactionError, "is of type 'keyword', and the value"),
}


@pytest.mark.parametrize("case", IN_TEXT)
def test_errors_in_edn_show_the_place(db, case):
    text, kind, message = IN_TEXT[case]
    with pytest.raises(kind, match=f"(?s){message}"):
        db.transact(text)
    assert len(db) == 0
