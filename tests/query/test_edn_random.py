"""Random queries in EDN, against an evaluator that tries every clause on every row, after every tick."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from gpu_wcoj import Program
from gpu_wcoj.backend import cpu_backend
from gpu_wcoj.errors import EdnSyntaxError, SchemaError, UnsupportedError
from gpu_wcoj.query.edn import Datoms, Form, Query, parse, read
from tests.helpers.edn_queries import ATTRIBUTES, KNOWN, VALUES, Queries
from tests.helpers.long_tests import IS_LONG
from tests.reference import edn as reference

N_QUERIES = 1500 if IS_LONG else 16
Datom = tuple[int, str, object]


def datom(draw: random.Random) -> Datom:
    name, kind = draw.choice(list(ATTRIBUTES.items()))
    return draw.randint(1, 5), name, draw.choice(VALUES[kind])


def typed(one: Datom) -> reference.Row:
    entity, name, value = one
    kind = {"ref": "long"}.get(ATTRIBUTES[name], ATTRIBUTES[name])
    return ("long", entity), ("keyword", name), (kind, value)


def fed(query: Query, changes: dict[Datom, int]) -> dict[str, list[tuple[tuple[object, ...], int]]]:
    """The changes of each relation that a query reads."""
    found: dict[str, list[tuple[tuple[object, ...], int]]] = {}
    for name, own in query.reads.items():
        found[name] = [
            (one, weight)
            for one, weight in changes.items()
            if {"ref": "long"}.get(ATTRIBUTES[one[1]], ATTRIBUTES[one[1]]) == own.type
            and (own.attributes is None or one[1] in own.attributes)
        ]
    return found


def agrees(text: str, seed: int) -> bool:
    """Whether the text is a query; its answers are compared after every tick."""
    try:
        query = parse(text, {"$": Datoms(KNOWN)})
    except (EdnSyntaxError, SchemaError, UnsupportedError):
        return False
    draw = random.Random(seed)
    program = Program(query.rules, outputs=[query.output], backend=cpu_backend(False))
    present: set[Datom] = set()
    held: Counter[tuple[object, ...]] = Counter()
    for tick in range(5):
        new = {datom(draw) for _ in range(draw.choice([1, 4, 12]))} - present
        gone = set(draw.sample(sorted(present, key=repr), min(len(present), draw.choice([0, 1, 5]))))
        if tick == 4:
            new, gone = set(), set(present)
        present = (present | new) - gone
        changes = fed(query, dict.fromkeys(new, 1) | dict.fromkeys(gone, -1))
        if tick == 0:
            changes |= {name: [(row, 1) for row in rows] for name, rows in query.input_rows.items()}
        for row, weight in program.step(changes)[query.output].rows():
            held[row] += weight
        expected = reference.answer(text, {"$": set(map(typed, present))})
        assert {row for row, weight in held.items() if weight} == expected, (text, tick, seed)
        assert set(held.values()) <= {0, 1}
        assert {row for row, _ in program.relation(query.output).rows()} == expected
    return True


@pytest.mark.drawn("part", share=2)
@pytest.mark.parametrize("part", range(4))
def test_answers_follow_the_evaluator(part: int) -> None:
    n_found = 0
    seed = part * 1_000_000
    while n_found < N_QUERIES // 4:
        seed += 1
        n_found += agrees(Queries(seed).query(), seed)
    assert n_found


def outcome(form: Form, present: set[Datom]) -> list[str] | str:
    """The rows that a query finds, or how it is refused."""
    try:
        query = parse(form, {"$": Datoms(KNOWN)})
    except (EdnSyntaxError, SchemaError, UnsupportedError) as error:
        return type(error).__name__
    program = Program(query.rules, outputs=[query.output], backend=cpu_backend(False))
    given = {name: [(row, 1) for row in rows] for name, rows in query.input_rows.items()}
    return sorted(map(repr, program.step(fed(query, dict.fromkeys(present, 1)) | given)[query.output].rows()))


def test_the_order_of_clauses_says_nothing() -> None:
    for seed in range(3_000_000, 3_000_000 + N_QUERIES):
        draw = random.Random(seed)
        items = list(read(Queries(seed).query()).value)
        begin, end = (next(at for at, one in enumerate(items) if one.value == part) for part in (":where", ":rules"))
        clauses = items[begin + 1 : end]
        present = {datom(draw) for _ in range(20)}
        found = []
        for _ in range(2):
            draw.shuffle(clauses)
            found.append(outcome(Form("vector", (*items[: begin + 1], *clauses, *items[end:])), present))
        assert found[0] == found[1], (seed, items)
