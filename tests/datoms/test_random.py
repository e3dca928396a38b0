"""Random transactions, with overwrites, retractions and contradictions, against a model in plain Python."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_wcoj.datoms import Database, store
from gpu_wcoj.errors import GpuWcojError, TransactionConflictError
from tests.helpers.datom_model import MANY, ONE, REF, Refused, after, changes, written
from tests.helpers.long_tests import IS_LONG

MORE = 25 if IS_LONG else 1
SCHEMA = {
    ONE: {"valueType": "string"},
    MANY: {"valueType": "long", "cardinality": "many"},
    REF: {"valueType": "ref", "cardinality": "many"},
}
ENTITIES = st.integers(0, 4)
VALUES = st.sampled_from(
    [(ONE, "a"), (ONE, "b"), (ONE, "c"), (MANY, 0), (MANY, 1), (MANY, -7), (REF, 0), (REF, 1), (REF, 2)]
)
FORMS = st.one_of(
    st.tuples(st.just("add"), ENTITIES, VALUES).map(lambda one: (one[0], one[1], *one[2])),
    st.tuples(st.just("add"), ENTITIES, VALUES).map(lambda one: (one[0], one[1], *one[2])),
    st.tuples(st.just("retract"), ENTITIES, VALUES).map(lambda one: (one[0], one[1], *one[2])),
    st.tuples(st.just("retract"), ENTITIES, st.sampled_from([ONE, MANY, REF])),
    st.tuples(st.just("entity"), ENTITIES),
)
TRANSACTIONS = st.lists(st.lists(FORMS, max_size=5), max_size=15)


@pytest.mark.parametrize("least", [2, 4096])
@settings(max_examples=60 * MORE)
@given(transactions=TRANSACTIONS)
def test_transactions_do_what_the_model_does(least, transactions):
    held, store._MIN_CHANGES = store._MIN_CHANGES, least
    try:
        db, datoms, number = Database(SCHEMA), set(), 0
        for forms in transactions:
            try:
                now = after(datoms, forms)
            except Refused:
                with pytest.raises(TransactionConflictError):
                    db.transact(written(forms))
            else:
                number += 1
                report = db.transact(written(forms))
                assert dict(report.rows()) == changes(datoms, now)
                assert report.transaction == number
                datoms = now
            assert len(db) == len(datoms)
    finally:
        store._MIN_CHANGES = held


COLUMNS = st.lists(st.tuples(ENTITIES, VALUES), min_size=1, max_size=8)


@settings(max_examples=60 * MORE)
@given(loads=st.lists(COLUMNS, max_size=8), share=st.sampled_from([1, 8, 10**9]))
def test_a_load_does_what_the_same_forms_do(loads, share):
    """By columns and one by one: `share` decides which."""
    held, Pairs = store._MERGE_RATIO, store.Pairs
    prefers, Pairs.prefers_columns = Pairs.prefers_columns, lambda self, count: count * share >= len(self) * 8
    try:
        loaded, transacted = Database(SCHEMA), Database(SCHEMA)
        for rows in loads:
            kind = rows[0][1][0]
            same = [(entity, value) for entity, (name, value) in rows if name == kind]
            entity, value = map(list, zip(*same, strict=True))
            forms = [[":db/add", one, kind, other] for one, other in same]
            try:
                expected = transacted.transact(forms).rows()
            except TransactionConflictError:
                with pytest.raises(TransactionConflictError):
                    loaded.load(entity=entity, attribute=kind, value=value)
                continue
            found = loaded.load(entity=entity, attribute=kind, value=value).rows()
            assert dict(found) == dict(expected)
            assert len(loaded) == len(transacted)
            assert (
                loaded.transact([{":db/id": "t", MANY: 99}]).tempids
                == transacted.transact([{":db/id": "t", MANY: 99}]).tempids
            )
    finally:
        store._MERGE_RATIO, Pairs.prefers_columns = held, prefers


PLAIN = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 3), st.sampled_from([2**63, -(2**63), 1.5, float("nan"), b"x", "", ":"]),
    st.sampled_from([":db/id", ":db/add", ":db/retract", ":db/retractEntity", ONE, MANY, REF, ":u", "t", ":a/_b"]),
)  # fmt: skip
HASHED = st.one_of(PLAIN, st.tuples(PLAIN, PLAIN))
ANYTHING = st.recursive(
    PLAIN,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.tuples(inner, inner), st.dictionaries(HASHED, inner, max_size=3)
    ),
    max_leaves=12,
)
LIKELY = st.one_of(
    st.tuples(
        st.sampled_from([":db/add", ":db/retract"]), ANYTHING, st.sampled_from([ONE, MANY, REF, ":u", ":x"]), ANYTHING
    ),
    st.dictionaries(st.sampled_from([":db/id", ONE, MANY, REF, ":u", ":x", ":p/_x"]), ANYTHING, max_size=3),
)


@settings(max_examples=200 * MORE)
@given(forms=st.one_of(ANYTHING, st.lists(st.one_of(LIKELY, ANYTHING), max_size=4)))
def test_whatever_comes_is_taken_or_refused_by_errors_of_ours(forms):
    db = Database({**SCHEMA, ":u": {"unique": "identity"}})
    db.transact([{":db/id": 1, ":u": 1, ONE: "a"}, {":db/id": 2, REF: [1]}])
    before = len(db), db.attributes, db.transact([]).rows()
    try:
        report = db.transact(forms)
    except GpuWcojError:
        assert (len(db), db.attributes, db.transact([]).rows()) == before
    else:
        assert len(db) == before[0] + sum(weight for _, weight in report.rows())
