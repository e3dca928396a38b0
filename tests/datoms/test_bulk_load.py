"""Datoms by the column."""

import datetime as dt
from uuid import UUID

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from gpu_wcoj.datoms import Database
from gpu_wcoj.errors import ArityError, SchemaError, TransactionConflictError, TransactionError, TypeMismatchError

SCHEMA = {
    ":to": {"valueType": "ref", "cardinality": "many"},
    ":name": {"valueType": "string"},
    ":color": {"valueType": "keyword"},
    ":since": {"valueType": "instant"},
    ":seat": {"valueType": "long", "unique": "value"},
    ":size": {"valueType": "double"},
    ":key": {"valueType": "uuid"},
}
UUIDS = [UUID(int=number) for number in (1, 2)]


def test_columns_of_arrow_numpy_and_lists():
    db = Database(SCHEMA)
    assert (
        len(db.load(entity=np.arange(3, dtype=np.int32), attribute=":to", value=pa.array([1, 2, 3], pa.int16()))) == 3
    )
    assert db.load(entity=[7], attribute=":color", value=[":red"]).rows() == [((7, ":color", ":red"), 1)]
    instant = pa.array([1], pa.timestamp("s", "UTC"))
    expected = dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC)
    assert db.load(entity=[7], attribute=":since", value=instant).rows() == [((7, ":since", expected), 1)]
    assert db.load(entity=[], attribute=":to", value=[]).rows() == []
    assert db.transactions == 4


@pytest.mark.parametrize(
    "given",
    [
        UUIDS,
        tuple(UUIDS),
        np.array(UUIDS, object),
        pd.Series(UUIDS),
        pa.array([one.bytes for one in UUIDS], pa.uuid()),
        [str(one) for one in UUIDS],
    ],
    ids=lambda one: type(one).__name__,
)
def test_uuids_are_those_of_transactions(given):
    db, other = Database(SCHEMA), Database(SCHEMA)
    found = db.load(entity=[7, 8], attribute=":key", value=given)
    assert found.rows() == other.transact([[":db/add", 7 + at, ":key", one] for at, one in enumerate(UUIDS)]).rows()
    asked = "[:find ?e ?k :where [?e :key ?k]]"
    assert db.query(asked) == other.query(asked)
    if not isinstance(given, list) or given is UUIDS:
        db.load(entity=[9, 10], attribute=":new", value=given)
        assert db.attributes[":new"] == "uuid"


def test_attributes_by_the_column():
    db = Database(SCHEMA)
    report = db.load(entity=[1, 1, 2], attribute=[":to", "new", ":to"], value=[5, 6, 7])
    assert dict(report.rows()) == {(1, ":to", 5): 1, (1, ":new", 6): 1, (2, ":to", 7): 1}
    assert db.attributes[":new"] == "long"
    assert db.transact([{":db/id": "x", ":name": "n"}]).tempids == {"x": 8}


def test_an_overwrite_by_the_column():
    db = Database(SCHEMA)
    ids = np.arange(1000)
    db.load(entity=ids, attribute=":seat", value=ids)
    report = db.load(entity=ids, attribute=":seat", value=np.roll(ids, 1))
    assert len(report) == 2000
    assert sum(weight for _, weight in report.rows()) == 0
    assert len(db) == 1000
    assert db.load(entity=ids, attribute=":seat", value=np.roll(ids, 1)).rows() == []


REFUSED = {
    "lengths": ({"entity": [1, 2], "attribute": ":to", "value": [1]}, ArityError, "got 2 entities and 1 value"),
    "attributes": (
        {"entity": [1, 2], "attribute": [":to"], "value": [1, 2]},
        ArityError,
        "got 2 entities and 1 attributes",
    ),
    "no ids": ({"entity": ["a"], "attribute": ":to", "value": [1]}, TypeMismatchError, "entities have the wrong type"),
    "negative": ({"entity": [-1], "attribute": ":to", "value": [1]}, TransactionError, "entity -1 is not an entity id"),
    "negative reference": (
        {"entity": [1], "attribute": ":to", "value": [-1]},
        TransactionError,
        "value -1 is not an entity id",
    ),
    "null": ({"entity": [1, 2], "attribute": ":to", "value": [1, None]}, TransactionError, "value 1 is null"),
    "mixed": ({"entity": [1, 2], "attribute": ":new", "value": [1, "a"]}, SchemaError, "mixes types"),
    "type": ({"entity": [1], "attribute": ":name", "value": [1]}, TypeMismatchError, "':name' is of type 'string'"),
    "narrow": (
        {"entity": [1], "attribute": ":size", "value": np.ones(1, np.float32)},
        TypeMismatchError,
        "':size' is of",
    ),
    "no zone": (
        {"entity": [1], "attribute": ":since", "value": np.array(["2026-01-01"], "M8[s]")},
        TypeMismatchError,
        "':since' is of type 'instant'",
    ),
    "no uuid": ({"entity": [1], "attribute": ":key", "value": ["x"]}, TypeMismatchError, "got the value 'x'"),
    "another spelling": (
        {"entity": [1], "attribute": ":key", "value": [str(UUIDS[0]).replace("-", "")]},
        TypeMismatchError,
        "a text as str\\(\\) formats it",
    ),
    "uuids": ({"entity": [1, 2], "attribute": ":name", "value": UUIDS}, TypeMismatchError, "got UUIDs"),
    "a uuid and null": (
        {"entity": [1, 2], "attribute": ":key", "value": [UUIDS[0], None]},
        TypeMismatchError,
        "got None of type 'NoneType' as value 1",
    ),
    "no keyword": ({"entity": [1], "attribute": ":color", "value": ["red"]}, TypeMismatchError, "got the value 'red'"),
    "no type": (
        {"entity": [1], "attribute": ":new", "value": [dt.date(2026, 1, 1)]},
        TypeMismatchError,
        "cannot have values",
    ),
    "no attribute": (
        {"entity": [1], "attribute": ":db/id", "value": [1]},
        TransactionError,
        "is not the name of an attribute",
    ),
    "numbers": (
        {"entity": [1], "attribute": [5], "value": [1]},
        TypeMismatchError,
        "attributes have the wrong type: got 'int64'",
    ),
    "two spellings": (
        {"entity": [1, 2], "attribute": ["a", ":a"], "value": [1, 1]},
        TransactionError,
        "without a colon",
    ),
    "two values": (
        {"entity": [1, 2, 1], "attribute": ":name", "value": ["a", "b", "c"]},
        TransactionConflictError,
        "':name' has a single value, but entity 1 would have two: 'a' and 'c'",
    ),
    "unique": (
        {"entity": [1, 2], "attribute": ":seat", "value": [5, 5]},
        TransactionConflictError,
        "5 of entity 2 is already",
    ),
    "taken": (
        {"entity": [1], "attribute": ":seat", "value": [44]},
        TransactionConflictError,
        "of entity 1 is already the value of entity 44",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_loaded_is_refused(case):
    given, kind, message = REFUSED[case]
    db = Database(SCHEMA)
    db.transact([[":db/add", 44, ":seat", 44]])
    with pytest.raises(kind, match=message):
        db.load(**given)
    assert (len(db), db.transactions) == (1, 1)
    assert set(db.attributes) == set(SCHEMA)
