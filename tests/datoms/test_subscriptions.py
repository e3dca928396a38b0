"""Subscriptions: transaction by transaction, the changes that each one brings, with their weights."""

from __future__ import annotations

import pytest

from gpu_wcoj.datoms import Database

REF = {"valueType": "ref", "cardinality": "many"}
TEXTS = {"valueType": "string", "cardinality": "many"}
TEXT = {"valueType": "string"}
LONG = {"valueType": "long"}

SHIP = {":ship/name": TEXT, ":ship/port": TEXT, ":ship/flag": TEXT, ":ship/crew": LONG, ":ship/cargo": TEXTS}
RIVER = {":river/name": TEXT, ":river/into": {"valueType": "ref"}, ":river/sea": TEXT, ":river/km": LONG}


def followed(db, query, script, inputs=()):
    """Feed a script of (transaction, expected change) pairs; every change and the kept answer must be as expected."""
    live = db.subscribe(query, *inputs)
    kept = {}
    (first,) = live.changes()
    kept.update(first.to_dict())
    for forms, expected in script:
        db.transact(forms)
        (change,) = live.changes()
        assert change.to_dict() == expected
        for row, weight in change.rows():
            kept[row] = kept.get(row, 0) + weight
        kept = {row: weight for row, weight in kept.items() if weight}
        assert set(kept.values()) <= {1}
        assert live.relation().to_dict() == kept
        assert set(kept) == set(live.answer()) == set(db.query(query, *inputs))
    return live


def test_a_constant_value():
    script = [
        ([{":db/id": 1, ":ship/name": "Ada", ":ship/port": "Kiel"}], {(1,): 1}),
        ([{":db/id": 2, ":ship/name": "Bo", ":ship/port": "Bari"}], {}),
        ([[":db/add", 2, ":ship/port", "Kiel"]], {(2,): 1}),
        ([[":db/retract", 1, ":ship/port", "Kiel"]], {(1,): -1}),
    ]
    followed(Database(SHIP), '[:find ?e :where [?e :ship/port "Kiel"]]', script)


def test_an_overwrite():
    script = [
        ([[":db/add", 7, ":ship/crew", 12]], {(7, 12): 1}),
        ([[":db/add", 7, ":ship/crew", 13]], {(7, 12): -1, (7, 13): 1}),
        ([[":db/add", 7, ":ship/crew", 13]], {}),
    ]
    followed(Database(SHIP), "[:find ?e ?n :where [?e :ship/crew ?n]]", script)


def test_a_constant_filter_and_a_join_on_the_entity():
    script = [
        ([{":db/id": 1, ":ship/flag": "NO", ":ship/name": "Ada"}, [":db/add", 2, ":ship/name", "Bo"]], {("Ada",): 1}),
        ([[":db/add", 2, ":ship/flag", "NO"], [":db/add", 1, ":ship/flag", "IT"]], {("Ada",): -1, ("Bo",): 1}),
        ([[":db/add", 2, ":ship/name", "Bea"]], {("Bo",): -1, ("Bea",): 1}),
    ]
    followed(Database(SHIP), '[:find ?name :where [?e :ship/flag "NO"] [?e :ship/name ?name]]', script)


def test_a_single_field():
    script = [
        ([[":db/add", 4, ":river/km", 2850], [":db/add", 4, ":river/name", "Danube"]], {(2850,): 1}),
        ([[":db/add", 5, ":river/km", 2850]], {}),
        ([[":db/retractEntity", 4]], {}),
        ([[":db/add", 5, ":river/km", 1230]], {(2850,): -1, (1230,): 1}),
    ]
    followed(Database(RIVER), "[:find ?km :where [_ :river/km ?km]]", script)


def test_four_clauses_on_one_entity():
    ship = {":db/id": 3, ":ship/name": "Ada", ":ship/port": "Kiel", ":ship/flag": "DE", ":ship/crew": 9}
    query = """[:find ?name ?port ?flag ?crew
                :where [?e :ship/name ?name] [?e :ship/port ?port] [?e :ship/flag ?flag] [?e :ship/crew ?crew]]"""
    script = [
        ([ship], {("Ada", "Kiel", "DE", 9): 1}),
        (
            [{":db/id": 3, ":ship/port": "Oslo", ":ship/crew": 8}],
            {("Ada", "Kiel", "DE", 9): -1, ("Ada", "Oslo", "DE", 8): 1},
        ),
        ([[":db/retract", 3, ":ship/flag"]], {("Ada", "Oslo", "DE", 8): -1}),
        ([[":db/add", 3, ":ship/flag", "NO"]], {("Ada", "Oslo", "NO", 8): 1}),
    ]
    followed(Database(SHIP), query, script)


def test_a_clause_that_matches_nothing():
    query = '[:find ?name :where [?e :ship/name ?name] [?e :ship/port "Atlantis"]]'
    script = [
        ([{":db/id": 1, ":ship/name": "Ada", ":ship/port": "Kiel"}], {}),
        ([[":db/add", 2, ":ship/name", "Bo"]], {}),
        ([[":db/retractEntity", 1]], {}),
    ]
    followed(Database(SHIP), query, script)


