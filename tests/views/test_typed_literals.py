"""Date and time literals in conditions of motifs, once and while vertices come and go."""

from __future__ import annotations

import datetime as dt
import random

import pytest

import gpu_wcoj as gw
from gpu_wcoj.errors import GpuWcojError, MotifSyntaxError, TypeMismatchError

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
        ("a.z >= TIMESTAMPTZ '2024-01-01 12:00:00+02:00'", [1, 2]),
        ("a.z > TIMESTAMPTZ '2024-01-01 12:00:00+02:00'", [2]),
        ("DATE '2024-01-01' < DATE '2024-02-01' AND a.id = 3", [3]),
    ],
)
def test_literals_compare_with_columns_of_their_type(where, found):
    rows = gw.find("(a)", vertices=VERTICES, edges=EDGES, where=where, columns=["a.id"]).rows()
    assert sorted(rows) == [(one,) for one in found]


@pytest.mark.parametrize(
    ("where", "error", "says"),
    [
        (
            "a.d < DATE '2024-13-01'",
            MotifSyntaxError,
            "'2024-13-01' is not a valid DATE; write it as DATE '2026-01-31'",
        ),
        ("a.c < TIME '25:00'", MotifSyntaxError, "'25:00' is not a valid TIME"),
        ("a.t < TIMESTAMP '2024-01-01 00:00:00+01:00'", MotifSyntaxError, "TIMESTAMP has no zone; write TIMESTAMPTZ"),
        ("a.z < TIMESTAMPTZ '2024-01-01'", MotifSyntaxError, "TIMESTAMPTZ needs a zone"),
        (
            "a.s = DATE '2024-02-29'",
            TypeMismatchError,
            "the date '2024-02-29' is compared with values of type 'string'",
        ),
        ("a.s IN (DATE '2024-02-29')", TypeMismatchError, "is compared with values of type 'string'"),
        ("a.d < TIMESTAMP '2024-01-01 00:00:00'", TypeMismatchError, "is compared with values of type 'date'"),
        ("DATE '2024-01-01' < TIME '10:00'", TypeMismatchError, "compares values of different types"),
        ("a.d < DATE '2024-01-01' + 1", GpuWcojError, "has an operand of the wrong type"),
    ],
)
def test_what_does_not_compare_is_refused(where, error, says):
    with pytest.raises(error, match=says):
        gw.find("(a)", vertices=VERTICES, edges=EDGES, where=where, columns=["a.id"])


@pytest.mark.parametrize(
    ("where", "marked", "says"),
    [
        ("a.id = 1 AND a.s > 5", "a.s > 5", "the number 5 is compared with 'a.s', which has texts"),
        ("a.id = 'x'", "a.id = 'x'", "the text 'x' is compared with 'a.id', which has numbers"),
        ("a.id IN ('x', 'y')", "a.id IN ('x', 'y')", "the text 'x' is compared with 'a.id', which has numbers"),
        ("a.id > 0 OR a.s BETWEEN 1 AND 2", "a.s BETWEEN 1 AND 2", "the number 1 is compared with 'a.s'"),
        ("a.id = a.s", "a.id = a.s", "'a.id' has numbers and is compared with 'a.s', which has texts"),
        ("NOT a.d > 5", "a.d > 5", "the number 5 is compared with 'a.d', which has dates"),
        ("a.d > 'x'", "a.d > 'x'", "the text 'x' is compared with 'a.d', which has dates"),
        ("a.d = a.id", "a.d = a.id", "'a.d' has dates and is compared with 'a.id', which has numbers"),
    ],
)
def test_what_does_not_compare_is_shown(where, marked, says):
    with pytest.raises(TypeMismatchError) as raised:
        gw.find("(a)", vertices=VERTICES, edges=EDGES, where=where, columns=["a.id"])
    first, line, marker, remedy = str(raised.value).split("\n")
    assert first == f"{first.partition(' (')[0]} (line 1, column {where.index(marked) + 1} of <where>)"
    assert first.startswith(says)
    assert line[marker.index("~") : marker.rindex("~") + 1] == marked
    assert remedy.startswith(("  Write ", "  Compare "))


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
