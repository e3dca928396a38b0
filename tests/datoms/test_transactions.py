"""Transactions: what they change."""

import pytest

from tests.helpers.datom_people import changed


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
