"""Composite clauses under inserts and deletes: after every transaction, the changes add up to the answer.

The answer is that of a fresh database, and that of a few lines of Python.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from gpu_wcoj.datoms import Database
from gpu_wcoj.errors import TransactionConflictError
from tests.helpers.datom_model import Refused, after, written
from tests.helpers.long_tests import IS_LONG

N_TRANSACTIONS = 1000 if IS_LONG else 40
N_DATABASES = 60 if IS_LONG else 2
MANY = {"valueType": "ref", "cardinality": "many"}
SCHEMA = {":to": MANY, ":ref": MANY, ":n": {"valueType": "long"}, ":one": {"valueType": "string"}}
ENTITIES = range(6)


def edges(datoms, name=":to"):
    return {(entity, value) for entity, attribute, value in datoms if attribute == name}


def numbers(datoms):
    return dict(edges(datoms, ":n"))


def names(datoms):
    return dict(edges(datoms, ":one"))


def reached(datoms):
    found = edges(datoms)
    while more := {(a, d) for a, b in found for c, d in edges(datoms) if b == c} - found:
        found |= more
    return found


def grouped(rows, column=0):
    found = {}
    for row in rows:
        found.setdefault(row[column], []).append(row)
    return found


QUERIES = {
    "or": (
        '[:find ?e :where (or [?e :one "a"] [?e :n 3])]',
        lambda d: {(e,) for e in ENTITIES if names(d).get(e) == "a" or numbers(d).get(e) == 3},
    ),
    "or of and": (
        '[:find ?e ?x :where [?e :to ?x] (or (and [?e :one "a"] [?x :one "b"]) (and [?x :n 1] [?e :n _]))]',
        lambda d: {
            (e, x)
            for e, x in edges(d)
            if (names(d).get(e) == "a" and names(d).get(x) == "b") or (numbers(d).get(x) == 1 and e in numbers(d))
        },
    ),
    "not": (
        "[:find ?e ?x :where [?e :to ?x] (not [?x :to ?e])]",
        lambda d: {(e, x) for e, x in edges(d) if (x, e) not in edges(d)},
    ),
    "not of two": (
        '[:find ?e :where [?e :one _] (not [?e :to ?x] [?x :one "c"])]',
        lambda d: {(e,) for e in names(d) if not any(names(d).get(x) == "c" for one, x in edges(d) if one == e)},
    ),
    "or-join": (
        "[:find ?e :where [?e :one ?name] (or-join [?e] [?e :n 2] (and [?e :to ?x] [?x :n 2]))]",
        lambda d: {
            (e,)
            for e in names(d)
            if numbers(d).get(e) == 2 or any(numbers(d).get(x) == 2 for one, x in edges(d) if one == e)
        },
    ),
    "not-join": (
        "[:find ?e ?name :where [?e :one ?name] (not-join [?name] [?x :to ?y] [?y :one ?name])]",
        lambda d: {(e, name) for e, name in names(d).items() if name not in {names(d).get(y) for _, y in edges(d)}},
    ),
    "predicates": (
        "[:find ?e ?x :where [?e :n ?a] [?x :n ?b] [(< ?a ?b)] [(!= ?e 2)]]",
        lambda d: {(e, x) for (e, a), (x, b) in product(numbers(d).items(), repeat=2) if a < b and e != 2},
    ),
    "functions": (
        "[:find ?e ?s :where [?e :n ?a] [?e :to ?x] [?x :n ?b] [(* ?a ?b) ?p] [(+ ?p 1) ?s]]",
        lambda d: {(e, numbers(d)[e] * numbers(d)[x] + 1) for e, x in edges(d) if e in numbers(d) and x in numbers(d)},
    ),
    "rules": (
        """[:find ?a ?b :in $ % :where (reach ?a ?b)]""",
        lambda d: reached(d),
    ),
    "rules and not": (
        "[:find ?a ?b :in $ % :where (reach ?a ?b) (not [?a :to ?b])]",
        lambda d: reached(d) - edges(d),
    ),
    "count": (
        "[:find ?e (count ?x) :where [?e :to ?x]]",
        lambda d: {(e, len(rows)) for e, rows in grouped(edges(d)).items()},
    ),
    "sum": (
        "[:find ?e (sum ?n) :with ?x :where [?e :to ?x] [?x :n ?n]]",
        lambda d: {
            (e, sum(numbers(d)[x] for _, x in rows))
            for e, rows in grouped((e, x) for e, x in edges(d) if x in numbers(d)).items()
        },
    ),
    "least and most": (
        "[:find ?e (min ?n) (max ?n) :where [?e :to ?x] [?x :n ?n]]",
        lambda d: {
            (e, min(numbers(d)[x] for _, x in rows), max(numbers(d)[x] for _, x in rows))
            for e, rows in grouped((e, x) for e, x in edges(d) if x in numbers(d)).items()
        },
    ),
    "count-distinct": (
        "[:find ?e (count-distinct ?name) :where [?e :to ?x] [?x :one ?name]]",
        lambda d: {
            (e, len({names(d)[x] for _, x in rows}))
            for e, rows in grouped((e, x) for e, x in edges(d) if x in names(d)).items()
        },
    ),
    "average": (
        "[:find ?name (avg ?n) :with ?e :where [?e :one ?name] [?e :n ?n]]",
        lambda d: {
            (name, sum(numbers(d)[e] for _, e in rows) / len(rows))
            for name, rows in grouped((name, e) for e, name in names(d).items() if e in numbers(d)).items()
        },
    ),
    "any attribute": (
        "[:find ?e ?a :where [?e ?a 1]]",
        lambda d: {(e, a) for e, a, v in d if v == 1 and a in (":to", ":n", ":ref")},
    ),
    "entity for a value": (
        "[:find ?name :where [1 :to ?x] [?x :one ?name]]",
        lambda d: {(names(d)[x],) for e, x in edges(d) if e == 1 and x in names(d)},
    ),
}
RULES = "[[(reach ?a ?b) [?a :to ?b]] [(reach ?a ?b) [?a :to ?c] (reach ?c ?b)]]"


def random_forms(random, size):
    forms = []
    for _ in range(size):
        entity, other = random.integers(0, len(ENTITIES), 2).tolist()
        forms.append(
            [
                ("add", entity, ":to", other),
                ("add", entity, ":to", other),
                ("add", entity, ":n", int(random.integers(0, 5))),
                ("add", entity, ":one", "abcd"[int(random.integers(0, 4))]),
                ("add", entity, ":ref", other),
                ("retract", entity, ":to", other),
                ("retract", entity, [":to", ":n", ":one"][int(random.integers(0, 3))]),
                ("entity", entity),
            ][int(random.choice(8, p=[0.2, 0.2, 0.15, 0.15, 0.05, 0.1, 0.1, 0.05]))]
        )
    return forms


@pytest.mark.parametrize("name", QUERIES)
def test_changes_add_up_to_the_answer(name):
    query, expected = QUERIES[name]
    inputs = (RULES,) if "%" in query else ()
    random = np.random.default_rng(sum(map(ord, name)))
    db = Database(SCHEMA)
    live = db.subscribe(query, *inputs)
    kept = {}
    datoms = set()
    for number in range(N_TRANSACTIONS):
        if number:
            forms = random_forms(random, int(random.integers(1, 6)))
            try:
                datoms = after(datoms, forms, single=(":n", ":one"), refs=(":to", ":ref"))
            except Refused:
                with pytest.raises(TransactionConflictError):
                    db.transact(written(forms))
                continue
            db.transact(written(forms))
        (change,) = live.changes()
        for row, weight in change.rows():
            kept[row] = kept.get(row, 0) + weight
        kept = {row: weight for row, weight in kept.items() if weight}
        assert kept == dict.fromkeys(expected(datoms), 1)
        assert set(live.answer()) == set(kept)
        if number % 10 == 9:
            fresh = Database(SCHEMA)
            fresh.transact([[":db/add", *datom] for datom in datoms])
            assert set(fresh.query(query, *inputs)) == set(kept)
    db.transact([[":db/retractEntity", entity] for entity in ENTITIES])
    (change,) = live.changes()
    assert {row: -weight for row, weight in change.rows()} == kept


LEARNT = [
    "[:find ?e ?v :where [?e :a ?v] (not [?e :b ?v])]",
    '[:find ?e :where (or [?e :a 1] [?e :b 2] [?e :c "x"])]',
    "[:find ?e ?a :where [?e ?a 1]]",
    "[:find ?e ?f :where [?e :a ?x] [?f :b ?x]]",
    "[:find (count ?e) . :where [?e :d ?x]]",
    "[:find ?x (max ?y) :where [?e :a ?x] [?e :d ?y]]",
    "[:find ?e :where [?e :a] (not-join [?e] [?f :b ?e])]",
    "[:find ?e ?a :where [?e ?a]]",
    "[:find ?a (count ?e) :where [?e ?a _]]",
    "[:find ?e ?s :where [?e :a ?v] [?e :d ?w] [(+ ?v ?w) ?s]]",
    "[:find ?e ?a ?v :where [?e ?a ?v] [?e :c ?v]]",
    '[:find ?e ?y :where [?e :c ?c] [(str ?c "!") ?y]]',
]
VALUES = {
    ":a": lambda random: int(random.integers(0, 3)),
    ":b": lambda random: int(random.integers(0, 3)),
    ":c": lambda random: "xy"[int(random.integers(0, 2))],
    ":d": lambda random: int(random.integers(0, 9)),
    ":k": lambda random: bool(random.integers(0, 2)),
}


@pytest.mark.filterwarnings("ignore::gpu_wcoj.errors.UnknownAttributeWarning")
@pytest.mark.parametrize("seed", range(N_DATABASES))
def test_queries_that_are_there_before_the_attributes(seed):
    """Without a schema: every subscription is compiled anew as attributes get their types, and misses nothing."""
    random = np.random.default_rng(seed)
    db = Database()
    lives = [(query, db.subscribe(query), {}) for query in LEARNT]
    for number in range(25):
        forms = []
        for _ in range(int(random.integers(1, 4))):
            entity, name = int(random.integers(0, 5)), list(VALUES)[int(random.integers(0, 5))]
            added = [":db/add", entity, name, VALUES[name](random)]
            forms.append([":db/retractEntity", entity] if random.random() < 0.15 else added)
        try:
            db.transact(forms)
        except TransactionConflictError:
            continue
        for query, live, kept in lives:
            for change in live.changes():
                for row, weight in change.rows():
                    kept[row] = kept.get(row, 0) + weight
                    if not kept[row]:
                        del kept[row]
            assert live.relation().to_dict() == kept
            if number % 8 == 0:
                fresh = db.subscribe(query, backend="cpu")  # with an option: shared with none
                assert fresh.relation().to_dict() == kept
                fresh.close()
