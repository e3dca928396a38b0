"""Transactions that contradict themselves, and forms that are none: nothing of them happens."""

import numpy as np
import pytest

from gpu_wcoj.errors import TransactionConflictError, TransactionError
from tests.helpers.datom_people import changed

CONFLICTS = {
    "two values": (
        [[":db/add", 1, ":name", "Ann"], [":db/add", 1, ":name", "Bob"]],
        "':name' has a single value, but entity 1 would have two: 'Ann' .form 1. and 'Bob'",
    ),
    "two values of one map and a list": (
        [{":db/id": 1, ":age": 1}, [":db/add", 1, ":age", 2]],
        "':age' has a single value, but entity 1 would have two: 1 .form 1. and 2. .form 2",
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
        "the values of attribute ':seat' are unique, but 3 of entity 1 is already the value of entity 9",
    ),
    "a unique value of two": (
        [[":db/add", 1, ":seat", 5], [":db/add", 2, ":seat", 5]],
        "unique, but 5 of entity 2 is already the value of entity 1",
    ),
    "an identity of an entity that is known": (
        [{":db/id": 1, ":email": "old@x"}],
        "unique, but 'old@x' of entity 1 is already the value of entity 9",
    ),
    "a temporary id of two entities": (
        [[":db/add", "t", ":email", "old@x"], [":db/add", "t", ":email", "other@x"]],
        "'t' denotes two entities, 9 and 10",
    ),
}


@pytest.mark.parametrize("case", CONFLICTS)
def test_a_transaction_that_contradicts_itself_is_refused(db, case):
    forms, message = CONFLICTS[case]
    changed(db, {":db/id": 9, ":name": "Old", ":seat": 3, ":email": "old@x"}, {":db/id": 10, ":email": "other@x"})
    with pytest.raises(TransactionConflictError, match=message):
        db.transact(forms)
    assert len(db) == 4


UNREADABLE = {
    "no list": (7, "the transaction has the wrong type"),
    "one form": ({":db/id": 1}, "the transaction has the wrong type"),
    "a number": ([5], "5 of type 'int' is not a form"),
    "nothing": ([[]], "an empty form is not an operation"),
    "an unknown operation": ([[":db/retracts", 1, ":name"]], "not an operation. Did you mean ':db/retract'"),
    "too few": (
        [[":db/add", 1, ":name"]],
        "':db/add' has the wrong number of arguments: got 2.*\n.*Write .':db/add', entity, attribute, value",
    ),
    "too many": ([[":db/retractEntity", 1, 2]], "wrong number of arguments: got 2"),
    "no entity": ([[":db/add", 1.5, ":name", "x"]], "1.5 of type 'float' is not an entity"),
    "a truth for an entity": ([[":db/add", True, ":name", "x"]], "True of type 'bool' is not an entity"),
    "an ident": ([[":db/add", ":ann", ":name", "x"]], "':ann' of type 'str' is not an entity"),
    "a large entity": ([[":db/add", 2**63 - 1, ":name", "x"]], "outside -2.63 to 2.63-2"),
    "no attribute": ([[":db/add", 1, 7, "x"]], "7 is not the name of an attribute"),
    "an attribute of ours": ([[":db/add", 1, ":db/ident", "x"]], "':db/ident' is not the name of an attribute"),
    "a map of nothing": ([{":db/id": 1}], "has no attributes: expected at least one"),
    "a key that is none": ([{":db/id": 1, 5: 1}], "5 is not the name of an attribute"),
    "an attribute twice": ([{":db/id": 1, ":age": 1, "age": 1}], "':age' is given twice in the map"),
    "a list for one value": ([{":db/id": 1, ":name": ["a", "b"]}], "':name' has a single value: got"),
    "an id of nothing": ([[":db/add", 1, ":boss", "nobody"]], "'nobody' has no entity: no datom is added to it"),
    "an id to retract": ([[":db/retract", -5, ":name", "x"]], "-5 has no entity"),
    "a reference by what is not unique": ([[":db/add", [":name", "x"], ":age", 1]], "':name' are not unique"),
    "a reference to nobody": (
        [[":db/add", [":email", "x"], ":age", 1]],
        "no entity has the value 'x' of type 'str' of ':email'",
    ),
}


@pytest.mark.parametrize("case", UNREADABLE)
def test_what_is_no_form_is_refused(db, case):
    forms, message = UNREADABLE[case]
    with pytest.raises(TransactionError, match=f"(?s){message}"):
        db.transact(forms)
    assert (len(db), db.transactions) == (0, 0)


class Unlike:
    """A value that cannot be hashed, nor compared."""

    __hash__ = None

    def __eq__(self, other):
        raise AssertionError("a value was compared")

    def __repr__(self):
        return "Unlike()"


UNHASHABLE = [[], {}, set(), bytearray(b"x"), [[1], 2], {"a": []}, np.array([1, 2]), Unlike()]
PLACES = {
    "the value of a lookup reference": lambda value: [":db/add", (":email", value), ":age", 1],
    "a lookup reference to retract": lambda value: [":db/retractEntity", [":email", value]],
    "a lookup reference in a map": lambda value: {":db/id": [":email", value], ":age": 1},
    "a lookup reference as a value": lambda value: [":db/add", 1, ":boss", [":email", value]],
    "a value": lambda value: [":db/add", 1, ":name", value],
    "a value of no type yet": lambda value: [":db/add", 1, ":new", value],
    "a value that refers": lambda value: [":db/add", 1, ":boss", (value, value)],
    "an entity": lambda value: [":db/add", value, ":age", 1],
    "an attribute": lambda value: [":db/add", 1, value, 1],
    "an operation": lambda value: [value, 1, ":age", 1],
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("beside", [[], [[":db/add", "t", ":age", 1]]], ids=["alone", "beside a temporary id"])
def test_values_that_cannot_be_hashed_are_refused(db, place, beside):
    for value in UNHASHABLE:
        with pytest.raises(TransactionError) as caught:
            db.transact([*beside, PLACES[place](value)])
        assert repr(value) in str(caught.value)
        assert f"(form {len(beside) + 1})" in str(caught.value)
        assert (len(db), db.transactions) == (0, 0)


def test_maps_cannot_nest_without_end(db):
    form = {":name": "leaf"}
    for _ in range(1000):
        form = {":boss": form}
    with pytest.raises(TransactionError, match="maps nest more than 64 deep"):
        db.transact([form])
