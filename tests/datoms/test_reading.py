"""Reading datoms and entities without a query."""

import datetime as dt

import pytest

import gpu_wcoj as gw
from gpu_wcoj.errors import TypeMismatchError, UnknownAttributeError, UnknownNameError, UsageError

SCHEMA = {
    ":email": {":db/unique": ":db.unique/identity"},
    ":to": {":db/valueType": ":db.type/ref", ":db/cardinality": ":db.cardinality/many"},
    ":kind": {":db/valueType": ":db.type/keyword"},
    ":born": {":db/valueType": ":db.type/instant"},
}
BORN = dt.datetime(1990, 5, 1, tzinfo=dt.UTC)


@pytest.fixture
def db():
    db = gw.datoms.Database(SCHEMA)
    db.transact([
        {":db/id": 7, ":email": "ann@x", ":to": [9, 8], ":kind": ":person", ":born": BORN, ":score": 1.5},
        {":db/id": 8, ":email": "bob@x", ":ok": True},
    ])  # fmt: skip
    return db


def test_entities_by_id_and_by_a_unique_value(db):
    ann = {":db/id": 7, ":born": BORN, ":email": "ann@x", ":kind": ":person", ":score": 1.5, ":to": [8, 9]}
    assert db.entity(7) == db.entity([":email", "ann@x"]) == db.entity((":email", "ann@x")) == ann
    assert db.entity(99) == {":db/id": 99}
    db.transact([[":db/retract", 7, ":to", 9], [":db/add", 7, ":score", 2.5]])
    assert (db.entity(7)[":to"], db.entity(7)[":score"]) == ([8], 2.5)


def test_datoms_in_order(db):
    assert db.datoms(attribute=":to") == [(7, ":to", 8), (7, ":to", 9)]
    assert db.datoms([":email", "bob@x"]) == [(8, ":email", "bob@x"), (8, ":ok", True)]
    assert db.datoms(7, ":email") == [(7, ":email", "ann@x")]
    assert len(db.datoms()) == len(db) == 8
    assert db.datoms(attribute=":none") == []
    with pytest.raises(UnknownAttributeError):
        gw.datoms.Database(strict=True).datoms(attribute=":none")


def test_wrong_references_change_nothing(db):
    sizes = db.store.texts.sizes
    with pytest.raises(UsageError, match="no entity has the value 'eve@x' of ':email'"):
        db.entity([":email", "eve@x"])
    with pytest.raises(TypeMismatchError):
        db.entity([":email", 5])
    for wrong in ("ann", True, None, [":score", 1.5], [1, 2, 3], 1.5):
        with pytest.raises(UsageError, match="expected an id, or a lookup reference"):
            db.entity(wrong)
    assert db.store.texts.sizes == sizes


@pytest.mark.parametrize(
    ("name", "remedy"),
    [("pull_many", "Call pull"), ("touch", r"Call entity\(id\)"),
     ("as_of", "current datoms only"), ("history", "current datoms only"),
     ("q", r"Call query\(text\)"), ("listen", "Call subscribe"), ("entities", "Did you mean 'entity'")],
)  # fmt: skip
def test_names_of_other_databases_say_what_to_call(db, name, remedy):
    with pytest.raises(UnknownNameError, match=f"a database has no '{name}'(?s:.)*{remedy}"):
        getattr(db, name)
    assert not hasattr(db, name)
