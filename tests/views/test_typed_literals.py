"""Date and time literals in conditions of motifs, once and while vertices come and go."""

from __future__ import annotations

import datetime as dt
import random

import pytest

import gpu_wcoj as gw

TIMES = [dt.datetime(2024, 1, 1, 10), dt.datetime(2024, 6, 1), None]
VERTICES = {
    "id": [1, 2, 3],
    "d": [dt.date(2024, 2, 29), dt.date(2023, 1, 1), None],
    "t": TIMES,
    "z": [time and time.replace(tzinfo=dt.UTC) for time in TIMES],
    "c": [dt.time(9), dt.time(12), None],
    "s": ["2024-02-29", "x", None],
}
EDGES = {"src": [1], "dst": [2]}


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ("a.d < DATE '2024-01-01'", [2]),
        ("DATE '2024-01-01' > a.d", [2]),
        ("a.d = date'2024-02-29'", [1]),
        ("a.d IN (DATE '2024-02-29', DATE '2020-01-01')", [1]),
        ("a.d NOT IN (DATE '2024-02-29')", [2]),
        ("a.d BETWEEN DATE '2024-01-01' AND DATE '2024-12-31' OR a.c > TIME '11:00'", [1, 2]),
        ("a.t < TIMESTAMP '2024-03-01 00:00:00'", [1]),
        ("a.t < DATE '2024-03-01'", [1]),
        ("a.d < TIMESTAMP '2024-02-29 10:00:00'", [1, 2]),
        ("a.d >= TIMESTAMP '2024-02-29 10:00:00'", []),
        ("a.d = TIMESTAMP '2024-02-29 00:00:00' OR a.d = TIMESTAMP '2023-01-01 01:00:00'", [1]),
        ("a.d > a.t", [1]),
        ("NOT (a.d > a.t)", [2]),
        ("a.z >= TIMESTAMPTZ '2024-01-01 12:00:00+02:00'", [1, 2]),
        ("a.z > TIMESTAMPTZ '2024-01-01 12:00:00+02:00'", [2]),
        ("DATE '2024-01-01' < DATE '2024-02-01' AND a.id = 3", [3]),
    ],
)
def test_literals_compare_with_columns_of_their_type(where, found):
    rows = gw.find("(a)", vertices=VERTICES, edges=EDGES, where=where, columns=["a.id"]).rows()
    assert sorted(rows) == [(one,) for one in found]


def test_texts_of_dates_compare_with_dates():
    found = gw.find("(a)", vertices=VERTICES, edges=EDGES, where="a.d >= '1900-01-01'", columns=["a.id"])
    literal = gw.find("(a)", vertices=VERTICES, edges=EDGES, where="a.d >= DATE '1900-01-01'", columns=["a.id"])
    assert found.rows() == literal.rows()


def test_random_changes_are_followed():
    chance = random.Random(5)
    days = [dt.date(2024, 1, day) for day in range(1, 29)]
    rows = {number: chance.choice([*days, None]) for number in range(20)}
    matcher = gw.Matcher(
        "(a)", vertices={"id": list(rows), "d": list(rows.values())}, edges={"src": [0], "dst": [1]},
        where="a.d >= DATE '2024-01-10' AND a.d < DATE '2024-01-20'", columns=["a.id"],
    )  # fmt: skip
    for _ in range(20):
        number = chance.randrange(20)
        old, rows[number] = rows[number], chance.choice([*days, None])
        if old != rows[number]:
            _ = matcher.apply(vertices={"id": [number] * 2, "d": [old, rows[number]], "weight": [-1, 1]})
        expected = [(one,) for one, day in rows.items() if day and dt.date(2024, 1, 10) <= day < dt.date(2024, 1, 20)]
        assert sorted(matcher.matches().rows()) == expected
