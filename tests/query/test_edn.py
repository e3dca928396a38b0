"""Queries in EDN over data of our own: each construct, under inserts and deletes, and the shapes of answers."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

import gpu_wcoj as gw
from gpu_wcoj import Program
from gpu_wcoj.backend import cpu_backend
from gpu_wcoj.query.edn import Attribute, Datoms, Query, Read, Relation, Symbol, parse
from gpu_wcoj.query.edn.reader import read

NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
ID = uuid.UUID("01234567-89ab-cdef-0123-456789abcdef")
PEOPLE: dict[str, tuple[str, list[tuple[int, Any]]]] = {
    ":name": ("string", [(1, "Ada"), (2, "Bo"), (3, "Cy"), (4, "Dee")]),
    ":age": ("long", [(1, 36), (2, 12), (3, 36)]),
    ":knows": ("ref", [(1, 2), (2, 3), (3, 4), (4, 1), (1, 3)]),
    ":height": ("double", [(1, 1.7), (2, 1.2)]),
    ":mood": ("keyword", [(1, ":glad"), (3, ":sad")]),
    ":member": ("boolean", [(1, True), (2, False)]),
    ":born": ("instant", [(1, NOON)]),
    ":id": ("uuid", [(1, str(ID))]),
    ":nick": ("string", [(1, "Al"), (1, "Addie")]),
}
ATTRIBUTES = {name: Attribute(kind, unique=name in (":name", ":id")) for name, (kind, _) in PEOPLE.items()}
DB = Datoms(ATTRIBUTES)
ROADS = Relation("roads", ("from", "to", "km"), ("int64", "int64", "double"))
ROAD_ROWS = [(1, 2, 1.5), (2, 3, 4.0), (3, 1, 0.5)]


def fed(query: Query, roads: Iterable[tuple[Any, ...]] = ROAD_ROWS, weight: int = 1) -> dict[str, Any]:
    found: dict[str, Any] = {name: [(row, 1) for row in rows] for name, rows in query.input_rows.items() if weight > 0}
    for name, one in query.reads.items():
        found[name] = [
            ((entity, attribute, value), weight)
            for attribute, (kind, pairs) in PEOPLE.items()
            if ("long" if kind == "ref" else kind) == one.type
            and (one.attributes is None or attribute in one.attributes)
            for entity, value in pairs
        ]
    if "roads" in query.rules.inputs:
        found["roads"] = [(row, weight) for row in roads]
    return found


def rows_of(query: Query) -> set[tuple[Any, ...]]:
    """The answer; feeding in two halves and taking all back is tried as well."""
    program = Program(query.rules, outputs=[query.output], backend=cpu_backend(False))
    changes = fed(query)
    held: dict[tuple[Any, ...], int] = {}
    for half in (0, 1):
        part = {
            name: rows if name in query.input_rows and not half else rows[half::2] for name, rows in changes.items()
        }
        for row, weight in program.step(part)[query.output].rows():
            held[row] = held.get(row, 0) + weight
    found = {row for row, weight in held.items() if weight}
    assert set(held.values()) <= {0, 1}
    assert found == {row for row, _ in program.relation(query.output).rows()}
    back = {name: [(row, -weight) for row, weight in rows] for name, rows in changes.items()}
    assert {(row, -weight) for row, weight in program.step(back)[query.output].rows()} == {(row, 1) for row in found}
    return found


def asked(text: Any, *arguments: Any) -> set[tuple[Any, ...]]:
    return rows_of(parse(text, {"$": DB, "roads": ROADS}, arguments=arguments))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # patterns
        ('[:find ?e :where [?e :name "Ada"]]', {(1,)}),
        ("[:find ?n :where [2 :name ?n]]", {("Bo",)}),
        ("[:find ?e :where [?e :height]]", {(1,), (2,)}),
        ("{:find [?e], :where [[?e :mood :glad]]}", {(1,)}),
        ("[:find ?e :where [?e :member false]]", {(2,)}),
        ("[:find ?e :where [?e :height 1.2]]", {(2,)}),
        ('[:find ?e :where [?e :born #inst "2026-01-01T13:00:00+01:00"]]', {(1,)}),
        (f'[:find ?e :where [?e :id #uuid "{str(ID).upper()}"]]', {(1,)}),
        ("[:find ?a ?b ?c :where [?a :knows ?b] [?b :knows ?c] [?c :knows ?a]]", {(1, 3, 4), (3, 4, 1), (4, 1, 3)}),
        ("[:find ?n :where [_ :age ?n]]", {(36,), (12,)}),
        ("[:find ?e ?f :where [?e :age ?n] [?f :age ?n] [(< ?e ?f)]]", {(1, 3)}),
        ("[:find ?e :where [?e :knows ?e]]", set()),
        ("[:find ?a :where [1 ?a _]]", {(name,) for name in PEOPLE}),
        ("[:find ?a :where [?e ?a 36]]", {(":age",)}),
        ("[:find ?e ?a :where [?e ?a 1]]", {(4, ":knows")}),
        ("[:find ?a ?b :where [1 ?a ?v] [1 ?b ?v] [(!= ?a ?b)]]", set()),
        ("[:find ?e :where [?e ?a ?v] [?e :mood ?v]]", {(1,), (3,)}),
        ("[:find ?e :where [?e]]", {(1,), (2,), (3,), (4,)}),
        ('[:find ?e ?n :where [[:name "Ada"] :knows ?e] [?e :name ?n]]', {(2, "Bo"), (3, "Cy")}),
        ('[:find ?e :where [?e :knows [:name "Ada"]]]', {(4,)}),
        ('[:find ?e :where [?e :knows [:name "Nobody"]]]', set()),
        # plain relations
        ("[:find ?a ?c :where [$roads ?a ?b _] [$roads ?b ?c ?km] [(> ?km 1.0)]]", {(1, 3), (3, 2)}),
        ("[:find ?a ?km :where (roads ?a 1 ?km)]", {(3, 0.5)}),
        ("[:find ?n :where [$roads ?a] [?a :name ?n] [?a :age 36]]", {("Ada",), ("Cy",)}),
        # predicates and functions
        ("[:find ?e :where [?e :age ?n] [(< 20 ?n 40)]]", {(1,), (3,)}),
        ("[:find ?e :where [?e :age ?n] [(not= ?n 36)]]", {(2,)}),
        ("[:find ?e :where [?e :age ?n] [?e :height ?h] [(< ?h ?n 20.5)]]", {(2,)}),
        ("[:find ?e :where [?e :height ?h] [(== ?h 1.2)]]", {(2,)}),
        ("[:find ?e :where [?e :age ?n] [(even? ?e)] [(pos? ?n)]]", {(2,)}),
        ("[:find ?e ?m :where [?e :age ?n] [(+ ?n 1 ?e) ?m]]", {(1, 38), (2, 15), (3, 40)}),
        ("[:find ?m :where [1 :age ?n] [(inc ?n) ?o] [(- ?o) ?p] [(* ?p 2) ?q] [(dec ?q) ?m]]", {(-75,)}),
        ("[:find ?q ?r ?m :where [1 :age ?n] [(- 0 ?n) ?x] [(quot ?x 5) ?q] [(rem ?x 5) ?r] [(mod ?x 5) ?m]]",
         {(-7, -1, 4)}),
        ("[:find ?h :where [1 :height ?x] [1 :age ?n] [(* ?x ?n) ?h]]", {(1.7 * 36,)}),
        ("[:find ?h :where [2 :age ?n] [(/ ?n 8.0) ?h]]", {(1.5,)}),
        ('[:find ?t :where [?e :name ?n] [(str ?n "-" 1 :a ?n) ?t] [?e :age 12]]', {("Bo-1:aBo",)}),
        ("[:find ?n ?l :where [_ :name ?n] [(count ?n) ?l] [(= ?l 2)]]", {("Bo", 2), ("Cy", 2)}),
        ("[:find ?e ?b :where [?e :age ?n] [(< ?n 20) ?b]]", {(1, False), (2, True), (3, False)}),
        ("[:find ?e :where [?e :member ?b] [?e :age ?n] [(= ?n 36) ?b]]", {(1,), (2,)}),
        ("[:find ?e ?m :where [?e :name] [(get-else $ ?e :age -1) ?m]]", {(1, 36), (2, 12), (3, 36), (4, -1)}),
        ("[:find ?e :where [?e :name] [(missing? $ ?e :height)]]", {(3,), (4,)}),
        ("[:find ?x ?y :where [(ground [[1 2] [3 4]]) [[?x ?y]]] [?x :name]]", {(1, 2), (3, 4)}),
        ('[:find ?e :where [(ground ["Bo" "Cy"]) [?n ...]] [?e :name ?n]]', {(2,), (3,)}),
        ('[:find ?x ?y :where [(ground [5 "a"]) [?x ?y]] [1 :age]]', {(5, "a")}),
        ('[:find ?t :where [(ground #inst "2026-01-01T12:00:00Z") ?t] [_ :born ?t]]', {(NOON,)}),
        # or, and, not
        ("[:find ?e :where (or [?e :mood :sad] [?e :age 12])]", {(2,), (3,)}),
        ("[:find ?e :where (or [?e :mood :sad] (and [?e :age 36] (not [?e :mood :sad])))]", {(1,), (3,)}),
        ("[:find ?e :where [?e :age ?n] (or [(< ?n 20)] [(> ?n 90)])]", {(2,)}),
        ("[:find ?e :where (or-join [?e] [?e :mood _] (and [?e :knows ?f] [?f :mood :sad]))]", {(1,), (2,), (3,)}),
        ("[:find ?e ?f :where [?f :name] (or-join [[?f] ?e] (and [?e :knows ?f] [(< ?e ?f)]))]",
         {(1, 2), (1, 3), (2, 3), (3, 4)}),
        ("[:find ?e :where [?e :name] (not [?e :age 36])]", {(2,), (4,)}),
        ("[:find ?e :where [?e :name] (not [?e :knows _])]", set()),
        ("[:find ?e :where (not [?e :mood ?m] [(= ?m :sad)]) [?e :age ?n]]", {(1,), (2,)}),
        ("[:find ?e :where [?e :name] (not [?e :knows ?f] [?f :mood :sad])]", {(3,), (4,)}),
        ("[:find ?e :where [?e :name] (not-join [?e] [?e :knows ?f] (not [?f :age _]))]", {(1,), (2,), (4,)}),
        ("[:find ?e :where [?e :age ?n] (not [(= ?n 12)])]", {(1,), (3,)}),
        ("[:find ?e :where [?e :name] (not (or [?e :mood] [?e :height]))]", {(4,)}),
        ("[:find ?e :where [?e :name] ($roads not [?e ?f 4.0])]", {(1,), (3,), (4,)}),
        ("[:find ?e :where [?e :name] ($roads or [?e 2] [4 ?e])]", {(1,)}),
        ("[:find ?e :where [?e :name] (not [1 :age 99])]", {(1,), (2,), (3,), (4,)}),
        ("[:find ?e :where [?e :name] (not [1 :age 36])]", set()),
        ("[:find ?e :where [?e :age ?n] (and [(> ?n 5)] [?e :height])]", {(1,), (2,)}),
    ],
)  # fmt: skip
def test_clauses(text: str, expected: set[tuple[Any, ...]]) -> None:
    assert asked(text) == expected
    data = read(text)
    assert asked(data) == expected


WAYS = "[(way ?a ?b) [?a :knows ?b]] [(way ?a ?b) [?a :knows ?c] (way ?c ?b)]"


@pytest.mark.parametrize(
    ("find", "rules", "expected"),
    [
        ("?b :where (way 4 ?b)", WAYS, {(1,), (2,), (3,), (4,)}),
        ("?n :where (way 2 ?b) [?b :name ?n] (not [?b :age])", WAYS, {("Dee",)}),
        ("?e :where [?e :age ?n] (adult ?n)", "[(adult ?x) [(>= ?x 18)]]", {(1,), (3,)}),
        ("?e :where [?e :age ?n] (adult ?n)", "[(adult [?x]) [(>= ?x 18)]]", {(1,), (3,)}),
        ("?m :where [1 :age ?n] (half ?n ?m)", "[(half ?x ?y) [(quot ?x 2) ?y]]", {(18,)}),
        (
            "?m :where [3 :name] (down 3 ?m)",
            "[(down [?x] ?y) [(> ?x 0)] [(dec ?x) ?y]] [(down [?x] ?y) [(> ?x 0)] [(dec ?x) ?z] (down ?z ?y)]",
            {(2,), (1,), (0,)},
        ),
        ("?e :where (even ?e)",
         "[(even ?x) [?y :knows ?x] (odd ?y)] [(odd ?x) [1 :knows ?x]] [(odd ?x) [?y :knows ?x] (even ?y)]",
         {(1,), (2,), (3,), (4,)}),
        ("?e ?v :where (has ?e ?v) [?e :mood ?v]", "[(has ?e ?v) [?e _ ?v]]", {(1, ":glad"), (3, ":sad")}),
        ("?e :where (has ?e 36)", "[(has ?e ?v) [?e _ ?v]]", {(1,), (3,)}),
        ("?e :where (has ?e _)", "[(has ?e ?v) [?e _ ?v] [?e :age 36]]", {(1,), (3,)}),
        ("?e :where [?e :name] (not (way ?e 2) (way ?e 3))", "[(way ?a ?b) [?a :knows ?b]]", {(2,), (3,), (4,)}),
        ("?n :where [_ :age ?n] (other ?n) (big ?n)",
         "[(big ?x) [(> ?x 20)]] [(other ?x) [?e :age ?x] [?e :height] (not (big ?x) [(< ?x 0)])]", {(36,)}),
        ("?c :where [_ :age ?b] [(!= ?b 12)] (or-join [?b ?c] (and [(- ?b 12) ?d] [(quot 48 ?d) ?c]) (same ?b ?c))",
         "[(same ?x ?y) [(identity ?x) ?y]]", {(2,), (36,)}),
        ("?a :where ($roads step ?a 1)", "[(step ?a ?b) [?a ?b]]", {(3,)}),
        (  # at 7 there is an age below 14
            "?r :where (o ?r)",
            """[(o ?x) [?x :age ?v] [(< ?v 20)]] [(o ?y) (o ?x) [(+ ?x 1) ?y] [(< ?y 9)]
                (not-join [?x] [?p :age ?v] [(* ?x 2) ?w] [(< ?v ?w)])]""",
            {(2,), (3,), (4,), (5,), (6,), (7,)},
        ),
        ("?e :where [?e :name] (lone ?e)", "[(lone ?e) [?e :name] (not-join [?e] [?e :knows ?f] [?f :age])]", {(3,)}),
    ],
)  # fmt: skip
def test_rules(find: str, rules: str, expected: set[tuple[Any, ...]]) -> None:
    assert asked(f"[:find {find} :rules [{rules}]]") == expected
    head, where = find.split(":where")
    assert asked(f"[:find {head} :in $ % :where {where}]", f"[{rules}]") == expected
    assert asked(f"{{:find [{head}] :in [$ %] :where [{where}]}}", read(f"[{rules}]")) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[:find (count ?e) :where [?e :age]]", {(3,)}),
        ("[:find (count ?n) :where [_ :age ?n]]", {(2,)}),
        ("[:find (count ?n) :with ?e :where [?e :age ?n]]", {(3,)}),
        ("[:find (sum ?n) :where [_ :age ?n]]", {(48,)}),
        ("[:find (sum ?n) (avg ?n) (min ?n) (max ?n) :with ?e :where [?e :age ?n]]", {(84, 28.0, 12, 36)}),
        ("[:find ?n (count ?e) :where [?e :age ?n]]", {(36, 2), (12, 1)}),
        ("[:find (count ?e) ?n (count-distinct ?f) :where [?e :age ?n] [?e :knows ?f]]", {(3, 36, 3), (1, 12, 1)}),
        ("[:find (min ?s) (max ?s) :where [_ :name ?s]]", {("Ada", "Dee")}),
        ("[:find (max ?t) :where [_ :born ?t]]", {(NOON,)}),
        ("[:find (sum ?h) :where [_ :height ?h]]", {(2.9,)}),
        ("[:find (count ?e) :where [?e :age 99]]", set()),
        ("[:find ?e ?e (count ?f) :where [?e :knows ?f] [?e :age 36]]", {(1, 1, 2), (3, 3, 1)}),
        ("[:find (count ?e) . :in $ ?n :where [?e :age ?n]]", {(2,)}),
        ("[:find ?n (count ?e) :in $ ?n :where [?e :age ?n]]", {(36, 2)}),
        ("[:find (sum ?n) :in $ ?n :with ?e :where [?e :age ?n]]", {(72,)}),
    ],
)
def test_aggregates(text: str, expected: set[tuple[Any, ...]]) -> None:
    assert asked(text, *([36] if ":in" in text else [])) == expected


@pytest.mark.parametrize(
    ("in_", "arguments", "where", "expected"),
    [
        ("?n", (12,), "[?e :age ?n]", {(2,)}),
        ("[?n ...]", ([12, 13],), "[?e :age ?n]", {(2,)}),
        ("[?n ...]", ({36},), "[?e :age ?n]", {(1,), (3,)}),
        ("[?n ...]", ([],), "[?e :age ?n]", set()),
        ("[?n ?s]", ((36, "Cy"),), "[?e :age ?n] [?e :name ?s]", {(3,)}),
        ("[_ ?s]", ((36, "Cy"),), "[?e :name ?s]", {(3,)}),
        ("[[?n ?s]]", ([(36, "Bo"), (12, "Bo"), (36, "Ada")],), "[?e :age ?n] [?e :name ?s]", {(1,), (2,)}),
        ("[[?s _]]", ({"Bo": 5},), "[?e :name ?s]", {(2,)}),
        ("?m", (":sad",), "[?e :mood ?m]", {(3,)}),
        ("[?m ...]", ([":sad", ":glad"],), "[?e :mood ?m]", {(1,), (3,)}),
        ("?a ?v", (":mood", ":sad"), "[?e ?a ?v]", {(3,)}),
        ("?v", (":sad",), "[?e _ ?v]", {(3,)}),
        ("?v", ("Bo",), "[?e _ ?v]", {(2,)}),
        ("?v", (":sad",), "(has ?e ?v)", {(3,)}),
        ("?t", (NOON,), "[?e :born ?t]", {(1,)}),
        ("?id", (ID,), "[?e :id ?id]", {(1,)}),
        ("?f", (1,), "[?e :name] (not [?e :knows ?f])", {(1,), (2,), (3,)}),
        ("?n ?m", (12, 36), "(or (and [?e :age ?n] [(= ?m 36)]) (and [?e :age ?m] [?e :mood :sad] [(= ?n 12)]))",
         {(2,), (3,)}),
    ],
)  # fmt: skip
def test_inputs(in_: str, arguments: tuple[Any, ...], where: str, expected: set[tuple[Any, ...]]) -> None:
    rules = " :rules [[(has ?e ?v) [?e _ ?v]]]" if "(has" in where else ""
    assert asked(f"[:find ?e :in $ {in_} :where {where}{rules}]", *arguments) == expected


def test_with_keeps_equal_values_of_others_apart() -> None:
    heads = [("Cerberus", 3), ("Medusa", 1), ("Cyclops", 1), ("Chimera", 1)]
    assert facts("[:find (sum ?heads) . :with ?monster :in [[?monster ?heads]]]", heads) == {(6,)}
    assert facts("[:find (sum ?heads) . :in [[?monster ?heads]]]", heads) == {(4,)}
    assert facts("[:find ?heads (count ?monster) :in [[?monster ?heads]]]", heads) == {(3, 1), (1, 3)}


def facts(text: str, *arguments: Any) -> set[tuple[Any, ...]]:
    """The answer of a query that reads only its arguments."""
    query = parse(text, {}, arguments=arguments)
    program = Program(query.rules, outputs=[query.output], backend=cpu_backend(False))
    return {row for row, _ in program.step(query.input_rows)[query.output].rows()}


def test_sources_are_positional_or_named() -> None:
    text = "[:find ?e ?to :in $ $roads ?n :where [?e :age ?n] [$roads ?e ?to _]]"
    expected = {(2, 3)}
    assert rows_of(parse(text, {}, arguments=[DB, ROADS, 12])) == expected
    assert rows_of(parse(text, {"$": DB}, arguments=[ROADS, 12])) == expected
    assert rows_of(parse(text, {"$": DB, "$roads": ROADS}, arguments=[12])) == expected
    assert rows_of(parse("[:find ?e :where [?e 2]]", {}, arguments=[ROADS])) == {(1,)}


@pytest.mark.parametrize(
    ("text", "rows", "expected"),
    [
        ("[:find ?e ?n :where [?e :name ?n]]", [(1, "a"), (2, "b")], [(1, "a"), (2, "b")]),
        ("[:find [?n ...] :where [?e :name ?n]]", [("a",), ("b",)], ["a", "b"]),
        ("[:find [?e ?n] :where [?e :name ?n]]", [(1, "a"), (2, "b")], (1, "a")),
        ("[:find [?e ?n] :where [?e :name ?n]]", [], None),
        ("[:find ?n . :where [?e :name ?n]]", [("a",), ("b",)], "a"),
        ("[:find ?n . :where [?e :name ?n]]", [], None),
        ("{:find [?n .] :where [[?e :name ?n]]}", [("a",)], "a"),
        ("{:find [[?n ...]] :where [[?e :name ?n]]}", [("a",)], ["a"]),
        ("[:find ?e ?n :strs id called :where [?e :name ?n]]", [(1, "a")], [{"id": 1, "called": "a"}]),
        ("[:find ?e ?n :keys id called :where [?e :name ?n]]", [(1, "a")], [{":id": 1, ":called": "a"}]),
        ("[:find ?e ?n :syms id called :where [?e :name ?n]]", [(1, "a")], [{Symbol("id"): 1, Symbol("called"): "a"}]),
        ("[:find [?e ?n] :strs id called :where [?e :name ?n]]", [(1, "a")], {"id": 1, "called": "a"}),
        ("[:find ?u . :where [?e :id ?u]]", [(str(ID),)], ID),
    ],
)
def test_shapes(text: str, rows: list[tuple[Any, ...]], expected: Any) -> None:
    assert parse(text, {"$": DB}).shape_answer(rows) == expected


def test_what_a_query_tells() -> None:
    query = parse("[:find ?e (count ?v) :where [?e :age ?n] [?e :name ?v] [?e :mood :glad]]", {"$": DB})
    assert query.columns == ("e", "count-v")
    assert query.types == ("long", "long")
    assert query.reads == {
        "datoms_long": Read("$", "long", frozenset({":age"})),
        "datoms_string": Read("$", "string", frozenset({":name"})),
        "datoms_keyword": Read("$", "keyword", frozenset({":mood"})),
    }
    assert (query.unknown, query.open) == (frozenset(), frozenset())
    query = parse("[:find ?x ?x ?first-name :where [?x :name ?first-name] [?x _ 5]]", {"$": DB})
    assert query.columns == ("x", "x_2", "first-name")
    assert query.types == ("long", "long", "string")
    assert query.open == {"$"}


@pytest.mark.parametrize(
    "text",
    [
        "[:find ?e ?n :where [?e :soon ?n] [(< ?n 10)]]",
        "[:find ?e ?v :where [?e ?a ?v] [?e :soon ?v]]",
        "[:find ?e (sum ?n) :where [?e :soon ?n] [?e :name]]",
        "[:find ?e :where (or [?e :soon] [?e :soon 5])]",
        "[:find ?e ?b :where [?e :soon ?n] [(< ?n 20) ?b]]",
    ],
)
def test_an_attribute_that_nobody_knows_yet(text: str) -> None:
    query = parse(text, {"$": DB})
    assert query.unknown == {("$", ":soon")}
    assert rows_of(query) == set()
    later = parse(text, {"$": Datoms({**ATTRIBUTES, ":soon": Attribute("long")})})
    assert later.unknown == frozenset()
    program = Program(later.rules, outputs=[later.output], backend=cpu_backend(False))
    changes: Mapping[str, Any] = {"datoms_long": [(7, ":soon", 5)]}
    if "datoms_string" in later.reads:
        changes = {**changes, "datoms_string": [(7, ":name", "x")]}
    assert len(program.step(changes)[later.output]) == 1


def test_an_unknown_attribute_in_a_not_takes_nothing_away() -> None:
    query = parse("[:find ?e :where [?e :age] (not [?e :soon])]", {"$": DB})
    assert query.unknown == {("$", ":soon")}
    assert rows_of(query) == {(1,), (2,), (3,)}
    query = parse("[:find ?e :where [?e :age] (or-join [?e] [?e :soon] [?e :mood])]", {"$": DB})
    assert rows_of(query) == {(1,), (3,)}


def test_an_empty_database_has_no_types_yet() -> None:
    query = parse("[:find ?e ?v :where [?e ?a ?v] [(< ?v 5)]]", {"$": Datoms({})})
    assert query.open == {"$"}
    assert rows_of(query) == set()


def test_columns_whose_types_nobody_knows() -> None:
    query = parse("[:find ?a ?c :where [$r ?a ?b] [(inc ?b) ?c] (not [$r ?b ?a])]", {"r": Relation("r")})
    program = Program(query.rules, backend=cpu_backend(False))
    assert program.step({"r": [(1, 2), (2, 1), (2, 3)]})["find"].rows() == [((2, 4), 1)]
    assert query.types == (None, None)


def test_a_relation_whose_clauses_nothing_can_satisfy_is_an_input_all_the_same() -> None:
    edges = [(1, 2), (2, 3)]
    assert gw.query("[:find ?a :where [$e ?a ?b] [(ground []) [?b ...]]]", e=edges).rows(weights=True) == []
    text = "[:find ?a :where [$e ?a ?b] (or-join [?b] [(= ?b 2)] (and [$f ?b] [(ground []) [?b ...]]))]"
    assert gw.query(text, e=edges, f=[(3,)]).rows(weights=True) == [((1,), 1)]


def test_two_databases() -> None:
    other = Datoms({":age": Attribute("long")}, {"long": "datoms_other_long"})
    text = "[:find ?e ?n ?m :in $ $old :where [?e :age ?n] [$old ?e :age ?m] [(!= ?n ?m)]]"
    query = parse(text, {"$": DB, "$old": other})
    assert query.reads["datoms_other_long"] == Read("$old", "long", frozenset({":age"}))
    program = Program(query.rules, backend=cpu_backend(False))
    changes = {"datoms_long": [(1, ":age", 3), (2, ":age", 4)], "datoms_other_long": [(1, ":age", 3), (2, ":age", 5)]}
    assert program.step(changes)["find"].rows() == [((2, 4, 5), 1)]


def test_queries_as_data() -> None:
    query = {
        ":find": ["?n"],
        ":in": ["$", "?least"],
        ":where": [
            ["?e", ":name", "?n"],
            ["?e", ":age", "?a"],
            [("<", "?least", "?a")],
            ("not", ["?e", ":mood", ":sad"]),
        ],
    }
    assert asked(query, 20) == {("Ada",)}


def test_idents_name_entities() -> None:
    db = Datoms({**ATTRIBUTES, ":db/ident": Attribute("keyword", unique=True)})
    query = parse("[:find ?e :where [?e :knows :people/ada] [:people/ada :age ?n]]", {"$": db})
    program = Program(query.rules, backend=cpu_backend(False))
    changes = {
        "datoms_keyword": [(1, ":db/ident", ":people/ada")],
        "datoms_long": [(4, ":knows", 1), (3, ":knows", 2), (1, ":age", 5)],
    }
    assert program.step(changes)["find"].rows() == [((4,), 1)]