@pytest.mark.filterwarnings("ignore::gpu_wcoj.errors.UnknownAttributeWarning")
def test_an_attribute_that_nobody_has():
    script = [([[":db/add", 1, ":ship/name", "Ada"]], {}), ([[":db/add", 1, ":ship/name", "Bo"]], {})]
    followed(Database(), "[:find ?name :where [?e :ship/name ?name] [?e :ship/whistle ?w]]", script)


def test_several_results():
    script = [
        ([{":db/id": 1, ":ship/cargo": ["coal", "salt"]}, {":db/id": 2, ":ship/cargo": ["salt"]}],
         {(1, "coal"): 1, (1, "salt"): 1, (2, "salt"): 1}),
        ([[":db/retract", 1, ":ship/cargo", "salt"], [":db/add", 2, ":ship/cargo", "tea"]],
         {(1, "salt"): -1, (2, "tea"): 1}),
        ([[":db/retract", 2, ":ship/cargo"]], {(2, "salt"): -1, (2, "tea"): -1}),
    ]  # fmt: skip
    followed(Database(SHIP), "[:find ?e ?what :where [?e :ship/cargo ?what]]", script)


def test_one_value_across_two_attributes():
    query = "[:find ?port ?a ?b :where [?a :ship/port ?port] [?b :ship/flag ?port]]"
    script = [
        ([[":db/add", 1, ":ship/port", "Malta"], [":db/add", 2, ":ship/flag", "Malta"]], {("Malta", 1, 2): 1}),
        ([[":db/add", 1, ":ship/flag", "Malta"]], {("Malta", 1, 1): 1}),
        ([[":db/add", 2, ":ship/flag", "Kiel"], [":db/add", 2, ":ship/port", "Malta"]],
         {("Malta", 1, 2): -1, ("Malta", 2, 1): 1}),
    ]  # fmt: skip
    followed(Database(SHIP), query, script)


def test_a_value_that_another_clause_gives():
    query = '[:find ?name :where [?small :river/name "Inn"] [?small :river/into ?large] [?large :river/name ?name]]'
    script = [
        ([{":db/id": 1, ":river/name": "Inn", ":river/into": 2}], {}),
        ([[":db/add", 2, ":river/name", "Donau"]], {("Donau",): 1}),
        ([[":db/add", 2, ":river/name", "Danube"]], {("Donau",): -1, ("Danube",): 1}),
        ([[":db/add", 3, ":river/name", "Po"], [":db/add", 1, ":river/into", 3]], {("Danube",): -1, ("Po",): 1}),
        ([[":db/add", 1, ":river/name", "Enns"]], {("Po",): -1}),
    ]
    followed(Database(RIVER), query, script)


def test_retraction_by_overwrite():
    query = '[:find ?e :where [?e :ship/flag "NO"]]'
    script = [
        ([[":db/add", 1, ":ship/flag", "NO"]], {(1,): 1}),
        ([[":db/add", 1, ":ship/flag", "SE"]], {(1,): -1}),
        ([[":db/add", 1, ":ship/flag", "DK"]], {}),
    ]
    followed(Database(SHIP), query, script)


def test_retract_entity():
    query = "[:find ?name ?into :where [?e :river/name ?name] [?e :river/into ?f] [?f :river/name ?into]]"
    rivers = [
        {":db/id": 1, ":river/name": "Inn", ":river/into": 2},
        {":db/id": 2, ":river/name": "Danube", ":river/into": 3},
        {":db/id": 3, ":river/name": "Black Sea"},
    ]
    script = [
        (rivers, {("Inn", "Danube"): 1, ("Danube", "Black Sea"): 1}),
        ([[":db/retractEntity", 2]], {("Inn", "Danube"): -1, ("Danube", "Black Sea"): -1}),
        ([rivers[1]], {("Danube", "Black Sea"): 1}),
        ([[":db/retractEntity", 1]], {}),
    ]
    followed(Database(RIVER), query, script)


def test_two_in_one_city_are_one_row():
    script = [
        ([[":db/add", 1, ":person/city", "Riga"], [":db/add", 2, ":person/city", "Riga"]], {("Riga",): 1}),
        ([[":db/retractEntity", 1]], {}),
        ([[":db/retractEntity", 2]], {("Riga",): -1}),
    ]
    followed(Database(), "[:find ?city :where [_ :person/city ?city]]", script)


@pytest.mark.filterwarnings("ignore::gpu_wcoj.errors.UnknownAttributeWarning")
def test_an_attribute_that_comes_a_transaction_later_than_its_neighbour():
    query = "[:find ?name ?km :where [?e :river/name ?name] [?e :river/km ?km]]"
    script = [
        ([[":db/add", 1, ":river/name", "Loire"]], {}),
        ([[":db/add", 1, ":river/km", 1006]], {("Loire", 1006): 1}),
    ]
    for schema in (RIVER, None):
        followed(Database(schema), query, script)


def test_the_snippet_of_triangles():
    db = Database({":g/to": REF})
    live = db.subscribe("{:find [?a ?b ?c] :where [[?a :g/to ?b] [?a :g/to ?c] [?b :g/to ?c]]}")
    db.transact([[":db/add", 1, ":g/to", 2], [":db/add", 2, ":g/to", 3], [":db/add", 1, ":g/to", 3]])
    db.transact([[":db/retract", 2, ":g/to", 3]])
    assert [change.rows() for change in live.changes()] == [[], [((1, 2, 3), 1)], [((1, 2, 3), -1)]]
    assert live.changes() == []
