"""Entities in transactions: maps, temporary ids, identities and references."""

import pytest

from gpu_wcoj.datoms import Database
from gpu_wcoj.errors import TransactionError
from tests.helpers.datom_people import changed


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
