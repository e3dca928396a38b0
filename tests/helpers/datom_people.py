"""A schema of people, with attributes of every type, and what transactions change."""

import datetime as dt

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


def changed(db, *forms):
    return dict(db.transact(list(forms)).rows())
