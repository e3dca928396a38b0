"""Values in transactions: they come back as they were, and those of another type are refused."""

import datetime as dt
from uuid import UUID

import numpy as np
import pytest

from gpu_wcoj.datoms import Database, Keyword
from gpu_wcoj.errors import TransactionError, TypeMismatchError
from tests.helpers.datom_people import NOON, changed

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
    (":age", True, "is of type 'long': got True of type 'bool'"),
    (":age", 1.0, "got 1.0 of type 'float'.*It takes an integer from -2.63 to 2.63-1; nothing is converted"),
    (":age", 2**63, "got 9223372036854775808"),
    (":age", "5", "got '5' of type 'str'"),
    (":age", None, "got None of type 'NoneType'"),
    (":size", 1, "is of type 'double': got 1 of type 'int'"),
    (":name", b"x", "is of type 'string': got b'x' of type 'bytes'"),
    (":name", Keyword(":red"), "got :red of type 'keyword'"),
    (":name", "\ud800", "is not valid Unicode"),
    (":color", "red", "is of type 'keyword': got 'red'"),
    (":color", ":", "is of type 'keyword': got ':'"),
    (":paid", 1, "is of type 'boolean': got 1"),
    (":since", dt.datetime(2026, 1, 1), "It takes a datetime with a time zone"),  # that is the fault
    (":since", dt.date(2026, 1, 1), "is of type 'instant'"),
    (":code", "12345678-1234-5678-1234-567812345678", "It takes a uuid.UUID"),
    (":blob", "x", "is of type 'bytes'"),
    (":boss", 1.0, "is of type 'ref': got 1.0"),
    (":boss", True, "is of type 'ref': got True"),
    (":boss", ":ident", "is of type 'ref': got ':ident'"),
    (":boss", 2**63, "got 9223372036854775808"),
]


@pytest.mark.parametrize(("attribute", "value", "message"), MISTYPED)
def test_a_value_of_another_type_is_refused(db, attribute, value, message):
    changed(db, [":db/add", 1, ":tag", "before"])
    with pytest.raises(TypeMismatchError, match=f"(?s)attribute '{attribute}'.*{message}") as raised:
        db.transact([[":db/add", 1, ":tag", "after"], [":db/add", 1, attribute, value]])
    assert isinstance(raised.value, TransactionError)
    assert "(form 2)" in str(raised.value)
    assert "The transaction was not applied" in str(raised.value)
    assert changed(db, [":db/add", 1, ":tag", "before"]) == {}
    assert db.transactions == 2


def test_an_attribute_of_no_type_has_that_of_its_first_value():
    db = Database()
    with pytest.raises(TypeMismatchError, match="':x' is of type 'long': got 'a'"):
        db.transact([[":db/add", 1, ":x", 5], [":db/add", 2, ":x", "a"]])
    assert db.attributes == {}
    db.transact([[":db/add", 1, ":x", "a"], [":db/add", 1, ":k", Keyword(":a")], [":db/add", 1, ":b", True]])
    assert db.attributes == {":x": "string", ":k": "keyword", ":b": "boolean"}
    with pytest.raises(TypeMismatchError, match="':x' is of type 'string': got 5"):
        db.transact([[":db/add", 2, ":x", 5]])
    with pytest.raises(TypeMismatchError, match="':y' cannot have the value None of type 'NoneType'"):
        db.transact([[":db/add", 2, ":y", None]])
    assert dict(db.transact([[":db/add", 1, ":x", "b"]]).rows()) == {(1, ":x", "a"): -1, (1, ":x", "b"): 1}
